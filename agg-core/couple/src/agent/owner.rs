//! The owner of generations: serves requests and messages about them, and leaves actions for the
//! agent.

use super::lifecycle::Lifecycle;
use super::step::Steps;
use super::waits::{Waiting, Waits};
use crate::peers::Action;
use crate::place::Place;
use crate::protocol::Reply;
use crate::registry::{Area, Ask, Path, Process};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::Peer;
use std::io;
use std::time::Instant;

/// All generations of this node, and the programs that wait for them.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) life: Lifecycle,
    pub(super) waits: Waits,
    pub(super) steps: Steps,
}

impl Owner {
    /// No generations; numbers are counted from `number` on.
    ///
    /// # Errors
    /// As [`Lifecycle::new`].
    pub(super) fn new(place: Place, number: u64) -> io::Result<Self> {
        let life = Lifecycle::new(place, number)?;
        Ok(Self { life, waits: Waits::default(), steps: Steps::default() })
    }

    /// Takes the actions since the last call.
    pub(super) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.life.actions)
    }

    pub(super) fn reply(&mut self, link: u64, reply: Reply) {
        self.life.actions.push(Action::Reply(link, reply));
    }

    /// The program of a connection is answered later.
    pub(super) fn let_wait(&mut self, link: u64) {
        self.life.actions.push(Action::Wait(link));
    }

    /// Carries out effects of the registry, until nothing changes any more.
    pub(super) fn settle(&mut self) {
        loop {
            self.life.own.memory.free_left(&self.life.own.registry);
            if let Some(number) = self.life.carry_out(0) {
                let error = io::Error::from_raw_os_error(number);
                log!(Level::Error, "agent: memory of a generation: {error}");
            }
            self.life.own.memory.measure_for_waits(&self.waits, &mut self.life.own.registry);
            if let Some((waiting, answer)) = self.waits.ready(&mut self.life.own.registry) {
                self.answer(&waiting, answer);
            } else if let Some(held) = self.life.own.hosted.next_held() {
                self.life.ended.extend(held.into_iter().map(super::deferred::Ended::Ready));
            } else if !self.go_on()
                && !self.life.own.move_ahead()
                && self.life.own.registry.files.effects.is_empty()
            {
                break;
            }
        }
        for (link, reply) in self.steps.answers(&mut self.life.own.registry) {
            self.reply(link, reply);
        }
    }

    /// Does what is due by now.
    pub(super) fn tick(&mut self) {
        let registry = &mut self.life.own.registry;
        self.life.own.memory.spares.hear();
        self.life.storage.try_again(registry);
        self.life.folders.try_again(registry);
        self.life.folders.forget_told(registry);
        self.life.hear_background();
        self.settle();
        let mut all = self.steps.reminders(&self.life.own.registry);
        all.extend(self.waits.reminders(&self.life.own.registry, &self.life.own.memory.areas));
        for (link, text) in all {
            log!(Level::Warn, "agent: {text}");
            self.reply(link, Reply::Waits(text));
        }
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let life = &self.life;
        let look = (!life.closing.is_empty()).then(Instant::now);
        let work = [life.storage.next(), life.folders.next(), life.own.memory.spares.until()];
        let waits = [look, self.waits.next(), self.steps.next()];
        work.into_iter().chain(waits).flatten().min()
    }

    /// A process of this node has ended. Returns whether in order, if it was known.
    pub(super) fn lose(&mut self, process: Process) -> Option<bool> {
        let Lifecycle { clients, own, .. } = &mut self.life;
        let client = clients.remove(process)?;
        clients.end(process, client.orderly, &mut own.registry);
        Some(client.orderly)
    }

    /// A process of another node has ended. Returns the numbers of its requests that wait.
    pub(super) fn lose_remote(&mut self, remote: Process, orderly: bool) -> Vec<u64> {
        let opens = self.life.own.registry.opens.values();
        let opens = opens.filter(|open| open.process == remote && open.write);
        let areas: Vec<Area> = opens.map(|open| open.area).collect();
        let waits = self.waits.take(&mut self.life.own.registry, |one| one.process == remote);
        let mut ended = self.steps.forget(remote);
        ended.extend(waits.iter().map(|(waiting, _)| waiting.link));
        self.life.clients.end(remote, orderly, &mut self.life.own.registry);
        self.settle();
        areas.into_iter().for_each(|area| self.life.release(area));
        ended
    }

    /// The connection with another node has ended: a generation is not complete if the node does
    /// not send its bytes.
    pub(super) fn lose_node(&mut self, peer: Peer) {
        let hosted = self.life.own.hosted.of(peer).into_iter();
        hosted.for_each(|area| self.life.own.fail_writing(area));
        self.life.own.hosted.lose(peer);
        self.life.end_moves();
    }

    /// The connection of a program has ended.
    pub(super) fn hang_up(&mut self, link: u64) {
        self.waits.take(&mut self.life.own.registry, |one| one.link == link);
        self.steps.cancel(link);
    }

    /// What the program of a connection waits for is not wanted any more; false if it waits for
    /// nothing here.
    pub(super) fn cancel(&mut self, link: u64) -> bool {
        let waits =
            !self.waits.take(&mut self.life.own.registry, |one| one.link == link).is_empty();
        let cancelled = self.steps.cancel(link) || waits;
        if cancelled {
            self.reply(link, Reply::Failed(libc::EINTR, String::new()));
        }
        cancelled
    }

    /// Whether nothing was written under a name, so that another node may own it.
    pub(super) fn may_hand_over(&self, path: &Path) -> bool {
        let name = self.life.own.registry.files.names.get(path);
        name.is_none_or(|one| one.is_unwritten()) && self.waits.written().all(|one| one != path)
    }

    /// Another node owns a name. Returns the opens that wait for it.
    pub(super) fn hand_over_name(&mut self, path: &Path) -> Vec<(Waiting, Ask)> {
        self.life.own.registry.files.names.forget(path);
        self.waits.take(&mut self.life.own.registry, |one| one.path == *path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FILE, open};
    use super::*;
    use crate::peers::{Message, Opened};
    use crate::protocol::Request;
    use crate::registry::Who;
    use std::os::fd::AsRawFd;

    const PEER: Peer = Peer(9);

    /// An owner of nothing that knows a process of this node and one of another: 1 and 2.
    fn owner() -> (Owner, tempfile::TempDir) {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place::open(scratch.path().join("place").to_str().unwrap()).unwrap();
        let mut owner = Owner::new(place, 100).unwrap();
        let registry = &mut owner.life.own.registry;
        for job in [1, 2] {
            registry.join(job, Who { job, ranks: 1, family: job, label: String::new() });
        }
        registry.processes.lives_on(2, PEER.0);
        (owner, scratch)
    }

    /// A request to join the writers of the file.
    fn write() -> Request {
        let ask = Ask { path: FILE.to_vec(), write: true, create: true, ..Ask::default() };
        let [read, append, blocking, parts] = [false; 4];
        Request::Open { ask, read, append, blocking, parts, mode: 0o600 }
    }

    #[test]
    fn an_open_waits_until_a_node_that_wrote_alone_knows_that_it_does_so_no_more() {
        let (mut owner, _scratch) = owner();
        owner.serve(20, 2, write());
        let Ok([Action::Open(Opened { handle, generation, file: Some(file), .. })]) =
            <[Action; 1]>::try_from(owner.actions())
        else {
            panic!()
        };
        let lent = owner.life.own.lend(PEER, handle, generation, file.as_raw_fd()).unwrap();
        drop(file);
        owner.serve(10, 1, write());
        let actions = owner.actions();
        assert!(
            matches!(
                actions[..],
                [Action::Order(area, PEER, Message::Share(of)), Action::Wait(10)]
                    if area == lent.area && of == area
            ),
            "{actions:?}"
        );
        owner.settle();
        assert!(owner.actions().is_empty(), "nothing was acknowledged");
        owner.hear(PEER, None, Message::Acknowledged(lent.area, false), &[]).unwrap();
        let actions = owner.actions();
        assert!(matches!(actions[..], [Action::Open(Opened { link: 10, .. })]), "{actions:?}");
    }

    #[test]
    fn a_wait_that_is_cancelled_is_answered_once_and_ends_with_its_connection() {
        let (mut owner, _scratch) = owner();
        for link in [10, 11] {
            owner.serve(link, 1, open(false, true));
            assert!(matches!(owner.actions()[..], [Action::Wait(_)]));
        }
        owner.hang_up(11);
        assert!(owner.cancel(10) && !owner.cancel(10) && !owner.cancel(11));
        let actions = owner.actions();
        let is_it =
            |action: &Action| matches!(action, Action::Reply(10, Reply::Failed(libc::EINTR, _)));
        assert!(actions.len() == 1 && is_it(&actions[0]), "{actions:?}");
    }
}
