//! Actions that wait for other nodes: for bytes that are being fetched, or for acknowledgements.

use super::Agent;
use super::waits::Waiting;
use crate::peers::Message;
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

impl Agent {
    pub(super) fn finish(&mut self, after: After) {
        match after {
            After::Open(waiting, opening) => self.hand_over_if(None, &waiting, opening),
            After::Reply(link, reply) => _ = self.reply(link, &reply, None),
            After::Synced(link, process, handle) => {
                let reply = self.synced(process, handle);
                self.reply(link, &reply, None);
            }
            After::Announced(link, process, handle, before) => {
                let (registry, areas) = (&mut self.own.registry, &self.own.memory.areas);
                let reply = self.steps.announced((process, handle), before, registry, areas);
                self.reply(link, &reply, None);
            }
            After::Hear(peer, message) => {
                if let Err(error) = self.hear_writer(peer, message, &[]) {
                    self.lose_peer(peer, &error);
                }
            }
            After::Ask { peer, process, ticket, request } => {
                // The process may have ended meanwhile: then nobody waits for an answer.
                if self.remote_process(peer, process).is_ok()
                    && let Err(error) = self.ask_for(peer, process, ticket, request)
                {
                    self.lose_peer(peer, &error);
                }
            }
            After::Look(area) => self.look(area),
            After::Store(area, path) => self.store(area, path),
        }
    }

    /// The bytes of a generation do not come that an action waits for.
    pub(super) fn fail(&mut self, area: Area, after: After, text: &str) {
        let failed = Reply::Failed(libc::EIO, text.to_owned());
        match after {
            After::Open(waiting, opening) => {
                self.waits.end_promise(opening.area, opening.handle);
                self.own.registry.withdraw(waiting.process, opening.handle);
                self.reply(waiting.link, &failed, None);
            }
            After::Reply(link, _) | After::Synced(link, ..) | After::Announced(link, ..) => {
                self.reply(link, &failed, None);
            }
            After::Hear(peer, _) => {
                // The node must not wait for bytes that will never come.
                self.own.fail_writing(area);
                self.tell(peer, &Message::Free(area));
            }
            After::Ask { peer, ticket, .. } => {
                self.tell(peer, &Message::Answer(ticket, failed.encode()));
            }
            After::Look(area) => self.own.fail_writing(area),
            After::Store(area, _) => {
                let error = io::Error::other(text.to_owned());
                self.storage.stored(area, Err(error), &mut self.own.registry);
            }
        }
    }

    /// Finishes actions of generations with all acknowledgements.
    pub(super) fn finish_held(&mut self) {
        let mut may_be_ready = false;
        while let Some(held) = self.own.hosted.next_held() {
            for after in held {
                may_be_ready |= matches!(after, After::Synced(..) | After::Announced(..));
                self.finish(after);
            }
        }
        if may_be_ready {
            self.settle();
        }
    }
}
