//! Staged writes: bytes of a file that wait on the node, where every process of the user sees them:
//! in memory, or in a directory, where they survive the processes.
//!
//! The stage of a file is a second file of the same shape: a byte waits at its own place in it. So
//! the newest byte counts, as in any file, a reader copies ranges, and draining reads the stage in
//! the order of the file. A map records each byte that waits.

mod claim;
mod control;
mod directory;
mod drain;
mod driver;
mod forget;
mod home;
mod idle;
mod kind;
mod locks;
mod look;
mod memory;
mod places;
mod processes;
mod recover;
mod room;
mod staged;
mod target;
#[cfg(test)]
mod tests;
mod words;

pub use forget::Losing;
pub use home::{Home, home_of};
pub use kind::Staged;
pub use look::show;
pub use recover::{Drained, recover};

use aggio_base::log::Level;
use aggio_base::{Error, ErrorClass, Extent, Result, log};
use aggio_store::driver::Outcome;
use claim::Claim;
use control::{Change, Control, Fit, Identity, Learn};
use directory::Directory;
use home::{Files, Place};
use locks::Locks;
use places::Places;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

/// How often another process may be quicker than this one.
const ATTEMPTS: u32 = 64;

/// The stage of a file, as one opener uses it.
pub(super) struct Stage {
    home: Home,
    place: Place,
    /// The file, for its version and other facts only.
    target: File,
    control: Control,
    places: Places,
    bytes: File,
    /// Presence and accesses.
    locks: Locks,
    /// The locks of draining. This opener does one thing at a time with them.
    draining: Mutex<Locks>,
    /// Lets others find it in memory.
    _claim: Option<Claim>,
}

impl Stage {
    /// The stage of the file `target`, which is called `path`; `None` if there is none and none is
    /// to be `made`.
    ///
    /// A stage that no process uses was left by killed ones: its bytes wait on, unless somebody
    /// else has changed the file since. Then it is set aside, for the user to decide.
    ///
    /// # Errors
    /// The error of the system call.
    pub(super) fn join(home: &Home, target: File, path: &Path, made: bool) -> Result<Option<Self>> {
        let place = home.place(&Identity::of(&target)?);
        for _ in 0..ATTEMPTS {
            let found = match home.open(&place) {
                // A directory that is not private to this user is no stage.
                Err(error) if error.class() == ErrorClass::Access && !made && home.survives() => {
                    None
                }
                found => found?,
            };
            let files = match found {
                None if made => home.make(&target, path)?,
                None => return Ok(None),
                found => found,
            };
            let Some(Files { head, draining, places, bytes, claim }) = files else { continue };
            let locks = Locks::new(head);
            let locked = |error| Error::os("fcntl", &error);
            let alone = locks.be_alone().map_err(locked)?;
            if !alone {
                locks.be_present().map_err(locked)?;
            }
            if !place.is_of(locks.file()) {
                continue;
            }
            let is_left = alone && home.survives();
            if is_left && !may_be_continued(home, &place, locks.file(), &places, &target)? {
                continue;
            }
            // Not before everything is known to be there.
            let control = Control::open(locks.file())?;
            let places = Places::open(places).map_err(|error| Error::os("mmap", &error))?;
            if is_left {
                control.rest(&target);
            }
            if alone {
                locks.be_present().map_err(locked)?;
            }
            let (home, draining) = (home.clone(), Mutex::new(Locks::new(draining)));
            return Ok(Some(Self {
                home,
                place,
                target,
                control,
                places,
                bytes,
                locks,
                draining,
                _claim: claim,
            }));
        }
        let text = "other processes make and remove its stage all the time, or hold its name";
        Err(Error::new(ErrorClass::FileInUse, text).with_path(&path.display().to_string()))
    }

    /// Stages pieces of the file, all or none of them.
    ///
    /// # Errors
    /// The error of the system call, such as `NoSpace`; also `NoSpace` if nothing is to be staged
    /// any more.
    pub(super) fn write(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        let failed = |call: &str, error: std::io::Error| {
            Error::os(call, &error).with_path(&self.place.to_string())
        };
        let _access = self.locks.access().map_err(|error| failed("fcntl", error))?;
        if self.control.is_shown() {
            let text = "a program has the file open that does not see its stage";
            return Err(Error::new(ErrorClass::NoSpace, text));
        }
        let extents = || pieces.iter().map(|(at, data)| Extent::new(*at, data.len() as u64));
        for extent in extents() {
            self.places.prepare(extent).map_err(|error| failed("fallocate", error))?;
        }
        for (at, data) in pieces {
            self.bytes.write_all_at(data, *at).map_err(|error| failed("pwrite", error))?;
        }
        extents().try_for_each(|extent| self.places.add(extent)).map_err(|e| failed("mmap", e))
    }

    /// Whether a byte of `extent` may be staged.
    pub(super) fn may_have(&self, extent: Extent) -> bool {
        self.places.may_have(extent)
    }

    /// Whether a byte of `extent` is staged.
    pub(super) fn has_any_of(&self, extent: Extent) -> bool {
        let mut has_one = false;
        // If the map cannot be read, assume that a byte is staged.
        self.may_have(extent)
            && (self.places.runs(extent, &mut |_| has_one = true).is_err() || has_one)
    }

    /// Whether no byte of `extent` is staged, and none behind it.
    pub(super) fn is_clear_of(&self, extent: Extent) -> bool {
        !self.may_have(extent) && self.is_clear_from(extent.end())
    }

    /// Whether no byte is staged from `offset` on, to the granularity of a domain.
    pub(super) fn is_clear_from(&self, offset: u64) -> bool {
        !self.may_have(Extent::new(offset, u64::MAX - offset))
    }

    /// Whether nothing is staged.
    pub(super) fn is_empty(&self) -> bool {
        self.places.dirty_domains().is_empty()
    }

    /// Whether a program looks at the file with system calls, so that nothing is to be staged.
    pub(super) fn is_shown(&self) -> bool {
        self.control.is_shown()
    }

    /// Bytes that are staged, about; in memory those that they take.
    pub(super) fn held(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        match self.home.survives() {
            true => self.places.held(),
            false => self.bytes.metadata().map_or(0, |facts| facts.blocks() * 512),
        }
    }

    /// The end of the last staged byte. Of a domain that killed processes have left there may be
    /// none.
    pub(super) fn end(&self) -> Result<u64> {
        for domain in self.places.dirty_domains().into_iter().rev() {
            let (mut end, domain) = (0, Extent::new(domain * places::DOMAIN, places::DOMAIN));
            let found = self.places.runs(domain, &mut |run| end = run.end());
            found.map_err(|error| Error::os("mmap", &error))?;
            if end > 0 {
                return Ok(end);
            }
        }
        Ok(0)
    }

    /// Fills `buffer` with the file from `offset` on: reads the file itself with `base`, and puts
    /// the staged bytes over that.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        offset: u64,
        base: impl FnOnce(&mut [u8]) -> Outcome,
    ) -> Outcome {
        let extent = Extent::new(offset, buffer.len() as u64);
        if !self.may_have(extent) {
            let outcome = base(buffer);
            // Behind the end of the file there are staged bytes further on, or there is nothing.
            if outcome.bytes == extent.len || self.places.end() <= offset + outcome.bytes {
                return outcome;
            }
            return self.locked(extent, || self.extended(buffer, offset, outcome));
        }
        self.locked(extent, || {
            let outcome = base(buffer);
            self.extended(buffer, offset, outcome)
        })
    }

    /// Runs `read` while no staged byte goes to the file.
    fn locked(&self, extent: Extent, read: impl FnOnce() -> Outcome) -> Outcome {
        match self.locks.access() {
            Ok(_access) => read(),
            Err(error) => {
                let error = Error::os("fcntl", &error).with_extent(extent);
                Outcome { bytes: 0, result: Err(error) }
            }
        }
    }

    /// Puts staged bytes over those that were read, also behind the end of the file.
    fn extended(&self, buffer: &mut [u8], offset: u64, outcome: Outcome) -> Outcome {
        if outcome.result.is_err() {
            return outcome;
        }
        let covered = self.end().and_then(|end| {
            let there = end.saturating_sub(offset).min(buffer.len() as u64);
            let bytes = outcome.bytes.max(there);
            buffer[outcome.bytes as usize..bytes as usize].fill(0);
            let mut runs = Vec::new();
            let found = self.places.runs(Extent::new(offset, bytes), &mut |run| runs.push(run));
            found.map_err(|error| Error::os("mmap", &error))?;
            for run in runs {
                let start = (run.offset - offset) as usize;
                let part = &mut buffer[start..start + run.len as usize];
                let read = self.bytes.read_exact_at(part, run.offset);
                read.map_err(|error| Error::os("pread", &error).with_extent(run))?;
            }
            Ok(bytes)
        });
        match covered {
            Ok(bytes) => Outcome { bytes, result: Ok(()) },
            Err(error) => {
                let error = error.with_path(&self.place.to_string());
                Outcome { bytes: 0, result: Err(error) }
            }
        }
    }

    /// The file was cut or extended to `size` after everything was drained.
    pub(super) fn resized(&self, size: u64) {
        self.places.cut(size);
    }

    /// Records that `act` changes the file, so that others do not take it for a change by another
    /// program.
    fn changing<T>(&self, learn: Learn, act: impl FnOnce() -> T) -> T {
        let _change = self.change(learn);
        act()
    }

    /// The same until the result is dropped. Versions are compared only where stages survive.
    fn change(&self, learn: Learn) -> Option<Change<'_>> {
        self.home.survives().then(|| self.control.change(&self.target, learn))
    }

    /// Whether the file has no name any more: it cannot be opened, and its staged bytes are
    /// useless.
    fn is_deleted(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        self.target.metadata().is_ok_and(|facts| facts.nlink() == 0)
    }

    /// Ends the use of the stage, which the last one removes if nothing is left in it.
    pub(super) fn leave(self) {
        // In memory, bytes that could not be drained end with the last user; the error was
        // returned.
        let is_empty = || !self.home.survives() || self.is_empty() || self.is_deleted();
        if !is_empty() {
            return;
        }
        // If several processes leave at once, each would find the others present, and none would be
        // the last.
        self.locks.be_gone();
        let alone = self.locks.be_alone().unwrap_or(false);
        if alone && self.place.is_of(self.locks.file()) && is_empty() {
            self.home.end(&self.place, self.locks.file());
        }
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Whether the bytes of the stage in `place`, which no process uses, belong to `target` now.
/// Otherwise the stage is set aside, or removed if nothing is in it.
fn may_be_continued(
    home: &Home,
    place: &Place,
    head: &File,
    places: &File,
    target: &File,
) -> Result<bool> {
    let look = || -> Result<(bool, Fit)> {
        let control = Control::open(head)?;
        let copy = places.try_clone().and_then(Places::open);
        let places = copy.map_err(|error| Error::os("mmap", &error))?;
        Ok((places.dirty_domains().is_empty(), control.fit(target)?))
    };
    let why = match look() {
        Ok((_, Fit::Fits)) => return Ok(true),
        // Nothing is in it, or the file that it belonged to is gone: its number has been given to
        // another one.
        Ok((true, _) | (_, Fit::Other)) => {
            home.end(place, head);
            return Ok(false);
        }
        Ok((false, fit)) => recover::reason(fit),
        Err(error) if error.class() == ErrorClass::Io => error.to_string(),
        Err(error) => return Err(error),
    };
    let Place::Directory(path) = place else { return Ok(true) };
    let aside = Directory::set_aside(path)?;
    log!(
        Level::Error,
        "{}: staged bytes of killed processes are not used: {why}. `aggio recover` tells more",
        aside.display()
    );
    Ok(false)
}
