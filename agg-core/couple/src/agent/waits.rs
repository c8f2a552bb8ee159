//! Opens that wait, and the messages about those that wait long.

use super::spill;
use crate::areas::Areas;
use crate::registry::{Answer, Ask, Path, Process, Registry};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often a wait is told of.
const REMINDS: Duration = Duration::from_secs(60);

/// How long something lasts, and how often that was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    began: Instant,
    told: u32,
}

impl Since {
    pub(super) fn now() -> Self {
        Self { began: Instant::now(), told: 0 }
    }

    pub(super) fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// When it is to be told again.
    pub(super) fn next(&self) -> Instant {
        self.began + REMINDS * (self.told + 1)
    }

    /// Whether it is to be told now; it counts as told then.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next() <= now;
        self.told += u32::from(is_due);
        is_due
    }
}

/// How a descriptor is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) append: bool,
}

/// An open that has not been answered.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) link: u64,
    pub(super) process: Process,
    pub(super) access: Access,
    pub(super) since: Since,
    pub(super) mode: u32,
    /// The program fetches the bytes that it reads.
    pub(super) parts: bool,
    pub(super) path: Path,
}

impl Waiting {
    /// A text about a wait: the waiting process, the file, the generation and its writer.
    fn describe(&self, registry: &Registry, areas: &Areas) -> String {
        let path = String::from_utf8_lossy(&self.path);
        let seconds = self.since.seconds();
        let who = registry.processes.get(&self.process).map_or("", |who| &who.label);
        if self.access.write {
            let bytes = areas.bytes();
            let full = spill::full(registry);
            let full = full.map(|(directory, error)| format!("; {directory} is full: {error}"));
            return format!(
                "{path}: {who} has waited {seconds} s for memory: all generations have {bytes} \
                 bytes, with the next one no less than their budget, and some were not read{}",
                full.collect::<String>()
            );
        }
        let next = registry.next_number(self.process, &self.path);
        let writer = registry.files.names.get(&self.path).and_then(|name| name.writer);
        let whom = match (registry.files.newest(&self.path), writer) {
            (Some((area, generation)), _) if generation.number >= next => {
                let bytes = areas.stat(area, 0).map_or(0, |stat| stat.size);
                format!(
                    "{} has it open for writing ({bytes} bytes so far)",
                    generation.writers.maker
                )
            }
            (_, Some(writer)) => {
                format!("{} wrote the one before", registry.processes.label(writer))
            }
            (_, None) => "no program has opened it for writing".into(),
        };
        format!("{path}: {who} has waited {seconds} s for generation {next}; {whom}")
    }
}

/// Opens that wait; the registry tries each again by the same number.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: BTreeMap<u64, Waiting>,
    told_cycle: bool,
}

impl Waits {
    pub(super) fn add(&mut self, waiting: Waiting, ask: Ask, registry: &mut Registry) {
        let wait = registry.numbers.next();
        registry.waits.add(wait, waiting.process, ask);
        self.waits.insert(wait, waiting);
    }

    /// The next wait that ends now, and how.
    pub(super) fn ready(&mut self, registry: &mut Registry) -> Option<(Waiting, Answer)> {
        let (wait, answer) = registry.ready()?;
        self.waits.remove(&wait).map(|waiting| (waiting, answer))
    }

    /// Ends waits that nobody is interested in any more.
    pub(super) fn take(
        &mut self,
        registry: &mut Registry,
        is_it: impl Fn(&Waiting) -> bool,
    ) -> Vec<(Waiting, Ask)> {
        let all = self.waits.iter().filter(|(_, waiting)| is_it(waiting));
        let all: Vec<u64> = all.map(|(wait, _)| *wait).collect();
        let ends = |wait: u64| Some((self.waits.remove(&wait)?, registry.waits.take(wait)?));
        all.into_iter().filter_map(ends).collect()
    }

    /// The names that wait to be written.
    pub(super) fn written(&self) -> impl Iterator<Item = &Path> {
        self.waits.values().filter(|waiting| waiting.access.write).map(|waiting| &waiting.path)
    }

    /// When a wait is to be told of.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waits.values().map(|waiting| waiting.since.next()).min()
    }

    /// The connections that have waited for another minute, with the text for each.
    pub(super) fn reminders(&mut self, registry: &Registry, areas: &Areas) -> Vec<(u64, String)> {
        let now = Instant::now();
        let due = self.waits.values_mut().filter_map(|one| one.since.is_due(now).then_some(&*one));
        due.map(|waiting| (waiting.link, waiting.describe(registry, areas))).collect()
    }

    /// A text about each wait.
    pub(super) fn describe(
        &self,
        registry: &Registry,
        areas: &Areas,
    ) -> impl Iterator<Item = String> {
        self.waits.values().map(|waiting| waiting.describe(registry, areas))
    }

    /// The connections of programs that wait for each other, with a text, once.
    pub(super) fn cycle(&mut self, registry: &Registry) -> Vec<(u64, String)> {
        let cycle = registry.waits.cycle(&registry.processes, &registry.files.names);
        let was_told = std::mem::replace(&mut self.told_cycle, cycle.is_some());
        let Some(cycle) = cycle.filter(|_| !was_told) else { return Vec::new() };
        let labels: Vec<&str> = cycle.iter().map(|job| registry.processes.label(*job)).collect();
        let text = format!("programs wait for each other: {}", labels.join(", for "));
        log!(Level::Warn, "agent: {text}");
        let job = |process: Process| registry.processes.get(&process).map(|who| who.job);
        let is_in =
            |waiting: &&Waiting| job(waiting.process).is_some_and(|job| cycle.contains(&job));
        let waits = self.waits.values().filter(is_in);
        waits.map(|waiting| (waiting.link, text.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Who;

    fn wait(waits: &mut Waits, registry: &mut Registry, process: Process, path: &str) {
        let label = format!("p{process}");
        registry.join(process, Who { job: process, ranks: 1, family: process, label });
        let path = path.as_bytes().to_vec();
        let ask = Ask { path: path.clone(), ..Ask::default() };
        assert_eq!(registry.open(process, &ask), Answer::Wait);
        let (access, since) = (Access { read: true, write: false, append: false }, Since::now());
        let (link, mode) = (process, 0);
        let waiting = Waiting { link, process, access, since, mode, parts: false, path };
        waits.add(waiting, ask, registry);
    }

    #[test]
    fn a_wait_is_told_of_once_a_minute_and_ends_here_and_in_the_registry() {
        let (mut waits, mut registry) = (Waits::default(), Registry::behind(0));
        let areas = Areas::new().unwrap();
        wait(&mut waits, &mut registry, 1, "/d/one");
        wait(&mut waits, &mut registry, 2, "/d/two");
        assert!(waits.reminders(&registry, &areas).is_empty());
        waits.waits.values_mut().next().unwrap().since.began -= REMINDS;
        let text =
            "/d/one: p1 has waited 60 s for generation 1; no program has opened it for writing";
        assert_eq!(waits.reminders(&registry, &areas), [(1, text.to_owned())]);
        assert!(waits.reminders(&registry, &areas).is_empty());
        assert_eq!(waits.describe(&registry, &areas).count(), 2);
        assert_eq!(waits.take(&mut registry, |one| one.process == 1).len(), 1);
        assert!(registry.waits.all.keys().eq(waits.waits.keys()));
        assert_eq!(waits.next(), waits.waits.values().next().map(|one| one.since.next()));
    }
}
