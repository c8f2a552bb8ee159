//! A writer's own log: frames are appended with one request each, and a frame that could not be
//! stored as a whole is taken back.

use crate::directory::{Dir, Stage, StagedLog, complete, liveness, log_name, random};
use crate::errors::{damaged_at, failed};
use crate::format::{Frame, HEADER, Kind, Manifest, NO_DATA_CRC, RUN, SHORT, Strip, part_mode};
use crate::log::summary::Summary;
use aggio_base::{Error, Extent, Result};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// The log, which exists from the first frame on.
#[derive(Debug)]
pub(crate) struct Log {
    data_crc: bool,
    /// Where its first file waits, if it does.
    stage: Option<Stage>,
    /// The id that its first file shall have; otherwise a random one.
    id: Option<u64>,
    open: Option<Open>,
    /// Logs with a torn end from a failed write and with other frames that are not durable yet.
    torn: Vec<Open>,
    /// The first failure of `fdatasync`, kept because the kernel discards pages that it could not
    /// store.
    lost: Option<Error>,
}

#[derive(Debug)]
struct Open {
    file: File,
    id: u64,
    /// Bytes from which on it waits no longer in a directory of the node; `None` if it does not.
    waits: Option<u64>,
    end: u64,
    last_seq: u64,
    synced: u64,
    name_synced: bool,
    /// The summary of its frames.
    summary: Summary,
}

/// The fields of a frame that its writer chooses; the log adds the others.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    pub(crate) kind: Kind,
    pub(crate) strips: &'a [Strip],
    pub(crate) seq: u64,
    pub(crate) last_seq: u64,
}

impl Log {
    /// A log of frames with or without checksums of their data.
    pub(crate) fn new(data_crc: bool) -> Self {
        Self { data_crc, stage: None, id: None, open: None, torn: Vec::new(), lost: None }
    }

    /// The same, which waits in a directory of the node if there is a `stage`.
    pub(crate) fn staged(self, stage: Option<&Stage>) -> Self {
        Self { stage: stage.cloned(), ..self }
    }

    /// Its id, if there is one yet.
    pub(crate) fn id(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.id)
    }

    /// Says which id it shall have, before anything is appended.
    pub(crate) fn call(&mut self, id: u64) {
        self.id = Some(id);
    }

    fn opened(&mut self, dir: &Dir) -> Result<&mut Open> {
        if self.open.is_none() {
            self.open = Some(create(dir, self.id.take(), self.stage.take())?);
        }
        self.open.as_mut().ok_or_else(|| crate::errors::damaged("no log is open"))
    }

    /// Appends one frame.
    pub(crate) fn append(&mut self, dir: &Dir, words: &Words<'_>, data: &[&[u8]]) -> Result<()> {
        let len = data.iter().map(|part| part.len() as u64).sum();
        self.opened(dir)?.drain_beyond(dir, len)?;
        match self.append_frame(dir, words, data) {
            // Where it waits there is no room for it; there may be some where it belongs.
            Err(_) if self.open.as_ref().is_some_and(|open| open.waits.is_some()) => {
                self.opened(dir)?.drain(dir)?;
                self.append_frame(dir, words, data)
            }
            appended => appended,
        }
    }

    fn append_frame(&mut self, dir: &Dir, words: &Words<'_>, data: &[&[u8]]) -> Result<()> {
        let data_crc = self.data_crc || words.kind == Kind::Summary;
        let open = self.opened(dir)?;
        let sum = |sum: u32, part: &&[u8]| aggio_base::checksum::crc32c_append(sum, part);
        let frame = Frame {
            kind: words.kind,
            flags: if data_crc { 0 } else { NO_DATA_CRC },
            strips: words.strips.to_vec(),
            data_len: data.iter().map(|part| part.len() as u64).sum(),
            data_crc: if data_crc { data.iter().fold(0, sum) } else { 0 },
            seq: words.seq,
            last_seq: words.last_seq,
            log: open.id,
            place: open.end,
            skip: 0,
            head_crc: 0,
        };
        let mut short = [0_u8; SHORT];
        let mut long = Vec::new();
        let head = if frame.strips.len() <= 1 {
            &mut short[..HEADER + RUN * frame.strips.len()]
        } else {
            long.resize(frame.head_len() as usize, 0);
            &mut long[..]
        };
        let crc = frame.encode_into(head);
        if let Err(error) = write(&open.file, open.end, head, data) {
            let error = failed("pwritev", &error, &dir.path_of(&log_name(open.id)));
            self.take_back();
            return Err(error);
        }
        open.end += frame.len();
        open.last_seq = open.last_seq.max(words.last_seq);
        open.summary.add(&frame, crc);
        Ok(())
    }

    /// Appends bytes of the file that begin at a page of the log: `fill` stores them at the place
    /// that it is told, where there are zeros, before the frame counts. Returns that place.
    pub(crate) fn append_pages(
        &mut self,
        dir: &Dir,
        (extent, seq, page): (Extent, u64, u64),
        fill: impl FnOnce(&File, u64) -> Result<()>,
    ) -> Result<u64> {
        let open = self.opened(dir)?;
        // Others change these pages in place, under the name of the log.
        open.drain(dir)?;
        let place = (open.end + SHORT as u64).next_multiple_of(page);
        let skip = place - open.end - SHORT as u64;
        let frame = Frame {
            kind: Kind::Mapped,
            flags: NO_DATA_CRC,
            strips: vec![Strip::one(extent)],
            data_len: skip + extent.len.next_multiple_of(page),
            data_crc: 0,
            seq,
            last_seq: seq,
            log: open.id,
            place: open.end,
            skip: skip as u32,
            head_crc: 0,
        };
        let end = open.end + frame.len();
        let path = dir.path_of(&log_name(open.id));
        // As long as its bytes are not there it says that it ends behind the log, as a frame does
        // that is being written.
        let unfinished = Frame { data_len: frame.data_len + page, ..frame.clone() };
        let begin = |frame: &Frame| {
            let written = open.file.write_all_at(&frame.encode(), open.end);
            written.map_err(|error| failed("pwrite", &error, &path))
        };
        let stored = begin(&unfinished)
            .and_then(|()| {
                let grown = open.file.set_len(end);
                grown.map_err(|error| failed("ftruncate", &error, &path))
            })
            .and_then(|()| fill(&open.file, place))
            .and_then(|()| begin(&frame));
        if let Err(error) = stored {
            self.take_back();
            return Err(error);
        }
        open.end = end;
        open.last_seq = open.last_seq.max(seq);
        open.summary.add(&frame, 0);
        Ok(place)
    }

    /// Appends a summary of the log as its last frame, if that makes sealing much cheaper. A log
    /// that is durable as a whole is left as it is.
    pub(crate) fn end(&mut self, dir: &Dir) {
        let Some(open) = self.open.as_ref().filter(|open| open.synced != open.end) else { return };
        if let Some(data) = open.summary.encode() {
            let seq = open.last_seq;
            let words = Words { kind: Kind::Summary, strips: &[], seq, last_seq: seq };
            // Without it the frames are looked at.
            let _ = self.append(dir, &words, &[&data]);
        }
    }

    /// Cuts the log back to its last whole frame. Where that fails, too, the log is left as it is,
    /// which readers understand, and the next frame goes to another one.
    fn take_back(&mut self) {
        if let Some(open) = self.open.take() {
            match open.file.set_len(open.end) {
                Ok(()) => self.open = Some(open),
                Err(_) => self.torn.push(open),
            }
        }
    }

    /// Makes everything appended so far durable, and says so in the log.
    pub(crate) fn sync(&mut self, dir: &Dir) -> Result<()> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        // It is to be durable where the file is, and there for other nodes.
        self.torn.iter_mut().chain(&mut self.open).try_for_each(|open| open.drain(dir))?;
        if let Some(open) = self.open.as_ref().filter(|open| open.synced != open.end) {
            let seq = open.last_seq;
            let words = Words { kind: Kind::Commit, strips: &[], seq, last_seq: seq };
            self.append(dir, &words, &[])?;
        }
        for open in self.torn.iter_mut().chain(&mut self.open) {
            if let Err(error) = open.sync(dir) {
                self.lost = Some(error.clone());
                return Err(error);
            }
        }
        self.torn.clear();
        Ok(())
    }
}

impl Open {
    /// Moves it into the container, if it waits elsewhere.
    fn drain(&mut self, dir: &Dir) -> Result<()> {
        if self.waits.is_none() {
            return Ok(());
        }
        let name = log_name(self.id);
        let drained = StagedLog::drain(dir, &name, |_| true)?;
        // Somebody has taken the link away.
        let lost = || damaged_at(&dir.path_of(&name), "it does not wait any more where it did");
        self.file = drained.ok_or_else(lost)?;
        self.waits = None;
        Ok(())
    }

    /// The same if it would be longer than it may be there with `more` bytes.
    fn drain_beyond(&mut self, dir: &Dir, more: u64) -> Result<()> {
        match self.waits {
            Some(limit) if self.end.saturating_add(more) > limit => self.drain(dir),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, dir: &Dir) -> Result<()> {
        if self.synced == self.end {
            return Ok(());
        }
        let path = dir.path_of(&log_name(self.id));
        self.file.sync_data().map_err(|error| failed("fdatasync", &error, &path))?;
        if !self.name_synced {
            dir.sync()?;
            self.name_synced = true;
        }
        self.synced = self.end;
        Ok(())
    }
}

/// The file of a new log, which waits in the stage if there is one and it takes it.
fn new_file(dir: &Dir, name: &str, stage: Option<&Stage>) -> Result<(File, Option<u64>)> {
    if let Some(stage) = stage {
        match StagedLog::create(dir, name, &stage.place) {
            Ok(file) => return Ok((file, Some(stage.limit))),
            Err(error) if error.errno() == libc::EEXIST => return Err(error),
            Err(error) => {
                let text = format!("logs of containers do not wait: {error}");
                aggio_base::log::once(aggio_base::log::Level::Warn, &text);
            }
        }
    }
    dir.new_part(name, 0o600).map(|file| (file, None))
}

fn create(dir: &Dir, mut wanted: Option<u64>, stage: Option<Stage>) -> Result<Open> {
    // The mode may have changed since the writer came.
    let mode = Manifest::load(dir)?.mode;
    loop {
        let id = wanted.take().map_or_else(random, Ok)?;
        let name = log_name(id);
        let (file, waits) = match new_file(dir, &name, stage.as_ref()) {
            Err(error) if error.errno() == libc::EEXIST => continue,
            other => other?,
        };
        liveness::keep(&file);
        file.set_permissions(Permissions::from_mode(part_mode(mode)))
            .map_err(|error| failed("fchmod", &error, &dir.path_of(&name)))?;
        return Ok(Open {
            file,
            id,
            waits,
            end: 0,
            last_seq: 0,
            synced: 0,
            name_synced: false,
            summary: Summary::default(),
        });
    }
}

/// Writes all bytes, with one request unless the kernel takes fewer.
fn write(file: &File, place: u64, head: &[u8], data: &[&[u8]]) -> io::Result<()> {
    let vector = |part: &[u8]| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    };
    if let [only] = data {
        return write_vectors(file, place, &mut [vector(head), vector(only)]);
    }
    let mut vectors = vec![vector(head)];
    for part in data {
        match vectors.last_mut() {
            // The kernel takes one piece of memory more quickly than the many that it consists of.
            Some(last)
                if last.iov_base.wrapping_byte_add(last.iov_len) == vector(part).iov_base =>
            {
                last.iov_len += part.len();
            }
            _ => vectors.push(vector(part)),
        }
    }
    write_vectors(file, place, &mut vectors)
}

fn write_vectors(file: &File, place: u64, vectors: &mut [libc::iovec]) -> io::Result<()> {
    let written = complete(vectors, place, |rest, place| {
        // SAFETY: every vector is a slice that the caller borrows; the kernel only reads them.
        unsafe { libc::pwritev(file.as_raw_fd(), rest.as_ptr(), rest.len() as libc::c_int, place) }
    });
    if written? { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOSPC)) }
}
