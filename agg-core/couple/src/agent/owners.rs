//! Owners that have ended: what programs of this node are told.

use super::Agent;
use crate::peers::shown;
use crate::protocol::{Reply, Request};
use crate::registry::Process;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::Peer;
use std::collections::BTreeSet;
use std::io;

impl Agent {
    /// The connection with an owner has ended.
    pub(super) fn lose_owner(&mut self, peer: Peer, why: &io::Error) {
        let Some(peers) = &mut self.peers else { return };
        let host = peers.nodes.host(peer);
        // Nobody was there, and the names are free: what was asked can be asked again.
        peers.joined.retain(|(other, _)| *other != peer);
        let never = peers.nodes.forget(peer) && why.kind() == io::ErrorKind::ConnectionRefused;
        let keys = peers.copies.of(peer);
        let text = format!("the agent of {host} has ended: {why}");
        let mut unsaved = false;
        for key in keys {
            let Some(peers) = &mut self.peers else { return };
            let copy = peers.copies.get(key);
            let lost = copy.is_some_and(|copy| copy.dirty);
            unsaved |= lost;
            if let Some(copy) = copy.filter(|_| lost) {
                log!(
                    Level::Error,
                    "agent: {}: what was written is lost: {text}",
                    shown(&copy.path)
                );
            }
            let handles = peers.copies.handles.iter().filter(|(_, held)| held.key == key);
            let handles: Vec<(u64, Process)> =
                handles.map(|(handle, held)| (*handle, held.process)).collect();
            for (handle, process) in handles {
                peers.copies.handles.remove(&handle);
                let text = if lost { text.clone() } else { String::new() };
                self.lost.insert(handle, (process, text));
            }
            let ended = io::Error::other(text.clone());
            self.fail_shared(key, &ended);
            self.fail_wanting(key, &ended);
            let Some(peers) = &mut self.peers else { return };
            peers.copies.give_up(key);
        }
        let Some(peers) = &mut self.peers else { return };
        let of_it = peers.unanswered.iter().filter(|(of, _)| *of == peer);
        let unanswered: BTreeSet<u64> = of_it.map(|(_, theirs)| *theirs).collect();
        peers.unanswered.retain(|(of, _)| *of != peer);
        let tickets = peers.tickets.iter().filter(|(_, kept)| kept.peer == peer);
        let tickets: Vec<u64> = tickets.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            let kept = self.peers.as_mut().and_then(|peers| peers.tickets.remove(&ticket));
            let Some(kept) = kept else { continue };
            match Request::decode(&kept.request) {
                // It owns no files any more.
                Ok(Request::List(..)) => {
                    self.hear_names(kept.link, Reply::Names(Vec::new(), false));
                }
                Ok(request) if never => self.serve_again(kept.link, kept.process, request),
                // Whether the owner got what was written is not known.
                Ok(Request::Close(theirs, _)) if unanswered.contains(&theirs) => {
                    self.reply(kept.link, &Reply::Failed(libc::EIO, text.clone()), None);
                }
                Ok(Request::Close(..) | Request::Check(..)) if !unsaved => {
                    self.reply(kept.link, &Reply::Done, None);
                }
                _ => drop(self.reply(kept.link, &Reply::Failed(libc::EIO, text.clone()), None)),
            }
        }
    }
}
