//! All names, and which of them have changed.

use super::{Answer, Area, Ask, Caller, Dead, Handle, Job, Name, Path, Process, Processes};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

/// The name of the file `path` in the directory `dir`, if it is in that itself.
pub(crate) fn name_in<'a>(path: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    let rest = path.strip_prefix(dir)?.strip_prefix(b"/")?;
    (!rest.is_empty() && !rest.contains(&b'/')).then_some(rest)
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    all: BTreeMap<Path, Name>,
    /// Files that have changed since the last call of `touched`.
    touched: BTreeSet<Path>,
}

impl Deref for Names {
    type Target = BTreeMap<Path, Name>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Names {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}

impl Names {
    /// A file has changed.
    pub(crate) fn touch(&mut self, path: &[u8]) {
        self.touched.insert(path.to_vec());
    }

    /// Files that have changed since the last call.
    pub(crate) fn touched(&mut self) -> BTreeSet<Path> {
        std::mem::take(&mut self.touched)
    }

    /// A program has changed: files that it wrote last do, too.
    pub(super) fn touch_written_by(&mut self, job: Job) {
        let written = self.all.iter().filter(|(_, name)| name.writer == Some(job));
        self.touched.extend(written.map(|(path, _)| path.clone()));
    }

    /// Nothing is known of a name any more.
    pub(crate) fn forget(&mut self, path: &[u8]) {
        self.remove(path);
        self.touch(path);
    }

    /// Forgets a name if nothing but numbers is left of it, and no process is there.
    pub(super) fn tidy(&mut self, path: &[u8], processes: &Processes) {
        if processes.is_empty() && self.get(path).is_some_and(Name::is_over) {
            self.remove(path);
        }
    }

    /// The names below the directory `dir`, without it, for which `is_there`.
    pub(super) fn list(&self, dir: &[u8], is_there: impl Fn(&[u8], &Name) -> bool) -> Vec<Path> {
        let found = self.iter().filter_map(|(path, name)| {
            let rest = name_in(path, dir)?;
            is_there(path, name).then(|| rest.to_vec())
        });
        found.collect()
    }

    /// A program opens a file: its rule is the one that holds.
    pub(super) fn opened(&mut self, job: Job, ask: &Ask) {
        if let Some(name) = self.get_mut(&ask.path) {
            name.options = ask.options.clone();
            name.writer = if ask.write { Some(job) } else { name.writer };
        }
    }

    /// A reader asks for a file: the name, made if it is new.
    pub(super) fn announce(&mut self, caller: &Caller, ask: &Ask) -> &mut Name {
        let name = self.entry(ask.path.clone()).or_default();
        name.options = ask.options.clone();
        name.announce(caller);
        name
    }

    /// Whether a program may still have to learn that a writer died.
    pub(crate) fn has_unreported_deaths(&self) -> bool {
        self.values().any(|name| name.dead.is_some())
    }

    /// A process that had read a part of a generation, or had written and closed it, knows that a
    /// writer of it has died.
    pub(crate) fn has_told_of_death(&mut self, process: Process, area: Area) {
        let dead = self.values_mut().filter_map(|name| name.dead.as_mut());
        for dead in dead.filter(|dead| dead.area == area) {
            dead.untold.remove(&process);
            dead.writers.remove(&process);
        }
    }

    /// The death that an answer of `EIO` reports.
    pub(crate) fn dead_writer(&self, path: &[u8], answer: &Answer) -> Option<&Dead> {
        let told = matches!(answer, Answer::Fail(libc::EIO) | Answer::OnDisk);
        self.get(path)?.dead.as_ref().filter(|_| told)
    }

    /// Whether an open for writing must fail because its process has not learned yet that its
    /// program, which has several ones, has lost a generation. An open that begins a generation
    /// has nothing to do with those before.
    pub(super) fn refuses(&mut self, caller: &Caller, path: &[u8], begins: bool) -> bool {
        let Some(name) = self.all.get_mut(path).filter(|_| caller.ranks > 1) else { return false };
        if begins {
            name.note_unreported(caller.job);
        }
        let is_first = name.tell_aborted(caller, None);
        if is_first.is_some() {
            self.touch(path);
        }
        is_first == Some(true) && !begins
    }

    /// Forgets the open of an earlier agent that a process asks for again by the same key: the
    /// process never had it, so that nothing is lost.
    pub(super) fn retract_unanswered(&mut self, job: Job, path: &[u8], key: u64) {
        if self.all.get_mut(path).is_some_and(|name| name.retract_unanswered(job, key)) {
            self.touch(path);
        }
    }

    /// A process learns that `handle` wrote a generation that is lost.
    pub(super) fn report_aborted(&mut self, caller: &Caller, handle: Handle) {
        for (path, name) in &mut self.all {
            if name.tell_aborted(caller, Some(handle)).is_some() {
                self.touched.insert(path.clone());
            }
        }
    }

    /// Programs may have ended. If so, readers learn of generations that they have lost and nobody
    /// has written again.
    pub(crate) fn end_aborted(&mut self, has_ended: impl Fn(Job) -> bool) {
        for (path, name) in &mut self.all {
            if name.end_aborted(&has_ended) {
                self.touched.insert(path.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Aborted, Who};

    const FILE: &[u8] = b"/d/f";

    #[test]
    fn names_are_listed_in_their_directory_only() {
        let mut names = Names::default();
        for path in [&b"/d/f"[..], b"/d/e/g", b"/df"] {
            names.insert(path.to_vec(), Name::default());
        }
        assert_eq!(names.list(b"/d/", |_, _| true), [b"f".to_vec()]);
        assert_eq!(names.list(b"/", |path, _| path != b"/d"), [b"df".to_vec()]);
        assert!(names.list(b"/d", |_, _| false).is_empty());
    }

    #[test]
    fn a_name_is_forgotten_when_no_process_is_there_and_nothing_is_left() {
        let (mut names, mut processes) = (Names::default(), Processes::default());
        names.insert(FILE.to_vec(), Name::default());
        processes.join(1, Who { job: 1, ranks: 1, family: 1, label: String::new() });
        names.tidy(FILE, &processes);
        assert!(names.contains_key(FILE));
        processes.end(1);
        names.get_mut(FILE).unwrap().dead = Some(Dead::unread(1, String::new()));
        names.tidy(FILE, &processes);
        assert!(names.has_unreported_deaths());
        names.get_mut(FILE).unwrap().dead = None;
        names.tidy(FILE, &processes);
        assert!(names.is_empty() && names.touched().is_empty());
    }

    #[test]
    fn a_process_is_refused_once_after_its_program_has_lost_a_generation() {
        let mut names = Names::default();
        let aborted = Aborted { number: 1, opens: [(7, 70)].into(), ..Aborted::default() };
        let name = Name { last: 1, aborted: [(1, aborted)].into(), ..Name::default() };
        names.insert(FILE.to_vec(), name);
        let caller = Caller { process: 5, job: 1, ranks: 3, family: Some(1), node: 0 };
        assert!(!names.refuses(&Caller { ranks: 1, ..caller }, FILE, false), "it is alone");
        assert!(names.touched().is_empty());
        assert!(names.refuses(&caller, FILE, false) && !names.refuses(&caller, FILE, false));
        assert!(!names.refuses(&Caller { process: 6, ..caller }, FILE, true), "it begins another");
        assert_eq!(names.touched(), [FILE.to_vec()].into());
    }
}
