//! An open file: the semantics of `MPI_File_*` (MPI-4.1, chapter 14), without any MPI.
//!
//! The layer above translates handles, datatypes and error codes; every rule about modes, views,
//! file pointers, collective agreement and end of file lives here.
//!
//! Methods that the standard calls collective return a future and must be called on every rank in
//! the same order. They claim their message tags when they are *called*, so that operations which
//! are in progress at the same time never mix their messages. Every one of them ends with one
//! result that all ranks agree on, also if a rank had wrong arguments.
//!
//! A call travels from its [`File`] downwards:
//!
//! ```text
//! File            the operations of the standard
//!   ViewState       view, file pointers, hints of this rank
//!   DataCall        one read or write: its request and its Route
//!   AtomicMode, SplitCall, Account, Lifecycle, SetConversion
//!   WriteBehind     writes that ranks buffer, and the requests to flush them
//!   Storage         the driver, the two-phase exchange, and the file's format
//! ```

mod account;
mod agreement;
mod amode;
mod atomic;
mod call;
mod close;
mod closing;
mod convert;
mod data;
mod data_call;
mod fast_path;
mod info;
mod lifecycle;
mod manage;
mod opening;
mod pointers;
mod request;
mod resize;
mod route;
mod set_conversion;
mod settling;
mod split;
mod storage;
mod view_change;
mod view_state;
mod views;
mod write_behind;

#[cfg(test)]
mod tests;

pub use crate::Direction;
pub use amode::Amode;
pub use call::{Call, Position, SplitKind, SplitPointer};
pub use opening::{OpenRequest, Stages};
pub use split::SplitCall;
pub use view_state::Whence;
pub use views::Displacement;

pub(crate) use write_behind::OpenFiles;

use crate::Engine;
use account::Account;
use aggio_base::error::Error;
use aggio_base::report::Counters;
use aggio_comm::tags::Tags;
use aggio_comm::transport::Transport;
use aggio_store::driver::Driver;
use aggio_types::view::View;
use atomic::AtomicMode;
use lifecycle::Lifecycle;
use set_conversion::SetConversion;
use std::sync::Arc;
use storage::Storage;
use view_state::ViewState;
use write_behind::WriteBehind;

/// An open file, shared by the ranks of its transport.
///
/// All methods may be called from several threads; calls on one file then behave as some
/// sequential order of them.
pub struct File {
    engine: Arc<Engine>,
    transport: Arc<dyn Transport>,
    tags: Tags,
    /// The rank that opened the file first, and does everything that one rank does for all.
    leader: usize,
    views: ViewState,
    storage: Arc<Storage>,
    write_behind: Arc<WriteBehind>,
    atomic: AtomicMode,
    split: Arc<SplitCall>,
    account: Account,
    lifecycle: Lifecycle,
    conversion: SetConversion,
}

impl File {
    /// The ranks that opened the file.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The path, as given to the open.
    pub fn path(&self) -> &str {
        self.account.path()
    }

    /// The mode given to the open.
    pub fn amode(&self) -> Amode {
        self.views.amode()
    }

    /// The view in force on this rank.
    pub fn view(&self) -> Arc<View> {
        self.views.view()
    }

    /// The counts of the file's operations on this rank.
    pub fn counters(&self) -> &Arc<Counters> {
        self.storage.counters()
    }

    /// The driver that stores the file's bytes.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        self.storage.driver()
    }

    /// Adds context to an error: the file's name and this rank, unless it names another rank.
    fn context(&self, error: Error, operation: &str) -> Error {
        self.lifecycle.note(&error);
        error.with_operation(operation).with_path(self.path()).with_rank(self.transport.rank())
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path())
            .field("amode", &self.amode())
            .field("driver", self.driver())
            .finish_non_exhaustive()
    }
}
