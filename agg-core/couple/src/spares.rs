//! Memory files for generations to come. What one gives back is made ready by a thread for the
//! next one of its series, so that no program waits for new pages.

use crate::areas::Remains;
use crate::fd::owned;
use crate::registry::{Area, Series, series};
use crate::worker::Worker;
use aggio_base::{Extent, os, spare_memory};
use std::collections::BTreeMap;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// For fewer bytes a program gets its pages in microseconds.
const LEAST: u64 = 256 << 10;

/// How long a file is kept ready: new pages do not hold up who comes less often.
const KEPT: Duration = Duration::from_secs(60);

/// A file is made ready only if the computer has so many times its memory to spare.
const ROOM: u64 = 4;

/// A nameless file without bytes that has the pages for some.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) file: OwnedFd,
    /// So many bytes from the beginning.
    pub(crate) bytes: u64,
    /// So many bytes behind its end it may get when it is written.
    pub(crate) slack: u64,
}

impl From<OwnedFd> for Spare {
    fn from(file: OwnedFd) -> Self {
        Self { file, bytes: 0, slack: 0 }
    }
}

/// What the thread is to do.
#[derive(Debug)]
enum Order {
    /// Free the memory of this file.
    Free(OwnedFd, u64),
    /// Make a file with so many bytes of memory.
    Make(Series, u64),
}

/// What it has done.
#[derive(Debug)]
enum Done {
    Freed(u64),
    Made(Series, Option<Spare>),
}

/// Where a generation belongs.
#[derive(Debug)]
struct Member {
    series: Series,
    budget: u64,
}

/// A file that is ready, or will be soon.
#[derive(Debug)]
struct Ready {
    /// `None` while it is being made.
    spare: Option<Spare>,
    bytes: u64,
    /// Bytes of all memory at which it is given up.
    budget: u64,
    until: Instant,
}

/// All files that are ready, and the thread that makes them.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    worker: Option<Worker<Order, Done>>,
    members: BTreeMap<Area, Member>,
    /// Bytes of the last generation of a series, if hardly any were holes.
    last: BTreeMap<Series, u64>,
    ready: BTreeMap<Series, Ready>,
    leaving: u64,
}

impl Spares {
    /// A generation of the file `path` begins, under a rule that allows so many bytes in all.
    /// Gives the bytes that it will have, 0 if that is unknown or hardly anything.
    pub(crate) fn begin(&mut self, area: Area, path: &[u8], budget: u64) -> u64 {
        let series = series(path);
        let bytes = self.last.get(&series).copied().unwrap_or(0);
        self.members.insert(area, Member { series, budget });
        bytes
    }

    /// The file that is ready for a generation that has begun.
    pub(crate) fn take(&mut self, area: Area) -> Option<Spare> {
        self.hear();
        let series = &self.members.get(&area)?.series;
        self.ready.get(series)?.spare.as_ref()?;
        self.ready.remove(series)?.spare
    }

    /// A generation is given up. Frees its memory, and makes as much ready for the next one if
    /// `again`.
    pub(crate) fn end(&mut self, area: Area, remains: Remains, again: bool) {
        let bytes = remains.bytes;
        let member = self.members.remove(&area);
        if bytes == 0 {
            // It has room in a directory that another one may wait for, and is free now.
            return drop(remains);
        }
        self.free(remains.file, bytes);
        let Some(Member { series, budget }) = member else { return };
        let is_worth_it = remains.is_dense && bytes >= LEAST;
        self.last.insert(series.clone(), if is_worth_it { bytes } else { 0 });
        if !again || !is_worth_it || self.ready.contains_key(&series) {
            return;
        }
        let Some(worker) = &self.worker else { return };
        if worker.order(Order::Make(series.clone(), bytes)) {
            let until = Instant::now() + KEPT;
            self.ready.insert(series, Ready { spare: None, bytes, budget, until });
        }
    }

    /// The bytes that the rule of a generation allows in all.
    pub(crate) fn budget(&self, area: Area) -> Option<u64> {
        self.members.get(&area).map(|member| member.budget)
    }

    /// A generation of so many bytes is complete.
    pub(crate) fn note(&mut self, area: Area, bytes: u64, is_dense: bool) {
        if let Some(Member { series, .. }) = self.members.get(&area) {
            let is_worth_it = is_dense && bytes >= LEAST;
            self.last.insert(series.clone(), if is_worth_it { bytes } else { 0 });
        }
    }

    /// What is left of a generation whose bytes have moved is given up.
    pub(crate) fn release(&mut self, remains: Remains) {
        self.free(remains.file, remains.bytes);
    }

    /// Frees memory in the background.
    fn free(&mut self, file: OwnedFd, bytes: u64) {
        if self.worker.is_none() {
            // Without a thread the memory is freed here, and nothing is made ready.
            self.worker = Worker::start("aggio-spares", carry_out).ok();
        }
        if let Some(worker) = &self.worker
            && worker.order(Order::Free(file, bytes))
        {
            self.leaving += bytes;
        }
    }

    /// Readable when the thread has done something; -1 before it has anything to do.
    pub(crate) fn events(&self) -> RawFd {
        self.worker.as_ref().map_or(-1, |worker| worker.results.events())
    }

    /// Hears what the thread has done.
    pub(crate) fn hear(&mut self) {
        let Some(worker) = &self.worker else { return };
        for done in worker.results.take() {
            match done {
                Done::Freed(bytes) => self.leaving -= bytes,
                Done::Made(series, Some(spare)) => {
                    if let Some(ready) = self.ready.get_mut(&series) {
                        ready.spare = Some(spare);
                    }
                }
                Done::Made(series, None) => {
                    self.ready.remove(&series);
                }
            }
        }
    }

    /// Bytes of memory that is ready, or is being made so.
    pub(crate) fn bytes(&self) -> u64 {
        self.ready.values().map(|ready| ready.bytes).sum()
    }

    /// Bytes of memory that is being made ready.
    pub(crate) fn making(&self) -> u64 {
        let all = self.ready.values().filter(|ready| ready.spare.is_none());
        all.map(|ready| ready.bytes).sum()
    }

    /// Bytes of memory that generations gave back and that is not free yet.
    pub(crate) fn leaving(&self) -> u64 {
        self.leaving
    }

    /// Gives up what was kept for long enough, and what has no room beside `used` bytes.
    pub(crate) fn shrink(&mut self, used: u64) {
        let (now, all) = (Instant::now(), used + self.bytes());
        let goes = |ready: &Ready| {
            let is_over = ready.until <= now || ready.budget > 0 && all > ready.budget;
            ready.spare.is_some() && is_over
        };
        let over: Vec<Series> =
            self.ready.iter().filter(|(_, one)| goes(one)).map(|(name, _)| name.clone()).collect();
        for series in over {
            if let Some(Ready { spare: Some(spare), .. }) = self.ready.remove(&series) {
                self.free(spare.file, spare.bytes);
            }
        }
    }

    /// When [`shrink`](Self::shrink) has something to do.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.ready.values().filter(|one| one.spare.is_some()).map(|one| one.until).min()
    }
}

fn carry_out(order: Order) -> Done {
    match order {
        Order::Free(file, bytes) => {
            drop(file);
            Done::Freed(bytes)
        }
        Order::Make(series, bytes) => {
            let made = make(bytes);
            Done::Made(series, made)
        }
    }
}

/// A file with so many bytes of memory; `None` if the computer has none to spare.
fn make(bytes: u64) -> Option<Spare> {
    if !has_room(bytes) {
        return None;
    }
    let fd = os::memory_file(c"aggio-coupled").ok()?;
    let file = owned(fd);
    os::fallocate(fd, Extent::new(0, bytes), true).ok()?;
    Some(Spare { bytes, ..Spare::from(file) })
}

/// Whether the computer has so many bytes of memory to spare for what nobody has asked for yet.
pub(crate) fn has_room(bytes: u64) -> bool {
    spare_memory::available() / ROOM >= bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    const MIB: u64 = 1 << 20;

    fn remains(bytes: u64, is_dense: bool) -> Remains {
        Remains { file: owned(os::memory_file(c"test").unwrap()), bytes, is_dense }
    }

    /// Waits until the thread has done all it was told.
    fn settle(spares: &mut Spares) {
        let began = Instant::now();
        let busy = |spares: &Spares| {
            spares.leaving() > 0 || spares.ready.values().any(|ready| ready.spare.is_none())
        };
        while busy(spares) {
            assert!(began.elapsed() < Duration::from_secs(20));
            let mut bell = libc::pollfd { fd: spares.events(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the kernel reads and writes one local value.
            unsafe { libc::poll(&raw mut bell, 1, 1000) };
            spares.hear();
        }
    }

    #[test]
    fn what_a_generation_gave_back_is_ready_for_the_next_one_of_its_series() {
        let mut spares = Spares::default();
        assert_eq!(spares.begin(1, b"/d/step.9", 0), 0);
        assert!(spares.take(1).is_none());
        spares.end(1, remains(MIB, true), true);
        settle(&mut spares);
        assert_eq!((spares.bytes(), spares.leaving()), (MIB, 0));
        assert_eq!(spares.begin(2, b"/d/other.9", 0), 0);
        assert!(spares.take(2).is_none(), "another series");
        assert_eq!(spares.begin(3, b"/d/step.10", 0), MIB);
        let spare = spares.take(3).unwrap();
        assert_eq!((spare.bytes, spares.bytes()), (MIB, 0));
        let file = File::from(spare.file);
        let facts = file.metadata().unwrap();
        assert_eq!((facts.len(), facts.blocks() * 512), (0, MIB));
        // What was never written is a hole, whatever memory there is for it.
        file.write_all_at(b"end", MIB - 3).unwrap();
        let mut bytes = vec![1; MIB as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..bytes.len() - 3].iter().all(|byte| *byte == 0) && bytes.ends_with(b"end"));
        assert_eq!(spares.begin(4, b"/d/step.11", 0), MIB);
        assert!(spares.take(4).is_none());
    }

    #[test]
    fn one_file_a_series_is_kept_and_small_sparse_or_unwanted_ones_are_not() {
        let mut spares = Spares::default();
        for (area, path, bytes, is_dense, again) in [
            (1, &b"a"[..], LEAST - 1, true, true),
            (2, b"b", MIB, true, false),
            (3, b"c", MIB, true, true),
            (4, b"c", 2 * MIB, true, true),
            (5, b"d", MIB, false, true),
        ] {
            let _ = spares.begin(area, path, 0);
            spares.end(area, remains(bytes, is_dense), again);
        }
        settle(&mut spares);
        assert_eq!(spares.bytes(), MIB);
        let mut expected = |path: &[u8]| spares.begin(9, path, 0);
        assert_eq!([b"a", b"b", b"c", b"d"].map(|path| expected(path)), [0, MIB, 2 * MIB, 0]);
    }

    #[test]
    fn files_are_given_up_when_memory_is_short_and_after_a_while() {
        let mut spares = Spares::default();
        for (area, path) in [(1, b"a"), (2, b"b")] {
            let _ = spares.begin(area, path, if area == 1 { 3 * MIB } else { 0 });
            spares.end(area, remains(MIB, true), true);
        }
        settle(&mut spares);
        spares.shrink(MIB);
        assert_eq!(spares.bytes(), 2 * MIB);
        spares.shrink(MIB + 1);
        assert_eq!((spares.bytes(), spares.leaving()), (MIB, MIB));
        settle(&mut spares);
        let until = spares.until().unwrap();
        assert!(until > Instant::now() + KEPT / 2);
        spares.ready.values_mut().for_each(|ready| ready.until = Instant::now());
        spares.shrink(0);
        settle(&mut spares);
        assert_eq!((spares.bytes(), spares.until()), (0, None));
    }

    #[test]
    fn more_than_the_computer_has_is_not_made() {
        assert!(make(1 << 50).is_none());
        assert!(has_room(1));
    }
}
