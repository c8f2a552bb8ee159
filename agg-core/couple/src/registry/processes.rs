//! The processes that have called, and their programs.

use super::{Family, Job, Process, Who};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// The processes that have called.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: BTreeMap<Process, Who>,
    /// The nodes of processes that are not on this one.
    nodes: BTreeMap<Process, u64>,
}

/// A process that asks for something. One that is not known is a program of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Caller {
    pub(super) process: Process,
    pub(super) job: Job,
    pub(super) ranks: u32,
    pub(super) family: Option<Family>,
    /// Its node; 0 is this one.
    pub(super) node: u64,
}

impl Deref for Processes {
    type Target = BTreeMap<Process, Who>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Processes {
    /// A process has called for the first time.
    pub(super) fn join(&mut self, process: Process, who: Who) {
        self.all.insert(process, who);
    }

    /// A process has ended. Returns its identity.
    pub(super) fn end(&mut self, process: Process) -> Option<Who> {
        self.nodes.remove(&process);
        self.all.remove(&process)
    }

    /// A process is on the node `node`; the others are on this one.
    pub(crate) fn lives_on(&mut self, process: Process, node: u64) {
        self.nodes.insert(process, node);
    }

    /// The node of a process; 0 is this one.
    pub(crate) fn node(&self, process: Process) -> u64 {
        self.nodes.get(&process).copied().unwrap_or(0)
    }

    /// A process that asks for something.
    pub(super) fn caller(&self, process: Process) -> Caller {
        let node = self.node(process);
        match self.get(&process) {
            Some(&Who { job, ranks, family, .. }) => {
                Caller { process, job, ranks, family: Some(family), node }
            }
            None => Caller { process, ranks: 1, node, ..Caller::default() },
        }
    }

    /// A process in messages.
    pub(super) fn name(&self, process: Process) -> String {
        self.get(&process).map(|who| who.label.clone()).unwrap_or_default()
    }

    /// Names a program in messages, by one of its processes.
    pub(crate) fn label(&self, job: Job) -> &str {
        let found = self.values().find(|who| who.job == job);
        found.map_or("a program that has ended", |who| &who.label)
    }

    /// How many processes of a program are there.
    pub(crate) fn count(&self, job: Job) -> usize {
        self.values().filter(|who| who.job == job).count()
    }

    /// Whether a process of one of these programs is there.
    pub(super) fn has_any(&self, jobs: &BTreeSet<Job>) -> bool {
        self.values().any(|who| jobs.contains(&who.job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_there_as_long_as_one_of_its_processes() {
        let mut processes = Processes::default();
        for process in [1, 2] {
            let who = Who { job: 7, ranks: 2, family: 7, label: format!("p{process}") };
            processes.join(process, who);
        }
        processes.lives_on(2, 8);
        let caller = processes.caller(2);
        assert_eq!((caller.job, caller.ranks, caller.node), (7, 2, 8));
        assert_eq!((processes.label(7), &*processes.name(2)), ("p1", "p2"));
        assert!(processes.end(1).is_some() && processes.end(1).is_none());
        assert!(processes.count(7) == 1 && processes.has_any(&[3, 7].into()));
        processes.end(2);
        assert!(processes.count(7) == 0 && !processes.has_any(&[3, 7].into()));
        let caller = processes.caller(2);
        assert_eq!((caller.job, caller.ranks, caller.family, caller.node), (0, 1, None, 0));
    }
}
