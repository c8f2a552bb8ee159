//! Copies of generations that other nodes send before the owner says that these are complete.

use super::Replicas;
use crate::peers::Key;
use crate::peers::mapped::Mapped;
use crate::peers::{Action, Away, Sources, Template, Where};
use crate::registry::{Series, series};
use crate::spares::Spare;
use aggio_base::{Extent, os};
use aggio_link::Peer;
use std::io;
use std::os::fd::AsRawFd;

impl Replicas {
    /// Makes a copy that is like the file of an earlier generation, and that no program can open
    /// before it is [confirmed](Self::confirm).
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn begin_early(
        &mut self,
        key: Key,
        template: &Template,
        spare: Option<Spare>,
    ) -> io::Result<()> {
        let Template { path, size, mode, .. } = template;
        let away = Away { area: key.1, size: *size, mode: *mode, ..Away::default() };
        self.make(key, path, &away, spare)?;
        self.all.get_mut(&key).into_iter().for_each(|copy| copy.early = true);
        Ok(())
    }

    /// The owner says that a generation of `size` bytes is complete, and where its bytes are. An
    /// early copy becomes a usual one if its bytes are from there; if not, it is given up.
    /// `words` names the agents of nodes. Without `found` the owner has not said where they are:
    /// returns the places to ask for.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn confirm(
        &mut self,
        key: Key,
        size: u64,
        found: Option<&Where>,
        words: impl Fn(Peer) -> Option<String>,
    ) -> io::Result<Vec<Extent>> {
        let Some(copy) = self.all.get_mut(&key).filter(|copy| copy.early) else {
            return Ok(Vec::new());
        };
        // Bytes on their way are written to the mapping, which must not reach behind the file.
        if size < copy.size {
            self.give_up(key);
            return Ok(Vec::new());
        }
        if size > copy.size {
            copy.size = size;
            let file = self.areas.open(copy.local, true, true, false)?;
            os::ftruncate(file.as_raw_fd(), size)?;
            copy.target = Some(Mapped::of(&file, true)?);
            copy.incoming.pieces.grow(size);
        }
        match found {
            Some(found) => _ = copy.incoming.sources.note(found.clone()),
            None => {
                let places: Vec<_> = copy.incoming.pushed.all().map(|(place, ..)| place).collect();
                copy.early = !places.is_empty();
                return Ok(places);
            }
        }
        let is_from = |(place, peer, report): (Extent, Peer, u64)| {
            are_from(&copy.incoming.sources, key, (place, peer, report), words(peer))
        };
        copy.early = false;
        if !copy.incoming.pushed.all().all(is_from) {
            self.give_up(key);
        }
        Ok(Vec::new())
    }

    /// The open with this ticket waits until the owner has named the nodes with these places of an
    /// early copy.
    pub(crate) fn wait_for_map(
        &mut self,
        key: Key,
        ticket: u64,
        places: Vec<Extent>,
    ) -> Option<Action> {
        let copy = self.all.get_mut(&key)?;
        let is_first = copy.is_unopened();
        copy.waits.waiting.push(ticket);
        if is_first {
            copy.incoming.sources.want(places);
        }
        is_first.then_some(Action::Request(key))
    }

    /// The opens that wait for these nodes, which the owner has named.
    pub(crate) fn unconfirmed(&mut self, key: Key) -> Vec<u64> {
        let Some(copy) = self.all.get_mut(&key).filter(|copy| copy.early) else {
            return Vec::new();
        };
        copy.incoming.sources.give_up();
        std::mem::take(&mut copy.waits.waiting)
    }

    /// Gives up early copies of a series that are older than a generation that was opened.
    pub(crate) fn give_up_early(&mut self, (owner, area): Key, of: &Series) {
        let is_old = |key: &Key| key.0 == owner && key.1 < area;
        let old = self.all.iter().filter(|(key, copy)| copy.is_unopened() && is_old(key));
        let old = old.filter(|(_, copy)| series(&copy.path) == *of).map(|(key, _)| *key);
        old.collect::<Vec<_>>().into_iter().for_each(|key| self.give_up(key));
    }

    /// Copies of a series that no program has opened.
    pub(crate) fn unopened(&self, owner: Peer, of: &Series) -> u32 {
        let is_it = |key: &Key| key.0 == owner;
        let all = self.all.iter().filter(|(key, copy)| copy.is_unopened() && is_it(key));
        all.filter(|(_, copy)| series(&copy.path) == *of).count().try_into().unwrap_or(u32::MAX)
    }

    /// The bytes that programs read of a copy, and the file, when the last reader closes it; `None`
    /// if others have it open, or it is not complete.
    pub(crate) fn was_read(&self, key: Key) -> Option<(Vec<Extent>, Template)> {
        let copy = self.all.get(&key)?;
        let is_last = copy.opens == 1 && copy.writing.granted == 0;
        if !is_last || copy.early || copy.shared.is_some() {
            return None;
        }
        let wanted = match copy.incoming.pieces.are_all_wanted() {
            true => vec![Extent::new(0, copy.size)],
            false => copy.incoming.pieces.bytes_of(copy.incoming.pieces.wanted()),
        };
        let mode = self.areas.stat(copy.local, 0).map_or(0o600, |stat| stat.mode & 0o7777);
        let (path, size, area) = (copy.path.clone(), copy.size, key.1);
        Some((wanted, Template { path, size, mode, area }))
    }
}

/// Whether the owner says that all bytes of a place are from the node that has sent them, and that
/// it has reported nothing since then.
fn are_from(
    sources: &Sources,
    (owner, area): Key,
    (place, peer, report): (Extent, Peer, u64),
    words: Option<String>,
) -> bool {
    let parts = sources.of(place);
    let is_it = |node: Option<usize>| match node {
        None => peer == owner,
        Some(node) => sources.node(node).is_some_and(|node| {
            words.as_ref() == Some(&node.words) && node.area == area && node.report == report
        }),
    };
    parts.iter().map(|(part, _)| part.len).sum::<u64>() == place.len
        && parts.iter().all(|(_, node)| is_it(*node))
}

/// Whether a node that announces bytes of a complete copy has the ones that the owner names.
pub(crate) fn agree(
    sources: &Sources,
    key: Key,
    (places, peer, report): (&[Extent], Peer, u64),
    words: Option<String>,
) -> bool {
    places.iter().all(|place| are_from(sources, key, (*place, peer, report), words.clone()))
}
