//! Stages in memory without a name: each process that uses one holds it, and it ends with the last.

use super::claim::{Address, Claim, Making, claims, is_claimed, watch};
use super::control::{Control, Identity};
use super::home::Files;
use super::places::Places;
use super::processes::{reopen, stages};
use aggio_base::{Error, ErrorClass, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// How often a process that was found may be gone before its memory is opened.
const ATTEMPTS: u32 = 16;

/// The stages in memory of a user.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    watched: Arc<File>,
    user: u32,
}

impl Memory {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: asks for a number.
        let user = unsafe { libc::geteuid() };
        Ok(Self { watched: Arc::new(watch()?), user })
    }

    /// Whether a process may have a stage of the file.
    pub(super) fn has(&self, identity: &Identity) -> bool {
        is_claimed(&self.watched, self.user, identity).unwrap_or(true)
    }

    /// Opens the stage of the file that other processes have; `None` if none has one.
    ///
    /// # Errors
    /// A process has one, and this one may not open it: bytes that wait there would be missed.
    pub(super) fn open(&self, identity: &Identity) -> Result<Option<Files>> {
        let mut refused = None;
        let failed = |error| Error::os("look for a stage in memory", &error);
        for _ in 0..ATTEMPTS {
            if !is_claimed(&self.watched, self.user, identity).map_err(failed)? {
                return Ok(None);
            }
            let named = claims(self.user, identity).map_err(failed)?;
            if let Some(files) = self.take_one(identity, &named, &mut refused) {
                return Ok(Some(files));
            }
            let others = stages(self.user, identity).map_err(failed)?;
            if let Some(files) = self.take_one(identity, &others, &mut refused) {
                return Ok(Some(files));
            }
            if named.is_empty() && others.is_empty() {
                break;
            }
        }
        match refused {
            // These names lead to no stage of the file.
            None => Ok(None),
            Some(error) => {
                let text = format!(
                    "another process has bytes of the file in memory that this one may not open: \
                     {error}"
                );
                let number = error.raw_os_error().unwrap_or(libc::EACCES);
                Err(Error::new(ErrorClass::Access, text).with_errno(number))
            }
        }
    }

    /// Opens the stage at one of these addresses.
    fn take_one(
        &self,
        identity: &Identity,
        addresses: &[Address],
        refused: &mut Option<io::Error>,
    ) -> Option<Files> {
        addresses.iter().find_map(|address| match self.take(identity, *address) {
            Ok(files) => files,
            Err(error) => {
                *refused = Some(error);
                None
            }
        })
    }

    /// Opens the memory at `address`; `None` if it is no stage of the file, or not there any more.
    fn take(&self, identity: &Identity, address: Address) -> io::Result<Option<Files>> {
        let [head, places, bytes] = address.descriptors;
        let open = |descriptor: i32| reopen(address.process, descriptor);
        let opened = || -> io::Result<[File; 4]> {
            Ok([open(head)?, open(head)?, open(places)?, open(bytes)?])
        };
        let [head, draining, places, bytes] = match opened() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            files => files?,
        };
        let is_ours = [&head, &places, &bytes].iter().all(|file| self.is_memory(file));
        let is_of = |control: Control| control.identity == *identity;
        // Descriptors of a stage that has ended may be those of another one by now.
        let is_whole = is_ours
            && Control::open(&head).is_ok_and(is_of)
            && Control::has_parts(&head, [&places, &bytes]);
        if !is_whole || Control::is_given_up(&head) {
            return Ok(None);
        }
        self.claimed(identity, head, draining, places, bytes).map(Some)
    }

    /// Whether other processes of this user may look into this one.
    fn may_be_found(&self) -> bool {
        std::fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == self.user)
    }

    /// Whether `file` is memory of this user's.
    fn is_memory(&self, file: &File) -> bool {
        // SAFETY: asks for the seals, which only memory files have.
        let has_seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) } >= 0;
        has_seals && file.metadata().is_ok_and(|facts| facts.uid() == self.user)
    }

    /// The files of a stage, which others find here from now on.
    fn claimed(
        &self,
        identity: &Identity,
        head: File,
        draining: File,
        places: File,
        bytes: File,
    ) -> io::Result<Files> {
        let descriptors = [&head, &places, &bytes].map(|file| file.as_raw_fd());
        let address = Address { process: std::process::id(), descriptors };
        let claim = Some(Claim::new(self.user, identity, address)?);
        Ok(Files { head, draining, places, bytes, claim })
    }

    /// Makes a stage for `target`, called `path`, unless another process has one by now.
    pub(super) fn make(&self, target: &File, path: &Path) -> Result<Option<Files>> {
        if !self.may_be_found() {
            let text = "other processes may not look into this one";
            return Err(Error::new(ErrorClass::Access, text).with_errno(libc::EPERM));
        }
        let identity = Identity::of(target)?;
        let _making = Making::begin().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let text = "another process keeps all others from making stages in memory";
                Error::new(ErrorClass::FileInUse, text).with_errno(libc::EBUSY)
            }
            _ => Error::os("flock", &error),
        })?;
        if let Some(files) = self.open(&identity)? {
            return Ok(Some(files));
        }
        let memory = || memory().map_err(|error| Error::os("memfd_create", &error));
        let (head, places, bytes) = (memory()?, memory()?, memory()?);
        Places::init(&places).map_err(|error| Error::os("fallocate", &error))?;
        Control::init(&head, target, path)?;
        let noted = Control::set_parts(&head, [&places, &bytes]);
        noted.map_err(|error| Error::os("pwrite", &error))?;
        let draining = reopen(std::process::id(), head.as_raw_fd());
        let files =
            draining.and_then(|draining| self.claimed(&identity, head, draining, places, bytes));
        files.map(Some).map_err(|error| Error::os("open", &error))
    }
}

/// Memory without a name.
fn memory() -> io::Result<File> {
    let descriptor = aggio_base::os::memory_file(c"aggio-stage")?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
