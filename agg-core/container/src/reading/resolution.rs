//! Resolves a range of the file to bytes of the logs: of all pieces that have a byte, the one with
//! the highest sequence number supplies it.

use aggio_base::{Extent, Result};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bytes that were written, or became zeros, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The range in the file, already cut to the requested one.
    pub(crate) extent: Extent,
    /// Number of the log and the place of the first byte there; `None` for zeros.
    pub(crate) source: Option<(u32, u64)>,
    /// The sequence number is not below this.
    pub(crate) low: u64,
    /// The sequence number is not above this.
    pub(crate) high: u64,
    /// Where the frame begins that has the bytes, and the exact number; [`NO_FRAME`] if that is not
    /// known.
    pub(crate) frame: u64,
}

/// No place of a frame.
pub(crate) const NO_FRAME: u64 = u64::MAX;

/// A part of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) extent: Extent,
    pub(crate) source: Option<(u32, u64)>,
    /// Where in the log the frame begins that has them; [`NO_FRAME`] if that is not known.
    pub(crate) frame: u64,
}

/// Resolves `range`, to which `pieces` are cut, into `found`, which is empty; `exact` gives a
/// piece's sequence number where the bounds do not decide.
pub(crate) fn resolve(
    range: Extent,
    pieces: &mut [Piece],
    exact: &mut dyn FnMut(&Piece) -> Result<u64>,
    found: &mut Vec<Found>,
) -> Result<()> {
    // Pieces come run by run, and each run is sorted: merging is quicker than sorting.
    pieces.sort_by_key(|piece| (piece.extent.offset, piece.low));
    let mut answer = Answer { found, end: range.offset };
    let mut rest = pieces;
    while !rest.is_empty() {
        let (group, others) = rest.split_at_mut(overlapping(rest));
        if let [only] = group {
            answer.add(only.extent, only.source, only.frame);
        } else {
            decide(group, exact)?;
            paint(group, &mut answer);
        }
        rest = others;
    }
    answer.zeros_until(range.end());
    Ok(())
}

/// How many of the first pieces overlap each other, directly or through others.
fn overlapping(pieces: &[Piece]) -> usize {
    let mut end = pieces[0].extent.end();
    let mut count = 1;
    while count < pieces.len() && pieces[count].extent.offset < end {
        end = end.max(pieces[count].extent.end());
        count += 1;
    }
    count
}

/// Gives exact numbers to the pieces of a group with bounds that overlap those of others.
fn decide(group: &mut [Piece], exact: &mut dyn FnMut(&Piece) -> Result<u64>) -> Result<()> {
    if group.iter().all(|piece| piece.low == piece.high) {
        return Ok(());
    }
    let mut by_low: Vec<usize> = (0..group.len()).collect();
    by_low.sort_unstable_by_key(|i| group[*i].low);
    let mut start = 0;
    while start < by_low.len() {
        let mut high = group[by_low[start]].high;
        let mut end = start + 1;
        while end < by_low.len() && group[by_low[end]].low <= high {
            high = high.max(group[by_low[end]].high);
            end += 1;
        }
        if end - start > 1 {
            for i in &by_low[start..end] {
                if group[*i].low != group[*i].high {
                    let seq = exact(&group[*i])?;
                    (group[*i].low, group[*i].high) = (seq, seq);
                }
            }
        }
        start = end;
    }
    Ok(())
}

/// The newest piece at the current position is on top.
struct Newest(Piece);

impl Ord for Newest {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.low, self.0.source).cmp(&(other.0.low, other.0.source))
    }
}

impl PartialOrd for Newest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Newest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Newest {}

/// Walks over the starts and ends of a group.
fn paint(group: &[Piece], answer: &mut Answer<'_>) {
    let mut heap: BinaryHeap<Newest> = BinaryHeap::new();
    let mut next = 0;
    let mut position = group[0].extent.offset;
    loop {
        while next < group.len() && group[next].extent.offset <= position {
            heap.push(Newest(group[next]));
            next += 1;
        }
        while heap.peek().is_some_and(|top| top.0.extent.end() <= position) {
            heap.pop();
        }
        let Some(Newest(top)) = heap.peek() else { return };
        let until = group.get(next).map_or(u64::MAX, |piece| piece.extent.offset);
        let end = top.extent.end().min(until);
        let skip = position - top.extent.offset;
        let source = top.source.map(|(log, place)| (log, place + skip));
        answer.add(Extent::between(position, end), source, top.frame);
        position = end;
    }
}

struct Answer<'a> {
    found: &'a mut Vec<Found>,
    end: u64,
}

impl Answer<'_> {
    fn zeros_until(&mut self, end: u64) {
        if self.end < end {
            self.push(Extent::between(self.end, end), None, NO_FRAME);
        }
    }

    fn add(&mut self, extent: Extent, source: Option<(u32, u64)>, frame: u64) {
        self.zeros_until(extent.offset);
        self.push(extent, source, frame);
    }

    /// Appends, to the last part if it goes on there.
    fn push(&mut self, extent: Extent, source: Option<(u32, u64)>, frame: u64) {
        self.end = extent.end();
        if let Some(last) = self.found.last_mut() {
            let continues = match (last.source, source) {
                (None, None) => true,
                (Some((a, place)), Some((b, next))) => a == b && place + last.extent.len == next,
                _ => false,
            };
            if continues {
                last.extent.len += extent.len;
                return;
            }
        }
        self.found.push(Found { extent, source, frame });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_newest_piece_supplies_each_byte(
            many in prop::collection::vec((0_u64..60, 1_u64..20, any::<bool>(), 0_u64..4), 0..20),
        ) {
            let range = Extent::new(0, 100);
            let numbered = many.iter().enumerate();
            let mut pieces: Vec<Piece> = numbered.map(|(i, (offset, len, zeros, blur))| {
                let seq = i as u64 * 2 + 10;
                Piece {
                    extent: Extent::new(*offset, *len),
                    source: (!zeros).then_some((i as u32, 1000 * i as u64)),
                    low: seq - blur,
                    high: seq + blur,
                    frame: seq,
                }
            }).collect();
            let mut model = vec![None; 100];
            for piece in &pieces {
                for at in piece.extent.offset..piece.extent.end() {
                    let behind = at - piece.extent.offset;
                    let source = piece.source.map(|(log, place)| (log, place + behind));
                    model[at as usize] = source;
                }
            }
            let mut found = Vec::new();
            resolve(range, &mut pieces, &mut |piece| Ok(piece.frame), &mut found).unwrap();
            let mut position = 0;
            for part in found {
                prop_assert_eq!(part.extent.offset, position);
                position = part.extent.end();
                for at in part.extent.offset..position {
                    let behind = at - part.extent.offset;
                    let source = part.source.map(|(log, place)| (log, place + behind));
                    prop_assert_eq!(source, model[at as usize]);
                }
            }
            prop_assert_eq!(position, 100);
        }
    }
}
