//! Checksums of data that is read. A frame that a read covers as a whole, alone or with the reads
//! before it, costs no further request. A frame that is read only in part is read once as a whole
//! if requested.

use crate::directory::{Dir, holes, log_name};
use crate::errors::damaged_at;
use crate::format::{FILE_END, HEADER, Head, SHORT};
use crate::reading::descriptors::{Descriptors, read_failed};
use crate::reading::gathered_reads::Wanted;
use crate::reading::resolution::NO_FRAME;
use aggio_base::{Error, Result};
pub use aggio_config::hints::Verify;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frames of fewer bytes are checked again rather than remembered.
const REMEMBERED: u64 = 4096;
/// Frames that are remembered at most; then it begins anew.
const MOST: usize = 1 << 16;

/// The frames that were read and found right.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Frames that are right, by log and place.
    right: HashSet<(u64, u64)>,
    /// For each log, the frame that is being read from its beginning.
    begun: HashMap<u64, Begun>,
    /// Where the data of frames begins, by log and place: of frames that were read from elsewhere.
    starts: HashMap<(u64, u64), u64>,
}

/// A frame that is being read from its beginning on.
#[derive(Clone, Copy, Debug)]
struct Begun {
    frame: u64,
    head: Head,
    /// The next byte of the log.
    next: u64,
    /// The checksum of the data up to there.
    crc: u32,
}

/// The logs of a container.
struct Logs<'a> {
    dir: &'a Dir,
    files: &'a Descriptors,
}

impl Verifier {
    /// Skips the check of frames that were found right before: no header is read for them.
    pub(crate) fn pass_over(&self, wanted: &mut [Wanted<'_>]) {
        let state = self.state();
        if state.right.is_empty() {
            return;
        }
        for part in wanted.iter_mut().filter(|part| state.right.contains(&(part.id, part.frame))) {
            part.leave_unchecked();
        }
    }

    /// Checks the parts that were just read; they are sorted by log and place. With `always`, also
    /// checks frames that were read only in part.
    ///
    /// # Errors
    ///
    /// `EIO` that names the log and the bytes with a wrong checksum.
    pub(crate) fn check(
        &self,
        dir: &Dir,
        files: &Descriptors,
        wanted: &mut [Wanted<'_>],
        always: bool,
    ) -> Result<()> {
        let logs = Logs { dir, files };
        let one_frame = |a: &Wanted<'_>, b: &Wanted<'_>| (a.id, a.frame) == (b.id, b.frame);
        for parts in wanted.chunk_by_mut(one_frame).filter(|parts| parts[0].frame != NO_FRAME) {
            let name = (parts[0].id, parts[0].frame);
            let begun = {
                let state = self.state();
                let begun = state.begun.get(&name.0).copied();
                let begun = begun.filter(|begun| begun.frame == name.1);
                let goes_on = begun.is_some_and(|begun| begun.goes_on_at(parts[0].place));
                if !goes_on && !always && state.is_behind_start(name, parts[0].place) {
                    continue;
                }
                begun
            };
            let mut begun = match begun {
                Some(begun) => begun,
                // It would cost a request, and the checksum needs all bytes from the first on.
                None if !always && !parts[0].may_be_first() => continue,
                None => Begun::new(logs.first(&parts[0])?, name.1),
            };
            let right = !begun.head.has_crc
                || begun.follow(&logs, parts)?
                || always && logs.look_at_all(name.0, &begun.head)?;
            let mut state = self.state();
            if parts[0].place > begun.head.data {
                state.note_start(name, begun.head.data);
            }
            if right {
                state.remember(name, begun.head.data_len);
            } else {
                state.begun.insert(name.0, begun);
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The data of a frame begins at `start`, and something behind that was read: for more of that
    /// kind its header is not needed.
    fn note_start(&mut self, name: (u64, u64), start: u64) {
        if self.starts.len() >= MOST {
            self.starts.clear();
        }
        self.starts.insert(name, start);
    }

    /// Whether `place` is known to lie behind the first byte of its frame's data.
    fn is_behind_start(&self, name: (u64, u64), place: u64) -> bool {
        self.starts.get(&name).is_some_and(|start| *start < place)
    }

    fn remember(&mut self, name: (u64, u64), len: u64) {
        if len < REMEMBERED {
            return;
        }
        if self.right.len() >= MOST {
            self.right.clear();
        }
        self.right.insert(name);
    }
}

impl Begun {
    fn new(head: Head, frame: u64) -> Self {
        Self { frame, head, next: head.data, crc: 0 }
    }

    /// Whether bytes from `place` on follow those that were read, which are the first.
    fn goes_on_at(&self, place: u64) -> bool {
        self.next == place && place > self.head.data
    }

    /// Goes on with the checksum by these parts of the frame; whether they ended it, and it is
    /// right.
    fn follow(&mut self, logs: &Logs<'_>, parts: &mut [Wanted<'_>]) -> Result<bool> {
        for part in parts.iter() {
            if part.place == self.head.data {
                (self.next, self.crc) = (part.place, 0);
            }
            if part.place != self.next {
                continue;
            }
            self.crc = aggio_base::checksum::crc32c_append(self.crc, part.into);
            self.next += part.into.len() as u64;
            if self.next == self.head.data + self.head.data_len {
                if self.crc != self.head.data_crc {
                    // Other threads may have changed the caller's memory meanwhile: the stored
                    // bytes decide.
                    logs.look_at_all(part.id, &self.head)?;
                    parts.iter_mut().try_for_each(|part| logs.read(part))?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Logs<'_> {
    /// The head of the frame to which a part belongs, which may have been read with it.
    fn first(&self, part: &Wanted<'_>) -> Result<Head> {
        if part.with_head {
            return Head::of(&part.head, part.id, part.frame)
                .ok_or_else(|| self.no_frame(part.id, part.frame));
        }
        let mut bytes = [0; SHORT];
        let read =
            self.files.get(self.dir, part.id)?.read_exact_at(&mut bytes[..HEADER], part.frame);
        match read {
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                Err(read_failed(self.dir, part.id, &error))
            }
            // A log that ends there gives zeros, which are no frame.
            _ => Head::of(&bytes, part.id, part.frame)
                .ok_or_else(|| self.no_frame(part.id, part.frame)),
        }
    }

    /// Reads all data of a frame; it is right.
    fn look_at_all(&self, id: u64, head: &Head) -> Result<bool> {
        let (path, file) = (self.dir.path_of(&log_name(id)), self.files.get(self.dir, id)?);
        if holes::sum(&file, &path, head.data, head.data_len)? != head.data_crc {
            return Err(self.wrong(id, head));
        }
        Ok(true)
    }

    /// Reads a part once more.
    fn read(&self, part: &mut Wanted<'_>) -> Result<()> {
        let file = self.files.get(self.dir, part.id)?;
        file.read_exact_at(part.into, part.place)
            .map_err(|error| read_failed(self.dir, part.id, &error))
    }

    fn no_frame(&self, id: u64, frame: u64) -> Error {
        let words = format!("no frame begins at byte {frame}, where the data that is read has its");
        damaged_at(&self.dir.path_of(&log_name(id)), words)
    }

    fn wrong(&self, id: u64, head: &Head) -> Error {
        let (start, end) = (head.data, head.data.saturating_add(head.data_len).min(FILE_END));
        let words = format!("the checksum of bytes {start}..{end} of this log is wrong");
        damaged_at(&self.dir.path_of(&log_name(id)), words)
    }
}
