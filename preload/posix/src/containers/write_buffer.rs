//! The write buffer of a container: small writes stay in the spool until they become one frame of
//! the log (modes `close` and `causal` of `AGGIO_BLOB`).

use super::super::counts::Counts;
use super::super::host::process;
use super::super::state::{self, Inside};
use super::super::{facts::name_of, flush, report, spool};
use super::table::{self, OpenContainer};
use agg_core::blob::{Container, Writer};
use agg_core::log::{self, Level};
use agg_core::rules::Mode;
use agg_core::spool::Slot;
use agg_core::spool::layout::{FRAME_DATA, MOST_FRAME_DATA, PIECES};
use agg_core::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Writes of more bytes never wait: a frame of their own costs little beside them.
const LARGE: usize = 256 * 1024;
/// Bytes that are stored at a time where there is no room for all.
const PART: usize = 4096;
/// No file has a byte from this one on.
const END: u64 = i64::MAX as u64;

/// How many open containers have writes that wait.
fn waiting() -> &'static AtomicUsize {
    &process().waiting
}

/// The writes of one open container that wait.
pub(super) struct WriteBuffer {
    mode: Mode,
    /// The flag of the open container, which is read without its lock.
    waiting: &'static AtomicBool,
    slot: Option<Slot>,
    /// Bytes of the next slot.
    room: usize,
    /// Runs of bytes in the slot, and how many bytes they are.
    pieces: usize,
    used: usize,
    /// The byte of the file behind the last run.
    end: u64,
    counts: Counts,
}

impl WriteBuffer {
    /// Nothing waits yet.
    pub(super) fn new(mode: Mode, waiting: &'static AtomicBool) -> Self {
        let counts = Counts::default();
        let (slot, room, pieces) = (None, FRAME_DATA, 0);
        Self { mode, waiting, slot, room, pieces, used: 0, end: 0, counts }
    }

    /// Whether a write of `len` bytes at `start` is to wait.
    pub(super) fn wants(&self, start: u64, len: usize) -> bool {
        self.mode != Mode::Posix
            && (1..=LARGE).contains(&len)
            && start.checked_add(len as u64).is_some_and(|end| end <= END)
            && !state::ending()
            && !state::is_guest()
    }

    /// Whether `len` bytes at `start` fit beside the buffered writes.
    pub(super) fn has_room(&self, start: u64, len: usize) -> bool {
        let room = self.slot.as_ref().map_or(FRAME_DATA, Slot::room);
        self.used + len <= room && (self.continues(start) || self.pieces < PIECES)
    }

    /// The next frame is to be larger, because this one is full.
    pub(super) fn grow(&mut self) {
        self.room = (2 * self.room).min(MOST_FRAME_DATA);
    }

    fn continues(&self, start: u64) -> bool {
        self.pieces > 0 && start == self.end
    }

    /// Lets `buffers` wait, one behind the other from `start` on; there is
    /// [room](WriteBuffer::has_room). Whether they do: not where there is no memory for it.
    pub(super) fn take(
        &mut self,
        (container, identity): (&Container, (u64, u64)),
        buffers: &[&[u8]],
        start: u64,
    ) -> bool {
        let Some(slot) = self.slot.or_else(|| find_room(container, identity, self.room)) else {
            // The spool has said why.
            self.mode = Mode::Posix;
            return false;
        };
        self.slot = Some(slot);
        let mut len = 0;
        for buffer in buffers {
            // SAFETY: there is room, and nobody else uses the slot.
            unsafe { slot.data().add(self.used + len).copy_from(buffer.as_ptr(), buffer.len()) };
            len += buffer.len();
        }
        // A write counts as a whole or not at all, also if the process is killed here.
        if self.continues(start) {
            slot.extend(self.pieces - 1, len);
        } else {
            slot.push(self.pieces, start, len, self.used);
            self.pieces += 1;
        }
        self.used += len;
        self.end = start + len as u64;
        self.counts.kept += 1;
        self.counts.kept_bytes += len as u64;
        self.mark(true);
        true
    }

    /// Writes the buffered bytes as one frame.
    ///
    /// # Errors
    /// If it could not be stored; then the bytes stay buffered.
    pub(super) fn store(&mut self, writer: &Writer) -> Result<()> {
        if self.pieces > 0 {
            writer.write_pieces(&self.runs())?;
            self.counts.drains += 1;
            self.empty();
        }
        Ok(())
    }

    /// The buffered runs and their offsets, in the order in which they were written.
    fn runs(&self) -> Vec<(u64, &[u8])> {
        let Some(slot) = &self.slot else { return Vec::new() };
        let run = |index: usize| {
            let (offset, len, place) = slot.piece(index);
            // SAFETY: the run is inside the data of the slot, which nobody changes while `self` is
            // borrowed.
            let bytes = unsafe { std::slice::from_raw_parts(slot.data().add(place), len) };
            (offset, bytes)
        };
        (0..self.pieces).map(run).collect()
    }

    /// Gives up buffered writes that could not be stored as a whole when the file is closed for the
    /// last time: stores the earliest bytes as far as there is room, and reports the rest to the
    /// user.
    pub(super) fn give_up(&mut self, writer: &Writer, container: &Container, why: &Error) {
        let mut stored = 0;
        for (offset, bytes) in self.runs() {
            let parts = (offset..).step_by(PART).zip(bytes.chunks(PART));
            let first = parts.map_while(|(at, part)| writer.write_at(part, at).ok()).sum::<usize>();
            stored += first;
            if first < bytes.len() {
                break;
            }
        }
        let (path, lost) = (container.path().display(), self.used - stored);
        log::write(Level::Error, format_args!("{path}: {lost} bytes are not stored: {why}"));
        self.counts.lost += lost as u64;
        self.empty();
    }

    fn empty(&mut self) {
        if let Some(slot) = self.slot.take() {
            spool::give_back(slot);
        }
        (self.pieces, self.used) = (0, 0);
        self.mark(false);
    }

    /// Counts a read of so many bytes.
    pub(super) fn count_read(&mut self, bytes: usize) {
        self.counts.reads += 1;
        self.counts.bytes_read += bytes as u64;
    }

    /// Counts a write of so many bytes.
    pub(super) fn count_write(&mut self, bytes: usize) {
        self.counts.writes += 1;
        self.counts.bytes_written += bytes as u64;
    }

    /// Reports the bytes read and written, and the number of buffered writes.
    pub(super) fn report(&mut self, container: &Container) {
        if self.counts.kept + self.counts.reads + self.counts.writes > 0 {
            report::tell(container.path().as_os_str().as_bytes(), self.mode, &self.counts);
            self.counts = Counts::default();
        }
    }

    /// In a child after `fork`: leaves the buffered writes and the slot to the parent.
    pub(super) fn disown(&mut self) {
        *self = WriteBuffer::new(self.mode, self.waiting);
        self.waiting.store(false, Relaxed);
    }

    fn mark(&self, waits: bool) {
        if self.waiting.swap(waits, Relaxed) == waits {
            return;
        }
        let causal = (self.mode == Mode::Causal).then_some(&state::flags().causal);
        for counter in [waiting(), &state::flags().dirty].into_iter().chain(causal) {
            if waits {
                counter.fetch_add(1, Relaxed)
            } else {
                counter.fetch_sub(1, Relaxed)
            };
        }
    }
}

/// Room under the name that the container has now.
fn find_room(container: &Container, (device, inode): (u64, u64), room: usize) -> Option<Slot> {
    let directory = container.directory().as_raw_fd();
    spool::slot(directory, &name_of(directory)?, [device, inode], &[room, FRAME_DATA])
}

/// Stores the buffered writes of the open containers for which `which` is true. Writes that cannot
/// be stored stay buffered: the next call that must store them returns the error.
pub(super) fn store_where(which: impl Fn(&OpenContainer) -> bool) {
    if waiting().load(Relaxed) == 0 || Inside::is() || state::is_guest() {
        return;
    }
    for (_, open) in table::all().filter(|(_, open)| open.waits() && which(open)) {
        let _ = open.alone(|_, state| state.store_kept());
    }
}

/// Stores the buffered writes of containers in these modes.
pub fn store_kept(which: impl Fn(Mode) -> bool) {
    store_where(|open| which(open.mode));
}

/// Stores the buffered writes of `open` itself.
pub(super) fn store_of(open: &OpenContainer) {
    if open.waits() {
        let _ = open.alone(|_, state| state.store_kept());
    }
}

/// Before `open` is used: stores writes to the same container that other open files buffer.
///
/// # Errors
/// If it cannot be stored.
pub(super) fn store_beside(open: &OpenContainer) -> std::result::Result<(), libc::c_int> {
    if waiting().load(Relaxed) <= usize::from(open.waits()) {
        return Ok(());
    }
    for other in table::on(open.identity).filter(|other| !std::ptr::eq(*other, open)) {
        if other.waits() {
            other.alone(|_, state| state.store_kept())?;
        }
    }
    Ok(())
}

/// Before a write to `open` that other processes may see: stores earlier writes to other files in
/// mode causal.
pub(super) fn before_write(open: &OpenContainer) {
    let own = open.waits() && open.mode == Mode::Causal;
    if state::flags().causal.load(Relaxed) > usize::from(own) {
        flush::causal();
        store_where(|other| other.mode == Mode::Causal && !std::ptr::eq(other, open));
    }
}

/// In a child after `fork`: nothing of its own waits.
pub(super) fn in_child() {
    waiting().store(0, Relaxed);
}
