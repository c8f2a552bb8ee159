//! Two-phase I/O among the ranks of one node: windows of the file in memory that all share.
//!
//! Every rank copies its pieces once, in parallel with the others, between its buffer and windows
//! that follow each other in file order; full windows are stored by whoever is free, and read
//! by whoever comes first. No data travels in messages and no rank waits for a particular other.

mod copy;
mod marks;
mod read;
mod write;

pub(super) use read::run as read;
pub(super) use write::run as write;

use super::share::Part;
use super::{Request, Scene};
use crate::Extent;
use crate::hints::Origin;
use crate::meeting::Meeting;
use crate::node::{Operation, Ring};
use crate::plan::{self, Domains, Sequence, Summary};

/// Windows beyond this many times what the data would fill are mostly empty: not worth passing.
const SPARSE: u64 = 32;

/// In how many pieces a rank copies its part of a window.
const TURNS: u64 = 4;

/// Windows that may be empty in any case.
const FREE: u64 = 64;

/// A collective call whose data passes through the memory of the node.
pub(super) struct Passage<'a> {
    scene: Scene<'a>,
    request: Request<'a>,
    all: &'a [Summary],
    meeting: &'a Meeting<'a>,
    ring: Ring<'a>,
    windows: Sequence,
    /// Pieces start and end at multiples of 2 to this power.
    grain: u32,
}

impl<'a> Passage<'a> {
    /// `None` if the call is better served with messages; alike on all ranks.
    pub(super) fn plan(
        scene: Scene<'a>,
        request: Request<'a>,
        all: &'a [Summary],
        meeting: &'a Meeting<'a>,
    ) -> Option<Self> {
        // In atomic mode the order of overlapping writes must be that of some sequence of calls.
        let operation = meeting.operation().filter(|_| scene.atomic.is_none())?;
        let windows = sequence(&scene, all, operation);
        let bytes = all.iter().fold(0u64, |sum, summary| sum.saturating_add(summary.bytes));
        let filled = bytes.div_ceil(windows.size());
        if windows.count() > filled.saturating_mul(SPARSE).saturating_add(FREE) {
            return None;
        }
        let count = u32::try_from(windows.count()).ok().filter(|count| *count < 1 << 31)?;
        let with_data = all.iter().filter(|summary| summary.bytes > 0);
        let grain = with_data.map(|summary| u32::from(summary.grain)).min().unwrap_or(0);
        let grain = grain.min(windows.grain());
        let ring = Ring::new(operation, count);
        Some(Self { scene, request, all, meeting, ring, windows, grain })
    }

    /// How many ranks may have data in `window`.
    fn expected(&self, window: u32) -> u32 {
        let extent = self.windows.extent(window);
        let touches =
            |summary: &&Summary| summary.bytes > 0 && !summary.span.intersect(extent).is_empty();
        self.all.iter().filter(touches).count() as u32
    }

    /// This rank's data in `extent`: a range of its view's data.
    fn part(&self, extent: Extent) -> Part {
        let Request { view, position, .. } = self.request;
        let end = position.saturating_add(self.request.len());
        let first = view.data_before(extent.offset).clamp(position, end);
        let last = view.data_before(extent.end()).clamp(first, end);
        Part { window: extent, position: first, len: (last - first) as usize }
    }

    /// `part` in some pieces, of which each member begins with another: members that copy to or
    /// from one window at the same time stay out of each other's cache lines.
    fn in_turn(&self, part: Part) -> impl Iterator<Item = Part> {
        let window = part.window;
        let step = window.len.div_ceil(TURNS).max(1);
        let first = self.ring.index() as u64;
        (first..first + TURNS).filter_map(move |turn| {
            let start = window.offset + turn % TURNS * step;
            let piece = self.part(Extent::between(start, start + step).intersect(window));
            (piece.len > 0).then_some(Part { window, ..piece })
        })
    }

    /// The windows that this rank takes part in, in order.
    fn own_windows(&self) -> impl Iterator<Item = u32> + use<'a> {
        let own = self.all[self.ring.index()];
        let span = if own.bytes > 0 { own.span } else { Extent::default() };
        self.windows.touched_by(span)
    }

    /// Whether this rank stores and reads `window`: every rank that has the file, unless hints name
    /// aggregators; then the aggregator of its file domain. The rank that opened the file has it.
    fn serves(&self, window: u32) -> bool {
        if !named(&self.scene) {
            return self.scene.driver.is_available();
        }
        self.scene.aggregators[self.windows.domain(window)] == self.scene.transport.rank()
    }
}

/// Whether hints say who the aggregators are.
fn named(scene: &Scene<'_>) -> bool {
    let given = |hint| scene.hints.origin(hint) != Some(Origin::Default);
    given("cb_nodes") || given("cb_config_list")
}

/// The windows of a call.
fn sequence(scene: &Scene<'_>, all: &[Summary], operation: &Operation<'_>) -> Sequence {
    let hull = Summary::hull(all);
    let stripe = match scene.hints.striping_unit {
        0 => scene.facts.striping_unit,
        unit => unit,
    };
    let alignment = scene.facts.block_size.max(stripe);
    let least = scene.hints.romio_min_fdomain_size;
    let domains = if named(scene) || plan::spread(all, hull) { scene.aggregators.len() } else { 1 };
    let domains = Domains::new(hull, domains, alignment, least);
    let size = operation.window().min(scene.hints.cb_buffer_size).max(1);
    Sequence::new(domains, size)
}
