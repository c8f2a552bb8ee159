//! Aborted generations: those that were being written when an earlier agent died. Their writers
//! learn that by an error, and may write them again; readers learn it if those end instead.
//! Processes of one program that have not learned it may yet come to write their part of the lost
//! generation: that must not be taken for a complete one.

use super::{Caller, Dead, Handle, Job, Name};

impl Name {
    /// A program begins another generation. If it does not know that it has lost one, readers are
    /// told.
    pub(super) fn note_unreported(&mut self, job: Job) {
        if let Some(aborted) = self.aborted.get(&job).filter(|aborted| aborted.told.is_empty()) {
            self.missing.insert(aborted.number);
        }
    }

    /// Forgets an open of an aborted generation by its key; whether there was one.
    pub(super) fn retract_unanswered(&mut self, job: Job, key: u64) -> bool {
        let Some(aborted) = self.aborted.get_mut(&job).filter(|_| key != 0) else { return false };
        let before = aborted.opens.len();
        aborted.opens.retain(|_, other| *other != key);
        let after = aborted.opens.len();
        if after == 0 && before > 0 {
            self.aborted.remove(&job);
        }
        after < before
    }

    /// A process learns that its program has lost a generation, which `handle` wrote if there is
    /// one. Returns whether that is new to it; nothing if the program has lost none. A loss that
    /// all processes know of, and that another generation follows, is forgotten.
    pub(super) fn tell_aborted(&mut self, caller: &Caller, handle: Option<Handle>) -> Option<bool> {
        let aborted = self.aborted.get_mut(&caller.job)?;
        if handle.is_some_and(|handle| !aborted.opens.contains_key(&handle)) {
            return None;
        }
        let is_new = aborted.told.insert(caller.process);
        if aborted.told.len() as u64 >= u64::from(caller.ranks) && self.last > aborted.number {
            self.aborted.remove(&caller.job);
        }
        Some(is_new)
    }

    /// Programs may have ended. Readers learn of their losses unless another generation follows.
    /// Whether there were any.
    pub(super) fn end_aborted(&mut self, has_ended: impl Fn(Job) -> bool) -> bool {
        let before = self.aborted.len();
        for (job, aborted) in std::mem::take(&mut self.aborted) {
            if !has_ended(job) {
                self.aborted.insert(job, aborted);
            } else if self.last == aborted.number && self.dead.is_none() {
                let writer = format!("the agent of {}", aborted.maker);
                self.dead = Some(Dead::unread(aborted.number, writer));
            }
        }
        self.aborted.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::name::Aborted;

    /// A name under which program 1, of two processes, has lost generation 2.
    fn name() -> Name {
        let aborted = Aborted { number: 2, opens: [(7, 70)].into(), ..Aborted::default() };
        Name { last: 2, aborted: [(1, aborted)].into(), ..Name::default() }
    }

    fn caller(process: u64) -> Caller {
        Caller { process, job: 1, ranks: 2, family: Some(1), node: 0 }
    }

    #[test]
    fn a_loss_is_forgotten_when_all_know_it_and_another_generation_follows() {
        let mut name = name();
        assert_eq!(name.tell_aborted(&caller(5), Some(8)), None, "another open");
        assert_eq!(name.tell_aborted(&caller(5), Some(7)), Some(true));
        assert_eq!(name.tell_aborted(&caller(5), None), Some(false));
        name.add(70);
        assert_eq!(name.tell_aborted(&caller(6), None), Some(true));
        assert_eq!(name.tell_aborted(&caller(6), None), None);
    }

    #[test]
    fn readers_learn_of_a_loss_when_its_program_has_ended() {
        let mut name = name();
        assert!(!name.end_aborted(|_| false) && name.dead.is_none());
        assert!(name.end_aborted(|job| job == 1));
        assert_eq!(name.dead.unwrap().number, 2);
    }

    #[test]
    fn what_was_not_answered_is_no_loss() {
        let mut name = name();
        assert!(!name.retract_unanswered(1, 0) && !name.retract_unanswered(1, 71));
        assert!(name.retract_unanswered(1, 70) && name.aborted.is_empty());
        assert!(!name.retract_unanswered(1, 70));
    }
}
