//! Routes of a generation, remembered while the extents of both sides stay as they are.

use crate::Digest;
use crate::Run;
use std::collections::BTreeMap;

/// What one agent sends another of each generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Who has the bytes.
    pub source: u32,
    /// Who wants them.
    pub destination: u32,
    /// Which bytes, in file order.
    pub runs: Vec<Run>,
}

/// What to do with a generation that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The writers wrote what they wrote before: each sends by these routes before anybody asks.
    Push(Vec<Route>),
    /// Something changed, or nothing is known yet: readers ask, and matchers answer.
    Match,
}

/// What is known of a file, from one generation to the next.
///
/// For each generation: [`Replay::complete`] when all writers have said what they wrote, then
/// [`Replay::read`] when all readers have said what they read; if that was not what had been
/// pushed, or nothing was, [`Replay::learn`] with the routes that were found.
#[derive(Debug, Default)]
pub struct Replay {
    writes: Option<Digest>,
    reads: Option<Digest>,
    routes: Vec<Route>,
}

impl Replay {
    /// All writers have said what they wrote, each by a digest of its runs and their orders.
    pub fn complete(&mut self, writes: &BTreeMap<u32, Digest>) -> Decision {
        let now = Digest::of_all(writes);
        if self.writes == Some(now) && self.reads.is_some() {
            return Decision::Push(self.routes.clone());
        }
        self.writes = Some(now);
        self.forget();
        Decision::Match
    }

    /// All readers have said what they read. Whether that is what the routes are for; if not,
    /// they are forgotten.
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
