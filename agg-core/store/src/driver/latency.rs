//! Latency: the cost of requests to a file system, learned from the requests that are made anyway.
//!
//! An engine has one meter for each file system. It times the first requests and later a few of
//! them, and makes none of its own. It keeps medians, and each sample moves a median by a step of
//! limited length: a request that happened to wait for a processor or a disk counts no more than
//! any other.

use aggio_plan::plan::cost::{Costs, is_local};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The first requests are all timed, ...
const FIRST: u32 = 64;
/// ... later ones now and then.
const EVERY: u32 = 64;
/// Number of samples that are better than an assumption.
const ENOUGH: u32 = 4;
/// Samples after which a median moves by small steps.
const COARSE: u32 = 16;
/// Requests up to these lengths determine the fixed time of a request; longer ones the time for a
/// byte.
const SHORT: [u64; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The ways that requests take to one file system, each at its own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// To a file, through the page cache.
    Cached,
    /// To a file, past it.
    Direct,
    /// To the logs of a container, by its index.
    Container,
}

/// Number of a file system's device, and the way that requests take.
type Key = (u64, Path);

/// The meters of an engine, one for each file system and path to it.
#[derive(Debug)]
pub(super) struct Meters {
    known: Mutex<Vec<(Key, Arc<Meter>)>>,
    measures: bool,
}

impl Meters {
    /// No meters yet. Without `measures`, costs stay those assumed for the file system.
    pub(super) fn new(measures: bool) -> Self {
        Self { known: Mutex::default(), measures }
    }

    /// The meter of a path to a device; `name` returns the file system's name if the device is new.
    pub(super) fn of(&self, device: u64, path: Path, name: impl FnOnce() -> String) -> Arc<Meter> {
        let mut meters = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (device, path);
        if let Some((_, meter)) = meters.iter().find(|(known, _)| *known == key) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(Meter::measuring(&name(), self.measures));
        meters.push((key, Arc::clone(&meter)));
        meter
    }
}

/// The costs of one file system on this process.
#[derive(Debug)]
pub struct Meter {
    /// Reads.
    pub reads: Gauge,
    /// Writes.
    pub writes: Gauge,
    local: bool,
}

/// The costs of requests in one direction.
#[derive(Debug)]
pub struct Gauge {
    requests: AtomicU32,
    measures: bool,
    medians: Mutex<Medians>,
    /// [`Costs`], readable without a lock.
    figures: [AtomicU32; 2],
}

impl Meter {
    /// A meter with the assumptions for a file system.
    pub fn new(file_system: &str) -> Self {
        Self::measuring(file_system, true)
    }

    /// A meter that does not measure: its costs are the assumed ones of a file system.
    pub(super) fn assuming(file_system: &str) -> Self {
        Self::measuring(file_system, false)
    }

    fn measuring(file_system: &str, measures: bool) -> Self {
        let assumed = Costs::assumed(file_system);
        // The time of a write to this computer's cache does not show the later cost on the servers.
        let local = is_local(file_system);
        let least = if local { 1 } else { assumed.latency() };
        let gauge = || Gauge::new(assumed, least, measures);
        Self { reads: gauge(), writes: gauge(), local }
    }

    /// Whether requests stay on this computer.
    pub fn is_local(&self) -> bool {
        self.local
    }
}

impl Gauge {
    fn new(assumed: Costs, least: u64, measures: bool) -> Self {
        let medians = Medians { assumed, least, short: Default::default(), mib: Median::default() };
        let figures = assumed.to_bytes().map(|code| AtomicU32::new(code.into()));
        Self { requests: AtomicU32::new(0), measures, medians: Mutex::new(medians), figures }
    }

    /// The cost of requests, as far as it is known.
    pub fn figures(&self) -> Costs {
        Costs::from_bytes([0, 1].map(|kind: usize| self.figures[kind].load(Relaxed) as u8))
    }

    /// The time of a short request as it was measured, in nanoseconds; `None` if too few were made.
    pub fn measured(&self) -> Option<u64> {
        let medians = self.medians.lock().unwrap_or_else(PoisonError::into_inner);
        medians.short.iter().find_map(|median| median.known())
    }

    /// Begins a request; the time if it shall be [learned](Gauge::learn) from.
    pub fn begin(&self) -> Option<Instant> {
        let number = self.requests.fetch_add(1, Relaxed);
        let due = number < FIRST || number.is_multiple_of(EVERY);
        (due && self.measures).then(Instant::now)
    }

    /// Learns that a request of `len` bytes took `time`.
    pub fn learn(&self, len: u64, time: Duration) {
        // If another thread holds the lock, skip this sample; it is not worth waiting for.
        let Ok(mut medians) = self.medians.try_lock() else { return };
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        medians.learn(len, time);
        let figures = medians.figures().to_bytes();
        for (place, code) in self.figures.iter().zip(figures) {
            place.store(code.into(), Relaxed);
        }
    }
}

#[derive(Debug)]
struct Medians {
    assumed: Costs,
    /// The fixed time of a request is never taken for less, in nanoseconds.
    least: u64,
    /// Time of requests up to the lengths of [`SHORT`].
    short: [Median; SHORT.len()],
    /// Time of a MiB in longer ones.
    mib: Median,
}

impl Medians {
    fn learn(&mut self, len: u64, time: u64) {
        match SHORT.iter().position(|most| len <= *most) {
            Some(place) => self.short[place].follow(time),
            None => {
                let moving = time.saturating_sub(self.figures().latency()).max(time / 4);
                let mib = (u128::from(moving) << 20) / u128::from(len);
                self.mib.follow(u64::try_from(mib).unwrap_or(u64::MAX));
            }
        }
    }

    fn figures(&self) -> Costs {
        let mib = self.mib.known().unwrap_or(self.assumed.mib());
        let shortest = self.short.iter().zip(SHORT).find_map(|(median, len)| {
            let moving = (u128::from(len / 2) * u128::from(mib)) >> 20;
            let time = median.known()?;
            Some(time.saturating_sub(u64::try_from(moving).unwrap_or(u64::MAX)).max(time / 4))
        });
        Costs::new(shortest.unwrap_or(self.assumed.latency()).max(self.least), mib)
    }
}

/// A value that half of the samples are above.
#[derive(Clone, Copy, Debug, Default)]
struct Median {
    value: u64,
    samples: u32,
}

impl Median {
    fn known(&self) -> Option<u64> {
        (self.samples >= ENOUGH).then_some(self.value)
    }

    fn follow(&mut self, sample: u64) {
        let (up, down) = match self.samples {
            0 => (u64::MAX, 0),
            samples if samples < COARSE => (self.value, self.value / 2),
            _ => (self.value / 8, self.value / 8),
        };
        self.value = if sample > self.value {
            sample.min(self.value.saturating_add(up.max(1)))
        } else {
            sample.max(self.value.saturating_sub(down.max(1)))
        };
        self.samples = self.samples.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: u64 = 1000;

    fn learned(file_system: &str, samples: &[(u64, u64)]) -> Costs {
        let meter = Meter::new(file_system);
        for (len, time) in samples {
            meter.writes.learn(*len, Duration::from_nanos(*time));
        }
        assert_eq!(meter.reads.figures(), Costs::assumed(file_system), "directions are apart");
        meter.writes.figures()
    }

    #[test]
    fn few_requests_change_no_assumption_and_some_more_do() {
        let slow = (512, 1000 * MICRO);
        assert_eq!(learned("ext4", &[slow; 3]), Costs::assumed("ext4"));
        let figures = learned("ext4", &[slow; 8]);
        assert!((750 * MICRO..=1000 * MICRO).contains(&figures.latency()), "{figures:?}");
        assert_eq!(figures.mib(), Costs::assumed("ext4").mib());
    }

    #[test]
    fn outliers_count_no_more_than_other_samples() {
        let mut samples = vec![(4096, 2 * MICRO); 60];
        for place in (0..60).step_by(5) {
            samples[place].1 = 10_000 * MICRO;
        }
        let latency = learned("tmpfs", &samples).latency();
        assert!((MICRO..=4 * MICRO).contains(&latency), "{latency}");
    }

    #[test]
    fn a_file_system_that_becomes_slow_is_found_out() {
        let samples = [vec![(100, MICRO); 100], vec![(100, 1000 * MICRO); 100]].concat();
        assert!(learned("xfs", &samples).latency() >= 750 * MICRO);
    }

    #[test]
    fn long_requests_tell_the_time_of_a_byte_and_short_ones_the_rest() {
        let samples = [(4 << 20, 4 * 500 * MICRO + 100 * MICRO), (1000, 100 * MICRO)].repeat(20);
        let figures = learned("ext4", &samples);
        assert!((370 * MICRO..=530 * MICRO).contains(&figures.mib()), "{figures:?}");
        assert!((70 * MICRO..=100 * MICRO).contains(&figures.latency()), "{figures:?}");
    }

    #[test]
    fn a_cache_before_a_network_does_not_make_it_local() {
        let figures = learned("nfs", &[(4096, 2 * MICRO); 100]);
        assert_eq!(figures.latency(), Costs::assumed("nfs").latency());
    }

    #[test]
    fn the_clock_is_asked_for_the_first_requests_and_later_for_few() {
        let gauge = Gauge::new(Costs::default(), 1, true);
        let asked = (0..FIRST + 10 * EVERY).filter(|_| gauge.begin().is_some()).count();
        assert_eq!(asked as u32, FIRST + 10);
    }

    #[test]
    fn files_of_one_device_share_a_meter_for_each_path() {
        let unused = || -> String { unreachable!("the device is known") };
        let meters = Meters::new(true);
        let first = meters.of(1, Path::Cached, || "ext4".into());
        assert!(Arc::ptr_eq(&first, &meters.of(1, Path::Cached, unused)));
        for path in [Path::Direct, Path::Container] {
            let other = meters.of(1, path, || "nfs".into());
            assert!(first.is_local() && !other.is_local());
        }
    }
}
