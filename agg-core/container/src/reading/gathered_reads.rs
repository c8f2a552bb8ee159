//! Reads many parts of logs with few requests: sorted by place, and one request for parts that lie
//! close together, frame headers between them included.

use crate::directory::{Dir, complete};
use crate::format::{HEADER, RUN, SHORT};
use crate::reading::descriptors::{Descriptors, read_failed, too_short};
use crate::reading::resolution::NO_FRAME;
use aggio_base::Result;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes between two parts that are rather read than skipped.
const GAP: usize = 1024;
/// Parts of one request, each of at most four vectors: a gap, a header, its runs, and the bytes.
const PARTS: usize = 170;

/// Bytes of a log and where they go.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) id: u64,
    pub(crate) place: u64,
    pub(crate) into: &'a mut [u8],
    /// Where the frame begins that has them; `NO_FRAME` if that is not known.
    pub(crate) frame: u64,
    /// Whether the beginning of the frame's header is read with them.
    pub(crate) with_head: bool,
    pub(crate) head: [u8; SHORT],
}

impl<'a> Wanted<'a> {
    /// Bytes from `place` on of a frame; with the beginning of its header if `verify` is set, these
    /// may be the first bytes of its data, and the header is short enough to be read with them.
    pub(crate) fn new(
        (id, place): (u64, u64),
        into: &'a mut [u8],
        frame: u64,
        verify: bool,
    ) -> Self {
        let header = place.saturating_sub(frame);
        let with_head = verify && may_be_header(header) && header <= (SHORT + GAP) as u64;
        Self { id, place, into, frame, with_head, head: [0; SHORT] }
    }

    /// Says that the bytes need not be compared with a checksum.
    pub(crate) fn leave_unchecked(&mut self) {
        (self.frame, self.with_head) = (NO_FRAME, false);
    }

    /// Whether these may be the first bytes of the data of their frame.
    pub(crate) fn may_be_first(&self) -> bool {
        may_be_header(self.place.saturating_sub(self.frame))
    }

    /// The first byte that is read.
    fn start(&self) -> u64 {
        if self.with_head { self.frame } else { self.place }
    }
}

/// Whether a header may have so many bytes.
fn may_be_header(bytes: u64) -> bool {
    bytes >= SHORT as u64 && (bytes - HEADER as u64).is_multiple_of(RUN as u64)
}

/// Reads all of them, and sorts them by log and place.
pub(crate) fn read(dir: &Dir, files: &Descriptors, wanted: &mut [Wanted<'_>]) -> Result<()> {
    wanted.sort_unstable_by_key(|part| (part.id, part.place));
    for at in 1..wanted.len() {
        // One that is not the first of its frame has no header before it.
        let [before, part] = [&wanted[at - 1], &wanted[at]];
        wanted[at].with_head &= (before.id, before.frame) != (part.id, part.frame);
    }
    let together = |a: &Wanted<'_>, b: &Wanted<'_>| {
        let end = a.place + a.into.len() as u64;
        a.id == b.id && b.start() >= end && b.start() - end <= GAP as u64
    };
    for group in wanted.chunk_by_mut(together) {
        let file = files.get(dir, group[0].id)?;
        match group {
            [part] if !part.with_head => read_one(dir, &file, part)?,
            _ => group.chunks_mut(PARTS).try_for_each(|some| read_group(dir, &file, some))?,
        }
    }
    Ok(())
}

/// Reads one part, without a list of vectors.
fn read_one(dir: &Dir, file: &File, part: &mut Wanted<'_>) -> Result<()> {
    file.read_exact_at(part.into, part.place).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            too_short(dir, part.id, part.place + part.into.len() as u64)
        }
        _ => read_failed(dir, part.id, &error),
    })
}

/// Reads parts of one log that follow each other closely.
fn read_group(dir: &Dir, file: &File, group: &mut [Wanted<'_>]) -> Result<()> {
    let (id, first) = (group[0].id, group[0].start());
    let mut unused = [0_u8; GAP];
    let mut vectors = Vec::with_capacity(group.len() * 3);
    let mut end = first;
    for part in group.iter_mut() {
        let gap = (part.start() - end) as usize;
        if gap > 0 {
            vectors.push(libc::iovec { iov_base: unused.as_mut_ptr().cast(), iov_len: gap });
        }
        if part.with_head {
            let iov_base = part.head.as_mut_ptr().cast();
            vectors.push(libc::iovec { iov_base, iov_len: SHORT });
            let runs = (part.place - part.frame) as usize - SHORT;
            if runs > 0 {
                vectors.push(libc::iovec { iov_base: unused.as_mut_ptr().cast(), iov_len: runs });
            }
        }
        let (iov_base, iov_len) = (part.into.as_mut_ptr().cast(), part.into.len());
        vectors.push(libc::iovec { iov_base, iov_len });
        end = part.place + part.into.len() as u64;
    }
    let read = complete(&mut vectors, first, |rest, place| {
        let count = rest.len() as libc::c_int;
        // SAFETY: every vector is a part of the caller's buffers or headers, which are borrowed, or
        // `unused`.
        unsafe { libc::preadv(file.as_raw_fd(), rest.as_ptr(), count, place) }
    });
    match read {
        Ok(true) => Ok(()),
        Ok(false) => Err(too_short(dir, id, end)),
        Err(error) => Err(read_failed(dir, id, &error)),
    }
}
