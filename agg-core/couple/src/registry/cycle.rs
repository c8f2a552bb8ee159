//! Programs that wait for each other.

use super::{Job, Registry};
use std::collections::{BTreeMap, BTreeSet};

impl Registry {
    /// Programs all of whose processes wait, each for a file that the next one wrote last, and the
    /// last one for one of the first.
    pub fn cycle(&self) -> Option<Vec<Job>> {
        let mut running: BTreeSet<Job> = BTreeSet::new();
        for (process, who) in &self.processes {
            if !self.waits.values().any(|(waiting, _)| waiting == process) {
                running.insert(who.job);
            }
        }
        let mut edges: BTreeMap<Job, Job> = BTreeMap::new();
        for (process, ask) in self.waits.values() {
            let job = self.job(*process);
            let writer = self.names.get(&ask.path).and_then(|name| name.writer);
            if let Some(writer) = writer.filter(|_| !running.contains(&job)) {
                edges.insert(job, writer);
            }
        }
        edges.keys().find_map(|start| {
            let (mut path, mut at) = (vec![*start], *start);
            loop {
                at = *edges.get(&at)?;
                if at == *start {
                    return (path.len() > 1).then_some(path);
                }
                if path.contains(&at) {
                    return None;
                }
                path.push(at);
            }
        })
    }

    /// Names a program in messages, by one of its processes.
    pub fn label(&self, job: Job) -> &str {
        let found = self.processes.values().find(|who| who.job == job);
        found.map_or("a program that has ended", |who| &who.label)
    }
}
