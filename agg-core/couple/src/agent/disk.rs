//! Generations that are stored on disk: orders to the thread that does it, and its errors.

use super::Agent;
use super::pulls::After;
use crate::keeper::{Done, Keeper};
use crate::peers::{ALL, Peers};
use crate::protocol::Reply;
use crate::registry::Area;
use aggio_base::log;
use aggio_base::log::Level;
use std::io;
use std::time::{Duration, Instant};

/// How long until what could not be stored is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// A generation that could not be stored.
#[derive(Debug)]
pub(super) struct Failed {
    area: Area,
    pub(super) again: Instant,
}

impl Agent {
    fn keeper(&mut self) -> io::Result<&mut Keeper> {
        if self.keeper.is_none() {
            self.keeper = Some(Keeper::new()?);
        }
        self.keeper.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Stores a generation in the background.
    pub(super) fn store(&mut self, area: Area, path: Vec<u8>) {
        let after = After::Store(area, path);
        let Err(After::Store(area, path)) = self.pulls_first(area, &[ALL], after) else { return };
        let file = self.areas.open(area, true, false, false);
        let ordered = file.and_then(|file| self.keeper()?.store(area, file, path));
        if let Err(error) = ordered {
            self.note_stored(area, Err(error));
        }
    }

    /// Removes a stored file in the background.
    pub(super) fn remove_stored(&mut self, path: Vec<u8>) {
        let ordered = self.keeper().and_then(|keeper| keeper.remove(path.clone()));
        self.note_removed(path, ordered);
    }

    fn note_removed(&mut self, path: Vec<u8>, result: io::Result<()>) {
        let Err(error) = result else { return };
        let name = String::from_utf8_lossy(&path);
        let text = format!("{name}: what was stored cannot be removed: {error}");
        log!(Level::Error, "agent: {text}");
        self.troubles.insert(path, (error.raw_os_error().unwrap_or(libc::EIO), text));
    }

    /// Ends the agent, unless somebody needs it: the answer.
    pub(super) fn end_if_idle(&mut self) -> Reply {
        let busy = |text: &str| Reply::Failed(libc::EBUSY, text.to_owned());
        let is_needed = self.peers.as_ref().is_some_and(|peers| !peers.are_idle());
        if is_needed || !self.clients.is_empty() {
            let keeps = self.peers.as_ref().is_some_and(Peers::keeps_alone);
            return busy(match keeps && self.clients.is_empty() {
                true => "generations that other nodes own have bytes here: drop them there first",
                false => "programs are connected",
            });
        }
        let left = self.registry.store_all(true);
        self.settle();
        if left > 0 {
            let text = "generations that are to be on disk are not yet: they are being stored";
            return busy(&format!("{left} {text}"));
        }
        if self.is_storing() {
            return busy("files are being removed");
        }
        if !self.aside.is_idle() {
            return busy("generations are being copied or compared");
        }
        self.quit = true;
        Reply::Done
    }

    /// Whether something is on its way to the disk.
    pub(super) fn is_storing(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.pending > 0)
    }

    /// Hears what was stored.
    pub(super) fn hear_keeper(&mut self) {
        let results = self.keeper.as_mut().map(Keeper::results).unwrap_or_default();
        for done in results {
            match done {
                Done::Stored(area, result) => self.note_stored(area, result),
                Done::Removed(path, result) => self.note_removed(path, result),
            }
        }
    }

    pub(super) fn note_stored(&mut self, area: Area, result: io::Result<()>) {
        let done = result.is_ok();
        if let Err(error) = result {
            let generation = self.registry.generations.get(&area);
            let path = generation.map(|one| one.path.clone()).unwrap_or_default();
            let number = generation.map_or(0, |one| one.number);
            let name = String::from_utf8_lossy(&path);
            let text = format!("{name}: generation {number} cannot be stored: {error}");
            log!(Level::Error, "agent: {text}; it is kept in memory");
            self.troubles.insert(path, (error.raw_os_error().unwrap_or(libc::EIO), text));
            self.failed.push(Failed { area, again: Instant::now() + AGAIN });
        }
        self.registry.stored(area, done);
    }

    /// Tries again what could not be stored.
    pub(super) fn store_again(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<Failed>, _) =
            self.failed.drain(..).partition(|one| one.again <= now);
        self.failed = later;
        due.iter().for_each(|failed| self.registry.store_again(failed.area));
    }

    /// The error of a file that its writer has not been told.
    pub(super) fn trouble(&mut self, path: &[u8]) -> Option<Reply> {
        self.troubles.remove(path).map(|(number, text)| Reply::Failed(number, text))
    }
}
