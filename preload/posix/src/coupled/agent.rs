//! The connection of the process to the agent, which MPI-IO shares.

use super::table::TABLE;
use crate::config;
use crate::state::{self, Inside};
use agg_core::settings::Settings;
use aggio_couple::Client;
use libc::c_int;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Returns the connection to the agent. The first request starts an agent if none runs.
///
/// # Errors
/// This process cannot use an agent.
pub(super) fn client() -> io::Result<&'static Client> {
    if state::is_guest() {
        // The parent would take the child's new descriptors for its own.
        let what = "a child that shares the memory of its parent cannot use coupled files";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    let _inside = Inside::enter();
    let settings = &config::get().settings;
    Ok(TABLE.client.get_or_init(|| Client::new(settings)))
}

/// Returns the connection for MPI-IO, so that the agent sees one process in both.
pub fn shared(settings: &Settings) -> Client {
    TABLE.client.get_or_init(|| Client::new(settings)).clone()
}

/// Returns the connection if an agent is running.
///
/// # Errors
/// As [`client`]; also if it cannot be determined whether an agent is running.
pub(super) fn running() -> io::Result<Option<&'static Client>> {
    match Client::find(&config::get().settings)? {
        Some(_) => client().map(Some),
        None => Ok(None),
    }
}

/// Whether another user owns the directory of coupled files, so that this process has none.
pub(super) fn is_of_another_user() -> bool {
    // SAFETY: it only returns a number.
    let own = unsafe { libc::geteuid() };
    let facts = std::fs::metadata(&config::get().settings.coupling.dir);
    facts.is_ok_and(|facts| facts.uid() != own)
}

/// Descriptors of the connection in this process.
pub(super) fn descriptors() -> Vec<c_int> {
    if !state::has_coupled() || Inside::is() || state::is_guest() {
        return Vec::new();
    }
    TABLE.client.get().map_or_else(Vec::new, Client::descriptors)
}

/// Whether `fd` belongs to the connection. The program must not close such a descriptor, because
/// its number would be reused for another file.
pub fn is_own(fd: c_int) -> bool {
    descriptors().contains(&fd)
}
