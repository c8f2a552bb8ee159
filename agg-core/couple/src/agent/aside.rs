//! Copies and comparisons of large files, which other threads make: the agent answers meanwhile.

use super::Agent;
use super::waits::Waiting;
use crate::areas::{are_same, copy};
use crate::folder::Folder;
use crate::peers::Key;
use crate::registry::{Area, Opening};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Files of fewer bytes are copied and compared at once: that takes milliseconds.
const LARGE: u64 = 16 << 20;

/// What a thread has done.
#[derive(Debug)]
enum Done {
    Copied(Area, io::Result<()>),
    Compared(Area, io::Result<bool>),
    /// The bytes are in this file.
    Moved(Area, io::Result<OwnedFd>),
    /// The kept bytes of a generation are in these files, which are in memory by these inodes.
    MovedKept(Key, io::Result<Vec<(u64, OwnedFd)>>),
}

/// A generation that is filled with the bytes of the one before.
#[derive(Debug, Default)]
struct Copying {
    /// Opens that are answered when that is done.
    waiting: Vec<(Waiting, Opening)>,
    /// It is to have no bytes then.
    cut: bool,
}

/// A generation that may still be the copy as which it began.
#[derive(Debug)]
enum Comparison {
    /// It is being found out; whether the file was opened for writing since.
    Runs(bool),
    Same(bool),
}

/// What other threads do.
#[derive(Debug)]
pub(super) struct Aside {
    tell: Sender<Done>,
    done: Receiver<Done>,
    wake: OwnedFd,
    copying: BTreeMap<Area, Copying>,
    comparing: BTreeMap<Area, Comparison>,
}

impl Aside {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let wake = unsafe { OwnedFd::from_raw_fd(fd) };
        let (tell, done) = channel();
        Ok(Self { tell, done, wake, copying: BTreeMap::new(), comparing: BTreeMap::new() })
    }

    /// Readable when something is done.
    pub(super) fn events(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Whether a generation is still filled.
    pub(super) fn fills(&self, area: Area) -> bool {
        self.copying.contains_key(&area)
    }

    /// Whether no generation is copied or compared.
    pub(super) fn is_idle(&self) -> bool {
        self.copying.is_empty() && self.comparing.is_empty()
    }

    /// Lets a generation that is still filled have no bytes then; false if it is not.
    pub(super) fn cut(&mut self, area: Area) -> bool {
        self.copying.get_mut(&area).map(|copying| copying.cut = true).is_some()
    }

    /// Lets a thread write the bytes of a file to a directory.
    pub(super) fn take(&self, area: Area, from: OwnedFd, folder: Folder) -> io::Result<()> {
        self.start(move || Done::Moved(area, folder.take(&from)))
    }

    /// The same for files with bytes of a generation that another node owns, by their inodes.
    pub(super) fn take_kept(
        &self,
        key: Key,
        from: Vec<(u64, OwnedFd)>,
        folder: Folder,
    ) -> io::Result<()> {
        let take = move |(inode, file)| Ok((inode, folder.take(&file)?));
        self.start(move || Done::MovedKept(key, from.into_iter().map(take).collect()))
    }

    fn start(&self, work: impl FnOnce() -> Done + Send + 'static) -> io::Result<()> {
        let (tell, bell) = (self.tell.clone(), self.wake.try_clone()?);
        let run = move || {
            // An agent that has ended needs no word.
            let _ = tell.send(work());
            let _ = File::from(bell).write_all(&1u64.to_ne_bytes());
        };
        std::thread::Builder::new().name("aggio-aside".into()).spawn(run).map(drop)
    }

    fn results(&mut self) -> Vec<Done> {
        let mut count = [0u8; 8];
        // SAFETY: the kernel writes eight bytes into the local array.
        unsafe { libc::read(self.events(), count.as_mut_ptr().cast(), count.len()) };
        self.done.try_iter().collect()
    }
}

impl Agent {
    pub(super) fn is_large(&self, area: Area) -> bool {
        self.areas.stat(area, 0).is_ok_and(|stat| stat.size >= LARGE)
    }

    /// Makes the memory of a generation, which gets the bytes of another one.
    pub(super) fn copy_aside(&mut self, area: Area, mode: u32, source: Area) -> io::Result<()> {
        self.make(area, mode, None)?;
        let from = self.areas.open(source, true, false, false)?;
        let to = self.areas.open(area, true, true, false)?;
        self.aside.copying.insert(area, Copying::default());
        let work = move || Done::Copied(area, copy(from.as_raw_fd(), to.as_raw_fd()));
        let started = self.aside.start(work);
        started.inspect_err(|_| drop(self.aside.copying.remove(&area)))
    }

    /// Lets an open wait if its memory is still filled.
    pub(super) fn answers_later(&mut self, waiting: &Waiting, opening: Opening) -> bool {
        let Some(copying) = self.aside.copying.get_mut(&opening.area) else { return false };
        copying.waiting.push((waiting.clone(), opening));
        if let Some(link) = self.links.get_mut(&waiting.link) {
            link.waits = true;
        }
        true
    }

    /// A file is open for writing again.
    pub(super) fn note_written(&mut self, area: Area) {
        if let Some(comparison) = self.aside.comparing.get_mut(&area) {
            *comparison = Comparison::Runs(true);
        }
    }

    /// Whether a file to which nobody can write differs from the one of which it began as a copy;
    /// `None` if that is yet to be found out.
    pub(super) fn is_changed(&mut self, area: Area, copy_of: Option<Area>) -> Option<bool> {
        match self.aside.comparing.get(&area) {
            Some(Comparison::Runs(_)) => return None,
            Some(Comparison::Same(same)) => {
                let same = *same;
                self.aside.comparing.remove(&area);
                return Some(!same);
            }
            None => {}
        }
        if self.is_large(area)
            && let Some([one, other]) = self.areas.may_be_same(area, copy_of)
        {
            let work = move || Done::Compared(area, are_same(one.as_raw_fd(), other.as_raw_fd()));
            if self.aside.start(work).is_ok() {
                self.aside.comparing.insert(area, Comparison::Runs(false));
                return None;
            }
        }
        Some(self.areas.is_changed(area, copy_of))
    }

    /// Hears what was done.
    pub(super) fn hear_aside(&mut self) {
        for done in self.aside.results() {
            match done {
                Done::Copied(area, result) => self.is_filled(area, result),
                Done::Moved(area, result) => self.has_moved_own(area, result),
                Done::MovedKept(key, result) => self.have_moved_kept(key, result),
                Done::Compared(area, same) => {
                    let same = same.unwrap_or_else(|error| {
                        log!(Level::Warn, "agent: two generations cannot be compared: {error}");
                        false
                    });
                    match self.aside.comparing.remove(&area) {
                        Some(Comparison::Runs(false)) => {
                            self.aside.comparing.insert(area, Comparison::Same(same));
                            self.look(area);
                            // Somebody may write, or dies: it is to be compared anew.
                            self.aside.comparing.remove(&area);
                        }
                        _ => self.look(area),
                    }
                    self.settle();
                }
            }
        }
    }

    fn is_filled(&mut self, area: Area, result: io::Result<()>) {
        let Some(copying) = self.aside.copying.remove(&area) else { return };
        let result = result.and_then(|()| match copying.cut {
            true => self.areas.empty(area),
            false => self.areas.is_copied(area),
        });
        let failed = result.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
        for (waiting, opening) in copying.waiting {
            self.hand_over_if(failed, &waiting, opening);
        }
        self.look(area);
        self.settle();
    }
}
