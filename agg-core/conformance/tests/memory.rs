//! A whole driver, the example of `docs/drivers.md`: files in memory. It holds the contract.

use agg_core::driver::{Closing, Driver, Drivers, Facts, Kind, OpenHow};
use agg_core::{Error, ErrorClass, Result};
use aggio_driver_conformance::{Subject, check};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

/// The bytes of a file, shared by its open handles.
type Content = Arc<Mutex<Vec<u8>>>;

/// All files, by name.
#[derive(Debug, Default)]
struct Storage(Mutex<HashMap<String, Content>>);

/// An open file. A file ends where `room` does, as on a full disk.
#[derive(Debug)]
struct MemoryFile {
    content: Content,
    how: OpenHow,
    room: usize,
    closed: AtomicBool,
}

fn errno<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl MemoryFile {
    /// The bytes, if the access mode allows the operation.
    fn bytes(&self, allowed: bool) -> io::Result<MutexGuard<'_, Vec<u8>>> {
        if self.closed.load(SeqCst) || !allowed {
            return errno(libc::EBADF);
        }
        Ok(self.content.lock().expect("no panic"))
    }

    fn resize(&self, size: u64, shrinks: bool) -> Result<()> {
        let failed = |error| Error::os("resize", &error);
        let size = usize::try_from(size).ok().filter(|size| *size <= self.room);
        let size = size.ok_or(()).or_else(|()| errno(libc::EFBIG)).map_err(failed)?;
        let mut bytes = self.bytes(self.how.write).map_err(failed)?;
        if shrinks || bytes.len() < size {
            bytes.resize(size, 0);
        }
        Ok(())
    }
}

impl Driver for MemoryFile {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes(self.how.read)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let len = buffer.len().min(bytes.len() - start);
        buffer[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = self.bytes(self.how.write)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let len = buffer.len().min(self.room.saturating_sub(start));
        if len == 0 && !buffer.is_empty() {
            return errno(libc::ENOSPC);
        }
        if len > 0 && bytes.len() < start + len {
            bytes.resize(start + len, 0);
        }
        if len > 0 {
            bytes[start..start + len].copy_from_slice(&buffer[..len]);
        }
        Ok(len)
    }

    fn size(&self) -> Result<u64> {
        let bytes = self.bytes(true).map_err(|error| Error::os("size", &error))?;
        Ok(bytes.len() as u64)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.resize(size, true)
    }

    fn preallocate(&self, size: u64) -> Result<()> {
        self.resize(size, false)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: Closing) -> Result<()> {
        self.closed.store(true, SeqCst);
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts::of_bytes("memory")
    }
}

impl Storage {
    fn open_with(&self, how: &OpenHow, room: usize) -> Result<Box<dyn Driver>> {
        let failed = |number| {
            let error = io::Error::from_raw_os_error(number);
            Err(Error::os("open", &error).with_path(&how.path))
        };
        let mut files = self.0.lock().expect("no panic");
        match (files.contains_key(&how.path), how.create || how.exclusive) {
            (true, _) if how.exclusive => return failed(libc::EEXIST),
            (false, false) => return failed(libc::ENOENT),
            _ => {}
        }
        let content = files.entry(how.path.clone()).or_default().clone();
        let closed = AtomicBool::new(false);
        Ok(Box::new(MemoryFile { content, how: how.clone(), room, closed }))
    }
}

impl Subject for Storage {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        self.open_with(how, usize::MAX >> 1)
    }

    fn delete(&self, name: &str) -> Result<()> {
        let found = self.0.lock().expect("no panic").remove(name);
        let missing = || Error::new(ErrorClass::NoSuchFile, "delete").with_errno(libc::ENOENT);
        found.map(drop).ok_or_else(missing)
    }

    fn longest(&self) -> u64 {
        1 << 20
    }

    fn full(&self, name: &str, room: u64) -> Option<Result<Box<dyn Driver>>> {
        let how = OpenHow {
            path: name.into(),
            create: true,
            read: true,
            write: true,
            ..OpenHow::default()
        };
        Some(self.open_with(&how, room as usize))
    }
}

impl Kind for Storage {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn prefixes(&self) -> &'static [&'static str] {
        &["memory:"]
    }

    fn open(&self, _: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        Subject::open(self, how)
    }

    fn sees(&self, how: &OpenHow) -> bool {
        how.create || self.0.lock().expect("no panic").contains_key(&how.path)
    }

    fn delete(&self, _: &Drivers, path: &str, _rank: usize) -> Result<()> {
        Subject::delete(self, path)
    }
}

#[test]
fn files_in_memory_hold_the_contract() {
    check(&Storage::default()).assert_holds();
}

#[test]
fn drivers_find_a_kind_by_its_prefix() {
    let drivers = Drivers::default().with(Arc::new(Storage::default()));
    let how = OpenHow { path: "memory:x".into(), create: true, write: true, ..OpenHow::default() };
    assert_eq!(drivers.open(&how).expect("a file").name(), "memory");
    assert_eq!(drivers.delete("memory:x", 0), Ok(()));
}
