//! Actions that wait for other nodes or threads: for bytes that are being fetched or copied, or for
//! acknowledgements.

use super::owner::Owner;
use super::waits::Waiting;
use crate::peers::{Action, Message};
use crate::protocol::{Before, Reply, Request};
use crate::registry::{Area, Handle, Opening, Process};
use aggio_link::Peer;
use std::io;

/// An action that waits.
#[derive(Debug)]
pub(super) enum After {
    /// An open is answered.
    Open(Waiting, Opening),
    /// The program of a connection gets this answer.
    Reply(u64, Reply),
    /// A process has synchronised an open file.
    Synced(u64, Process, Handle),
    /// A process has written the number of records.
    Announced(u64, Process, Handle, Before),
    /// A message of a node that writes is handled.
    Hear(Peer, Message),
    /// A process of another node, by its number there, is served.
    Ask { peer: Peer, process: u64, ticket: u64, request: Request },
    /// The generation may be complete.
    Look(Area),
    /// It is stored on disk.
    Store(Area, Vec<u8>),
}

/// The end of something that has taken a while.
#[derive(Debug)]
pub(super) enum Ended {
    /// An action that has waited is done now.
    Ready(After),
    /// Bytes of a generation do not come that an action has waited for, and the error.
    Failed(Area, After, String),
    /// The memory of an open is there, or the number of the error.
    Open(Option<i32>, Waiting, Opening),
    /// A generation was cut to no bytes.
    Emptied(Area),
    /// A generation was given up.
    Freed(Area),
}

impl Owner {
    /// Goes on with the next thing that has ended; false if there is none.
    pub(super) fn go_on(&mut self) -> bool {
        match self.life.ended.pop_front() {
            None => return false,
            Some(Ended::Ready(after)) => self.finish(after),
            Some(Ended::Failed(area, after, text)) => self.fail(area, after, text),
            Some(Ended::Open(failed, waiting, opening)) => {
                self.hand_over_if(failed, &waiting, opening);
            }
            Some(Ended::Emptied(area)) => self.steps.spoil(area, &mut self.life.own.registry),
            Some(Ended::Freed(area)) => self.steps.remove(area),
        }
        true
    }

    fn finish(&mut self, after: After) {
        match after {
            After::Open(waiting, opening) => self.hand_over_if(None, &waiting, opening),
            After::Reply(link, reply) => self.reply(link, reply),
            After::Synced(link, process, handle) => {
                let reply = self.synced(process, handle);
                self.reply(link, reply);
            }
            After::Announced(link, process, handle, before) => {
                let (registry, areas) = (&mut self.life.own.registry, &self.life.own.memory.areas);
                let reply = self.steps.announced((process, handle), before, registry, areas);
                self.reply(link, reply);
            }
            After::Hear(peer, message) => {
                if let Err(error) = self.hear_writer(peer, message, &[]) {
                    self.life.actions.push(Action::Refuse(peer, error));
                }
            }
            After::Ask { peer, process, ticket, request } => {
                self.life.actions.push(Action::AskFor { peer, process, ticket, request });
            }
            After::Look(area) => self.life.look(area),
            After::Store(area, path) => self.life.store(area, path),
        }
    }

    /// The bytes of a generation do not come that an action waits for.
    fn fail(&mut self, area: Area, after: After, text: String) {
        let failed = Reply::Failed(libc::EIO, text.clone());
        match after {
            After::Open(waiting, opening) => {
                self.life.end_promise(opening.area, opening.handle);
                self.life.own.registry.withdraw(waiting.process, opening.handle);
                self.reply(waiting.link, failed);
            }
            After::Reply(link, _) | After::Synced(link, ..) | After::Announced(link, ..) => {
                self.reply(link, failed);
            }
            After::Hear(peer, _) => {
                // The node must not wait for bytes that will never come.
                self.life.own.fail_writing(area);
                self.life.say(peer, Message::Free(area));
            }
            After::Ask { peer, ticket, .. } => {
                self.life.say(peer, Message::Answer(ticket, failed.encode()));
            }
            After::Look(area) => self.life.own.fail_writing(area),
            After::Store(area, _) => {
                let error = io::Error::other(text);
                self.life.storage.stored(area, Err(error), &mut self.life.own.registry);
            }
        }
    }
}
