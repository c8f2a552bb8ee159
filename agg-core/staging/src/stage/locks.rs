//! The locks of a stage, which the kernel releases when their owner dies.
//!
//! | lock | shared | alone |
//! |---|---|---|
//! | presence | use of the stage | making it, checking whether it is abandoned, removing it |
//! | accesses | staging and reading | looking for the staged bytes of a domain, or clearing it |
//! | the gate | staging and reading, if it is found closed | waiting to be alone |
//! | a domain | | draining it |
//!
//! The kernel grants a shared lock as long as others share it: without the gate, processes that
//! stage and read would never let another be alone.

use aggio_base::os::{ofd_lock, ofd_would_lock};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

const PRESENCE: i64 = 0;
const ACCESSES: i64 = 1;
const DOMAINS: i64 = 2;
/// Behind all domains.
const GATE: i64 = 1 << 62;

/// The locks through one description of the file.
#[derive(Debug)]
pub(super) struct Locks {
    file: File,
    /// Accesses of this description that hold the lock of accesses together.
    accesses: Mutex<u32>,
}

/// A lock of a part of the file, until it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    file: &'a File,
    start: i64,
}

/// The lock of accesses, shared, until it is dropped.
#[derive(Debug)]
pub(super) struct Access<'a>(&'a Locks);

impl Locks {
    pub(super) fn new(file: File) -> Self {
        Self { file, accesses: Mutex::new(0) }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn set(&self, wait: bool, kind: libc::c_int, start: i64) -> io::Result<bool> {
        let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
        match ofd_lock(self.file.as_raw_fd(), command, kind, start, 1) {
            Ok(()) => Ok(true),
            Err(error) if !wait && is_taken(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Is present from now on; waits while somebody else is alone.
    pub(super) fn be_present(&self) -> io::Result<()> {
        self.set(true, libc::F_RDLCK, PRESENCE).map(drop)
    }

    /// Is alone from now on, if nobody else is present.
    pub(super) fn be_alone(&self) -> io::Result<bool> {
        self.set(false, libc::F_WRLCK, PRESENCE)
    }

    /// Is not present any more.
    pub(super) fn be_gone(&self) {
        release(&self.file, PRESENCE);
    }

    /// Begins an access; several threads may, but none that is at one.
    pub(super) fn access(&self) -> io::Result<Access<'_>> {
        self.pass_the_gate()?;
        let mut accesses = self.accesses.lock().unwrap_or_else(PoisonError::into_inner);
        if *accesses == 0 {
            self.set(true, libc::F_RDLCK, ACCESSES)?;
        }
        *accesses += 1;
        Ok(Access(self))
    }

    /// Waits while somebody waits to be alone.
    fn pass_the_gate(&self) -> io::Result<()> {
        if ofd_would_lock(self.file.as_raw_fd(), libc::F_RDLCK, GATE, 1)? {
            return Ok(());
        }
        // No thread keeps this lock with this description.
        self.set(true, libc::F_RDLCK, GATE)?;
        release(&self.file, GATE);
        Ok(())
    }

    /// Waits until nobody accesses, and keeps others from it. Not through the description of
    /// accesses of this process.
    pub(super) fn exclude_accesses(&self) -> io::Result<Held<'_>> {
        self.set(true, libc::F_WRLCK, GATE)?;
        let _gate = Held { file: &self.file, start: GATE };
        self.set(true, libc::F_WRLCK, ACCESSES)?;
        Ok(Held { file: &self.file, start: ACCESSES })
    }

    /// Takes a domain for draining; `None` if another one has it and this one shall not `wait`.
    pub(super) fn domain(&self, domain: u64, wait: bool) -> io::Result<Option<Held<'_>>> {
        let start = DOMAINS + domain.cast_signed();
        let taken = self.set(wait, libc::F_WRLCK, start)?;
        Ok(taken.then_some(Held { file: &self.file, start }))
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

/// Gives a lock up; the kernel refuses that of no open file.
fn release(file: &File, start: i64) {
    let _ = ofd_lock(file.as_raw_fd(), libc::F_OFD_SETLK, libc::F_UNLCK, start, 1);
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        release(self.file, self.start);
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        let mut accesses = self.0.accesses.lock().unwrap_or_else(PoisonError::into_inner);
        *accesses -= 1;
        if *accesses == 0 {
            release(&self.0.file, ACCESSES);
        }
    }
}
