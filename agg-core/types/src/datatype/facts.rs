//! The facts that every node of a datatype's tree stores about itself.

use super::basic::Basic;
use aggio_base::error::{Error, ErrorClass, Result};
use std::borrow::Borrow;

/// Deepest tree: real programs stay below 20, and recursion over a tree must not end the stack.
pub(crate) const MAX_DEPTH: u32 = 256;

/// Facts of a node, available in O(1). Displacements are bytes relative to the first data byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Data bytes in memory.
    pub(crate) size: u64,
    /// Data bytes in `external32`.
    pub(crate) external_size: u64,
    /// Lowest displacement, never positive.
    pub(crate) low: i64,
    /// One past the highest displacement.
    pub(crate) high: i64,
    /// Displacement of the last basic element in typemap order.
    pub(crate) last: i64,
    /// One past the last data byte in typemap order.
    pub(crate) end: i64,
    /// Runs in typemap order, adjacent ones merged; saturates.
    pub(crate) pieces: u64,
    /// Displacements of basic elements never decrease.
    pub(crate) monotone: bool,
    /// Elements share bytes. Exact if `monotone`; otherwise they *may* share bytes.
    pub(crate) overlap: bool,
    /// The only basic element in it, if there is only one.
    pub(crate) uniform: Option<Basic>,
    /// Every run of bytes starts and ends at a multiple of 2 to this power, if the first does.
    pub(crate) grain: u32,
    /// Nodes on the longest way down.
    pub(crate) depth: u32,
    /// Digest of the content.
    pub(crate) hash: u128,
}

impl Facts {
    /// Whether the data is the one run `0 .. size`.
    pub(crate) fn dense(&self) -> bool {
        self.pieces == 1
    }
}

/// The error for sizes and displacements that 64 bits cannot hold.
pub(crate) fn too_large(what: &str) -> Error {
    Error::new(ErrorClass::Arg, format!("datatype: {what} does not fit into 64 bits"))
}

/// The depth of a node above a child of depth `child`.
pub(super) fn deeper(child: u32) -> Result<u32> {
    if child >= MAX_DEPTH {
        let text = format!("datatype: nested deeper than {MAX_DEPTH} levels");
        return Err(Error::new(ErrorClass::Type, text));
    }
    Ok(child + 1)
}

fn sum(a: i64, b: i64) -> Result<i64> {
    a.checked_add(b).ok_or_else(|| too_large("a displacement"))
}

/// The facts of `count` copies, `stride` bytes apart; `hash` is for the caller.
pub(super) fn repeat_facts(count: u64, stride: i64, child: &Facts) -> Result<Facts> {
    if count == 1 {
        // There is no neighbour at `stride` to meet.
        return Ok(*child);
    }
    let copies = i64::try_from(count - 1).map_err(|_| too_large("the count"))?;
    let last = copies.checked_mul(stride).ok_or_else(|| too_large("a displacement"))?;
    let size = count.checked_mul(child.size).ok_or_else(|| too_large("the size"))?;
    let external = count.checked_mul(child.external_size);
    let seams = if child.end == stride { count - 1 } else { 0 };
    let pieces = u128::from(count) * u128::from(child.pieces) - u128::from(seams);
    let monotone = child.monotone && child.last <= stride;
    let span = child.high.abs_diff(child.low);
    let clash = if monotone { child.end > stride } else { stride.unsigned_abs() < span };
    Ok(Facts {
        size,
        external_size: external.ok_or_else(|| too_large("the external32 size"))?,
        low: child.low.min(sum(last, child.low)?),
        high: child.high.max(sum(last, child.high)?),
        last: sum(last, child.last)?,
        end: sum(last, child.end)?,
        pieces: u64::try_from(pieces).unwrap_or(u64::MAX),
        monotone,
        overlap: child.overlap || clash,
        uniform: child.uniform,
        grain: child.grain.min(stride.trailing_zeros()),
        depth: deeper(child.depth)?,
        hash: child.hash,
    })
}

/// The facts of parts in a row (the first at 0); `depth` and `hash` are for the caller.
pub(super) fn sequence_facts<F: Borrow<Facts>>(
    parts: impl Iterator<Item = Result<(i64, F)>> + Clone,
) -> Result<Facts> {
    let mut all: Option<Facts> = None;
    for part in parts.clone() {
        let (at, part) = part?;
        match &mut all {
            None => all = Some(*part.borrow()),
            Some(all) => all.append(at, part.borrow())?,
        }
    }
    let mut all = all.ok_or_else(|| too_large("an empty list"))?;
    if !all.monotone && !all.overlap {
        all.overlap = spans_overlap(parts)?;
    }
    Ok(all)
}

impl Facts {
    /// Adds a part that starts at `at`.
    fn append(&mut self, at: i64, part: &Facts) -> Result<()> {
        let (low, high) = (sum(at, part.low)?, sum(at, part.high)?);
        let external = self.external_size.checked_add(part.external_size);
        self.monotone = self.monotone && part.monotone && self.last <= at;
        self.overlap = self.overlap || part.overlap || (self.monotone && self.end > at);
        self.grain = self.grain.min(part.grain).min(at.trailing_zeros());
        self.size = self.size.checked_add(part.size).ok_or_else(|| too_large("the size"))?;
        self.external_size = external.ok_or_else(|| too_large("the external32 size"))?;
        self.uniform = self.uniform.filter(|basic| part.uniform == Some(*basic));
        self.pieces = self.pieces.saturating_add(part.pieces - u64::from(self.end == at));
        (self.last, self.end) = (sum(at, part.last)?, sum(at, part.end)?);
        (self.low, self.high) = (self.low.min(low), self.high.max(high));
        Ok(())
    }
}

/// Whether the hulls of the parts share bytes.
fn spans_overlap<F: Borrow<Facts>>(parts: impl Iterator<Item = Result<(i64, F)>>) -> Result<bool> {
    let span = |part: Result<(i64, F)>| {
        let (at, part) = part?;
        Ok((sum(at, part.borrow().low)?, sum(at, part.borrow().high)?))
    };
    let mut spans = parts.map(span).collect::<Result<Vec<(i64, i64)>>>()?;
    spans.sort_unstable();
    Ok(spans.windows(2).any(|pair| pair[1].0 < pair[0].1))
}
