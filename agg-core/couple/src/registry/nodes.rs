//! Processes and generations on other nodes: where a generation is written.

use super::{Area, Generation, Open, Process, Registry, State};
use std::collections::BTreeSet;

impl Registry {
    /// A process is on the node `node`; those of which nothing is said are on this one.
    pub fn lives_on(&mut self, process: Process, node: u64) {
        self.nodes.insert(process, node);
    }

    /// The node of a process; 0 is this one.
    pub(crate) fn node(&self, process: Process) -> u64 {
        self.nodes.get(&process).copied().unwrap_or(0)
    }

    /// A process of the program that writes `area` uses it: as long as that is written, its bytes
    /// are on the nodes of all that do until they have reached this one.
    pub(super) fn is_used_by(&mut self, process: Process, area: Area) {
        let is_writing = |one: &Generation| one.state == State::Writing;
        if self.generations.get(&area).is_some_and(is_writing) {
            let node = self.node(process);
            self.sites.entry(area).or_default().insert(node);
        }
    }

    /// Whether the bytes of a generation are on other nodes than that of a process.
    pub(super) fn is_elsewhere(&self, process: Process, area: Area) -> bool {
        let writing = self.generations.get(&area).is_some_and(|one| one.state == State::Writing);
        let node = self.node(process);
        writing && self.sites.get(&area).is_some_and(|sites| !sites.contains(&node))
    }

    /// Whether the bytes of a generation are neither on the node of a process nor here.
    pub(super) fn is_only_elsewhere(&self, process: Process, area: Area) -> bool {
        let is_here = self.sites.get(&area).is_some_and(|sites| sites.contains(&0));
        self.is_elsewhere(process, area) && !is_here
    }

    /// Whether readers were given a generation that is being written.
    pub(crate) fn is_shown(&self, area: Area) -> bool {
        self.generations.get(&area).is_some_and(|one| one.published)
    }

    /// Whether readers may have a generation before it is complete.
    pub(crate) fn is_early(&self, area: Area) -> bool {
        let Some(generation) = self.generations.get(&area) else { return false };
        let name = self.names.get(&generation.path);
        let is_shown = generation.step || generation.published;
        let is_shown = is_shown || name.is_some_and(|name| name.options.at_sync);
        is_shown && generation.state == State::Writing
    }

    /// The other nodes on which a process has a generation open that it reads.
    pub(crate) fn readers_away(&self, area: Area) -> BTreeSet<u64> {
        let is_it = |open: &&Open| open.area == area && !open.write;
        let nodes = self.opens.values().filter(is_it).map(|open| self.node(open.process));
        nodes.filter(|node| *node != 0).collect()
    }

    /// Whether programs of several nodes use a generation that is being written.
    pub(crate) fn is_shared(&self, area: Area) -> bool {
        self.sites.get(&area).is_some_and(|sites| sites.len() > 1)
    }

    /// Whether a process of the node has a generation open for writing.
    pub(crate) fn is_open_on(&self, area: Area, node: u64) -> bool {
        let is_it = |open: &&Open| open.area == area && open.write;
        self.opens.values().filter(is_it).any(|open| self.node(open.process) == node)
    }

    /// Whether a generation was written on another node, and nobody has it open for writing.
    pub(super) fn is_on_its_way(&self, area: Area) -> bool {
        let is_away =
            self.sites.get(&area).is_some_and(|sites| sites.iter().any(|site| *site != 0));
        is_away && !self.is_open_to_write(area)
    }

    /// Whether a process has a generation open for writing.
    pub(super) fn is_open_to_write(&self, area: Area) -> bool {
        self.opens.values().any(|open| open.area == area && open.write)
    }

    /// The bytes of a generation that nobody has open any more will never come.
    pub fn fail(&mut self, area: Area) {
        let Some(generation) = self.generations.get(&area) else { return };
        self.declare_dead(area, generation.maker.clone());
    }

    /// Gives a generation up because bytes of it could not be stored. All that have it open for
    /// writing get this error.
    pub fn spoil_area(&mut self, area: Area, number: i32, why: &str) {
        let Some(generation) = self.generations.get(&area) else { return };
        let path = String::from_utf8_lossy(&generation.path);
        let text = format!("{path}: generation {} is lost: {why}", generation.number);
        self.give_area_up(area, generation.maker.clone(), (number, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Answer, Ask, Opening, Options, Who};

    const FILE: &[u8] = b"/d/f";

    fn ask(write: bool) -> Ask {
        let path = FILE.to_vec();
        Ask { path, write, create: write, truncate: write, ..Ask::default() }
    }

    /// Processes 1 and 2 of one job on two nodes, and a reader 3 here.
    fn registry() -> Registry {
        let mut registry = Registry::default();
        for (process, job, node) in [(1, 1, 7), (2, 1, 8), (3, 3, 0)] {
            let label = format!("process {process}");
            registry.join(process, Who { job, ranks: 1, family: job, label });
            registry.lives_on(process, node);
        }
        registry
    }

    fn opened(answer: Answer) -> Opening {
        match answer {
            Answer::Opened(opening) => opening,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_generation_that_one_node_writes_is_joined_by_writers_of_another() {
        let mut registry = registry();
        let first = opened(registry.open(1, &ask(true)));
        assert_eq!(opened(registry.open(1, &ask(false))).area, first.area, "it reads back");
        assert!(!registry.is_shared(first.area));
        let append = Ask { truncate: false, ..ask(true) };
        let second = opened(registry.open(2, &append));
        assert_eq!(second.area, first.area);
        assert!(registry.is_shared(first.area) && registry.is_open_on(first.area, 8));
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
        registry.close(1, first.handle, 0, false);
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait, "one of two has closed it");
        registry.close(2, second.handle, 0, false);
        assert_eq!(registry.open(2, &append), Answer::Wait, "its bytes are on their way");
        assert_eq!(registry.open(2, &ask(false)), Answer::Wait, "its bytes are on their way");
        registry.commit(first.area, true);
        assert_eq!(opened(registry.open(2, &ask(false))).area, first.area);
        assert_eq!(opened(registry.open(3, &ask(false))).area, first.area);
        assert_eq!(opened(registry.open(2, &ask(true))).generation, 2);
    }

    #[test]
    fn a_generation_that_is_shown_before_it_is_complete_is_joined_by_other_nodes_as_well() {
        for (at_sync, at_step) in [(true, false), (false, true)] {
            let mut registry = registry();
            let options = Options { at_sync, at_step, ..Options::default() };
            let ask = |write| Ask { options: options.clone(), truncate: false, ..ask(write) };
            let first = opened(registry.open(1, &ask(true)));
            let second = opened(registry.open(2, &ask(true)));
            assert_eq!(second.area, first.area);
            assert_eq!(opened(registry.open(2, &ask(false))).area, first.area, "it reads back");
            assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
            assert!(registry.is_early(first.area) && registry.is_shared(first.area));
        }
    }

    #[test]
    fn all_writers_of_what_could_not_be_kept_have_the_error() {
        let mut registry = registry();
        let append = Ask { truncate: false, ..ask(true) };
        let handles = [(1, ask(true)), (2, append)].map(|(process, ask)| {
            let opening = opened(registry.open(process, &ask));
            (opening.handle, opening.area)
        });
        registry.spoil_area(handles[0].1, libc::ENOSPC, "no room");
        for (handle, _) in handles {
            let (number, text) = registry.loss(handle).unwrap();
            assert!(number == libc::ENOSPC && text.contains("generation 1 is lost: no room"));
        }
        assert_eq!(registry.open(3, &ask(false)), Answer::Fail(libc::EIO));
    }

    #[test]
    fn what_is_published_before_it_is_complete_is_for_readers_of_all_nodes() {
        let mut registry = registry();
        registry.join(4, Who { job: 4, ranks: 1, family: 4, label: "here".into() });
        let first = opened(registry.open(4, &ask(true)));
        registry.publish(4, first.handle);
        assert_eq!(opened(registry.open(3, &ask(false))).area, first.area);
        assert_eq!(opened(registry.open(1, &ask(false))).area, first.area);
        assert!(registry.is_early(first.area) && !registry.is_shared(first.area));
        assert_eq!(registry.readers_away(first.area), [7].into());
        registry.close(4, first.handle, 0, false);
        registry.commit(first.area, true);
        assert!(!registry.is_early(first.area));
        assert_eq!(opened(registry.open(2, &ask(true))).generation, 2);
    }

    /// A generation that nobody has open any more, and whose bytes are on their way.
    fn closed(registry: &mut Registry, path: &[u8]) -> Area {
        let opening = opened(registry.open(1, &Ask { path: path.to_vec(), ..ask(true) }));
        registry.close(1, opening.handle, 0, false);
        opening.area
    }

    #[test]
    fn what_is_on_its_way_is_read_before_another_file_that_gets_its_name() {
        let mut registry = registry();
        let (first, second) = (closed(&mut registry, FILE), closed(&mut registry, b"/d/new"));
        registry.commit(second, true);
        registry.rename(1, b"/d/new", FILE, Options::default()).unwrap();
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
        registry.commit(first, true);
        for area in [first, second] {
            let opening = opened(registry.open(3, &ask(false)));
            assert_eq!(opening.area, area);
            registry.close(3, opening.handle, 4096, true);
        }
    }

    #[test]
    fn what_is_on_its_way_when_its_name_is_removed_is_for_readers_and_what_is_open_is_not() {
        let mut registry = registry();
        let first = closed(&mut registry, FILE);
        registry.unlink(1, FILE, Options::default()).unwrap();
        registry.commit(first, true);
        let opening = opened(registry.open(3, &ask(false)));
        assert_eq!(opening.area, first);
        registry.close(3, opening.handle, 4096, true);
        let second = opened(registry.open(1, &ask(true)));
        registry.unlink(1, FILE, Options::default()).unwrap();
        registry.close(1, second.handle, 0, false);
        registry.commit(second.area, true);
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
    }

    #[test]
    fn bytes_that_never_come_are_a_dead_writer() {
        let mut registry = registry();
        let first = opened(registry.open(1, &ask(true)));
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
        registry.close(1, first.handle, 0, false);
        registry.fail(first.area);
        let answer = registry.open(3, &ask(false));
        assert_eq!(answer, Answer::Fail(libc::EIO));
        assert_eq!(registry.dead_writer(FILE, &answer).unwrap().writer, "process 1");
    }

    #[test]
    fn writers_whose_bytes_never_come_are_told() {
        let mut registry = registry();
        let first = opened(registry.open(1, &ask(true)));
        registry.fail(first.area);
        let (_, text) = registry.loss(first.handle).unwrap();
        assert!(text.contains("process 1 died"), "{text}");
    }
}
