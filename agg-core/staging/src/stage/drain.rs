//! Draining: staged bytes go into the file, domain by domain, in the order of the file.
//!
//! Several processes drain at the same time, each another domain. Only a draining process waits for
//! the storage: others go on staging meanwhile, and a domain that has changed is drained again.

use super::Stage;
use super::control::Learn;
use super::locks::{Held, Locks};
use super::places::DOMAIN;
use aggio_base::report::Counters;
use aggio_base::{Error, Extent, Result};
use aggio_plan::plan::cost::Costs;
use aggio_store::driver::Driver;
use aggio_store::independent;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;

/// Rounds after which nobody stages while a domain is drained.
const PATIENT: u32 = 2;

/// Bytes of headers, in which formats announce other bytes.
const HEADER: u64 = 64 << 10;

impl Stage {
    /// Writes the bytes that are staged when the call begins, by any process, to the file, which is
    /// `base`.
    ///
    /// # Errors
    /// The error of the system call, with the range that is not stored. Bytes that are not stored
    /// stay staged. All others are stored, except in the first domain: its headers announce other
    /// bytes, and come when all of these are in the file.
    pub(super) fn drain(&self, base: &dyn Driver, counters: &Counters) -> Result<()> {
        let mut rest = self.places.dirty_domains();
        if rest.is_empty() {
            return Ok(());
        }
        let first: Vec<u64> = rest.extract_if(.., |domain| *domain == 0).collect();
        let locks = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        let _change = self.change(Learn::Surely);
        let each = |domains| self.drain_each(&locks, domains, base, counters);
        each(rest).and_then(|()| each(first)).map_err(|error| self.kept(&error))
    }

    /// Drains these domains, or waits until others have; the first error.
    fn drain_each(
        &self,
        locks: &Locks,
        mut left: Vec<u64>,
        base: &dyn Driver,
        counters: &Counters,
    ) -> Result<()> {
        let mut result = Ok(());
        for round in 0.. {
            left.retain(|domain| match self.step(locks, *domain, round, base, counters) {
                Ok(done) => !done,
                Err(error) => {
                    if result.is_ok() {
                        result = Err(error);
                    }
                    false
                }
            });
            if left.is_empty() {
                break;
            }
        }
        result
    }

    /// The error of bytes that could not be drained, and where they are.
    pub(super) fn kept(&self, error: &Error) -> Error {
        let then = match self.home.survives() {
            true => "`aggio recover` tries again",
            false => "a synchronisation tries again, and closing loses it",
        };
        let text =
            format!("{error}; what is not in the file is still staged in {}; {then}", self.place);
        let told = Error::new(error.class(), text).with_errno(error.errno());
        match error.extent() {
            Some(extent) => told.with_extent(extent),
            None => told,
        }
    }

    /// Drains a domain; whether it is done.
    pub(super) fn step(
        &self,
        locks: &Locks,
        domain: u64,
        round: u32,
        base: &dyn Driver,
        counters: &Counters,
    ) -> Result<bool> {
        let Some(_claim) = locked(locks.domain(domain, round > 0))? else { return Ok(false) };
        let mut runs = Vec::new();
        let alone = locked(locks.exclude_accesses())?;
        let version = self.places.version(domain);
        let extent = Extent::new(domain * DOMAIN, DOMAIN);
        let found = self.places.runs(extent, &mut |run| runs.push(run));
        found.map_err(|error| Error::os("mmap", &error))?;
        if runs.is_empty() {
            // The process that cleared it may have been killed meanwhile.
            return self.clear(domain).map(|()| true);
        }
        let alone = (round >= PATIENT).then_some(alone);
        self.copy(&runs, base, counters)?;
        let _alone: Held<'_> = match alone {
            Some(alone) => alone,
            None => locked(locks.exclude_accesses())?,
        };
        if self.places.version(domain) != version {
            return Ok(false);
        }
        self.clear(domain).map(|()| true)
    }

    /// Clears the record that bytes of a domain are staged.
    fn clear(&self, domain: u64) -> Result<()> {
        self.places.clear(domain).map_err(|error| Error::os("fallocate", &error))?;
        // Its memory is free for others; without that it only lasts longer.
        let extent = Extent::new(domain * DOMAIN, DOMAIN);
        let _ = aggio_base::os::punch(self.bytes.as_raw_fd(), extent);
        Ok(())
    }

    /// Copies runs of a domain from the stage to the file, each in one request.
    fn copy(&self, runs: &[Extent], base: &dyn Driver, counters: &Counters) -> Result<()> {
        let (others, announcing) = in_order(runs);
        let supply = |run: Extent, bytes: &mut [u8]| {
            self.control.go_on();
            let read = self.bytes.read_exact_at(bytes, run.offset);
            read.map_err(|error| Error::os("pread", &error).with_extent(run))
        };
        independent::write_supplied(base, &others, supply, counters).result?;
        announcing.iter().try_for_each(|run| {
            independent::write_supplied(base, &[*run], supply, counters).result
        })?;
        Counters::add(&counters.flushes, 1);
        Ok(())
    }
}

/// The costs of requests to write to the file.
pub(super) fn costs_of(base: &dyn Driver) -> Costs {
    match base.meter() {
        Some(meter) => meter.writes.figures(),
        None => Costs::assumed(&base.facts().file_system),
    }
}

/// Splits the runs of a domain. Those in the first [`HEADER`] bytes of the file, which announce
/// others, go into the file after all others, from behind.
fn in_order(runs: &[Extent]) -> (Vec<Extent>, Vec<Extent>) {
    let cut = runs.partition_point(|run| run.offset < HEADER);
    let (front, back) = runs.split_at(cut);
    let rest = front.last().map(|run| Extent::between(HEADER.min(run.end()), run.end()));
    let others = rest.into_iter().chain(back.iter().copied());
    let announcing = front.iter().map(|run| run.intersect(Extent::new(0, HEADER)));
    (others.filter(|run| !run.is_empty()).collect(), announcing.rev().collect())
}

fn locked<T>(result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::os("fcntl", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_announces_other_bytes_is_written_after_them() {
        let runs = |all: &[(u64, u64)]| -> Vec<Extent> {
            all.iter().map(|(start, end)| Extent::between(*start, *end)).collect()
        };
        let far = HEADER + 100;
        for (found, others, announcing) in [
            (&[][..], &[][..], &[][..]),
            (&[(0, 10)], &[], &[(0, 10)]),
            (&[(0, far)], &[(HEADER, far)], &[(0, HEADER)]),
            (&[(0, 8), (20, 30), (far, far + 9)], &[(far, far + 9)], &[(20, 30), (0, 8)]),
            (&[(HEADER, far)], &[(HEADER, far)], &[]),
            (&[(0, 8), (9, far)], &[(HEADER, far)], &[(9, HEADER), (0, 8)]),
        ] {
            assert_eq!(in_order(&runs(found)), (runs(others), runs(announcing)));
        }
    }
}
