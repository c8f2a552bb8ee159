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

    /// Programs with no process that runs: each waits for a file that the next one wrote last, and
    /// the last one for a file of the first.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Name, Who};

    fn processes(all: &[Process]) -> Processes {
        let mut processes = Processes::default();
        for process in all {
            let who = Who { job: *process, ranks: 1, family: 1, label: String::new() };
            processes.join(*process, who);
        }
        processes
    }

    fn ask(path: &[u8], write: bool) -> Ask {
        Ask { path: path.to_vec(), write, ..Ask::default() }
    }

    #[test]
    fn a_cycle_has_programs_that_all_wait() {
        let (mut waits, mut names, processes) =
            (Waits::default(), Names::default(), processes(&[1, 2]));
        for (path, writer) in [(b"a", 1), (b"b", 2)] {
            names.insert(path.to_vec(), Name { writer: Some(writer), ..Name::default() });
        }
        waits.add(70, 1, ask(b"b", false));
        assert_eq!(waits.cycle(&processes, &names), None, "one of them runs");
        waits.add(71, 2, ask(b"a", false));
        assert_eq!(waits.cycle(&processes, &names), Some(vec![1, 2]));
        waits.end(2);
        assert_eq!(waits.cycle(&processes, &names), None);
    }

    #[test]
    fn a_process_that_waits_for_memory_gives_none_back() {
        let (mut waits, processes) = (Waits::default(), processes(&[1, 2]));
        assert!(waits.may_others_read(1, &processes));
        waits.add(70, 2, ask(b"b", true));
        assert!(!waits.may_others_read(1, &processes) && waits.may_others_read(2, &processes));
        assert!(waits.take(70).is_some() && waits.may_others_read(1, &processes));
    }
}
