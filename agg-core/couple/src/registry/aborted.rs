//! Aborted generations: those that were being written when an earlier agent died. Their writers
//! learn that by an error, and may write them again; readers learn it if those end instead.
//! Processes of one program that have not learned it may yet come to write the rest of what others
//! have lost: that must not be taken for a complete generation.

use super::{Answer, Ask, Dead, Handle, Job, Process, Registry, State};

impl Registry {
    /// The answer to an open for writing by one of several processes of a program that has lost a
    /// generation, if it has not been told so yet. What others of the program have begun anew
    /// meanwhile will not be complete without it.
    pub(super) fn refused_after_abort(&mut self, process: Process, ask: &Ask) -> Option<Answer> {
        let who = self.processes.get(&process).filter(|who| who.ranks > 1)?;
        let (job, ranks, label) = (who.job, who.ranks, who.label.clone());
        if ask.truncate {
            self.note_unreported(job, &ask.path);
        }
        let aborted = self.names.get_mut(&ask.path)?.aborted.get_mut(&job)?;
        let is_first = aborted.told.insert(process);
        self.forget_aborted(&ask.path, job, ranks);
        // One that begins a generation has nothing to do with those before.
        if !is_first || ask.truncate {
            return None;
        }
        let newest = self.newest(&ask.path);
        let newest = newest.filter(|(_, one)| one.state == State::Writing);
        if let Some(area) = newest.filter(|(_, one)| one.jobs.contains(&job)).map(|(area, _)| area)
        {
            self.declare_dead(area, label);
        }
        Some(Answer::Fail(libc::ESTALE))
    }

    /// Forgets the open of an earlier agent that a process asks for again by the same key: the
    /// process never had it, so that nothing is lost.
    pub(super) fn retract_unanswered(&mut self, process: Process, ask: &Ask) {
        let job = self.job(process);
        let Some(name) = self.names.get_mut(&ask.path) else { return };
        let Some(aborted) = name.aborted.get_mut(&job) else { return };
        let before = aborted.opens.len();
        aborted.opens.retain(|_, key| ask.key == 0 || *key != ask.key);
        if aborted.opens.len() == before {
            return;
        }
        if aborted.opens.is_empty() {
            name.aborted.remove(&job);
        }
        self.touch(&ask.path);
    }

    /// A program begins another generation. If it does not know that it has lost one, readers are
    /// told.
    pub(super) fn note_unreported(&mut self, job: Job, path: &[u8]) {
        let Some(name) = self.names.get_mut(path) else { return };
        if let Some(aborted) = name.aborted.get(&job).filter(|aborted| aborted.told.is_empty()) {
            name.unreported = name.unreported.max(aborted.number);
        }
    }

    /// A process learns that what it wrote by `handle` is lost.
    pub(crate) fn report_aborted(&mut self, process: Process, handle: Handle) {
        let Some(who) = self.processes.get(&process) else { return };
        let (job, ranks) = (who.job, who.ranks);
        let mut paths = Vec::new();
        for (path, name) in &mut self.names {
            let aborted =
                name.aborted.get_mut(&job).filter(|aborted| aborted.opens.contains_key(&handle));
            if let Some(aborted) = aborted {
                aborted.told.insert(process);
                paths.push(path.clone());
            }
        }
        paths.iter().for_each(|path| self.forget_aborted(path, job, ranks));
    }

    /// Forgets a loss that all processes of the program know of, and that another generation
    /// follows.
    fn forget_aborted(&mut self, path: &[u8], job: Job, ranks: u32) {
        self.touch(path);
        let Some(name) = self.names.get_mut(path) else { return };
        let last = name.last;
        let is_over = |told: usize, number| told as u64 >= u64::from(ranks) && last > number;
        if name.aborted.get(&job).is_some_and(|aborted| is_over(aborted.told.len(), aborted.number))
        {
            name.aborted.remove(&job);
        }
    }

    /// Programs that have lost a generation, and of which no process is there.
    pub(crate) fn aborted_without_processes(&self) -> Vec<Job> {
        let aborted = self.names.values().flat_map(|name| name.aborted.keys().copied());
        aborted.filter(|job| !self.has_processes(*job)).collect()
    }

    fn has_processes(&self, job: Job) -> bool {
        self.processes.values().any(|who| who.job == job)
    }

    /// A program may have ended, or some of it. If so, and nobody has written again what it has
    /// lost, readers learn that.
    pub(crate) fn end_aborted(&mut self, job: Job) {
        if self.has_processes(job) {
            return;
        }
        let mut touched = Vec::new();
        for (path, name) in &mut self.names {
            let Some(aborted) = name.aborted.remove(&job) else { continue };
            touched.push(path.clone());
            if name.last == aborted.number && name.dead.is_none() {
                let writer = format!("the agent of {}", aborted.maker);
                name.dead = Some(Dead::unread(aborted.number, writer));
            }
        }
        touched.iter().for_each(|path| self.touch(path));
    }
}
