//! Files without names for pending bytes that memory has no room for; the kernel stores them as it
//! needs the memory.
//!
//! Each part is a file of its own, so that its storage is free as soon as its bytes are where they
//! belong, and nothing is left of a process that dies.

use super::Pending;
use super::part::Part;
use super::write::lost;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_store::driver::tmpfile;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a file, unless a single write is longer or there may not be so many.
const PART: usize = 32 << 20;

/// Directories that may have room for bytes that wait, the first one being the best.
#[derive(Debug)]
pub struct Spill {
    directories: [PathBuf; 2],
    spare: u64,
}

impl Spill {
    /// Beside the file `path`, or, where the file system has no files without names, where
    /// temporary files are; `spare` bytes of storage are left for others.
    pub fn beside(path: &str, spare: u64) -> Self {
        let beside = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
        let beside = beside.unwrap_or(Path::new(".")).to_owned();
        Self { directories: [beside, std::env::temp_dir()], spare }
    }

    fn part(&self, len: usize) -> io::Result<Part> {
        let create = |directory: &PathBuf| tmpfile::create(directory, len as u64, self.spare);
        let [beside, temporary] = &self.directories;
        let file = create(beside).or_else(|error| create(temporary).map_err(|_| error))?;
        Part::in_file(&file, len)
    }
}

impl Pending {
    /// Bytes that are kept in memory.
    pub fn bytes_in_memory(&self) -> u64 {
        self.bytes - self.spilled
    }

    /// Bytes that are kept in files.
    pub fn spilled_bytes(&self) -> u64 {
        self.spilled
    }

    /// Lets the next `more` bytes wait in a file, of `most` bytes that may.
    ///
    /// # Errors
    /// The error of the system call if there is no room; then nothing has changed.
    pub fn spill_to(&mut self, spill: &Spill, more: u64, most: u64) -> io::Result<()> {
        let size = usize::try_from(more).map_err(io::Error::other)?;
        let last = self.parts.last();
        if last.is_some_and(|part| part.is_in_file() && part.room() >= size) {
            return Ok(());
        }
        let part = spill.part(size.max(usize::try_from(most).unwrap_or(PART).min(PART)))?;
        last.into_iter().for_each(Part::rest);
        self.parts.push(part);
        Ok(())
    }

    /// Moves bytes from files into memory, and frees their storage; returns whether there were any.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for it, `Io` if some of it is lost; the rest stays in files.
    pub fn recall(&mut self) -> Result<bool> {
        let had_some = self.spilled > 0;
        for part in self.parts.iter_mut().filter(|part| part.is_in_file()) {
            let no_memory = || Error::new(ErrorClass::NoMem, "no memory for what waits in files");
            let mut copy = Part::new(part.used().max(1), true).ok_or_else(no_memory)?;
            if !part.copy_to(&mut copy) {
                return Err(lost());
            }
            self.spilled -= part.used() as u64;
            *part = copy;
        }
        Ok(had_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Moment;
    use aggio_store::driver::scratch::Scratch;
    use aggio_types::datatype::Datatype;
    use aggio_types::memory::Memory;
    use aggio_types::view::View;
    use std::os::unix::fs::FileExt;

    fn add(pending: &mut Pending, position: u64, bytes: &[u8]) {
        let datatype = Datatype::bytes(bytes.len() as u64);
        // SAFETY: the bytes are only read, before this function ends.
        let memory = unsafe { Memory::new(bytes.as_ptr().cast_mut(), datatype, 1) };
        let len = bytes.len() as u64;
        pending.add(&View::bytes(), position, &memory, len, Moment::default()).unwrap();
    }

    /// Pending writes with 100 bytes in memory and 100 in a file, and the file.
    fn waiting() -> (Pending, std::fs::File) {
        let scratch = Scratch::new();
        let directory = Path::new(&scratch.file("f")).parent().unwrap().to_owned();
        let file = tmpfile::create(&directory, PART as u64, 0).unwrap();
        let mut pending = Pending::default();
        add(&mut pending, 1000, &[1; 100]);
        pending.parts.push(Part::in_file(&file, PART).unwrap());
        add(&mut pending, 500, &[2; 100]);
        assert_eq!((pending.bytes_in_memory(), pending.spilled_bytes()), (100, 100));
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0, "the file has no name");
        (pending, file.into())
    }

    #[test]
    fn bytes_that_rest_in_a_file_are_those_that_were_put_in() {
        let (pending, _file) = waiting();
        pending.parts.iter().for_each(Part::rest);
        let (_, memory) = pending.as_one_write().unwrap();
        let mut bytes = [0; 200];
        memory.gather(0, &mut bytes);
        assert_eq!([&bytes[..100], &bytes[100..]], [[2; 100], [1; 100]]);
    }

    #[test]
    fn bytes_that_the_file_has_lost_are_an_error_for_whom_needs_them() {
        type Damage = fn(&std::fs::File);
        let damages: [Damage; 2] = [
            |file| file.set_len(0).unwrap(),
            |file| assert_eq!(file.write_at(&[3], 50).unwrap(), 1),
        ];
        for damage in damages {
            let (mut pending, file) = waiting();
            damage(&file);
            let error = pending.as_one_write().unwrap_err();
            assert_eq!(error.class(), ErrorClass::Io, "{error}");
            pending.note_saved(aggio_base::Extent::new(500, 100));
            assert_eq!(pending.take_unsaved().unwrap_err().class(), ErrorClass::Io);
            assert_eq!(pending.bytes(), 200, "nothing is forgotten");
            // Those in memory are needed alone.
            let without = [aggio_base::Extent::new(0, 1000)];
            let choice = crate::pending::Choice { without: &without, ..Default::default() };
            pending.note_unsaved();
            assert!(pending.as_two_writes(aggio_base::Extent::default(), &choice).is_ok());
        }
    }

    #[test]
    fn only_what_is_needed_is_looked_at() {
        let (mut pending, file) = waiting();
        (0..8).for_each(|k| add(&mut pending, 10_000_000 * k, &vec![k as u8; 200_000]));
        assert_eq!(file.write_at(&[99], 800_000).unwrap(), 1);
        let hit = aggio_base::Extent::new(30_000_000, 200_000);
        let missed =
            [aggio_base::Extent::new(0, 30_000_000), aggio_base::Extent::new(60_000_000, 1 << 30)];
        let only = |without: &[aggio_base::Extent]| {
            let choice = crate::pending::Choice { without, ..Default::default() };
            pending.as_two_writes(aggio_base::Extent::default(), &choice).is_ok()
        };
        assert!(!only(&missed), "{hit:?} and its neighbours share a stretch");
        assert!(only(&[aggio_base::Extent::new(10_000_000, 1 << 30)]), "the first ones are sound");
        assert!(only(&[aggio_base::Extent::new(0, 70_000_000)]), "the last one is sound");
    }

    #[test]
    fn bytes_that_come_back_from_a_file_are_the_same_and_the_file_is_gone() {
        let (mut pending, _file) = waiting();
        assert!(pending.recall().unwrap());
        assert_eq!((pending.bytes_in_memory(), pending.spilled_bytes()), (200, 0));
        let (_, memory) = pending.as_one_write().unwrap();
        let mut bytes = [0; 200];
        memory.gather(0, &mut bytes);
        assert_eq!([&bytes[..100], &bytes[100..]], [[2; 100], [1; 100]]);
        assert!(!pending.recall().unwrap());
        let (mut pending, file) = waiting();
        file.set_len(0).unwrap();
        assert_eq!(pending.recall().unwrap_err().class(), ErrorClass::Io);
        assert_eq!(pending.spilled_bytes(), 100);
    }

    #[test]
    fn storage_that_others_may_need_is_left_to_them() {
        let scratch = Scratch::new();
        let greedy = Spill::beside(&scratch.file("f"), u64::MAX / 2);
        let mut pending = Pending::default();
        assert_eq!(
            pending.spill_to(&greedy, 1, 1000).unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }

    #[test]
    fn where_the_file_system_has_no_nameless_files_temporary_ones_do() {
        let mut pending = Pending::default();
        pending.spill_to(&Spill::beside("/proc/file", 0), 100, 1000).unwrap();
        add(&mut pending, 0, &[1; 100]);
        assert_eq!(pending.spilled_bytes(), 100);
    }

    #[test]
    fn without_files_nothing_changes() {
        let mut pending = Pending::default();
        add(&mut pending, 0, &[1; 100]);
        let directories = ["/proc", "/proc/self"].map(PathBuf::from);
        let nowhere = Spill { directories, spare: 0 };
        assert!(pending.spill_to(&nowhere, 100, 1000).is_err());
        assert_eq!((pending.bytes(), pending.spilled_bytes(), pending.parts.len()), (100, 0, 1));
    }
}
