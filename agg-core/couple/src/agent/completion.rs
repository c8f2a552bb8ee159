//! Generations become complete when nobody can write to them any more, and move, are filled or
//! compared by other threads meanwhile.

use super::LOOKS;
use super::background::{Copying, Done, is_large};
use super::deferred::{After, Ended};
use super::lifecycle::Lifecycle;
use super::spill::number;
use crate::areas::Quiet;
use crate::hosted::{ALL, Hosted};
use crate::peers::{Action, Holder, Key};
use crate::registry::{Area, Directory, State};
use aggio_base::log;
use aggio_base::log::Level;
use std::io;
use std::os::fd::OwnedFd;

impl Lifecycle {
    /// After a description that could write was closed: the kernel tells that before it counts one
    /// fewer, so that a file may be found open that is not.
    pub(super) fn look_again(&mut self, area: Area, looks: u32) {
        self.look(area);
        let generation = self.own.registry.files.generations.get(&area);
        if looks < LOOKS && generation.is_some_and(|one| one.state == State::Writing) {
            self.closing.insert(area, looks + 1);
        }
    }

    /// Makes the memory of a generation that begins with the bytes of another one. Bytes that other
    /// nodes have stay there.
    pub(super) fn make_copy(&mut self, area: Area, mode: u32, source: Area) -> io::Result<()> {
        self.own.hosted.inherit(area, source);
        if !is_large(source, &self.own.memory.areas) {
            return self.make(area, (mode, Some(source)));
        }
        self.make(area, (mode, None))?;
        self.background.copy(area, source, &self.own.memory.areas)
    }

    /// Completes a generation if nobody can write to it any more. An error is its writer's.
    pub(super) fn look(&mut self, area: Area) {
        if let Err(error) = self.look_at(area)
            && let Some(generation) = self.own.registry.files.generations.get(&area)
        {
            self.storage.note_trouble(generation.path.clone(), &error, error.to_string());
        }
    }

    pub(super) fn look_at(&mut self, area: Area) -> io::Result<()> {
        let Some(generation) = self.own.registry.files.generations.get(&area) else {
            return Ok(());
        };
        let is_awaited = self.background.fills(area)
            || self.own.hosted.get(area).is_some_and(|one| !one.writers.is_empty())
            || self.is_promised(area);
        if is_awaited || generation.state != State::Writing {
            return Ok(());
        }
        let opens = &self.own.registry.opens;
        let is_quiet = match self.own.memory.areas.is_quiet(area) {
            Quiet::Yes => true,
            Quiet::No => false,
            Quiet::Unknown => !opens.values().any(|open| open.area == area && open.write),
        };
        // Bytes of a process that dies before this is complete are void: its end is yet to come.
        if !is_quiet || self.clients.any_dies(&generation.writers.processes) {
            return Ok(());
        }
        let (copy_of, written) = (generation.copy_of, generation.writers.written);
        self.own.registry.files.generations.end(area);
        if self.own.must_be_here(area) && self.pulls_first(area, &[ALL], After::Look(area)).is_ok()
        {
            return Ok(());
        }
        self.own.memory.note_peak();
        if let Err(error) = self.own.memory.areas.trim(area) {
            log!(Level::Debug, "agent: memory that nobody wrote to is kept: {error}");
        }
        // The memory here does not show bytes that other nodes have.
        let has_other_parts = copy_of.is_some_and(|from| self.own.hosted.differ(area, from));
        let changed = if written || has_other_parts {
            Some(true)
        } else {
            self.background.is_changed(area, copy_of, &self.own.memory.areas)
        };
        changed.map_or(Ok(()), |changed| self.complete(area, changed))
    }

    /// A generation is complete; `changed` says whether it differs from the one as a copy of which
    /// it began.
    fn complete(&mut self, area: Area, changed: bool) -> io::Result<()> {
        self.own.registry.commit(area, changed);
        let stat = self.own.memory.areas.stat(area, 0).unwrap_or_default();
        for holder in self.own.hosted.complete(area) {
            self.say(holder.peer, crate::peers::Message::Released(holder.area));
        }
        let (bytes, hosted) = (512 * stat.blocks, self.own.hosted.get(area));
        let elsewhere = hosted.map_or(0, |one| one.located.largest_share());
        self.own.registry.files.weigh(area, elsewhere.max(bytes));
        self.own.memory.spares.note(area, bytes, bytes >= stat.size / 8 * 7);
        self.own.memory.written += stat.size;
        self.tell_readers(area);
        self.actions.push(Action::Complete(area));
        let (registry, areas) = (&mut self.own.registry, &self.own.memory.areas);
        self.survivors.keep(area, registry, areas, &self.clients)
    }

    /// Stores a generation in the background.
    pub(super) fn store(&mut self, area: Area, path: Vec<u8>) {
        let after = After::Store(area, path);
        let Err(After::Store(area, path)) = self.pulls_first(area, &[ALL], after) else { return };
        if !self.own.registry.files.is_storing(area, &path) {
            return;
        }
        let file = self.own.memory.areas.open(area, true, false, false);
        if let Err(error) = file.and_then(|file| self.storage.store(area, file, path)) {
            self.storage.stored(area, Err(error), &mut self.own.registry);
        }
    }

    /// Lets a thread write the bytes of a generation to a directory, and the nodes that have other
    /// bytes do the same.
    pub(super) fn move_out(&mut self, area: Area, directory: &Directory) {
        let hosted = self.own.hosted.host(area);
        let holders = hosted.located.holders();
        hosted.begin_move(holders.clone());
        let order = |holder| Action::Spill(holder, directory.to_string());
        self.actions.extend(holders.into_iter().map(order));
        let from = self.own.memory.areas.open(area, true, false, false);
        let ordered = from.and_then(|from| {
            let folder = self.folders.open(directory)?.try_clone()?;
            self.background.take(area, from, folder)
        });
        if let Err(error) = ordered {
            self.own.hosted.moved_here(area, Err(error));
            self.end_moves();
        }
    }

    /// A node has moved the bytes that it keeps: the number of its error, or 0.
    pub(super) fn has_moved(&mut self, holder: Holder, error: i32) {
        self.own.hosted.moved(holder, error);
        self.end_moves();
    }

    /// Goes on with generations that all nodes have moved, or could not.
    pub(super) fn end_moves(&mut self) {
        while let Some((area, result)) = self.own.hosted.next_moved() {
            let last = self.own.registry.numbers.peek();
            match result.and_then(|file| self.own.memory.areas.replace(area, file, last)) {
                Ok(()) => {
                    self.own.hosted.get_mut(area).into_iter().for_each(Hosted::has_moved);
                    self.own.registry.files.moved(area, last);
                }
                Err(error) => self.folders.has_refused(area, &error, &mut self.own.registry),
            }
        }
    }

    /// Lets a thread write kept bytes of a generation of another node to a directory.
    pub(super) fn move_kept(
        &mut self,
        key: Key,
        files: io::Result<Vec<(u64, OwnedFd)>>,
        directory: &str,
    ) {
        let ordered = match files {
            Ok(files) if files.is_empty() => {
                return self.actions.push(Action::MovedKept(key, Ok(files)));
            }
            files => files.and_then(|files| {
                let folder = self.folders.open(&directory.into())?.try_clone()?;
                self.background.take_kept(key, files, folder)
            }),
        };
        if let Err(error) = ordered {
            self.has_moved_kept(key, Err(error));
        }
    }

    /// They have moved, or could not.
    fn has_moved_kept(&mut self, key: Key, result: io::Result<Vec<(u64, OwnedFd)>>) {
        let result = result.map_err(|error| {
            log!(Level::Warn, "agent: bytes that stay on this node cannot move: {error}");
            number(&error)
        });
        self.actions.push(Action::MovedKept(key, result));
    }

    /// Handles the results of other threads.
    pub(super) fn hear_background(&mut self) {
        for done in self.background.results() {
            match done {
                Done::Copied(area, result) => self.has_filled(area, result),
                Done::Moved(area, result) => {
                    self.own.hosted.moved_here(area, result);
                    self.end_moves();
                }
                Done::MovedKept(key, result) => self.has_moved_kept(key, result),
                Done::Compared(area, same) => {
                    self.background.compared(area, same);
                    self.look(area);
                    self.background.forget_compared(area);
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
        let opens = waiting.into_iter();
        self.ended.extend(opens.map(|(waiting, opening)| Ended::Open(failed, waiting, opening)));
        self.ended.push_back(Ended::Ready(After::Look(area)));
    }
}
