//! Blob containers as files of ordinary programs, where `AGGIO_BLOB` is set, and sets of netCDF
//! files as one (`AGGIO_SETS`).
//!
//! ```text
//! table        which containers and sets are open       open_file   their readers and logs
//! placeholder  the descriptor that stands for one: calls that bypass this library fail on it
//! open         opening, making, and taking over containers that another program left open
//! calls        what one does with the calls on its descriptors
//! data         reads, writes, positions                mapping  containers in memory
//! own, aside   descriptors that are not the program's
//! facts        results of `stat`        change   sizes, modes, synchronising
//! names, paths calls with names         rename   names that change
//! kinds        file types in directories, and `access`       further    calls that fail on sets
//! write_buffer writes that wait to become one frame
//! locks        locks that other processes see      programs   containers that are executed
//! set          sets, which are read-only
//! areas, live  mapped memory, and shared mappings
//! ```
//!
//! The position, close-on-exec, and the effects of `dup` and `fork` on them are those of the
//! kernel's descriptor.

mod areas;
mod aside;
mod calls;
mod change;
mod data;
mod facts;
mod further;
mod kinds;
mod live;
mod locks;
mod mapping;
mod names;
mod open;
mod open_file;
mod own;
mod paths;
mod placeholder;
mod programs;
mod rename;
mod set;
mod table;
mod write_buffer;

pub use aside::{aside, room};
pub use further::{attribute, attributes, change_attribute, link, reopened};
pub use kinds::{access, is_no_directory, readdir};
pub use live::{forget_copies, msync, protect, remap};
pub use locks::{inherit_all, to_inherit};
pub use names::{
    fchmodat, fchownat, fstatat, statx, truncate, unlink, utimensat, without_directory,
};
pub use open::{at_exit, attach, before_child, in_child, is_wanted, open, settle_all};
pub use own::{is_own, own_among};
pub use paths::{Name, joined};
pub use programs::{Instead, instead, instead_in_path, instead_of};
pub use rename::rename;
pub use table::{OpenContainer, any};
pub use write_buffer::store_kept;

use agg_core::Error;
use agg_core::blob::{Container, Reader};
use agg_core::diagnostics::Diagnostics;
use agg_core::hints::Hints;
use libc::c_int;

/// The number by which the C library reports an error.
fn number(error: &Error) -> c_int {
    error.number()
}

/// A result as functions of the C library return it.
fn told<T: TryInto<isize>>(result: Result<T, c_int>) -> isize {
    match result {
        Ok(value) => value.try_into().unwrap_or(isize::MAX),
        Err(error) => super::errno::fail(error),
    }
}

/// A reader that compares bytes with checksums as the hints of the file say.
fn verified(container: &Container) -> agg_core::Result<Reader> {
    let sources = &crate::config::get().sources;
    let path = container.path().to_string_lossy();
    // Errors in them were reported when they were read.
    let hints = Hints::resolve(sources, &path, &[], &mut Diagnostics::default());
    container.reader()?.verifying(hints.verify())
}
