//! The agent of the process, to which MPI-IO speaks as well.

use super::table::TABLE;
use crate::config;
use crate::state::{self, Inside};
use agg_core::settings::Settings;
use aggio_couple::Client;
use libc::c_int;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The agent; it is started if there is none when it is asked something.
///
/// # Errors
/// This process cannot use one.
pub(super) fn client() -> io::Result<&'static Client> {
    if state::is_guest() {
        // What it opened, its parent would take for descriptors of its own.
        let what = "a child that shares the memory of its parent cannot use coupled files";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    let _inside = Inside::enter();
    let settings = &config::get().settings;
    Ok(TABLE.client.get_or_init(|| Client::new(settings)))
}

/// The connection, for MPI-IO: what it opens and this crate is one process to the agent.
pub fn shared(settings: &Settings) -> Client {
    TABLE.client.get_or_init(|| Client::new(settings)).clone()
}

/// The agent, if one is running.
///
/// # Errors
/// As [`client`]; it cannot be found out.
pub(super) fn running() -> io::Result<Option<&'static Client>> {
    match Client::find(&config::get().settings)? {
        Some(_) => client().map(Some),
        None => Ok(None),
    }
}

/// Whether the directory of coupled files is another user's, so that this process has none.
pub(super) fn is_of_another_user() -> bool {
    // SAFETY: it only returns a number.
    let own = unsafe { libc::geteuid() };
    let facts = std::fs::metadata(&config::get().settings.couple_dir);
    facts.is_ok_and(|facts| facts.uid() != own)
}

/// Descriptors of this process that are the connection's.
pub(super) fn descriptors() -> Vec<c_int> {
    if !state::has_coupled() || Inside::is() || state::is_guest() {
        return Vec::new();
    }
    TABLE.client.get().map_or_else(Vec::new, Client::descriptors)
}

/// Whether `fd` is one of them: the program must not close it, for its number would become that of
/// another file.
pub fn is_own(fd: c_int) -> bool {
    descriptors().contains(&fd)
}
