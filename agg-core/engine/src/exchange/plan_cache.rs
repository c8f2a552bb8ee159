//! Plan cache: past collective calls of a rank, so that a call that repeats one of them needs no
//! plan and exchanges only data.
//!
//! A rank's request *repeats* another if it is for the same bytes, all shifted by one distance. In
//! the meeting, each rank names one past call that its part repeats and that it still keeps. The
//! numbers that ranks exchange in any case show whether all name the same call and all parts are
//! shifted by the same distance. If not, the call runs as any other. So ranks need no agreement on
//! the calls that they keep or forget, even after failures.
//!
//! A call that ended well on all ranks is kept under its number, which is never reused. If several
//! past calls fit, a rank names the one used longest ago: ranks with the same part in several
//! patterns then agree with the others as soon as the patterns come again in the same order.
//!
//! Filetypes are compared by their 128-bit digests, as they are when they travel.

use super::Request;
use aggio_base::Extent;
use aggio_comm::meeting::Brought;
use aggio_comm::tags::TagBlock;
use aggio_plan::plan::{Domains, Sequence, Summary};
use aggio_types::view::View;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Past calls that are kept at most.
const CALLS: usize = 8;

/// Bytes that they may take together.
pub(super) const BYTES: usize = 256 << 10;

/// Requests that start at equal places modulo this have equal grains.
const PHASE: u64 = 4096;

/// The past calls of an open file on this rank: a few, in at most 256 KiB. A call under way may
/// hold the past call that it repeats a little longer.
#[derive(Debug, Default)]
pub struct PlanCache {
    /// Used longest ago first.
    kept: Mutex<VecDeque<Arc<Kept>>>,
}

/// Which bytes a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// The pattern that is repeated, and the place in it of the first data byte.
    filetype: u128,
    first: u64,
    /// Data bytes.
    bytes: u64,
    /// The file byte at which the first copy of the pattern starts.
    start: u64,
}

/// A past call.
#[derive(Debug)]
pub(super) struct Kept {
    number: u64,
    outline: Outline,
    /// The summary that this rank sent.
    mine: Summary,
    /// The spans of the ranks with separate summaries, and of the nodes.
    members: Vec<Extent>,
    nodes: Vec<Extent>,
    lesson: Lesson,
}

/// Data that a rank received from others in a call.
#[derive(Debug)]
pub(super) enum Lesson {
    /// For an aggregator that gets messages from each rank: the request of each.
    Peers(Domains, Vec<Known>),
    /// For an aggregator that gets messages from nodes: the bytes of windows that each has or
    /// needs.
    Windows(Dealings),
}

/// The request of another rank.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) rank: usize,
    /// Starts with the copy of its filetype that has the first byte.
    pub(super) view: View,
    /// The first byte, counted in that copy.
    pub(super) position: u64,
    pub(super) bytes: u64,
}

/// The descriptions that an aggregator received from other nodes, and the plan they are valid for.
#[derive(Debug)]
pub(super) struct Dealings {
    pub(super) windows: Sequence,
    pub(super) aggregators: Vec<usize>,
    pub(super) grain: u32,
    /// One for each window and node, in the order in which they are handled.
    pub(super) descriptions: Descriptions,
}

/// Strings of bytes, one after the other.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// There were more than are ever kept.
    too_many: bool,
}

/// A past call that all ranks repeat.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    kept: Arc<Kept>,
    /// How much further on in the file, modulo 2^64.
    shift: u64,
}

/// A call that has not ended yet, as the meeting described it.
#[derive(Debug)]
pub(super) struct Present<'a> {
    pub(super) number: u64,
    pub(super) outline: Option<Outline>,
    pub(super) mine: Summary,
    pub(super) members: &'a [Summary],
    pub(super) nodes: &'a [Extent],
}

impl PlanCache {
    /// The call, of those that `outline` repeats, that was used longest ago.
    pub(super) fn recall(&self, outline: Option<Outline>) -> Option<Arc<Kept>> {
        let outline = outline?;
        self.kept().iter().find(|kept| kept.fits(&outline)).cloned()
    }

    /// Records the end of a call, good or bad, alike on all ranks. The call that it repeated
    /// becomes the last used, or is forgotten if this one failed; `lesson` is kept unless it is too
    /// large.
    pub(super) fn end(
        &self,
        call: &Present<'_>,
        repeat: Option<&Repeat>,
        lesson: Option<Lesson>,
        well: bool,
    ) {
        if let Some(repeat) = repeat {
            self.repeated(repeat, well);
        }
        if let Some(lesson) = lesson.filter(|_| well) {
            self.keep(call, lesson);
        }
    }

    /// Makes the call that was repeated the one used last, or forgets it if the repetition failed.
    fn repeated(&self, repeat: &Repeat, well: bool) {
        let mut kept = self.kept();
        let place = kept.iter().position(|call| call.number == repeat.kept.number);
        if let Some(call) = place.and_then(|place| kept.remove(place))
            && well
        {
            kept.push_back(call);
        }
    }

    /// Keeps `lesson` for a call that ended well, unless it is too large.
    fn keep(&self, call: &Present<'_>, lesson: Lesson) {
        let Some(outline) = call.outline else { return };
        let members = call.members.iter().map(|member| member.span).collect();
        let nodes = call.nodes.to_vec();
        let new = Kept { number: call.number, outline, mine: call.mine, members, nodes, lesson };
        if new.size() > BYTES {
            return;
        }
        let mut kept = self.kept();
        kept.push_back(Arc::new(new));
        while kept.len() > CALLS || kept.iter().map(|call| call.size()).sum::<usize>() > BYTES {
            kept.pop_front();
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the call that `tags` belong to; never 0.
pub(super) fn number(tags: &TagBlock) -> u64 {
    (tags.id() & ((1 << 40) - 1)) + 1
}

impl Outline {
    /// The outline of `request`; `None` if its offsets overflow, and it cannot be cached.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let (view, position, bytes) = (request.view, request.position, request.len());
        if bytes == 0 {
            return Some(Self { filetype: 0, first: 0, bytes, start: 0 });
        }
        if view.is_contiguous() {
            return Some(Self { filetype: 0, first: 0, bytes, start: view.offset_at(position) });
        }
        let (filetype, start) = (view.filetype(), copy_of(view, position)?);
        Some(Self { filetype: filetype.hash(), first: position % filetype.size(), bytes, start })
    }

    /// Whether `other` is for the same bytes, all of them shifted by one distance.
    fn is_shifted(&self, other: &Self) -> bool {
        *self == Self { start: self.start, ..*other }
    }
}

/// The file byte at which the copy of the filetype starts that has data byte `position`.
fn copy_of(view: &View, position: u64) -> Option<u64> {
    let extent = u64::try_from(view.filetype().extent()).ok()?;
    let copy = position.checked_div(view.filetype().size())?;
    copy.checked_mul(extent)?.checked_add(view.displacement())
}

impl Kept {
    /// The number of the call.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a request fits the plan of this call, as far as one rank can decide.
    fn fits(&self, outline: &Outline) -> bool {
        let cut = match &self.lesson {
            Lesson::Windows(dealings) => dealings.windows.size(),
            Lesson::Peers(..) => 1,
        };
        let phase = |outline: &Outline| outline.start % cut;
        self.outline.is_shifted(outline) && phase(&self.outline) == phase(outline)
    }

    /// This rank's summary for a request with `outline`, shifted from the kept one; `None` if it
    /// must be computed anew.
    pub(super) fn summary(&self, outline: &Outline, kind: u8) -> Option<Summary> {
        let alike = self.outline.start % PHASE == outline.start % PHASE;
        let shift = outline.start.wrapping_sub(self.outline.start);
        let span = match outline.bytes {
            0 => self.mine.span,
            _ => Extent { offset: self.mine.span.offset.wrapping_add(shift), ..self.mine.span },
        };
        alike.then_some(Summary { span, kind, past: self.number, ..self.mine })
    }

    /// This call's number if all `members` repeat it, shifted by one distance; else 0.
    pub(super) fn repeated_by(&self, members: &[Summary]) -> u64 {
        let named = members.iter().all(|member| member.past == self.number);
        let spans = members.iter().map(|member| member.span);
        if named && shift(&self.members, spans).is_some() { self.number } else { 0 }
    }

    fn size(&self) -> usize {
        let lesson = match &self.lesson {
            Lesson::Peers(_, peers) => peers.iter().map(Known::size).sum(),
            Lesson::Windows(dealings) => {
                let Descriptions { bytes, ends, .. } = &dealings.descriptions;
                bytes.len() + 4 * ends.len() + 8 * dealings.aggregators.len()
            }
        };
        size_of::<Self>() + 16 * (self.members.len() + self.nodes.len()) + lesson
    }
}

impl Lesson {
    /// The requests of the ranks with data in a domain; `None` if one of them cannot be cached.
    pub(super) fn peers(domains: Domains, known: Vec<Option<Known>>) -> Option<Self> {
        let mut peers = known.into_iter().collect::<Option<Vec<Known>>>()?;
        peers.sort_unstable_by_key(|known| known.rank);
        Some(Self::Peers(domains, peers))
    }
}

impl Known {
    /// Returns `None` if the offsets overflow.
    pub(super) fn new(rank: usize, view: &View, position: u64, bytes: u64) -> Option<Self> {
        if view.is_contiguous() {
            let view = View::default().moved(view.offset_at(position));
            return Some(Self { rank, view, position: 0, bytes });
        }
        let (copy, position) = (copy_of(view, position)?, position % view.filetype().size());
        Some(Self {
            rank,
            view: view.moved(copy.wrapping_sub(view.displacement())),
            position,
            bytes,
        })
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.view.filetype().tree_bytes() + self.view.etype().tree_bytes()
    }
}

/// How far all of `then` are shifted in `now`, modulo 2^64; `None` if not all alike. Empty ones are
/// anywhere.
fn shift(then: &[Extent], now: impl ExactSizeIterator<Item = Extent>) -> Option<u64> {
    if then.len() != now.len() {
        return None;
    }
    let mut shift = None;
    for (then, now) in then.iter().zip(now) {
        if then.len != now.len {
            return None;
        }
        let by = now.offset.wrapping_sub(then.offset);
        if !now.is_empty() && *shift.get_or_insert(by) != by {
            return None;
        }
    }
    Some(shift.unwrap_or(0))
}

impl Repeat {
    /// The call `kept`, if all ranks repeat it. `nodes` and `hulls` are the summary and the part of
    /// the file of each node. The result is equal on all ranks.
    pub(super) fn agreed(
        kept: Option<Arc<Kept>>,
        nodes: &[Brought],
        hulls: &[Extent],
    ) -> Option<Self> {
        let kept = kept?;
        let named = nodes.iter().all(|node| node.past == kept.number);
        let shift = named.then(|| shift(&kept.nodes, hulls.iter().copied())).flatten()?;
        Some(Self { kept, shift })
    }

    /// The descriptions from other nodes in the past call, if windows and aggregators are the same.
    pub(super) fn descriptions(
        &self,
        windows: &Sequence,
        aggregators: &[usize],
        grain: u32,
    ) -> Option<&Descriptions> {
        let Lesson::Windows(then) = &self.kept.lesson else { return None };
        let alike = windows.are_shifted(&then.windows, self.shift);
        let alike = alike && aggregators == then.aggregators && grain == then.grain;
        alike.then_some(&then.descriptions)
    }

    /// The requests of other ranks in the past call, if the domains are the same.
    pub(super) fn peers(&self, domains: &Domains) -> Option<&[Known]> {
        let Lesson::Peers(then, peers) = &self.kept.lesson else { return None };
        domains.are_shifted(then, self.shift).then_some(peers)
    }

    /// How much further on in the file all bytes lie, modulo 2^64.
    pub(super) fn shift(&self) -> u64 {
        self.shift
    }
}

impl Descriptions {
    /// Adds one, as long as there is room.
    pub(super) fn push(&mut self, description: &[u8]) {
        self.too_many |= self.bytes.len() + description.len() + 4 * self.ends.len() > BYTES;
        if self.too_many {
            (self.bytes, self.ends) = (Vec::new(), Vec::new());
            return;
        }
        self.bytes.extend_from_slice(description);
        self.ends.push(self.bytes.len() as u32);
    }

    /// All that were added, unless there were too many.
    pub(super) fn whole(self) -> Option<Self> {
        (!self.too_many).then_some(self)
    }

    /// The one in place `place`.
    pub(super) fn get(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)? as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }
}
