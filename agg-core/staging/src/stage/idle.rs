//! Draining in the background, while the program computes.
//!
//! The rank that opened the file first drains domains that have not changed for a while. After an
//! error the bytes stay staged: the next synchronisation or close tries again, and returns the
//! error.

use super::Stage;
use super::control::Learn;
use super::places::DOMAIN;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::report::Counters;
use aggio_comm::task::BoxFuture;
use aggio_comm::workers::{Running, Workers};
use aggio_store::driver::Driver;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A domain is drained if none of its bytes was staged for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Drains a file in the background, as long as something is staged.
pub(super) struct Idle {
    workers: Workers,
    work: Mutex<Option<Running<()>>>,
    counters: Arc<Counters>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A worker drains, or is about to.
    runs: AtomicBool,
    /// A domain could not be drained, or the file is closed: no worker begins any more.
    ends: AtomicBool,
}

/// The versions of the domains, and when each was first seen.
#[derive(Debug, Default)]
struct Seen(BTreeMap<u64, (u32, Instant)>);

impl Seen {
    /// Whether a domain of this version has not changed for a while.
    fn is_quiet(&mut self, domain: u64, version: u32, now: Instant) -> bool {
        let (known, since) = self.0.entry(domain).or_insert((version, now));
        if *known != version {
            (*known, *since) = (version, now);
        }
        now.duration_since(*since) >= QUIET
    }
}

impl Idle {
    /// Requests are counted by `counters`.
    pub(super) fn new(workers: Workers, counters: Arc<Counters>) -> Self {
        Self { workers, work: Mutex::default(), counters, state: Arc::default() }
    }

    /// Bytes of the file up to `end` were staged: a worker drains them later.
    pub(super) fn wake(&self, end: u64, stage: &Arc<Stage>, base: &Arc<Box<dyn Driver>>) {
        if end <= DOMAIN {
            return;
        }
        let State { runs, ends } = &*self.state;
        if ends.load(Ordering::Relaxed) || runs.swap(true, Ordering::AcqRel) {
            return;
        }
        let (counters, state) = (self.counters.clone(), self.state.clone());
        let running = self.workers.away(drained(stage.clone(), base.clone(), counters, state));
        if running.is_here() {
            // There is no thread for it: it is drained when the file is synchronised.
            self.state.ends.store(true, Ordering::Relaxed);
            return;
        }
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        *work = Some(running);
    }

    /// No worker looks at the file any more when this returns.
    pub(super) fn stop(&self) {
        self.state.ends.store(true, Ordering::Relaxed);
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(work.and_then(|running| running.stop()));
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Drains quiet domains until nothing is staged that may be drained here.
fn drained(
    stage: Arc<Stage>,
    base: Arc<Box<dyn Driver>>,
    counters: Arc<Counters>,
    state: Arc<State>,
) -> BoxFuture<'static, ()> {
    let mut seen = Seen::default();
    Box::pin(poll_fn(move |_| match stage.drain_quiet(&**base, &counters, &mut seen) {
        Ok(true) => Poll::Pending,
        Ok(false) => {
            state.runs.store(false, Ordering::Release);
            // Bytes that were staged before that have woken no other worker.
            match !stage.to_drain().is_empty() && !state.runs.swap(true, Ordering::AcqRel) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        }
        Err(error) => {
            log!(Level::Warn, "in the background: {error}");
            state.ends.store(true, Ordering::Relaxed);
            Poll::Ready(())
        }
    }))
}

impl Stage {
    /// The domains that may be drained in the background: headers, at the beginning of the file,
    /// announce other bytes and wait for a synchronisation.
    fn to_drain(&self) -> Vec<u64> {
        self.places.dirty_domains().into_iter().filter(|domain| *domain != 0).collect()
    }

    /// Drains at most one domain that is quiet; whether there are others, or may be.
    fn drain_quiet(
        &self,
        base: &dyn Driver,
        counters: &Counters,
        seen: &mut Seen,
    ) -> aggio_base::Result<bool> {
        let (left, now) = (self.to_drain(), Instant::now());
        let is_quiet = |domain: &&u64| seen.is_quiet(**domain, self.places.version(**domain), now);
        if let Some(domain) = left.iter().find(is_quiet) {
            let locks = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
            let _change = self.change(Learn::Surely);
            let step = self.step(&locks, *domain, 0, base, counters);
            step.map_err(|error| self.kept(&error))?;
        }
        Ok(!left.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, TERMS, read, write};
    use super::*;
    use aggio_config::hints::Drain;
    use aggio_store::driver::Closing;
    use aggio_store::driver::Staging;

    const IDLE: Option<Staging> = Some(Staging { drain: Drain::Idle, ..TERMS });

    /// Waits until the file itself has `byte` at `offset`.
    fn await_byte(bench: &Bench, offset: u64, byte: u8) {
        let began = Instant::now();
        while bench.on_disk().get(offset as usize) != Some(&byte) {
            assert!(began.elapsed() < Duration::from_secs(20), "nobody drains byte {offset}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_does_not_change_any_more_is_drained_but_for_the_beginning_of_the_file() {
        let bench = Bench::new();
        let file = bench.open(IDLE);
        write(&*file, b"header", 0);
        for (round, domain) in [1, 5, 1].into_iter().enumerate() {
            let at = domain * DOMAIN + 7;
            write(&*file, &[b'a' + round as u8; 9], at);
            await_byte(&bench, at + 8, b'a' + round as u8);
        }
        assert_eq!(bench.on_disk()[0], 0, "it comes last");
        assert_eq!(read(&*file, 0, 6), b"header");
        file.close(Closing::Complete).unwrap();
        assert_eq!((&bench.on_disk()[..6], bench.stages().len()), (&b"header"[..], 0));
        let counted = file.background().unwrap();
        assert_eq!((counted.flushes, counted.bytes_written_out), (4, 3 * 9 + 6));
    }

    #[test]
    fn no_byte_is_lost_while_others_stage_what_is_being_drained() {
        let bench = Bench::new();
        let file = bench.open(IDLE);
        let mut wanted = vec![0; 2 * DOMAIN as usize];
        let end = Instant::now() + Duration::from_millis(600);
        let mut number = 0u32;
        while Instant::now() < end {
            number += 1;
            let at = DOMAIN + u64::from(number.wrapping_mul(2_654_435_761)) % (DOMAIN - 64);
            let bytes = [number as u8; 64];
            write(&*file, &bytes, at);
            wanted[at as usize..][..64].copy_from_slice(&bytes);
            if number.is_multiple_of(50) {
                std::thread::sleep(QUIET + Duration::from_millis(u64::from(number % 13)));
            }
            assert_eq!(read(&*file, at, 64), bytes);
        }
        file.close(Closing::Complete).unwrap();
        let last = wanted.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let on_disk = bench.on_disk();
        assert!(on_disk.len() > last && on_disk[..=last] == wanted[..=last]);
    }

    #[test]
    fn a_domain_is_quiet_when_it_has_not_changed_for_a_while() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        assert!(!seen.is_quiet(1, 7, start));
        assert!(!seen.is_quiet(1, 7, start + QUIET / 2));
        assert!(!seen.is_quiet(1, 8, start + QUIET), "it has changed");
        assert!(!seen.is_quiet(1, 8, start + QUIET + QUIET / 2));
        assert!(seen.is_quiet(1, 8, start + QUIET + QUIET));
        assert!(!seen.is_quiet(2, 8, start + QUIET + QUIET), "another one");
    }
}
