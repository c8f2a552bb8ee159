//! Reads, writes and positions.

use super::super::next;
use super::super::{errno, readable_memory};
use super::open_file::{Source, State};
use super::table::OpenContainer;
use super::{live, placeholder, write_buffer};
use crate::operations::Transfer;
use agg_core::Extent;
use libc::{c_int, iovec, off64_t};

/// The most that one call moves, as the kernel's.
const MOST: usize = 0x7fff_f000;
/// The position of `fd`, which the placeholder has.
pub(super) fn position(fd: c_int) -> Result<u64, c_int> {
    // SAFETY: plain numbers.
    let position = unsafe { next::lseek64(fd, 0, libc::SEEK_CUR) };
    u64::try_from(position).map_err(|_| errno::get())
}

fn set_position(fd: c_int, position: u64) -> Result<off64_t, c_int> {
    let position = off64_t::try_from(position).map_err(|_| libc::EOVERFLOW)?;
    // SAFETY: plain numbers.
    let set = unsafe { next::lseek64(fd, position, libc::SEEK_SET) };
    if set < 0 { Err(errno::get()) } else { Ok(set) }
}

fn offset(offset: off64_t) -> Result<u64, c_int> {
    u64::try_from(offset).map_err(|_| libc::EINVAL)
}

/// The use of the position of a descriptor, or of a place that the caller gives. With the lock of
/// its description no other thread uses the position, and until the turn ends no other process that
/// shares it: as with the kernel's own files, consecutive writes of several processes do not
/// overlap.
struct Turn {
    fd: c_int,
    moves: bool,
    excludes: bool,
}

impl Turn {
    fn take(fd: c_int, open: &OpenContainer, given: Option<u64>) -> Self {
        let moves = given.is_none();
        // Without the lock, as where there is no memory for it, the call goes on.
        let excludes = moves && open.is_shared() && placeholder::exclude_others(fd, true);
        Self { fd, moves, excludes }
    }

    /// The call has moved bytes up to `position`.
    fn end(self, position: u64) -> Result<(), c_int> {
        if self.moves { set_position(self.fd, position).map(drop) } else { Ok(()) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.excludes {
            placeholder::exclude_others(self.fd, false);
        }
    }
}

/// The offset of a call. The kernel looks at it before it looks at the descriptor.
fn given(transfer: &Transfer) -> Result<Option<u64>, c_int> {
    transfer.offset.map(offset).transpose()
}

/// Whether the flags of `preadv2` or `pwritev2` demand a synchronised write. Refuses flags that are
/// not supported.
fn is_durable(transfer: &Transfer) -> Result<bool, c_int> {
    let durable = libc::RWF_DSYNC | libc::RWF_SYNC;
    if transfer.flags & !(durable | libc::RWF_HIPRI) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(transfer.flags & durable != 0)
}

/// Reads into memory of the program, one vector after the other, until the file ends.
pub(super) fn read(open: &OpenContainer, fd: c_int, transfer: &Transfer) -> Result<usize, c_int> {
    is_durable(transfer)?;
    let vectors = transfer.vectors()?;
    // Programs look at it after reads from streams that have succeeded (netCDF).
    let _errno = errno::Keep::new();
    let given = given(transfer)?;
    open.may_read()?;
    open.locked(|open, state| {
        let turn = Turn::take(fd, open, given);
        let start = match given.map_or_else(|| position(fd), Ok) {
            Ok(start) => start,
            Err(error) => return Ok(Err(error)),
        };
        let (mut source, mut done) = (state.source()?, 0);
        let mut rest = source.size()?.saturating_sub(start);
        for vector in vectors {
            let data = vector.iov_base.cast::<u8>();
            let wanted = rest.min(vector.iov_len.min(MOST) as u64) as usize;
            if !readable_memory::writable(data.cast(), wanted) {
                if done == 0 {
                    return Ok(Err(libc::EFAULT));
                }
                break;
            }
            if wanted > 0 {
                // SAFETY: so many bytes can be written, and they are the memory of a read.
                let room = unsafe { std::slice::from_raw_parts_mut(data, wanted) };
                let read = source.read_at(room, start.saturating_add(done as u64))?;
                (done, rest) = (done + read, rest - read as u64);
            }
        }
        state.kept.count_read(done);
        Ok(turn.end(start + done as u64).map(|()| done))
    })?
}

/// Writes memory of the program.
pub(super) fn write(open: &OpenContainer, fd: c_int, transfer: &Transfer) -> Result<usize, c_int> {
    let durable = is_durable(transfer)?;
    let vectors = transfer.vectors()?;
    let (one, several);
    let buffers = match vectors {
        [vector] => {
            // SAFETY: it is the memory of a write.
            one = [unsafe { bytes(vector) }?];
            &one[..]
        }
        _ => {
            // SAFETY: as above.
            let all = vectors.iter().map(|vector| unsafe { bytes(vector) });
            several = all.collect::<Result<Vec<_>, _>>()?;
            &several[..]
        }
    };
    let written = write_buffers(open, fd, buffers, given(transfer))?;
    if durable {
        open.locked(|_, state| state.sync())?;
    }
    Ok(written)
}

/// Writes `buffers`, one after the other, as one frame of the log.
fn write_buffers(
    open: &OpenContainer,
    fd: c_int,
    buffers: &[&[u8]],
    given: Result<Option<u64>, c_int>,
) -> Result<usize, c_int> {
    let _errno = errno::Keep::new();
    let given = given?;
    open.may_write()?;
    let len = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
    if len == 0 {
        return Ok(0);
    }
    write_buffer::before_write(open);
    let appends = placeholder::status(fd) & libc::O_APPEND != 0;
    let moved = open.locked(|open, state| {
        let turn = Turn::take(fd, open, given);
        let start = match given.map_or_else(|| position(fd), Ok) {
            Ok(start) => start,
            Err(error) => return Ok(Err(error)),
        };
        let place_of_data = (!appends).then_some(start);
        state.kept.count_write(len);
        // Writes to the standard streams are visible at once, as with the kernel.
        if let Some(start) = place_of_data.filter(|_| fd > libc::STDERR_FILENO)
            && state.keep(open, buffers, start)?
        {
            return Ok(turn.end(start + len as u64));
        }
        let end = store(state, buffers, place_of_data, len as u64)?;
        if open.is_synchronous() {
            state.sync()?;
        }
        Ok(turn.end(end))
    })?;
    live::renew(open.identity);
    moved.map(|()| len)
}

/// Stores the buffers from `start` on, or at the end; returns the file byte behind them.
fn store(
    state: &mut State,
    buffers: &[&[u8]],
    start: Option<u64>,
    len: u64,
) -> agg_core::Result<u64> {
    let writer = state.writer()?;
    let Some(start) = start else {
        let at = match buffers {
            [one] => writer.append(one)?,
            several => writer.append(&several.concat())?,
        };
        return Ok(at + len);
    };
    let (mut pieces, mut at) = (Vec::with_capacity(buffers.len()), start);
    for buffer in buffers {
        pieces.push((at, *buffer));
        at = at.saturating_add(buffer.len() as u64);
    }
    writer.write_pieces(&pieces)?;
    Ok(at)
}

/// The program's memory of a write.
///
/// # Errors
/// `EFAULT` if it cannot be read.
///
/// # Safety
/// Nobody changes it meanwhile.
unsafe fn bytes(vector: &iovec) -> Result<&[u8], c_int> {
    let (data, len) = (vector.iov_base.cast_const().cast::<u8>(), vector.iov_len.min(MOST));
    match len {
        0 => Ok(&[]),
        _ if !readable_memory::readable(data, len) => Err(libc::EFAULT),
        // SAFETY: it can be read, and the caller promises the rest.
        _ => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// `lseek`.
pub(super) fn seek(open: &OpenContainer, fd: c_int, by: off64_t, whence: c_int) -> off64_t {
    let place = match whence {
        libc::SEEK_SET | libc::SEEK_CUR => {
            // SAFETY: plain numbers.
            return unsafe { next::lseek64(fd, by, whence) };
        }
        libc::SEEK_END => open.size().and_then(|size| {
            let end = i64::try_from(size).map_err(|_| libc::EOVERFLOW)?;
            offset(end.checked_add(by).ok_or(libc::EOVERFLOW)?)
        }),
        libc::SEEK_DATA | libc::SEEK_HOLE => {
            offset(by).map_err(|_| libc::ENXIO).and_then(|at| next_of(open, at, whence))
        }
        _ => Err(libc::EINVAL),
    };
    match place.and_then(|place| set_position(fd, place)) {
        Ok(place) => place,
        Err(error) => errno::fail(error) as off64_t,
    }
}

/// The first byte from `at` on that is (or is not) in a hole.
fn next_of(open: &OpenContainer, at: u64, whence: c_int) -> Result<u64, c_int> {
    let wanted = whence == libc::SEEK_DATA;
    let (size, segments) = open.locked(|_, state| {
        let mut source = state.source()?;
        let size = source.size()?;
        let segments = match source {
            Source::Container(reader) => {
                Some(reader.segments(Extent::between(at.min(size), size))?)
            }
            // A set has data everywhere.
            Source::Set(_) => None,
        };
        Ok((size, segments))
    })?;
    if at >= size {
        return Err(libc::ENXIO);
    }
    let Some(segments) = segments else { return Ok(if wanted { at } else { size }) };
    let found = segments.iter().find(|segment| segment.source.is_some() == wanted);
    match found {
        Some(segment) => Ok(segment.logical.offset.max(at)),
        None if wanted => Err(libc::ENXIO),
        None => Ok(size),
    }
}
