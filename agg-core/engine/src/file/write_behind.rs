//! Write-behind: with the hint `aggio_defer`, writes are copied and flushed together when the file
//! is synchronised or closed, when all ranks read, or when this rank needs them in the file.
//!
//! An independent operation never needs another rank: a rank may always flush its own writes. All
//! ranks defer the same files, so that their collective calls stay the same.
//!
//! Bytes that announce others, such as the header of a netCDF file, reach the file after all bytes
//! buffered with them, including those of other ranks. So they stay buffered when a rank flushes by
//! itself, unless it has to see them.

use super::data::Request;
use super::deferring::Name;
use super::{Direction, File};
use crate::Engine;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::transport::Identity;
use aggio_config::hints::Switch;
use aggio_plan::plan::cost::Costs;
use aggio_staging::pending::{Choice, Pending, Spill};
use aggio_staging::write_behind::{Room, Waiting};
use aggio_store::driver::{Driver, Outcome};
use aggio_store::independent::Strategy;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Engine {
    /// Whether any file of this engine defers.
    pub(super) fn somebody_defers(&self) -> bool {
        self.deferring.count() > 0
    }

    /// Other handles of the process `played` for the file `path`.
    pub(super) fn others(&self, path: &str, played: usize, own: Option<&File>) -> Vec<Arc<File>> {
        let path = own.map_or_else(|| Name::of(self.drivers(), path), |own| own.name().clone());
        self.deferring.change(|all| {
            all.retain(|(_, file)| file.strong_count() > 0);
            let same = all.iter().filter(|(name, _)| *name == path);
            let another = |file: &Arc<File>| {
                own.is_none_or(|own| !std::ptr::eq(own, &**file))
                    && file.transport.played() == played
            };
            same.filter_map(|(_, file)| file.upgrade()).filter(another).collect()
        })
    }

    /// Flushes the buffered writes of other handles of the process `played` for the file `path`.
    /// Bytes that cannot be stored stay buffered there, and the error is theirs.
    pub(super) fn drain_others(&self, path: &str, played: usize, own: Option<&File>) {
        if self.somebody_defers() {
            // The next sync or close of that handle reports the error again.
            self.others(path, played, own).iter().for_each(|file| drop(file.drain()));
        }
    }
}

impl File {
    /// Registers the file among those that defer.
    pub(super) fn announce(self: &Arc<Self>) {
        let _ = self.me.set(Arc::downgrade(self));
        if self.waiting.is_some() {
            let spill = self.spill();
            if let Some(mut waiting) = self.waiting() {
                waiting.spill = spill;
            }
        }
        let may_defer = self.state().hints.hints.aggio_defer == Switch::Enable;
        if may_defer || self.engine.somebody_defers() {
            let name = self.name().clone();
            self.engine.deferring.change(|all| all.push((name, Arc::downgrade(self))));
        }
    }

    /// The identity of the open file, even if its name now leads to another file.
    fn name(&self) -> &Name {
        self.name.get_or_init(|| match self.driver.identity() {
            Some(Identity { device, inode }) => Name::File(device, inode),
            None => Name::of(self.engine.drivers(), &self.place),
        })
    }

    /// Other handles of this process for the file.
    pub(super) fn others(&self) -> Vec<Arc<File>> {
        self.engine.others(&self.place, self.transport.played(), Some(self))
    }

    /// Flushes the buffered writes of other handles; see [`Engine::drain_others`].
    pub(super) fn drain_others(&self) {
        self.engine.drain_others(&self.place, self.transport.played(), Some(self));
    }

    /// Whether writes wait, or may with another handle of this process.
    pub(super) fn may_be_kept(&self) -> bool {
        self.engine.somebody_defers() && (self.waiting.is_some() || !self.others().is_empty())
    }

    /// The file is closed: removes it from those that defer.
    pub(super) fn withdraw(&self) {
        self.engine.deferring.change(|all| {
            all.retain(|(_, file)| !std::ptr::eq(file.as_ptr(), self));
        });
    }

    pub(super) fn waiting(&self) -> Option<MutexGuard<'_, Waiting>> {
        let waiting = self.waiting.as_ref()?;
        Some(waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a write now is kept back.
    pub(super) fn defers(&self) -> bool {
        self.waiting.is_some() && !self.state().atomic
    }

    /// Buffers a write. The program may change its memory afterwards.
    pub(super) fn keep(&self, request: Result<Request>, is_collective: bool) -> Outcome {
        // Each rank counts the call, even with wrong arguments.
        let moment = self.waiting().map(|mut waiting| waiting.moment(is_collective));
        let kept = request.and_then(|request| {
            self.count_pieces(&request);
            let stream = request.stream()?;
            self.come_after_others(request.span())?;
            if self.holders.is_none() {
                self.make_room(request.len)?;
            }
            self.look_at_pieces(&request.view, request.position, stream.memory(), request.len);
            if let Some(mut waiting) = self.waiting() {
                let pending = &mut waiting.pending;
                let (view, moment) = (&request.view, moment.unwrap_or_default());
                pending.add(view, request.position, stream.memory(), request.len, moment)?;
                waiting.tell(self.holders.as_ref());
                if let Some(hold) = waiting.hold() {
                    hold.set_last(false);
                }
            }
            Counters::add(&self.counters.deferred, 1);
            Ok(stream.finish(Outcome { bytes: request.len, result: Ok(()) }))
        });
        kept.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
    }

    /// Whether the file is not open a second time in this process.
    pub(super) fn is_only_handle(&self) -> bool {
        self.defers_alone() || self.others().is_empty()
    }

    /// Whether no other file of this process defers.
    pub(super) fn defers_alone(&self) -> bool {
        self.engine.deferring.count() <= usize::from(self.waiting.is_some())
    }

    /// Before a write of `span`: flushes buffered writes of other handles of this process that
    /// overlap it, so that the later of two writes wins, as without deferred writes.
    ///
    /// # Errors
    /// The system's error; otherwise the older bytes would overwrite the newer ones.
    fn come_after_others(&self, span: Extent) -> Result<()> {
        if self.defers_alone() {
            return Ok(());
        }
        let others = self.others();
        others.iter().filter(|file| file.keeps(span)).try_for_each(|file| {
            file.drain()?;
            // Nor is it written once more.
            file.waiting().map_or(Ok(()), |mut waiting| waiting.release())
        })
    }

    /// Before a read or write of `span`: flushes buffered writes of other handles of this process
    /// that must come first.
    ///
    /// # Errors
    /// As [`File::come_after_others`].
    pub(super) fn heed_others(&self, direction: Direction, span: Extent) -> Result<()> {
        match direction {
            Direction::Read if self.defers_alone() => Ok(()),
            Direction::Read => {
                self.drain_others();
                Ok(())
            }
            Direction::Write => self.come_after_others(span),
        }
    }

    /// Whether `more` bytes have room beside the buffered writes, in memory or in a file.
    pub(super) fn finds_room(&self, more: u64) -> bool {
        let (memory, storage) = {
            let hints = &self.state().hints.hints;
            (hints.aggio_defer_buffer, hints.aggio_defer_spill)
        };
        let Some(mut waiting) = self.waiting() else { return false };
        match waiting.room(more, memory, storage, || self.cheap_piece()) {
            Room::InMemory => true,
            Room::InFile => {
                Counters::add(&self.counters.spilled, 1);
                true
            }
            Room::None => false,
        }
    }

    /// If memory has no room for `more` bytes beside the buffered writes, spills to a file or
    /// flushes.
    fn make_room(&self, more: u64) -> Result<()> {
        if self.finds_room(more) {
            return Ok(());
        }
        self.drain_but(self.last_bytes())?;
        self.waiting().map_or(Ok(()), |mut waiting| waiting.release())
    }

    /// Bytes of a piece from which on a request of its own costs less than another copy of it.
    fn cheap_piece(&self) -> u64 {
        // On a local file system the time of requests of some length shows mostly the cost of new
        // pages.
        let measured = self.driver.meter().filter(|meter| !meter.is_local());
        let assumed = Costs::assumed(&self.facts.file_system);
        2 * measured.map_or(assumed, |meter| meter.writes.figures()).request_in_bytes()
    }

    /// The place for spilled bytes. There is none if this is the only rank, which can flush by
    /// itself at any time, or if independent writes are as fast. So much of the file system stays
    /// free beside the spilled bytes that all buffered bytes have room there in the end.
    fn spill(&self) -> Option<Spill> {
        let is_of_use = self.transport.size() > 1
            && !self.facts.has_logs
            && !self.facts.is_staged
            && !self.logs;
        let hints = &self.state().hints.hints;
        let of_rank = hints.aggio_defer_buffer.saturating_add(hints.aggio_defer_spill);
        let spare = of_rank.saturating_mul(self.transport.size() as u64);
        is_of_use.then(|| Spill::beside(self.engine.drivers().path_of(&self.place), spare))
    }

    /// Writes out the buffered writes of this rank, without the others.
    ///
    /// # Errors
    /// The system's error; then all writes stay buffered.
    pub(super) fn drain(&self) -> Result<()> {
        self.drain_but(Extent::default())
    }

    /// As [`File::drain`], but bytes of `last` stay buffered.
    pub(super) fn drain_but(&self, last: Extent) -> Result<()> {
        let Some(mut waiting) = self.waiting() else { return Ok(()) };
        match self.write_all_out(&waiting, last) {
            // The files may have taken it.
            Err(error) if is_no_room(&error) && waiting.pending.recall().unwrap_or(false) => {
                self.write_all_out(&waiting, last)?;
            }
            result => result?,
        }
        waiting.pending.note_saved(last);
        if self.holders.is_some() {
            return self.note_alone(&mut waiting, last);
        }
        if self.transport.size() == 1 {
            // No other rank can have written the same bytes.
            waiting.release()?;
            waiting.claims = Pending::default();
        }
        Ok(())
    }

    /// Writes the buffered writes, except bytes of `last`.
    fn write_all_out(&self, waiting: &Waiting, last: Extent) -> Result<()> {
        let choice = Choice { keep: last, ..Choice::default() };
        // A collective flush in progress may reach the file later than these writes, so they are
        // written once more then.
        if let Some(flying) = waiting.unwritten_flight() {
            self.write_out(flying, &choice)?;
        }
        self.write_out(&waiting.pending, &choice)
    }

    /// Writes the chosen part of `pending`; bytes that must be stored last are written at the end.
    fn write_out(&self, pending: &Pending, choice: &Choice<'_>) -> Result<()> {
        if pending.is_empty() {
            return Ok(());
        }
        let writes = pending.as_two_writes(self.last_bytes(), choice)?;
        if writes.iter().any(|(_, memory)| !memory.is_empty()) {
            Counters::add(&self.counters.flushes, 1);
        }
        writes.iter().try_for_each(|(view, memory)| self.store(view, memory))
    }

    /// Writes the independent writes of this rank once more, over those that all ranks have made
    /// meanwhile.
    pub(super) fn write_saved_again(&self, pending: &Pending) -> Result<()> {
        if pending.is_saved() {
            let all = [Extent::between(0, u64::MAX)];
            return self.write_out(pending, &Choice { again: &all, ..Choice::default() });
        }
        Ok(())
    }

    /// Writes `memory` through `view`.
    fn store(&self, view: &View, memory: &Memory) -> Result<()> {
        if memory.is_empty() {
            return Ok(());
        }
        let strategy = Strategy::from_hints(&self.hints());
        self.wrote.store(true, Ordering::Release);
        let driver: &dyn Driver = &*self.driver;
        driver.write_strided(view, 0, memory, &strategy, &self.counters).result
    }

    /// Before this rank alone reads, or writes in another way: flushes its buffered writes. A read
    /// leaves bytes buffered that must be stored last, if they are not in `span`.
    pub(super) fn settle_own(&self, direction: Direction, span: Option<Extent>) -> Result<()> {
        self.heed_others(direction, span.unwrap_or_default())?;
        let untouched = {
            let Some(waiting) = self.waiting() else { return Ok(()) };
            // A write comes after all that waited, which it may announce.
            match span.filter(|_| direction == Direction::Read && self.holders.is_some()) {
                Some(span) => waiting.untouched(span).map(|hull| (hull, span)),
                None if waiting.is_idle() => return Ok(()),
                None => None,
            }
        };
        if untouched.is_some_and(|(hull, span)| !self.ends_before(hull, span)) {
            return Ok(());
        }
        let last = self.last_bytes();
        match span {
            Some(span) if direction == Direction::Read && !self.awaits(span.intersect(last)) => {
                self.drain_but(last)
            }
            _ => {
                self.drain()?;
                match (direction, self.waiting()) {
                    // The following write is newer: buffered writes must not be written over it.
                    (Direction::Write, Some(mut waiting)) => waiting.release(),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Whether bytes of `extent` wait, or are being written just now.
    fn awaits(&self, extent: Extent) -> bool {
        self.waiting().is_some_and(|waiting| {
            let flying = waiting.unwritten_flight();
            waiting.pending.awaits(extent) || flying.is_some_and(|flying| flying.touches(extent))
        })
    }

    /// As [`File::awaits`], or are kept although they are in the file.
    fn keeps(&self, extent: Extent) -> bool {
        self.awaits(extent) || self.waiting().is_some_and(|waiting| waiting.pending.touches(extent))
    }

    /// Called when the file is closed and the collective write failed with `error`: stores the
    /// bytes that this rank may store alone, and gives up the rest.
    pub(super) fn save_or_lose(&self, error: Error) -> Error {
        if self.holders.is_some() {
            // The rest is reported as lost.
            drop(self.drain_but(self.last_bytes()));
        }
        self.lose(error)
    }

    /// Gives up the buffered writes, because the file is closed; `error` is the reason.
    pub(super) fn lose(&self, error: Error) -> Error {
        let Some(mut waiting) = self.waiting() else { return error };
        let bytes = waiting.give_up();
        if bytes == 0 {
            return error;
        }
        let text = format!("{bytes} bytes that waited are not stored: {error}");
        Error::new(error.class(), text).with_errno(error.errno())
    }
}

/// Whether `error` means that there was no room.
pub(super) fn is_no_room(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::NoSpace | ErrorClass::Quota)
}
