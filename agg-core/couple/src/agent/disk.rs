//! Generations that are stored on disk: orders to the thread that does it, and its errors.

use crate::persistence::{Done, Job, carry_out};
use crate::protocol::Reply;
use crate::registry::{Area, Path, Registry};
use crate::worker::Worker;
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// How long until a file that could not be stored is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Files on their way to the disk, and those that did not get there.
#[derive(Debug, Default)]
pub(super) struct Storage {
    worker: Option<Worker<Job, Done>>,
    /// Orders that have not been carried out.
    pending: usize,
    /// Generations that could not be stored, and when that is tried again.
    failed: Vec<(Area, Instant)>,
    /// Errors of files that their writers have not been told.
    troubles: BTreeMap<Path, (i32, String)>,
}

impl Storage {
    fn order(&mut self, job: Job) -> io::Result<()> {
        if self.worker.is_none() {
            self.worker = Some(Worker::start("aggio-keeper", carry_out)?);
        }
        if !self.worker.as_ref().is_some_and(|worker| worker.order(job)) {
            return Err(io::Error::other("the thread that stores generations has ended"));
        }
        self.pending += 1;
        Ok(())
    }

    /// Readable when something is done; -1 before anything is to be done.
    pub(super) fn events(&self) -> RawFd {
        self.worker.as_ref().map_or(-1, |worker| worker.results.events())
    }

    /// Whether something is on its way to the disk.
    pub(super) fn is_busy(&self) -> bool {
        self.pending > 0
    }

    /// Stores a generation in the background.
    ///
    /// # Errors
    /// There is no thread that could.
    pub(super) fn store(&mut self, area: Area, file: OwnedFd, path: Path) -> io::Result<()> {
        self.order(Job::Store(area, file, path))
    }

    /// Removes a stored file in the background.
    pub(super) fn remove(&mut self, path: Path) {
        let ordered = self.order(Job::Remove(path.clone()));
        self.removed(path, ordered);
    }

    /// Handles results.
    pub(super) fn hear(&mut self, registry: &mut Registry) {
        let results = self.worker.as_ref().map(|worker| worker.results.take());
        for done in results.into_iter().flatten() {
            self.pending -= 1;
            match done {
                Done::Stored(area, path, result) => {
                    // One that was renamed meanwhile is stored again under its new name.
                    let generation = registry.files.generations.get(&area);
                    if generation.is_none_or(|one| one.path == path) {
                        self.stored(area, result, registry);
                    }
                }
                Done::Removed(path, result) => self.removed(path, result),
            }
        }
    }

    fn removed(&mut self, path: Path, result: io::Result<()>) {
        let Err(error) = result else { return };
        let name = String::from_utf8_lossy(&path);
        let text = format!("{name}: what was stored cannot be removed: {error}");
        log!(Level::Error, "agent: {text}");
        self.note_trouble(path, &error, text);
    }

    /// A generation is stored, or cannot be.
    pub(super) fn stored(&mut self, area: Area, result: io::Result<()>, registry: &mut Registry) {
        let done = result.is_ok();
        if let Err(error) = result {
            let generation = registry.files.generations.get(&area);
            let path = generation.map(|one| one.path.clone()).unwrap_or_default();
            let number = generation.map_or(0, |one| one.number);
            let name = String::from_utf8_lossy(&path);
            let text = format!("{name}: generation {number} cannot be stored: {error}");
            log!(Level::Error, "agent: {text}; it is kept in memory");
            self.note_trouble(path, &error, text);
            self.failed.push((area, Instant::now() + AGAIN));
        }
        registry.stored(area, done);
    }

    /// When something is to be tried again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.failed.iter().map(|(_, again)| *again).min()
    }

    /// Tries again to store files that could not be stored.
    pub(super) fn try_again(&mut self, registry: &mut Registry) {
        let now = Instant::now();
        let due = self.failed.extract_if(.., |(_, again)| *again <= now);
        due.for_each(|(area, _)| registry.files.store_again(area));
    }

    /// Keeps an error for the writer of a file.
    pub(super) fn note_trouble(&mut self, path: Path, error: &io::Error, text: String) {
        self.troubles.insert(path, (error.raw_os_error().unwrap_or(libc::EIO), text));
    }

    /// The error of a file that its writer has not been told.
    pub(super) fn trouble(&mut self, path: &[u8]) -> Option<Reply> {
        self.troubles.remove(path).map(|(number, text)| Reply::Failed(number, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_stored_is_told_once_and_tried_again() {
        let (mut storage, mut registry) = (Storage::default(), Registry::behind(0));
        assert_eq!((storage.events(), storage.is_busy()), (-1, false));
        let path = b"/no/such/directory/f".to_vec();
        let file = tempfile::tempfile().unwrap().into();
        storage.store(7, file, path.clone()).unwrap();
        let began = Instant::now();
        while storage.is_busy() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
            storage.hear(&mut registry);
        }
        // The registry does not know the generation any more.
        let Some(Reply::Failed(libc::ENOENT, text)) = storage.trouble(b"") else { panic!() };
        assert!(text.starts_with(": generation 0 cannot be stored: "), "{text}");
        assert_eq!(storage.trouble(b""), None);
        assert!(storage.next().is_some_and(|again| again > Instant::now()));
        storage.try_again(&mut registry);
        assert!(storage.next().is_some(), "it is too early");
    }
}
