//! Sets of files as a kind of storage of the engine: each is read as the file that it stands for.
//!
//! A set cannot be written; one that was made of a container becomes a container again. The host
//! says which names stand for sets ([`Finder`]).

use agg_core::blob::{self, ReadOnlyFile, Turn};
use agg_core::driver::{Closing, Driver, Drivers, Facts, Kind, OpenHow, Outcome, generic};
use agg_core::log::{self, Level};
use agg_core::report::Counters;
use agg_core::transport::LockGuard;
use agg_core::{Error, ErrorClass, Extent, Result, os};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// An open set.
pub type OpenSet = Box<dyn ReadOnlyFile>;

/// Removes the file that has the new name.
pub type Free<'a> = dyn Fn() -> Result<()> + 'a;

/// The functions that find sets.
#[derive(Clone, Copy, Debug)]
pub struct Finder {
    /// Whether a file of this name, if it is the first of a set, is to be shown as the set. Looks
    /// at the name alone.
    pub names: fn(path: &str) -> bool,
    /// The first file of the set that a name stands for, if it stands for one that is to be shown.
    pub first: fn(path: &str) -> Result<Option<String>>,
    /// The file that a set stands for; `None` if the name stands for none.
    pub open: fn(path: &str) -> Result<Option<OpenSet>>,
    /// Removes all files of a set.
    pub remove: fn(path: &str) -> Result<()>,
    /// Gives a set another name. `free` removes a file that has that name, once the set can take
    /// its place.
    pub rename: fn(path: &str, to: &str, free: &Free<'_>) -> Result<()>,
}

/// The kind of storage.
#[derive(Clone, Copy, Debug)]
pub struct SetDriver {
    finder: Finder,
}

/// The error for a change of a set, which is also logged once.
pub fn refusal(path: &str, first: &str) -> Error {
    let text = format!(
        "{path} stands for a set of files ({first}, ...), which can only be read; \
         `aggio merge {path} FILE` makes one ordinary file of it"
    );
    log::once(Level::Warn, &text);
    Error::new(ErrorClass::ReadOnly, text).with_errno(libc::EROFS)
}

fn none_there(call: &str, path: &str) -> Error {
    Error::os(call, &io::Error::from_raw_os_error(libc::ENOENT)).with_path(path)
}

impl SetDriver {
    /// The sets that `finder` finds.
    pub fn new(finder: Finder) -> Self {
        Self { finder }
    }

    /// Whether the file `path` is to be shown as the set that it is the first file of.
    fn replaces(&self, path: &str) -> Result<bool> {
        Ok((self.finder.names)(path) && (self.finder.first)(path)?.is_some())
    }

    fn opened(&self, path: &str) -> Result<OpenSet> {
        (self.finder.open)(path)?.ok_or_else(|| none_there("open", path))
    }

    /// Makes the set that `path` stands for a container, to be changed; an empty one unless it
    /// `keeps` the bytes. The files of the set are beside it until another set takes their places.
    ///
    /// # Errors
    /// `EROFS` if no rule says that files of this name are sets; if a file of the set cannot be
    /// read, or the container not be stored; then the set is as it was.
    pub fn change(&self, drivers: &Drivers, path: &str, keeps: bool) -> Result<()> {
        let containers = drivers.containers();
        let is_there = || Path::new(path).symlink_metadata().is_ok();
        loop {
            let first = match (self.finder.first)(path)? {
                None if containers.remakes(path) && is_there() => return Ok(()),
                first => first.ok_or_else(|| none_there("open", path))?,
            };
            if !containers.remakes(path) {
                return Err(refusal(path, &first));
            }
            let facts = std::fs::metadata(&first).map_err(|error| Error::os("stat", &error))?;
            os::may_access(Path::new(&first), libc::R_OK | libc::W_OK)
                .map_err(|error| Error::os("open", &error).with_path(path))?;
            let how = containers.creation(path, facts.permissions().mode() & 0o777);
            let turn = Turn::take(Path::new(&first)).map_err(|error| error.with_path(path))?;
            if is_there() {
                // Somebody else was faster.
                return Ok(());
            }
            let Some(turn) = turn else { continue };
            let made = if keeps {
                blob::unfold(Path::new(path), &*self.opened(path)?, &how, &turn)
            } else {
                blob::Container::create(Path::new(path), &how).map(drop)
            };
            return made.map_err(|error| error.with_path(path));
        }
    }

    /// Removes a set that was made here; any other has to be removed file by file.
    ///
    /// # Errors
    /// `EROFS` if no rule says that files of this name are sets; otherwise the error of the system
    /// call.
    pub fn remove(&self, drivers: &Drivers, path: &str) -> Result<()> {
        let first = (self.finder.first)(path)?.ok_or_else(|| none_there("unlink", path))?;
        match drivers.containers().remakes(path) {
            true => (self.finder.remove)(path),
            false => Err(refusal(path, &first)),
        }
    }

    /// Gives a set another name. At any moment one of both names has it, whole. A file that has the
    /// new name, which `free` removes, has it until then.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn rename(&self, path: &str, to: &str, free: &Free<'_>) -> Result<()> {
        loop {
            let first = (self.finder.first)(path)?.ok_or_else(|| none_there("rename", path))?;
            // No other process makes a container of it meanwhile. A user without permission to
            // write the files may rename them all the same.
            match Turn::take(Path::new(&first)) {
                Ok(None) => {}
                Err(error) if error.errno() != libc::EACCES => return Err(error.with_path(path)),
                _turn => return (self.finder.rename)(path, to, free),
            }
        }
    }
}

impl Kind for SetDriver {
    fn name(&self) -> &'static str {
        "set"
    }

    /// Whether `how` means a set, even if a file of its name is there or could be made.
    fn claims(&self, _: &Drivers, how: &OpenHow) -> Result<bool> {
        if how.create || how.exclusive {
            return Ok((self.finder.first)(&how.path)?.is_some());
        }
        self.replaces(&how.path)
    }

    fn explains(&self, _: &str, error: &Error) -> bool {
        error.class() == ErrorClass::NoSuchFile
    }

    fn stands_in(&self, how: &OpenHow) -> bool {
        self.sees(how)
    }

    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let path = &how.path;
        if how.write {
            if how.exclusive && (self.finder.first)(path)?.is_some() {
                let error = Error::os("open", &io::Error::from_raw_os_error(libc::EEXIST));
                return Err(error.with_path(path));
            }
            self.change(drivers, path, true)?;
            return drivers.containers().open(drivers, &OpenHow { create: false, ..how.clone() });
        }
        Ok(Box::new(SetFile { file: self.opened(path)?, path: path.clone(), driver: *self }))
    }

    fn sees(&self, how: &OpenHow) -> bool {
        matches!((self.finder.first)(&how.path), Ok(Some(_)))
    }

    fn delete(&self, drivers: &Drivers, path: &str, _: usize) -> Result<()> {
        self.remove(drivers, path)
    }

    fn remove_hidden(&self, drivers: &Drivers, path: &str) -> Result<()> {
        match drivers.containers().remakes(path) {
            true => (self.finder.remove)(path),
            false => Ok(()),
        }
    }
}

/// An open set.
#[derive(Debug)]
struct SetFile {
    file: OpenSet,
    path: String,
    driver: SetDriver,
}

impl SetFile {
    fn refuse(&self) -> Error {
        let first = (self.driver.finder.first)(&self.path).ok().flatten();
        refusal(&self.path, &first.unwrap_or_else(|| self.path.clone()))
    }
}

impl Driver for SetFile {
    fn name(&self) -> &'static str {
        "set"
    }

    /// The words of an error are for the user; the caller gets its number.
    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset).map_err(|error| {
            log::once_on_any_rank(Level::Error, &error.to_string());
            io::Error::from_raw_os_error(error.number())
        })
    }

    fn pwrite(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EROFS))
    }

    fn read_contig(&self, buffer: &mut [u8], offset: u64, counters: &Counters) -> Outcome {
        let extent = Extent::new(offset, buffer.len() as u64);
        if let Err(error) = generic::check_range(offset, extent.len) {
            return Outcome { bytes: 0, result: Err(error) };
        }
        let start = counters.now();
        let read = self.file.read_at(buffer, offset);
        Counters::add(&counters.reads_out, 1);
        if counters.is_timed() {
            Counters::add_since(&counters.nanoseconds_out, start);
        }
        match read {
            Ok(bytes) => {
                Counters::add(&counters.bytes_read_out, bytes as u64);
                Outcome { bytes: bytes as u64, result: Ok(()) }
            }
            Err(error) => Outcome { bytes: 0, result: Err(error.with_extent(extent)) },
        }
    }

    fn size(&self) -> Result<u64> {
        Ok(self.file.size())
    }

    fn set_size(&self, _: u64) -> Result<()> {
        Err(self.refuse())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: Closing) -> Result<()> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts::of_bytes("set")
    }

    /// A set is never changed through this driver: readers need no lock.
    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        if exclusive {
            Err(self.refuse().with_extent(extent))
        } else {
            Ok(Some(Box::new(Unlocked)))
        }
    }
}

/// A lock that keeps nobody out.
struct Unlocked;

impl LockGuard for Unlocked {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Shows `x` as the bytes of `x.first`, twice; `x.named`, which is there, as those of
    /// `x.named.first`.
    #[derive(Debug)]
    struct Twice(Vec<u8>);

    impl ReadOnlyFile for Twice {
        fn size(&self) -> u64 {
            2 * self.0.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            if self.0.contains(&b'!') {
                return Err(
                    Error::new(ErrorClass::Io, "the second file is gone").with_errno(libc::EIO)
                );
            }
            let both = self.0.repeat(2);
            let rest = both.get(offset as usize..).unwrap_or_default();
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
    }

    fn first(path: &str) -> Option<String> {
        let first = format!("{path}.first");
        std::fs::exists(&first).is_ok_and(|there| there).then_some(first)
    }

    /// A directory for files, and drivers that find these sets.
    fn with_sets() -> (Scratch, Drivers) {
        let finder = Finder {
            names: |path| path.ends_with(".named"),
            first: |path| Ok(first(path)),
            remove: |_| Ok(()),
            rename: |_, _, _| Ok(()),
            open: |path| {
                let twice = |first| Box::new(Twice(std::fs::read(first).unwrap())) as _;
                Ok(first(path).map(twice))
            },
        };
        let drivers = Drivers::default().with(Arc::new(SetDriver::new(finder)));
        (Scratch(tempfile::tempdir().unwrap()), drivers)
    }

    struct Scratch(tempfile::TempDir);

    impl Scratch {
        /// The path of file `name` in it.
        fn file(&self, name: &str) -> String {
            self.0.path().join(name).to_str().unwrap().to_owned()
        }
    }

    fn how(path: &str) -> OpenHow {
        OpenHow { path: path.into(), read: true, ..OpenHow::default() }
    }

    #[test]
    fn a_name_without_a_file_is_read_as_the_set_that_it_stands_for() {
        let (scratch, drivers) = with_sets();
        let (path, none) = (scratch.file("x"), scratch.file("y"));
        std::fs::write(format!("{path}.first"), "abc").unwrap();
        let (file, counters) =
            (drivers.open(&how(&format!("ufs:{path}"))).unwrap(), Counters::default());
        let mut bytes = [0; 9];
        let outcome = file.read_contig(&mut bytes, 1, &counters);
        assert_eq!((outcome, &bytes[..6]), (Outcome { bytes: 5, result: Ok(()) }, &b"bcabc\0"[..]));
        assert_eq!((file.name(), file.size()), ("set", Ok(6)));
        assert_eq!(file.pread(&mut bytes, 6).unwrap(), 0);
        assert!(drivers.is_in_sight(&how(&path)) && !drivers.is_in_sight(&how(&none)));
        assert_eq!(drivers.open(&how(&none)).unwrap_err().class(), ErrorClass::NoSuchFile);
        std::fs::write(&path, "file").unwrap();
        assert_eq!(drivers.open(&how(&path)).unwrap().size(), Ok(4));
    }

    #[test]
    fn a_file_of_that_name_is_replaced_only_if_it_is_named() {
        let (scratch, drivers) = with_sets();
        for (name, size) in [("x.named", 6), ("x", 4)] {
            let path = scratch.file(name);
            std::fs::write(&path, "file").unwrap();
            std::fs::write(format!("{path}.first"), "abc").unwrap();
            assert_eq!(drivers.open(&how(&path)).unwrap().size(), Ok(size), "{name}");
        }
        assert_eq!(drivers.delete(&scratch.file("x.named"), 0).unwrap_err().errno(), libc::EROFS);
        assert_eq!(drivers.delete(&scratch.file("x"), 0), Ok(()));
    }

    #[test]
    fn a_set_is_neither_written_nor_hidden_by_a_new_file_nor_removed() {
        let (scratch, drivers) = with_sets();
        let path = scratch.file("x");
        std::fs::write(format!("{path}.first"), "abc").unwrap();
        let write = OpenHow { write: true, ..how(&path) };
        let create = OpenHow { create: true, ..write.clone() };
        for wanted in [&write, &create] {
            let error = drivers.open(wanted).unwrap_err();
            assert_eq!((error.class(), error.errno()), (ErrorClass::ReadOnly, libc::EROFS));
            assert!(error.to_string().contains("aggio merge"), "{error}");
        }
        let error = drivers.open(&OpenHow { exclusive: true, ..create.clone() }).unwrap_err();
        assert_eq!((error.class(), error.errno()), (ErrorClass::FileExists, libc::EEXIST));
        assert_eq!(drivers.delete(&path, 0).unwrap_err().class(), ErrorClass::ReadOnly);
        let file = drivers.open(&how(&path)).unwrap();
        assert_eq!(file.set_size(0).unwrap_err().class(), ErrorClass::ReadOnly);
        assert_eq!(file.write_contig(b"x", 0, &Counters::default()).bytes, 0);
        assert!(file.try_lock(Extent::new(0, 1), true).is_err());
        assert!(file.try_lock(Extent::new(0, 1), false).unwrap().is_some());
        assert_eq!(std::fs::read(format!("{path}.first")).unwrap(), b"abc");
        assert!(!std::fs::exists(&path).unwrap());
        // Without the set the name is free.
        std::fs::remove_file(format!("{path}.first")).unwrap();
        assert!(drivers.open(&create).is_ok() && std::fs::exists(&path).unwrap());
    }

    #[test]
    fn an_error_of_a_set_is_told_in_its_words() {
        let (scratch, drivers) = with_sets();
        let path = scratch.file("x");
        std::fs::write(format!("{path}.first"), "abc!").unwrap();
        let outcome =
            drivers.open(&how(&path)).unwrap().read_contig(&mut [0; 3], 2, &Counters::default());
        let error = outcome.result.unwrap_err();
        assert!(error.to_string().contains("bytes 2..5: the second file is gone"), "{error}");
        assert_eq!((outcome.bytes, error.errno()), (0, libc::EIO));
    }
}
