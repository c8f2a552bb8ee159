//! Generations become complete when nobody can write to them any more, and move, are filled or
//! compared by other threads meanwhile.

use super::background::{Copying, Done, is_large};
use super::deferred::After;
use super::{Agent, LOOKS};
use crate::areas::Quiet;
use crate::hosted::{ALL, Hosted};
use crate::registry::{Area, Directory, State};
use aggio_base::log;
use aggio_base::log::Level;
use std::io;
use std::os::fd::OwnedFd;

impl Agent {
    /// After a description that could write was closed: the kernel tells that before it counts one
    /// fewer, so that a file may be found open that is not.
    pub(super) fn look_again(&mut self, area: u64, looks: u32) {
        self.look(area);
        let generation = self.own.registry.files.generations.get(&area);
        if looks < LOOKS && generation.is_some_and(|one| one.state == State::Writing) {
            self.closing.insert(area, looks + 1);
        }
    }

    /// Makes the memory of a generation that begins with the bytes of another one. Bytes that other
    /// nodes have stay there.
    pub(super) fn make_copy(&mut self, area: u64, mode: u32, source: u64) -> io::Result<()> {
        self.own.hosted.inherit(area, source);
        if !is_large(source, &self.own.memory.areas) {
            let copy_of = (mode, Some(source));
            return self.own.memory.make(area, copy_of, &self.own.registry, &mut self.survivors);
        }
        self.own.memory.make(area, (mode, None), &self.own.registry, &mut self.survivors)?;
        self.background.copy(area, source, &self.own.memory.areas)
    }

    /// Completes a generation if nobody can write to it any more. An error is its writer's.
    pub(super) fn look(&mut self, area: u64) {
        if let Err(error) = self.look_at(area)
            && let Some(generation) = self.own.registry.files.generations.get(&area)
        {
            self.storage.note_trouble(generation.path.clone(), &error, error.to_string());
        }
    }

    pub(super) fn look_at(&mut self, area: u64) -> io::Result<()> {
        let Some(generation) = self.own.registry.files.generations.get(&area) else {
            return Ok(());
        };
        if self.background.fills(area)
            || self.own.hosted.get(area).is_some_and(Hosted::is_written)
            || self.waits.is_promised(area)
        {
            return Ok(());
        }
        let is_open =
            || self.own.registry.opens.values().any(|open| open.area == area && open.write);
        let quiet = generation.state == State::Writing
            && match self.own.memory.areas.is_quiet(area) {
                Quiet::Yes => true,
                Quiet::No => false,
                Quiet::Unknown => !is_open(),
            };
        // Bytes of a process that dies before this is complete are void: its end is yet to come.
        if quiet && !self.clients.any_dies(&generation.writers.processes) {
            if self.own.must_be_here(area)
                && self.pulls_first(area, &[ALL], After::Look(area)).is_ok()
            {
                return Ok(());
            }
            let Some(generation) = self.own.registry.files.generations.get(&area) else {
                return Ok(());
            };
            let (copy_of, written) = (generation.copy_of, generation.writers.written);
            self.own.memory.note_peak();
            if let Err(error) = self.own.memory.areas.trim(area) {
                log!(Level::Debug, "agent: memory that nobody wrote to is kept: {error}");
            }
            let changed = if written {
                Some(true)
            } else {
                self.background.is_changed(area, copy_of, &self.own.memory.areas)
            };
            let Some(changed) = changed else { return Ok(()) };
            self.own.registry.commit(area, changed);
            let stat = self.own.memory.areas.stat(area, 0).unwrap_or_default();
            let elsewhere = self.note_shares(area);
            self.own.registry.files.weigh(area, elsewhere.max(512 * stat.blocks));
            self.own.memory.spares.note(
                area,
                512 * stat.blocks,
                512 * stat.blocks >= stat.size / 8 * 7,
            );
            self.own.memory.written += stat.size;
            self.tell_readers(area);
            self.push_own(area);
            self.offer(area, stat.size, stat.mode & 0o7777);
            return self.survivors.keep(
                area,
                &mut self.own.registry,
                &self.own.memory.areas,
                &self.clients,
            );
        }
        Ok(())
    }

    /// Stores a generation in the background.
    pub(super) fn store(&mut self, area: Area, path: Vec<u8>) {
        let after = After::Store(area, path);
        let Err(After::Store(area, path)) = self.pulls_first(area, &[ALL], after) else { return };
        let file = self.own.memory.areas.open(area, true, false, false);
        if let Err(error) = file.and_then(|file| self.storage.store(area, file, path)) {
            self.storage.stored(area, Err(error), &mut self.own.registry);
        }
    }

    /// Lets a thread write the bytes of a generation to a directory.
    pub(super) fn move_out(&mut self, area: Area, directory: &Directory) {
        self.move_kept_out(area, directory);
        let from = self.own.memory.areas.open(area, true, false, false);
        let ordered = from.and_then(|from| {
            let folder = self.folders.open(directory)?.try_clone()?;
            self.background.take(area, from, folder)
        });
        if let Err(error) = ordered {
            self.has_moved_own(area, Err(error));
        }
    }

    /// The bytes of a generation are in its directory, or could not be written there.
    pub(super) fn has_moved(&mut self, area: Area, result: io::Result<OwnedFd>) {
        let last = self.own.registry.numbers.peek();
        match result.and_then(|file| self.own.memory.areas.replace(area, file, last)) {
            Ok(()) => {
                self.own.hosted.get_mut(area).into_iter().for_each(Hosted::has_moved);
                self.own.registry.files.moved(area, last);
            }
            Err(error) => self.folders.has_refused(area, &error, &mut self.own.registry),
        }
        self.settle();
    }

    /// Handles the results of other threads.
    pub(super) fn hear_background(&mut self) {
        for done in self.background.results() {
            match done {
                Done::Copied(area, result) => self.has_filled(area, result),
                Done::Moved(area, result) => self.has_moved_own(area, result),
                Done::MovedKept(key, result) => self.have_moved_kept(key, result),
                Done::Compared(area, same) => {
                    self.background.compared(area, same);
                    self.look(area);
                    self.background.forget_compared(area);
                    self.settle();
                }
            }
        }
    }

    fn has_filled(&mut self, area: Area, result: io::Result<()>) {
        let Some(Copying { waiting, cut }) = self.background.filled(area) else { return };
        let result = result.and_then(|()| match cut {
            true => self.own.memory.areas.empty(area),
            false => self.own.memory.areas.is_copied(area),
        });
        let failed = result.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
        for (waiting, opening) in waiting {
            self.hand_over_if(failed, &waiting, opening);
        }
        self.look(area);
        self.settle();
    }
}
