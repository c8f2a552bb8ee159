//! Generations of this node that other nodes write, read, or have bytes of: one value holds all of
//! one generation.

mod acks;
mod generation;
mod located;
mod moving;
mod pull;
mod writers;

pub(crate) use generation::Hosted;
pub(crate) use located::ALL;
pub(crate) use pull::{Pull, Pulled};
#[cfg(test)]
pub(crate) use writers::Writers;

use crate::peers::{Holder, Instance, Source, Where, gaps};
use crate::registry::{Area, Series};
use aggio_base::Extent;
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

/// All such generations. `T` is an action that waits for other nodes.
#[derive(Debug)]
pub(crate) struct Hosting<T> {
    all: BTreeMap<Area, Hosted<T>>,
    /// The agents of the nodes that have bytes.
    nodes: BTreeMap<Peer, Instance>,
}

impl<T> Default for Hosting<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), nodes: BTreeMap::new() }
    }
}

impl<T> Hosting<T> {
    pub(crate) fn get(&self, area: Area) -> Option<&Hosted<T>> {
        self.all.get(&area).filter(|one| !one.is_freed)
    }

    pub(crate) fn get_mut(&mut self, area: Area) -> Option<&mut Hosted<T>> {
        self.all.get_mut(&area).filter(|one| !one.is_freed)
    }

    /// The value of a generation, which is made if it is missing.
    pub(crate) fn host(&mut self, area: Area) -> &mut Hosted<T> {
        self.all.entry(area).or_insert_with(|| Hosted::new(area))
    }

    /// Whether other nodes have any bytes of a generation.
    pub(crate) fn is_elsewhere(&self, area: Area) -> bool {
        self.all.get(&area).is_some_and(|one| !one.located.is_empty())
    }

    /// The node of `peer`, with this agent, has the newest bytes of these extents, by its report
    /// with this number.
    pub(crate) fn note(
        &mut self,
        (area, report): (Area, u64),
        peer: Peer,
        node: &Instance,
        extents: &[Extent],
    ) {
        if !extents.is_empty() {
            self.host(area).located.note(Holder { peer, area }, report, extents);
            self.nodes.insert(peer, node.clone());
        }
    }

    /// A generation begins with the bytes of another one.
    pub(crate) fn inherit(&mut self, area: Area, from: Area) {
        if let Some(located) = self.all.get(&from).and_then(|one| one.located.heir()) {
            self.host(area).located = located;
        }
    }

    /// Whether other nodes have other parts of a generation than of the one with whose bytes it
    /// began.
    pub(crate) fn differ(&self, area: Area, from: Area) -> bool {
        let parts = |area| self.all.get(&area).into_iter().flat_map(|one| one.located.parts());
        !parts(area).eq(parts(from))
    }

    /// The nodes that have the bytes of `extents`, which are in order and apart: the first `most`
    /// parts. The generation is of `series` now. Whether these are all.
    pub(crate) fn find(
        &self,
        (area, series): (Area, &Series),
        extents: &[Extent],
        most: usize,
    ) -> (Where, bool) {
        let (mut found, mut places) = (Where::default(), BTreeMap::new());
        let hosted = self.all.get(&area);
        found.announced = hosted.is_some_and(|one| one.located.is_announced_here(series));
        for range in extents {
            let there = hosted.map(|one| one.located.within(*range)).unwrap_or_default();
            let known: Vec<Extent> = there.iter().map(|(part, _)| *part).collect();
            let here = gaps(*range, &known).into_iter().map(|gap| (gap, None));
            let there = there.into_iter().map(|(part, holder)| (part, Some(holder)));
            let mut all: Vec<(Extent, Option<Holder>)> = here.chain(there).collect();
            all.sort_unstable_by_key(|(part, _)| part.offset);
            for (part, holder) in all {
                if found.parts.len() == most {
                    return (found, false);
                }
                let nodes = &mut found.nodes;
                let place = |holder| {
                    *places.entry(holder).or_insert_with(|| {
                        nodes.push(self.source((area, series), holder));
                        nodes.len() - 1
                    })
                };
                found.parts.push((part, holder.map(place)));
            }
        }
        (found, true)
    }

    /// A holder as readers get it.
    fn source(&self, (area, series): (Area, &Series), holder: Holder) -> Source {
        let words = self.node(holder).map(Instance::words).unwrap_or_default();
        let reported = self.all.get(&area).and_then(|one| one.located.reported(holder));
        let announced = reported.is_some_and(|one| one.is_announced(series));
        let report = reported.map_or(0, |one| one.number);
        Source { words, area: holder.area, report, announced }
    }

    /// The agent of a holder.
    pub(crate) fn node(&self, holder: Holder) -> Option<&Instance> {
        self.nodes.get(&holder.peer)
    }

    /// The generations that lose bytes if the node of `peer` ends: it writes them, or has bytes.
    pub(crate) fn of(&self, peer: Peer) -> Vec<Area> {
        let written = self.all.iter().filter(|(_, one)| one.writers.has(peer));
        let held = self.all.iter().filter(|(_, one)| one.located.is_on(peer));
        written.chain(held).map(|(area, _)| *area).collect()
    }

    /// The generations with awaited acknowledgements.
    pub(crate) fn awaiting(&self) -> impl Iterator<Item = Area> {
        self.all.iter().filter(|(_, one)| one.acks.is_some()).map(|(area, _)| *area)
    }

    /// A node has acknowledged a message about a generation. Returns false if nothing is awaited.
    pub(crate) fn hear(&mut self, area: Area, peer: Peer) -> bool {
        self.all.get_mut(&area).is_some_and(|one| one.hear(peer))
    }

    /// Lets an action wait for acknowledgements; gives it back if none are awaited.
    pub(crate) fn hold(&mut self, area: Area, after: T) -> Result<(), T> {
        match self.all.get_mut(&area) {
            Some(hosted) => hosted.hold(after),
            None => Err(after),
        }
    }

    /// The actions of the next generation with all acknowledgements.
    pub(crate) fn next_held(&mut self) -> Option<Vec<T>> {
        let held = self.all.values_mut().find_map(Hosted::held)?;
        self.sweep();
        Some(held)
    }

    /// This node has moved its bytes of a generation, or could not.
    pub(crate) fn moved_here(&mut self, area: Area, result: io::Result<OwnedFd>) {
        if let Some(moving) = self.all.get_mut(&area).and_then(|one| one.moving.as_mut()) {
            moving.own(result);
        }
    }

    /// A node has moved its bytes: the number of its error, or 0.
    pub(crate) fn moved(&mut self, holder: Holder, error: i32) {
        let all = self.all.values_mut().filter_map(|one| one.moving.as_mut());
        all.for_each(|moving| moving.hear(holder, error));
    }

    /// The next generation that has moved, or could not, on all nodes.
    pub(crate) fn next_moved(&mut self) -> Option<(Area, io::Result<OwnedFd>)> {
        let mut all = self.all.iter_mut();
        let moved = all.find_map(|(area, one)| one.end_move().map(|result| (*area, result)))?;
        self.sweep();
        Some(moved)
    }

    /// A node has ended.
    pub(crate) fn lose(&mut self, peer: Peer) {
        self.all.values_mut().for_each(|one| one.lose(peer));
    }

    /// A generation is given up. Returns the holders whose bytes no generation has any more, and
    /// its fetching.
    pub(crate) fn free(&mut self, area: Area) -> (Vec<Holder>, Option<Pull<T>>) {
        let Some(hosted) = self.all.get_mut(&area) else { return (Vec::new(), None) };
        let (holders, pull) = hosted.free();
        self.sweep();
        (self.unneeded(holders), pull)
    }

    /// A generation is complete. Returns the holders whose bytes it began with, and no generation
    /// has any more.
    pub(crate) fn complete(&mut self, area: Area) -> Vec<Holder> {
        let holders = self.all.get_mut(&area).map(|one| one.located.complete());
        self.unneeded(holders.unwrap_or_default())
    }

    fn unneeded(&self, mut holders: Vec<Holder>) -> Vec<Holder> {
        let needed: BTreeSet<Holder> =
            self.all.values().flat_map(|one| one.located.holders()).collect();
        holders.retain(|holder| !needed.contains(holder));
        holders
    }

    /// Removes the values of freed generations that nothing is left of.
    fn sweep(&mut self) {
        self.all.retain(|_, one| !one.is_over());
    }
}

#[cfg(test)]
mod tests;
