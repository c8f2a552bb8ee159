//! Writes that wait: with the hint `aggio_defer` they are copied, and reach the file together when it is
//! synchronised or closed, when all ranks read, or when this rank needs them there.
//!
//! Nothing that a rank does alone needs another one: it may always write out what is its own. All ranks
//! defer the same files, so that their collective calls stay the same.

use super::data::Request;
use super::{Direction, File};
use crate::driver::{Driver, Outcome, absolute};
use crate::error::{Error, Result};
use crate::exchange;
use crate::independent::Strategy;
use crate::pending::Pending;
use crate::report::Counters;
use crate::tags::TagBlock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Pieces that may wait: planning one write of them takes memory for each.
const PIECES: u64 = 4_000_000;

/// Files of this process that defer, by their absolute names: the same file may be open several times.
static DEFERRING: Mutex<Vec<(String, Weak<File>)>> = Mutex::new(Vec::new());
/// How many there are, about.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn list() -> MutexGuard<'static, Vec<(String, Weak<File>)>> {
    DEFERRING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes out what other handles of the process `played` hold back of the file `path`. What cannot be stored
/// stays with them, and is their error.
pub(super) fn drain_others(path: &str, played: usize, own: Option<&File>) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let path = absolute(path);
    let same: Vec<Arc<File>> = {
        let mut all = list();
        all.retain(|(_, file)| file.strong_count() > 0);
        COUNT.store(all.len(), Ordering::Release);
        all.iter().filter(|(name, _)| *name == path).filter_map(|(_, f)| f.upgrade()).collect()
    };
    for file in same {
        let another = own.is_none_or(|own| !std::ptr::eq(own, &*file));
        if another && file.transport.played() == played {
            // The handle's own next sync or close tells it again.
            let _ = file.drain();
        }
    }
}

impl File {
    /// Makes the file known as one that defers.
    pub(super) fn announce(self: &Arc<Self>) {
        if self.pending.is_some() {
            let mut all = list();
            all.push((absolute(&self.path), Arc::downgrade(self)));
            COUNT.store(all.len(), Ordering::Release);
        }
    }

    fn waiting(&self) -> Option<MutexGuard<'_, Pending>> {
        let pending = self.pending.as_ref()?;
        Some(pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a write now is kept back.
    pub(super) fn defers(&self) -> bool {
        self.pending.is_some() && !self.state().atomic
    }

    /// The tags of a flush before a collective call, if one is needed.
    pub(super) fn flush_tags(&self) -> Option<TagBlock> {
        self.pending.is_some().then(|| self.tags.next())
    }

    /// Takes a write in, whose bytes the program may change afterwards.
    pub(super) fn keep(&self, request: Result<Request>) -> Outcome {
        let kept = request.and_then(|request| {
            self.count_pieces(&request);
            let stream = request.stream()?;
            self.make_room(request.len)?;
            if let Some(mut pending) = self.waiting() {
                pending.add(&request.view, request.position, stream.memory(), request.len)?;
            }
            Counters::add(&self.counters.deferred, 1);
            Ok(stream.finish(Outcome { bytes: request.len, result: Ok(()) }))
        });
        kept.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
    }

    /// Writes out what waits if `more` bytes are too many beside it.
    fn make_room(&self, more: u64) -> Result<()> {
        let most = self.state().hints.hints.aggio_defer_buffer;
        let full = self.waiting().is_some_and(|pending| {
            !pending.is_empty()
                && (pending.bytes().saturating_add(more) > most || pending.pieces() > PIECES)
        });
        if full { self.drain() } else { Ok(()) }
    }

    /// Writes out what waits on this rank, without the others.
    ///
    /// # Errors
    /// What the system says; then everything waits still.
    pub(super) fn drain(&self) -> Result<()> {
        let Some(mut pending) = self.waiting() else { return Ok(()) };
        if pending.is_empty() {
            return Ok(());
        }
        let (view, memory) = pending.as_one_write()?;
        let strategy = Strategy::from_hints(&self.state().hints.hints.clone());
        self.wrote.store(true, Ordering::Release);
        let driver: &dyn Driver = &*self.driver;
        driver.write_strided(&view, 0, &memory, &strategy, &self.counters).result?;
        Counters::add(&self.counters.flushes, 1);
        *pending = Pending::default();
        Ok(())
    }

    /// Writes out what waits on all ranks, as one collective write.
    ///
    /// # Errors
    /// What the system says, on every rank; then everything waits still.
    pub(super) async fn flush(&self, tags: Option<TagBlock>) -> Result<()> {
        let Some(tags) = tags else { return Ok(()) };
        drain_others(&self.path, self.transport.played(), Some(self));
        if self.transport.size() == 1 {
            return self.drain();
        }
        let taken = self.waiting().map(|mut pending| std::mem::take(&mut *pending));
        let taken = taken.unwrap_or_default();
        let hints = self.hints();
        let write = taken.as_one_write();
        let mine = match &write {
            Ok((view, memory)) => Ok(exchange::Request { view, position: 0, memory }),
            Err(error) => Err(error.clone()),
        };
        self.wrote.store(true, Ordering::Release);
        let outcome = exchange::write(self.scene(&hints, false), mine, &tags).await;
        if !taken.is_empty() {
            Counters::add(&self.counters.flushes, 1);
        }
        drop(write);
        if outcome.result.is_err()
            && let Some(mut pending) = self.waiting()
        {
            pending.put_back(taken);
        }
        outcome.result
    }

    /// Before this rank alone reads, or writes in another way: what waits is in the file.
    pub(super) fn settle_own(&self, direction: Direction) -> Result<()> {
        if direction == Direction::Read {
            drain_others(&self.path, self.transport.played(), Some(self));
        }
        self.drain()
    }

    /// What a rank that ends without closing the file has not written.
    pub(super) fn lost(&self, error: &Error) -> Option<Error> {
        let bytes = self.waiting()?.bytes();
        let text = format!("{bytes} bytes that waited are not stored: {error}");
        (bytes > 0).then(|| Error::new(error.class(), text).with_errno(error.errno()))
    }
}
