//! Events before a program asked: ends and last closes that the kernel tells by other
//! descriptors than the request comes by.
//!
//! A parent that has waited for a child which wrote a file may open that file anew before this
//! agent has read that the child has closed it. The generation of the child is complete then, and
//! must not be taken for one that is still being written.

use super::Agent;
use crate::peers::{Key, Replicas};
use crate::protocol::Request;
use crate::registry::{Area, Registry, State};

/// The files that the answer to a request depends on.
enum Subject<'a> {
    Named([&'a [u8]; 2]),
    All,
}

impl Subject<'_> {
    fn have(&self, path: &[u8]) -> bool {
        match self {
            Subject::Named(names) => names.contains(&path),
            Subject::All => true,
        }
    }
}

fn subject(request: &Request) -> Option<Subject<'_>> {
    Some(Subject::Named(match request {
        Request::Open { ask, .. } => [&ask.path, &[]],
        Request::Empty(path) | Request::Unlink(path, _) | Request::Stat(path, _) => [path, &[]],
        Request::Rename(from, to, _) => [from, to],
        Request::List(..) => return Some(Subject::All),
        _ => return None,
    }))
}

impl Subject<'_> {
    /// The generations of this node that are being written.
    fn written(&self, registry: &Registry) -> Vec<Area> {
        let areas: Vec<Area> = match self {
            Subject::Named(names) => {
                let names = names.iter().filter_map(|name| registry.files.names.get(*name));
                names.flat_map(|name| name.generations.values().copied()).collect()
            }
            Subject::All => registry.files.generations.keys().copied().collect(),
        };
        let state = |area: &Area| registry.files.generations.get(area).map(|one| one.state);
        areas.into_iter().filter(|area| state(area) == Some(State::Writing)).collect()
    }

    /// The replicas with bytes that their owners do not have.
    fn unsent(&self, replicas: &Replicas) -> Vec<Key> {
        let of_these = replicas.dirty().filter(|(_, replica)| self.have(&replica.path));
        of_these.map(|(key, _)| *key).collect()
    }
}

impl Agent {
    /// Learns of the events by now about the files of a request.
    pub(super) fn catch_up(&mut self, request: &Request) {
        let Some(subject) = subject(request) else { return };
        // A process that has ended is heard first, and its last request may be such a one.
        if std::mem::replace(&mut self.catches_up, true) {
            return;
        }
        self.lose_the_dead();
        for area in subject.written(&self.owner.life.own.registry) {
            self.owner.life.look(area);
        }
        self.settle();
        let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
        let unsent = replicas.map(|replicas| subject.unsent(replicas));
        unsent.into_iter().flatten().for_each(|key| self.look_away(key));
        self.catches_up = false;
    }
}
