//! Coupled files as a kind of storage: which names are coupled, and how these files are opened.

use super::CoupledFile;
use super::records::Step;
use super::waits::Waits;
use crate::driver::latency::Meter;
use crate::driver::posix::Posix;
use crate::driver::table::{Drivers, Kind};
use crate::driver::{Driver, OpenHow};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::os;
use aggio_comm::transport::{Identity, Offer};
use aggio_config::settings::working_directory;
use aggio_couple::client::is_on_disk;
use aggio_couple::{Client, Open, Parts, is_away};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::time::Instant;

/// The storage kind of coupled files.
#[derive(Debug)]
pub(in crate::driver) struct Coupled {
    client: Client,
    posix: Posix,
}

impl Coupled {
    /// Opens files with `client` and accesses them with the driver of `posix`.
    pub(in crate::driver) fn new(client: Client, posix: Posix) -> Self {
        Self { client, posix }
    }

    /// Returns the name of the coupled file at `path`, or `None` if it is not one. A link at the
    /// end of the path is followed if `follow`; a file that must be new is never a link.
    fn named(&self, path: &str, follow: bool) -> Option<PathBuf> {
        self.client.name_of(PathBuf::from(working_directory()).join(path), follow)
    }

    /// Makes the driver of the open file `handle`. The process has waited for it since `began`.
    fn file(
        &self,
        inner: Box<dyn Driver>,
        handle: u64,
        how: &OpenHow,
        began: Instant,
    ) -> Box<dyn Driver> {
        let waits = Waits::default();
        waits.add(began, 0);
        let client = self.client.clone();
        let (moved, closed) = (AtomicU64::new(0), AtomicBool::new(false));
        let name = self.named(&how.path, true);
        let step =
            name.is_some_and(|name| client.is_step(&name)).then(|| Step::of(is_away(handle)));
        let (writes, stale) = (how.write, AtomicI32::new(0));
        let had_bytes = writes && inner.size().is_ok_and(|size| size > 0);
        let wrote = AtomicBool::new(false);
        let written = (writes && is_away(handle)).then(Mutex::default);
        let parts = Parts::of(&client, handle);
        let costs = Meter::assuming(&inner.facts().file_system);
        Box::new(CoupledFile {
            inner,
            client,
            handle,
            writes,
            had_bytes,
            wrote,
            written,
            step,
            parts,
            moved,
            waits,
            costs,
            closed,
            stale,
        })
    }
}

impl Kind for Coupled {
    fn name(&self) -> &'static str {
        "couple"
    }

    fn claims(&self, _: &Drivers, how: &OpenHow) -> Result<bool> {
        Ok(self.named(&how.path, !how.exclusive).is_some())
    }

    fn adopts(&self, how: &OpenHow) -> bool {
        self.named(&how.path, true).is_some()
    }

    /// All processes of a node can open a coupled file.
    fn stands_in(&self, how: &OpenHow) -> bool {
        self.named(&how.path, !how.exclusive).is_some()
    }

    fn sees(&self, _: &OpenHow) -> bool {
        true
    }

    /// Opens a generation of the file. Rank 0 waits for it if necessary.
    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let missing = || refusal(&io::Error::from_raw_os_error(libc::ENOENT), how);
        let path = self.named(&how.path, !how.exclusive).ok_or_else(missing)?;
        let open = Open {
            read: how.read,
            write: how.write,
            create: how.create || how.exclusive,
            exclusive: how.exclusive,
            mode: how.permissions.unwrap_or(0o666) & !os::umask(),
            // The other ranks open the generation of rank 0: it exists now, or never will.
            blocking: how.rank == 0,
            parts: true,
            ..Open::new(&path)
        };
        let began = Instant::now();
        let opened = match self.client.open(&open) {
            Ok(opened) => opened,
            Err(error) if is_on_disk(&error) => return self.posix.open(drivers, how),
            Err(error) => return Err(refusal(&error, how)),
        };
        match self.posix.of_descriptor(how, opened.fd) {
            Ok(inner) => Ok(self.file(inner, opened.handle, how, began)),
            Err(error) => {
                // Report only the first error.
                let _ = self.client.withdraw(opened.handle);
                Err(error)
            }
        }
    }

    fn adopt(&self, drivers: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        let (inner, began) = (self.posix.adopt(drivers, how, offer)?, Instant::now());
        let Identity { device, inode } = offer.identity;
        match self.client.adopt_file(device, inode, [how.write, true]) {
            Ok(handle) => Ok(self.file(inner, handle, how, began)),
            // The file on disk: the writer died.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(inner),
            Err(error) => Err(refusal(&error, how)),
        }
    }

    fn delete(&self, _: &Drivers, path: &str, _: usize) -> Result<()> {
        let missing = || io::Error::from_raw_os_error(libc::ENOENT);
        let name = self.named(path, false).ok_or_else(missing);
        let result = name.and_then(|name| self.client.unlink(&name));
        result.map_err(|error| Error::os("unlink", &error).with_path(path))
    }
}

fn refusal(error: &io::Error, how: &OpenHow) -> Error {
    if error.raw_os_error() == Some(libc::EAGAIN) {
        let text = "what rank 0 has open is not to be had on the node of this rank: see \
                    AGGIO_COUPLE_DIR";
        return Error::new(ErrorClass::UnsupportedOperation, text).with_path(&how.path);
    }
    Error::os("open", error).with_path(&how.path)
}
