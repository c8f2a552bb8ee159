//! Decompositions: which elements each writer has.

use std::ops::Range;

/// Elements of a variable, or of its part of a record, that one writer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) elements: Range<u64>,
    pub(super) writer: u32,
}

/// Elements that lie together. A decomposition has no more of them than 31 bits tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) to: u32,
    pub(super) len: u32,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        u64::from(self.to) + u64::from(self.len)
    }
}

/// A run and its writer.
pub(super) type Mapped = (Run, u32);

/// A decomposition, as it is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Found {
    /// The dimensions that are decomposed, as positions in the header.
    pub(super) dimensions: Vec<usize>,
    /// All runs in the order of their elements.
    pub(super) runs: Vec<Mapped>,
}

/// A decomposition, sorted by writers.
pub(super) struct Map {
    /// The dimensions that are decomposed, as positions in the header.
    pub(super) dimensions: Vec<usize>,
    /// Elements of the fastest.
    row: u32,
    runs: Vec<Run>,
    /// Where the runs of each writer begin, and the end.
    starts: Vec<usize>,
    /// Elements of each writer.
    counts: Vec<u64>,
    /// Requests of each writer.
    requests: Vec<u64>,
}

impl Map {
    /// The same decomposition, among so many writers; `row` are the elements of its fastest
    /// dimension.
    pub(super) fn of(mut found: Found, row: u64, writers: usize) -> Self {
        found.runs.sort_unstable_by_key(|(run, writer)| (*writer, run.to));
        let starts = (0..=writers)
            .map(|writer| found.runs.partition_point(|(_, of)| (*of as usize) < writer));
        let mut map = Map {
            dimensions: found.dimensions,
            // All elements together are no more than 31 bits tell.
            row: row as u32,
            starts: starts.collect(),
            runs: found.runs.into_iter().map(|(run, _)| run).collect(),
            counts: Vec::new(),
            requests: Vec::new(),
        };
        for writer in 0..writers as u32 {
            let runs = map.runs_of(writer).iter();
            let count = runs.clone().map(|run| u64::from(run.len)).sum();
            let rows =
                |run: &Run| (run.end() - 1) / u64::from(map.row) - u64::from(run.to / map.row) + 1;
            let requests = runs.map(rows).sum();
            map.counts.push(count);
            map.requests.push(requests);
        }
        map
    }

    /// The runs of a writer, sorted; neighbours are one run.
    pub(super) fn runs_of(&self, writer: u32) -> &[Run] {
        let writer = writer as usize;
        &self.runs[self.starts[writer]..self.starts[writer + 1]]
    }

    /// Elements of a writer.
    pub(super) fn count(&self, writer: u32) -> u64 {
        self.counts[writer as usize]
    }

    /// Requests of a writer.
    pub(super) fn request_count(&self, writer: u32) -> u64 {
        self.requests[writer as usize]
    }

    /// The runs of a writer, cut at the rows of the fastest dimension.
    pub(super) fn requests_of(&self, writer: u32) -> impl Iterator<Item = Run> {
        let row = self.row;
        self.runs_of(writer).iter().flat_map(move |run| {
            let mut rest = *run;
            std::iter::from_fn(move || {
                let len = rest.len.min(row - rest.to % row);
                let request = Run { to: rest.to, len };
                rest = Run { to: rest.to + len, len: rest.len - len };
                (len > 0).then_some(request)
            })
        })
    }
}
