//! Routes of a generation, remembered while the extents of both sides stay as they are.

use crate::Digest;
use crate::Run;
use std::collections::BTreeMap;

/// The bytes that one agent sends another in each generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The agent that has the bytes.
    pub source: u32,
    /// The agent that needs them.
    pub destination: u32,
    /// Which bytes, in file order.
    pub runs: Vec<Run>,
}

/// The next step for a complete generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The writes are those of the generation before: each source sends by these routes, without
    /// requests.
    Push(Vec<Route>),
    /// Something changed, or nothing is known yet: readers send requests, and matchers answer.
    Match,
}

/// State of a file, kept from one generation to the next.
///
/// For each generation call [`Replay::complete`] when the runs of all writers are known, then
/// [`Replay::read`] when those of all readers are; if they differ from the pushed routes, or none
/// were pushed, call [`Replay::learn`] with the routes that were found.
#[derive(Debug, Default)]
pub struct Replay {
    writes: Option<Digest>,
    reads: Option<Digest>,
    routes: Vec<Route>,
}

impl Replay {
    /// Records the runs of all writers, each as a digest of its runs and their orders.
    pub fn complete(&mut self, writes: &BTreeMap<u32, Digest>) -> Decision {
        let now = Digest::of_all(writes);
        if self.writes == Some(now) && self.reads.is_some() {
            return Decision::Push(self.routes.clone());
        }
        self.writes = Some(now);
        self.forget();
        Decision::Match
    }

    /// Records the runs of all readers. Returns whether the routes are for these runs; if not, the
    /// routes are dropped.
    pub fn read(&mut self, reads: &BTreeMap<u32, Digest>) -> bool {
        let same = self.reads == Some(Digest::of_all(reads));
        if !same {
            self.forget();
        }
        same
    }

    /// The routes of the generation that was just read.
    pub fn learn(&mut self, reads: &BTreeMap<u32, Digest>, routes: Vec<Route>) {
        (self.reads, self.routes) = (Some(Digest::of_all(reads)), routes);
    }

    fn forget(&mut self) {
        (self.reads, self.routes) = (None, Vec::new());
    }
}
