//! Carries out actions of the owner of generations, and those that follow from messages about
//! replicas and from requests of programs that use them.

use super::Agent;
use super::kept_bytes::Supply;
use crate::peers::{AWAY, Action, Asked, ENOUGH, Key, Message, Opened, Peers, shown};
use crate::protocol::{Reply, Request};
use aggio_base::log;
use aggio_base::log::Level;
use std::io;

/// Steps without a message before programs are served again.
const STEPS: u32 = 32;

impl Agent {
    /// Lets the owner go on, and carries out what follows, until nothing changes any more.
    pub(super) fn settle(&mut self) {
        self.owner.settle();
        self.carry_out();
    }

    /// Carries out the actions of the owner. Those that follow come behind all others, so that a
    /// program waits before it is answered.
    pub(super) fn carry_out(&mut self) {
        if std::mem::replace(&mut self.acts, true) {
            return;
        }
        loop {
            let actions = self.owner.actions();
            if actions.is_empty() {
                break;
            }
            self.act(actions);
        }
        self.acts = false;
    }

    /// Does something with all that is known of other nodes, and carries out the actions that
    /// follow.
    pub(super) fn act_on(&mut self, what: impl FnOnce(&mut Peers) -> Vec<Action>) {
        let actions = self.peers.as_mut().map(what);
        self.act(actions.unwrap_or_default());
    }

    /// Carries out actions in their order, each with all that follows from it.
    pub(super) fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Reply(link, reply) => _ = self.reply(link, &reply, None),
                Action::Wait(link) => self.links.let_wait(link),
                Action::Open(opened) => self.open(opened),
                Action::Route(asked) => self.route(asked),
                Action::Refuse(peer, error) => self.refuse_peer(peer, &error),
                Action::Broken(key, error) => self.cannot_send(key, &error),
                Action::Send(key, messages) => {
                    let Some(peers) = &mut self.peers else { continue };
                    if let Err(error) = peers.nodes.say_all(key.0, messages) {
                        return self.cannot_send(key, &error);
                    }
                }
                Action::Work(key) => self.work(key),
                Action::Look(key) => self.look_away(key),
                Action::Stored(key, granted) => self.has_sent(key, granted),
                action => self.act_for_owner(action),
            }
        }
    }

    /// The same for an action about generations of this node, or about other nodes alone.
    fn act_for_owner(&mut self, action: Action) {
        match action {
            Action::AskFor { peer, process, ticket, request } => {
                // The process may have ended meanwhile: then nobody waits for an answer.
                let guests = self.peers.as_ref().map(|peers| &peers.guests);
                if guests.is_some_and(|guests| guests.get(peer, process).is_ok())
                    && let Err(error) = self.ask_for(peer, process, ticket, request)
                {
                    self.refuse_peer(peer, &error);
                }
            }
            Action::Order(area, peer, message) => {
                if !self.tell(peer, &message) {
                    self.owner.acknowledged(area, peer);
                }
            }
            Action::Spill(holder, directory) => {
                // The bytes of a node that is gone are lost.
                if !self.tell(holder.peer, &Message::Spill(holder.area, directory)) {
                    self.owner.life.has_moved(holder, 0);
                }
            }
            Action::Pull(area) => {
                if let Some(peers) = &mut self.peers {
                    peers.pull(area, &mut self.owner.life.own.hosted);
                }
                self.owner.life.end_pull(area);
            }
            Action::Complete(area) => {
                self.supply().into_iter().for_each(|mut all| all.announce(area));
            }
            Action::Push(key, series) => {
                self.supply().into_iter().for_each(|mut all| all.push_kept(key, &series));
            }
            Action::Own(area, tag, offset, bytes, is_all) => {
                self.owner.has_come(area, (tag, offset), &bytes, is_all);
            }
            Action::FailPull(area, text) => self.owner.life.fail_pull(area, text),
            action => return self.act_on(|peers| peers.carry_out(action)),
        }
        self.settle();
    }

    fn supply(&mut self) -> Option<Supply<'_>> {
        Some(Supply { own: &mut self.owner.life.own, peers: self.peers.as_mut()? })
    }

    /// A program gets its handle, and the descriptor if there is one.
    fn open(&mut self, opened: Opened) {
        let Opened { link, process, handle, generation, file } = opened;
        let reply = Reply::Opened(handle, generation);
        let sent = self.reply(link, &reply, file.as_ref());
        drop(file);
        if sent {
            return;
        }
        // Nobody has it: the answer of its end is for nobody.
        match handle < AWAY {
            true => self.owner.life.own.registry.withdraw(process, handle),
            false => {
                let asked = Asked { link: 0, process, request: Request::Withdraw(handle) };
                self.act_on(|peers| peers.end(asked));
            }
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
        if !self.writer_dies(key) {
            self.act_on(|peers| peers.replication.store(key));
        }
    }

    /// The owner was sent all that was written until so many opens.
    fn has_sent(&mut self, key: Key, granted: u64) {
        let is_dying = self.writer_dies(key);
        let replica = self.peers.as_ref().and_then(|all| all.replication.replicas.get(key));
        let is_all = replica.is_some_and(|replica| replica.writing.granted == granted);
        if is_all && !is_dying {
            self.act_on(|peers| peers.replication.stored(key));
        }
    }

    /// Whether the owner of a replica is not to get what was written now: a process that wrote is
    /// ending without having said so, or one can write.
    fn writer_dies(&mut self, key: Key) -> bool {
        // The end of a writer comes before its bytes count.
        self.lose_the_dead();
        let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
        let writers = replicas.and_then(|all| all.writers(key));
        writers.is_none_or(|writers| self.owner.life.clients.any_dies(writers))
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
