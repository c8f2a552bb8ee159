//! The index of a matcher: the written runs of its blocks, and their writers.

use crate::{Run, compress};
use aggio_base::Extent;
use std::collections::{BTreeMap, BinaryHeap};

/// Which of two writes of the same byte counts: the later one, of one collective call that of the
/// higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// Number of the write; earlier writes have smaller ones.
    pub sequence: u64,
    /// The rank that wrote.
    pub rank: u32,
}

/// The requested bytes that one source has, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The agent that has them.
    pub source: u32,
    /// Which bytes.
    pub runs: Vec<Run>,
}

/// There is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes of the index that there may be.
    pub most: usize,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let most = self.most;
        write!(f, "the extents of this file need more than {most} bytes of one matcher's index")
    }
}

impl std::error::Error for Full {}

#[derive(Clone, Copy, Debug)]
struct Entry {
    run: Run,
    order: Order,
    source: u32,
}

/// The index of one matcher.
#[derive(Debug)]
pub struct Matcher {
    /// By their first bytes, if `sorted`.
    entries: Vec<Entry>,
    /// The furthest end of all entries up to here.
    reach: Vec<u64>,
    sorted: bool,
    most: usize,
}

impl Matcher {
    /// The default limit of an index in bytes.
    pub const MOST: usize = 1 << 20;

    /// An empty index of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { entries: Vec::new(), reach: Vec::new(), sorted: true, most }
    }

    /// Bytes of an index with this number of runs.
    pub const fn bytes_for(runs: usize) -> usize {
        runs * (size_of::<Entry>() + size_of::<u64>())
    }

    /// Bytes of the index.
    pub fn bytes(&self) -> usize {
        Self::bytes_for(self.entries.len())
    }

    /// Notes that `source` has written `runs`.
    ///
    /// # Errors
    /// If there is no room. Then nothing of it is noted, and the matcher must not be asked: its
    /// answers would lack these bytes.
    pub fn write(&mut self, source: u32, order: Order, runs: &[Run]) -> Result<(), Full> {
        if Self::bytes_for(self.entries.len() + runs.len()) > self.most {
            return Err(Full { most: self.most });
        }
        self.entries.extend(runs.iter().map(|run| Entry { run: *run, order, source }));
        self.sorted &= runs.is_empty();
        Ok(())
    }

    fn sort(&mut self) {
        if self.sorted {
            return;
        }
        self.entries.sort_by_key(|entry| entry.run.start);
        let ends = self.entries.iter().scan(0, |reach, entry| {
            *reach = entry.run.hull().end().max(*reach);
            Some(*reach)
        });
        self.reach = ends.collect();
        self.sorted = true;
    }

    /// Finds the newest bytes of `wanted`, by source; bytes that no rank has written are in no
    /// answer.
    pub fn find(&mut self, wanted: &[Run]) -> Vec<Found> {
        self.sort();
        let mut hits = Vec::new();
        for run in wanted {
            let hull = run.hull();
            let end = self.entries.partition_point(|entry| entry.run.start < hull.end());
            let start = self.reach[..end].partition_point(|reach| *reach <= hull.offset);
            for entry in &self.entries[start..end] {
                let common = run.intersect(entry.run);
                hits.extend(
                    common.map(|extent| Hit { extent, entry: (entry.order, entry.source) }),
                );
            }
        }
        let mut found: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
        for (extent, source) in newest(hits) {
            found.entry(source).or_default().push(extent);
        }
        let answer = |(source, extents)| Found { source, runs: compress(extents) };
        found.into_iter().map(answer).collect()
    }
}

/// Bytes that a source has.
struct Hit {
    extent: Extent,
    entry: (Order, u32),
}

/// Of bytes that several have, the newest; in file order.
fn newest(mut hits: Vec<Hit>) -> Vec<(Extent, u32)> {
    hits.sort_by_key(|hit| hit.extent.offset);
    let mut found: Vec<(Extent, u32)> = Vec::new();
    let mut add = |extent: Extent, source: u32| {
        if extent.is_empty() {
            return;
        }
        match found.last_mut() {
            Some((last, of)) if *of == source && last.end() == extent.offset => {
                last.len += extent.len;
            }
            _ => found.push((extent, source)),
        }
    };
    // Those that have bytes at `at`, the newest on top.
    let mut heap: BinaryHeap<((Order, u32), u64)> = BinaryHeap::new();
    let (mut at, mut next) = (0, hits.iter().peekable());
    loop {
        while heap.peek().is_some_and(|(_, end)| *end <= at) {
            heap.pop();
        }
        let start = next.peek().map(|hit| hit.extent.offset);
        match (heap.peek(), start) {
            (None, None) => return found,
            (None, Some(start)) => at = start,
            (Some(((_, source), end)), start) => {
                let until = start.map_or(*end, |start| start.min(*end));
                add(Extent::between(at, until), *source);
                at = at.max(until);
            }
        }
        while let Some(hit) = next.next_if(|hit| hit.extent.offset <= at) {
            heap.push((hit.entry, hit.extent.end()));
        }
    }
}
