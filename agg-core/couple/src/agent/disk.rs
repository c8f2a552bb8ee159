//! Generations that are stored on disk: orders to the thread that does it, and its errors.

use super::Agent;
use crate::keeper::Keeper;
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
        let file = self.areas.open(area, true, false, false);
        let ordered = file.and_then(|file| {
            self.keeper()?.store(area, file, path);
            Ok(())
        });
        if let Err(error) = ordered {
            self.note_stored(area, Err(error));
        }
    }

    /// Removes a stored file in the background.
    pub(super) fn remove_stored(&mut self, path: Vec<u8>) {
        match self.keeper() {
            Ok(keeper) => keeper.remove(path),
            Err(error) => log!(Level::Error, "agent: a file cannot be removed: {error}"),
        }
    }

    /// Hears what was stored.
    pub(super) fn hear_keeper(&mut self) {
        let results = self.keeper.as_mut().map(Keeper::results).unwrap_or_default();
        for (area, result) in results {
            self.note_stored(area, result);
        }
    }

    fn note_stored(&mut self, area: Area, result: io::Result<()>) {
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

    /// Tells the registry how much memory there is.
    pub(super) fn measure(&mut self) {
        self.registry.measure(self.areas.bytes(), self.limit);
    }
}

/// Bytes of memory that this computer has; 0 if that is unknown.
pub(super) fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}
