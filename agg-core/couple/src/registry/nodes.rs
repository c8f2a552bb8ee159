//! Processes and generations on other nodes: a generation is written on one node only.

use super::{Area, Process, Registry, State};

impl Registry {
    /// A process is on the node `node`; those of which nothing is said are on this one.
    pub fn lives_on(&mut self, process: Process, node: u64) {
        self.nodes.insert(process, node);
    }

    fn node(&self, process: Process) -> u64 {
        self.nodes.get(&process).copied().unwrap_or(0)
    }

    /// A process may write `area`, whose bytes are on its node until they are complete.
    pub(super) fn is_written_by(&mut self, process: Process, area: Area) {
        let node = self.node(process);
        self.sites.entry(area).or_insert(node);
    }

    /// Whether the bytes of a generation are on another node than a process.
    pub(super) fn is_elsewhere(&self, process: Process, area: Area) -> bool {
        let writing = self.generations.get(&area).is_some_and(|one| one.state == State::Writing);
        let site = self.sites.get(&area).copied();
        writing && site.is_some_and(|site| site != self.node(process))
    }

    /// Whether a generation was written on another node, and nobody has it open for writing.
    pub(super) fn is_on_its_way(&self, area: Area) -> bool {
        let is_away = self.sites.get(&area).is_some_and(|site| *site != 0);
        is_away && !self.opens.values().any(|open| open.area == area && open.write)
    }

    /// The bytes of a generation that nobody has open any more will never come.
    pub fn fail(&mut self, area: Area) {
        let Some(generation) = self.generations.get(&area) else { return };
        self.declare_dead(area, generation.maker.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Answer, Ask, Opening, Who};

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
    fn a_generation_that_one_node_writes_is_refused_to_writers_of_another() {
        let mut registry = registry();
        let first = opened(registry.open(1, &ask(true)));
        assert_eq!(registry.open(2, &ask(true)), Answer::Fail(libc::EOPNOTSUPP));
        assert_eq!(registry.open(2, &ask(false)), Answer::Wait, "its bytes are not there");
        assert_eq!(opened(registry.open(1, &ask(false))).area, first.area, "it reads back");
        registry.close(1, first.handle, 0, false);
        let append = Ask { truncate: false, ..ask(true) };
        assert_eq!(registry.open(2, &append), Answer::Wait, "its bytes are on their way");
        registry.commit(first.area, true);
        assert_eq!(opened(registry.open(2, &ask(false))).area, first.area);
        let next = opened(registry.open(2, &ask(true)));
        assert_eq!(next.generation, 2, "now the other node writes");
    }

    #[test]
    fn what_is_published_before_it_is_complete_is_for_readers_of_the_same_node() {
        let mut registry = registry();
        registry.join(4, Who { job: 4, ranks: 1, family: 4, label: "here".into() });
        let first = opened(registry.open(4, &ask(true)));
        registry.publish(4, first.handle);
        assert_eq!(opened(registry.open(3, &ask(false))).area, first.area);
        assert_eq!(registry.open(1, &ask(false)), Answer::Wait);
        registry.close(4, first.handle, 0, false);
        registry.commit(first.area, true);
        assert_eq!(opened(registry.open(1, &ask(false))).area, first.area);
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
        let text = registry.loss(first.handle).unwrap();
        assert!(text.contains("process 1 died"), "{text}");
    }
}
