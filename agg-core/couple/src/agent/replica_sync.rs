//! Carries out the actions that follow from messages about replicas, and from requests of programs
//! that use them.

use super::{Agent, LOOKS};
use crate::peers::{Action, Asked, ENOUGH, Key, Nodes, Peers, Replication, shown};
use crate::registry::Area;
use aggio_base::log;
use aggio_base::log::Level;
use std::io;
use std::os::fd::AsRawFd;

/// Steps without a message before programs are served again.
const STEPS: u32 = 32;

impl Agent {
    /// Does something with replicas, and carries out the actions that follow.
    pub(super) fn replicate(
        &mut self,
        what: impl FnOnce(&mut Replication, &mut Nodes) -> Vec<Action>,
    ) {
        self.act_on(|peers| what(&mut peers.replication, &mut peers.nodes));
    }

    /// The same with all that is known of other nodes.
    pub(super) fn act_on(&mut self, what: impl FnOnce(&mut Peers) -> Vec<Action>) {
        let actions = self.peers.as_mut().map(what);
        self.act(actions.unwrap_or_default());
    }

    /// Carries out actions in their order, each with all that follows from it.
    pub(super) fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            let Some(peers) = &mut self.peers else { return };
            match action {
                // A connection that has ended is noticed soon.
                Action::Say(peer, message, body) => _ = peers.nodes.say(peer, &message, body),
                Action::Send(key, messages) => {
                    if let Err(error) = peers.nodes.say_all(key.0, messages) {
                        return self.cannot_send(key, &error);
                    }
                }
                Action::Take(tag, peer, messages) => {
                    if let Err(error) = peers.nodes.say_all(peer, messages) {
                        self.replicate(|all, _| all.hear_lost(tag, peer, error.to_string()));
                    }
                }
                Action::Work(key) => self.work(key),
                Action::Fetch(key) => self.replicate(|all, nodes| all.fetch(key, nodes)),
                Action::Request(key) => self.replicate(|all, nodes| all.request(key, nodes)),
                Action::Share(key) => self.replicate(|all, _| all.share_now(key)),
                Action::Stored(key, granted) => self.has_sent(key, granted),
                Action::Push(key, series) => self.push_kept(key, &series),
                Action::Own(area, tag, offset, bytes, is_all) => {
                    self.has_come(area, (tag, offset), &bytes, is_all);
                }
                Action::Lost(tag, peer, text) => {
                    self.replicate(|all, _| all.hear_lost(tag, peer, text));
                }
                Action::FailPull(area, text) => self.fail_pull(area, text),
                Action::Refuse(peer, error) => self.refuse_peer(peer, &error),
                Action::Broken(key, error) => self.cannot_send(key, &error),
                action => self.act_for_program(action),
            }
        }
    }

    /// The same for an action that a program awaits.
    fn act_for_program(&mut self, action: Action) {
        match action {
            Action::Reply(link, reply) => _ = self.reply(link, &reply, None),
            Action::Wait(link) => self.links.let_wait(link),
            Action::Ask(peer, Asked { link, process, request }) => {
                self.ask(peer, link, process, request);
            }
            Action::HandOver(ticket) => self.hand_replica_over(ticket),
            Action::Opened(link, process, handle, generation) => {
                self.opened_away((link, process), handle, generation, None);
            }
            Action::Fail(ticket, reply) => self.act_on(|peers| peers.fail(ticket, reply)),
            Action::Withdraw(ticket, reply) => self.act_on(|peers| peers.withdraw(ticket, reply)),
            Action::OpenAgain(ticket) => self.act_on(|peers| peers.open_again(ticket)),
            Action::Serve(link, process, request) => self.serve_again(link, process, request),
            _ => {}
        }
    }

    /// Goes on with the messages of a replica, as far as that is possible now.
    pub(super) fn work(&mut self, key: Key) {
        let mut looks = 0;
        while let Some(peers) = &mut self.peers {
            let has_room = peers.nodes.queued(key.0) < ENOUGH;
            let Some(actions) = peers.replication.step(key, has_room) else { return };
            let is_silent = |one: &Action| matches!(one, Action::Send(_, all) if all.is_empty());
            looks += u32::from(actions.iter().any(is_silent));
            if looks > STEPS {
                return peers.nodes.go_on();
            }
            let is_broken = |one: &Action| matches!(one, Action::Broken(..));
            let ends = actions.iter().any(is_broken);
            self.act(actions);
            if ends {
                return;
            }
        }
    }

    /// Lets the owner of a replica have all written bytes if nobody on this node can write any
    /// more.
    pub(super) fn look_away(&mut self, key: Key) {
        let Some(peers) = &self.peers else { return };
        // If a descriptor is awaited, nobody has it open, but somebody is about to write.
        if peers.requests.await_descriptor(key) || !peers.replication.replicas.is_written(key) {
            return;
        }
        // The end of a writer comes before its bytes count.
        self.lose_the_dead();
        let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
        let Some(writers) = replicas.and_then(|all| all.writers(key)) else { return };
        if !self.clients.any_dies(writers) {
            self.replicate(|all, _| all.store(key));
        }
    }

    /// After a description that could write was closed: the kernel tells that before it counts one
    /// fewer, so that a replica may be found open that is not.
    pub(super) fn look_away_again(&mut self, key: Key, looks: u32) {
        self.look_away(key);
        let Some(peers) = &mut self.peers else { return };
        let replicas = &mut peers.replication.replicas;
        if looks < LOOKS && replicas.get(key).is_some_and(|replica| replica.writing.dirty) {
            replicas.closing.insert(key, looks + 1);
        }
    }

    /// The owner was sent all that was written until so many opens.
    fn has_sent(&mut self, key: Key, granted: u64) {
        self.lose_the_dead();
        let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
        let is_all = replicas
            .and_then(|all| all.get(key))
            .is_some_and(|replica| replica.writing.granted == granted);
        let Some(writers) = replicas.and_then(|all| all.writers(key)) else { return };
        if is_all && !self.clients.any_dies(writers) {
            self.replicate(|all, _| all.stored(key));
        }
    }

    /// Requested bytes of a generation of this node have come; whether all of their tag are here.
    fn has_come(&mut self, area: Area, (tag, offset): (u64, u64), bytes: &[u8], is_all: bool) {
        let file = self.own.memory.areas.open(area, true, true, false);
        let stored =
            file.and_then(|file| crate::peers::twin::write_all(file.as_raw_fd(), bytes, offset));
        match stored {
            Err(error) => {
                if let Some(peers) = &mut self.peers {
                    peers.replication.takes.fail(tag);
                }
                self.cannot_keep(area, &error);
                self.fail_pull(area, error.to_string());
            }
            Ok(()) if is_all => self.has_pulled(area, tag),
            Ok(()) => {}
        }
    }

    /// The connection with the owner of a replica is useless.
    fn cannot_send(&mut self, key: Key, error: &io::Error) {
        let Some(peers) = &mut self.peers else { return };
        let replica = peers.replication.replicas.get(key);
        let path = replica.map(|replica| shown(&replica.path)).unwrap_or_default();
        log!(Level::Error, "agent: {path}: what was written does not reach its owner: {error}");
        peers.nodes.close(key.0);
        self.lose_peer(key.0, error);
    }
}
