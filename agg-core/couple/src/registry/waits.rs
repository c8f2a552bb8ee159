//! Opens that wait, and programs that wait for each other.

use super::{Ask, Job, Names, Process, Processes};
use std::collections::{BTreeMap, BTreeSet};

/// Opens that wait, by number.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(crate) all: BTreeMap<u64, (Process, Ask)>,
}

impl Waits {
    /// Lets an open for which there was nothing wait; `wait` names it.
    pub(crate) fn add(&mut self, wait: u64, process: Process, ask: Ask) {
        self.all.insert(wait, (process, ask));
    }

    /// Ends a wait that nobody is interested in any more. Returns its open.
    pub(crate) fn take(&mut self, wait: u64) -> Option<Ask> {
        self.all.remove(&wait).map(|(_, ask)| ask)
    }

    /// A process has ended.
    pub(super) fn end(&mut self, process: Process) {
        self.all.retain(|_, (waiting, _)| *waiting != process);
    }

    /// Whether a process of another program than `job` may read generations: it does not wait for
    /// memory.
    pub(super) fn may_others_read(&self, job: Job, processes: &Processes) -> bool {
        let mut others = processes.iter().filter(|(_, who)| who.job != job);
        let waits =
            |process| self.all.values().any(|(waiting, ask)| *waiting == process && ask.write);
        others.any(|(process, _)| !waits(*process))
    }

    /// Programs all of whose processes wait, each for a file that the next one wrote last, and the
    /// last one for one of the first.
    pub(crate) fn cycle(&self, processes: &Processes, names: &Names) -> Option<Vec<Job>> {
        let is_running = |process| !self.all.values().any(|(waiting, _)| waiting == process);
        let running = processes.iter().filter(|(process, _)| is_running(*process));
        let running: BTreeSet<Job> = running.map(|(_, who)| who.job).collect();
        let mut edges: BTreeMap<Job, Job> = BTreeMap::new();
        for (process, ask) in self.all.values() {
            let job = processes.caller(*process).job;
            let writer = names.get(&ask.path).and_then(|name| name.writer);
            if let Some(writer) = writer.filter(|_| !running.contains(&job)) {
                edges.insert(job, writer);
            }
        }
        edges.keys().find_map(|start| cycle_from(*start, &edges))
    }
}

/// The nodes of a graph from `start` to itself, if there are others.
fn cycle_from(start: Job, edges: &BTreeMap<Job, Job>) -> Option<Vec<Job>> {
    let mut path = vec![start];
    loop {
        let at = *edges.get(path.last()?)?;
        if at == start {
            return (path.len() > 1).then_some(path);
        }
        if path.contains(&at) {
            return None;
        }
        path.push(at);
    }
}
