//! Delays `fork` in a parent that has coupled files open for writing until the agent has registered
//! the child. Otherwise the death of a child that was killed before would go unnoticed, and the
//! agent would take the generation for complete. In that case, the parent reports the death.

use super::table::{self, TABLE};
use super::{agent, number};
use crate::host::thread;
use crate::state::Inside;
use crate::{errno, next};
use agg_core::log;
use agg_core::log::Level;
use libc::c_int;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// How long a parent waits, in milliseconds, so that an agent that hangs cannot block it for ever.
const PATIENCE: c_int = 5000;

/// Before `fork`: clears the mark of a lost child.
pub(super) fn begin() {
    thread(|thread| thread.child_lost.set(false));
}

/// Before `fork`, after [`begin`]: makes the pipe by which the child notifies its parent.
pub(super) fn prepare() {
    if !table::all().any(|(_, open)| open.writes()) {
        return;
    }
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers into the local array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0 {
        let [reader, writer] = ends.map(|end| u64::from(end.cast_unsigned()) + 1);
        TABLE.pipe.store(reader << 32 | writer, Relaxed);
    }
}

/// Takes the ends of the pipe for reading and for writing; `None` if there is no pipe.
fn take() -> Option<[c_int; 2]> {
    let held = TABLE.pipe.swap(0, Relaxed);
    let end = |word: u64| (word as u32).wrapping_sub(1).cast_signed();
    (held != 0).then(|| [end(held >> 32), end(held)])
}

fn close(fd: c_int) {
    // SAFETY: it is an end of the pipe, which only this module uses.
    unsafe { next::close(fd) };
}

/// In the child, when it is registered: notifies the parent.
pub(super) fn tell() {
    let Some([reader, writer]) = take() else { return };
    // SAFETY: the call reads one byte of a constant. If the parent has ended, the write neither
    // fails nor raises a signal, because this process also holds the other end.
    unsafe { next::write(writer, c"".as_ptr().cast(), 1) };
    close(writer);
    close(reader);
}

/// In the parent: returns when the child is registered, has ended, or does not exist.
pub(super) fn wait() {
    let Some([reader, writer]) = take() else { return };
    let _errno = errno::Keep::new();
    close(writer);
    let mut polled = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
    let answers = loop {
        // SAFETY: the kernel reads and writes one local entry.
        let count = unsafe { libc::poll(&raw mut polled, 1, PATIENCE) };
        let error = std::io::Error::last_os_error();
        if count != -1 || error.kind() != std::io::ErrorKind::Interrupted {
            break count;
        }
    };
    if answers == 0 {
        log!(Level::Warn, "a child has not told the agent of coupled files who it is for 5 s");
    }
    if answers > 0 && is_at_end(reader) {
        thread(|thread| thread.child_lost.set(true));
    }
    close(reader);
}

/// Whether a readable pipe is at its end.
fn is_at_end(reader: c_int) -> bool {
    let mut byte = 0u8;
    // SAFETY: the kernel writes at most one byte into the local value.
    unsafe { next::read(reader, (&raw mut byte).cast(), 1) == 0 }
}

/// In the parent, after a child was made: if it ended before it was registered, the generations
/// that it had open for writing are not complete.
pub(super) fn settle() {
    if !thread(|thread| thread.child_lost.replace(false)) {
        return;
    }
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    let Ok(client) = agent::client() else { return };
    let open = table::all().filter(|(_, open)| open.writes());
    // Duplicates share an open.
    let handles: BTreeSet<u64> = open.map(|(_, open)| open.handle()).collect();
    for handle in handles {
        if let Err(error) = client.lose_child(handle) {
            let error = std::io::Error::from_raw_os_error(number(&error));
            log!(Level::Error, "the agent of coupled files does not know of a dead child: {error}");
        }
    }
}
