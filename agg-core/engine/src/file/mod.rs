//! An open file: the semantics of `MPI_File_*` (MPI-4.1, chapter 14), without any MPI.
//!
//! The layer above translates handles, datatypes and error codes; every rule about modes, views,
//! file pointers, collective agreement and end of file lives here.
//!
//! Methods that the standard calls collective return a future and must be called on every rank in
//! the same order. They claim their message tags when they are *called*, so that operations which
//! are in progress at the same time never mix their messages. Every one of them ends with one
//! result that all ranks agree on, also if a rank had wrong arguments.

mod account;
mod agreement;
mod amode;
mod at_once;
mod atomic;
mod call;
mod close;
mod convert;
mod data;
mod deferred;
mod deferred_views;
mod info;
mod lane;
mod manage;
mod open;
mod open_request;
mod open_result;
mod open_write_behind;
mod opening;
mod pointers;
mod request;
mod sealing;
mod split;
mod storage;
mod views;
mod write_behind;

#[cfg(test)]
mod tests;

pub use crate::Direction;
pub use amode::Amode;
pub use call::{Call, Position, SplitKind, SplitPointer};
pub use open::{OpenRequest, Stages};
pub use pointers::Whence;
pub use split::SplitCall;
pub use views::Displacement;

pub(crate) use write_behind::OpenFiles;

use crate::Engine;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::lanes::Lane;
use aggio_comm::tags::Tags;
use aggio_comm::transport::{SharedPointer, Transport};
use aggio_config::settings::Report;
use aggio_store::driver::Driver;
use aggio_types::view::View;
use atomic::AtomicMode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use storage::Storage;
use write_behind::WriteBehind;

/// An open file, shared by the ranks of its transport.
///
/// All methods may be called from several threads; calls on one file then behave as some
/// sequential order of them.
pub struct File {
    engine: Arc<Engine>,
    transport: Arc<dyn Transport>,
    tags: Tags,
    /// Held until the file is closed.
    lane: Mutex<Option<Lane>>,
    storage: Arc<Storage>,
    write_behind: Arc<WriteBehind>,
    /// Other ranks of the node may take the file from this one until all close it.
    offers: bool,
    /// The rank that opened the file first, and does everything that one rank does for all.
    leader: usize,
    pointer: Option<Arc<dyn SharedPointer>>,
    atomic: AtomicMode,
    split: Arc<SplitCall>,
    /// The name that the program gave.
    path: String,
    /// The same name, as it means the file in any working directory.
    place: String,
    amode: Amode,
    report: Report,
    state: Mutex<State>,
    /// A message from or to another rank failed: writes that depended on it may be missing.
    cut_off: AtomicBool,
    /// Views that were set.
    views: AtomicU32,
    closed: AtomicBool,
    /// Why no set of files was made of it, and the cure, if one was asked for.
    no_set: OnceLock<String>,
}

/// The mutable state of an open file.
struct State {
    view: Arc<View>,
    /// This rank's file pointer, in etypes of the view.
    individual: u64,
    hints: info::AgreedHints,
    /// The shared file pointer in force, and the changes to settle at the next meeting.
    turns: deferred_views::DeferredViews,
}

impl File {
    /// The engine that opened the file.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The ranks that opened the file.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The path, as given to the open.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The mode given to the open.
    pub fn amode(&self) -> Amode {
        self.amode
    }

    /// The view in force on this rank.
    pub fn view(&self) -> Arc<View> {
        self.state().view.clone()
    }

    /// The counts of the file's operations on this rank.
    pub fn counters(&self) -> &Arc<Counters> {
        self.storage.counters()
    }

    /// The driver that stores the file's bytes.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        self.storage.driver()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorClass::File, "the file has been closed"));
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.amode.is_writable() {
            return Ok(());
        }
        Err(Error::new(ErrorClass::ReadOnly, format!("the file was opened {}", self.amode)))
    }

    fn check_not_sequential(&self) -> Result<()> {
        if !self.amode.has(Amode::SEQUENTIAL) {
            return Ok(());
        }
        let text = "a file opened SEQUENTIAL is accessed through its shared file pointer only";
        Err(Error::new(ErrorClass::UnsupportedOperation, text))
    }

    /// Adds context to an error: the file's name and this rank, unless it names another rank.
    fn context(&self, error: Error, operation: &str) -> Error {
        if is_of_messages(&error) {
            self.cut_off.store(true, Ordering::Relaxed);
        }
        error.with_operation(operation).with_path(&self.path).with_rank(self.transport.rank())
    }
}

/// Whether an error is one of the ranks' exchange, not of the file.
fn is_of_messages(error: &Error) -> bool {
    [ErrorClass::Other, ErrorClass::Intern].contains(&error.class())
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .field("amode", &self.amode)
            .field("driver", self.driver())
            .finish_non_exhaustive()
    }
}
