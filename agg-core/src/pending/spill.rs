//! Where bytes wait for which memory has no room: in files without names, which the kernel stores as it needs the memory.
//!
//! Each part is a file of its own, so that its storage is free as soon as its bytes are where they belong, and nothing is
//! left of a process that dies.

use super::Pending;
use super::part::Part;
use crate::driver::nameless;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a file, unless a single write is longer.
const PART: usize = 32 << 20;

/// Directories that may have room for bytes that wait, the first one being the best.
#[derive(Debug)]
pub struct Spill {
    directories: [PathBuf; 2],
}

impl Spill {
    /// Beside the file `path`, or, where the file system has no files without names, where temporary files are.
    pub fn beside(path: &str) -> Self {
        let beside = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
        let beside = beside.unwrap_or(Path::new(".")).to_owned();
        Self { directories: [beside, std::env::temp_dir()] }
    }

    fn part(&self, size: usize) -> io::Result<Part> {
        let len = size.max(PART);
        let [beside, temporary] = &self.directories;
        let file = nameless::create(beside, len as u64)
            .or_else(|error| nameless::create(temporary, len as u64).map_err(|_| error))?;
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

    /// Lets the next `more` bytes wait in a file.
    ///
    /// # Errors
    /// What the system says if it has no room; then nothing has changed.
    pub fn spill_to(&mut self, spill: &Spill, more: u64) -> io::Result<()> {
        let size = usize::try_from(more).map_err(io::Error::other)?;
        let last = self.parts.last();
        if last.is_some_and(|part| part.is_in_file() && part.room() >= size) {
            return Ok(());
        }
        let part = spill.part(size)?;
        last.into_iter().for_each(Part::rest);
        self.parts.push(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorClass;
    use crate::datatype::Datatype;
    use crate::driver::scratch::Scratch;
    use crate::memory::Memory;
    use crate::pending::Moment;
    use crate::view::View;
    use std::os::unix::fs::FileExt;

    fn add(pending: &mut Pending, position: u64, bytes: &[u8]) {
        let datatype = Datatype::bytes(bytes.len() as u64);
        // SAFETY: the bytes are only read, before this function ends.
        let memory = unsafe { Memory::new(bytes.as_ptr().cast_mut(), datatype, 1) };
        let len = bytes.len() as u64;
        pending.add(&View::bytes(), position, &memory, len, Moment::default()).unwrap();
    }

    /// What waits, of 100 bytes in memory and 100 in a file, and the file.
    fn waiting() -> (Pending, std::fs::File) {
        let scratch = Scratch::new();
        let directory = Path::new(&scratch.file("f")).parent().unwrap().to_owned();
        let file = nameless::create(&directory, PART as u64).unwrap();
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
            pending.note_saved(crate::Extent::new(500, 100));
            assert_eq!(pending.take_unsaved().unwrap_err().class(), ErrorClass::Io);
            assert_eq!(pending.bytes(), 200, "nothing is forgotten");
            // Those in memory are needed alone.
            let without = [crate::Extent::new(0, 1000)];
            let choice = crate::pending::Choice { without: &without, ..Default::default() };
            pending.note_unsaved();
            assert!(pending.as_two_writes(crate::Extent::default(), &choice).is_ok());
        }
    }

    #[test]
    fn where_the_file_system_has_no_nameless_files_temporary_ones_do() {
        let mut pending = Pending::default();
        pending.spill_to(&Spill::beside("/proc/file"), 100).unwrap();
        add(&mut pending, 0, &[1; 100]);
        assert_eq!(pending.spilled_bytes(), 100);
    }

    #[test]
    fn without_files_nothing_changes() {
        let mut pending = Pending::default();
        add(&mut pending, 0, &[1; 100]);
        let nowhere = Spill { directories: ["/proc", "/proc/self"].map(PathBuf::from) };
        assert!(pending.spill_to(&nowhere, 100).is_err());
        assert_eq!((pending.bytes(), pending.spilled_bytes(), pending.parts.len()), (100, 0, 1));
    }
}
