//! What happened before a program asked: ends and last closes that the kernel tells by other
//! descriptors than the request comes by.
//!
//! A parent that has waited for a child which wrote a file may open that file anew before this
//! agent has read that the child has closed it. The generation of the child is complete then, and
//! must not be taken for one that is still being written.

use super::Agent;
use crate::peers::Key;
use crate::protocol::Request;
use crate::registry::{Area, State};

/// The files that the answer to a request depends on.
enum Files<'a> {
    Named([&'a [u8]; 2]),
    All,
}

impl Files<'_> {
    fn have(&self, path: &[u8]) -> bool {
        match self {
            Files::Named(names) => names.contains(&path),
            Files::All => true,
        }
    }
}

fn files(request: &Request) -> Option<Files<'_>> {
    Some(Files::Named(match request {
        Request::Open { ask, .. } => [&ask.path, &[]],
        Request::Empty(path) | Request::Unlink(path, _) | Request::Stat(path, _) => [path, &[]],
        Request::Rename(from, to, _) => [from, to],
        Request::List(..) => return Some(Files::All),
        _ => return None,
    }))
}

impl Agent {
    /// Learns what has happened by now to the files that a request is about.
    pub(super) fn catch_up(&mut self, request: &Request) {
        let Some(files) = files(request) else { return };
        // A process that has ended is heard first, whose last request may be such a one.
        if std::mem::replace(&mut self.catches_up, true) {
            return;
        }
        self.lose_the_dead();
        for area in self.written(&files) {
            self.look(area);
        }
        for key in self.written_away(&files) {
            self.look_away(key);
        }
        self.catches_up = false;
    }

    fn written(&self, files: &Files<'_>) -> Vec<Area> {
        let areas: Vec<Area> = match files {
            Files::Named(names) => {
                let names = names.iter().filter_map(|name| self.own.registry.names.get(*name));
                names.flat_map(|name| name.generations.values().copied()).collect()
            }
            Files::All => self.own.registry.generations.keys().copied().collect(),
        };
        let state = |area: &Area| self.own.registry.generations.get(area).map(|one| one.state);
        areas.into_iter().filter(|area| state(area) == Some(State::Writing)).collect()
    }

    fn written_away(&self, files: &Files<'_>) -> Vec<Key> {
        let replicas = self.peers.iter().flat_map(|peers| peers.replication.replicas.dirty());
        replicas.filter(|(_, copy)| files.have(&copy.path)).map(|(key, _)| *key).collect()
    }
}
