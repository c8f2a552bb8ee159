//! Notifies the agent of reads, changes of size, and synchronisation.

use super::{agent, table};
use crate::errno;
use crate::state::Inside;
use libc::{c_int, off64_t};

/// Records that the program has read all bytes of `fd`, for example because it has mapped them.
pub fn delivered_all(fd: c_int) {
    if table::any()
        && let Some(open) = table::get(fd)
    {
        open.raise(u64::MAX);
    }
}

/// After `fsync` or `fdatasync` of `fd`, which returned `done`: lets readers have the bytes written
/// so far, and gets the writes of other nodes.
pub fn synchronised(fd: c_int, done: c_int) -> c_int {
    let open = table::get(fd).filter(|open| done == 0 && open.writes());
    let (Some(open), Ok(client)) = (open, agent::client()) else { return done };
    let inside = Inside::enter();
    let told = client.sync(open.handle()).and_then(|()| client.renew(open.handle()));
    drop(inside);
    told.map_or_else(|error| errno::fail(super::number(&error)) as c_int, |()| 0)
}

/// After `ftruncate` of `fd`, which returned `done`: sets the size on other writing nodes, too.
pub fn resized(fd: c_int, len: off64_t, done: c_int) -> c_int {
    let open = table::get(fd).filter(|open| done == 0 && open.writes());
    let (Some(open), Ok(size), Ok(client)) = (open, u64::try_from(len), agent::client()) else {
        return done;
    };
    let inside = Inside::enter();
    let told = client.resize(open.handle(), size);
    drop(inside);
    told.map_or_else(|error| errno::fail(super::number(&error)) as c_int, |()| 0)
}
