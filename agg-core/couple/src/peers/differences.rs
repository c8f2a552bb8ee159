//! The body of a message with parts of a file: for each part the gap behind the part before, its
//! length, and its bytes, unless only the places are meant.
//!
//! Gaps and lengths are short numbers. Values such as integers in doubles have a zero every few
//! bytes, so that a part is often as short as two fixed numbers.

use crate::protocol::{Reader, Writer, bad};
use aggio_base::Extent;
use std::io;

/// A body that is being made.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    body: Writer,
    end: u64,
}

impl Differences {
    /// Adds a part, which begins behind the one before.
    pub(crate) fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.body.short(offset - self.end).short(bytes.len() as u64);
        self.body.0.extend_from_slice(bytes);
        self.end = offset.saturating_add(bytes.len() as u64);
    }

    /// Length of the body in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.body.0.len() as u64
    }

    /// The body.
    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body.0
    }
}

/// The parts of a body: offsets and bytes.
///
/// # Errors
/// `InvalidData` for a body that no agent of this version sends.
pub(crate) fn parts(body: &[u8]) -> io::Result<Vec<(u64, &[u8])>> {
    let (mut from, mut found, mut last) = (Reader(body), Vec::new(), 0_u64);
    while !from.0.is_empty() {
        let extent = extent(&mut from, last)?;
        let bytes = from.slice(extent.len)?;
        last = extent.end();
        found.push((extent.offset, bytes));
    }
    Ok(found)
}

/// A body that has only the places of its parts, which are in order and apart.
pub(crate) fn places(extents: &[Extent]) -> Vec<u8> {
    let (mut body, mut last) = (Writer::default(), 0);
    for extent in extents {
        body.short(extent.offset - last).short(extent.len);
        last = extent.end();
    }
    body.0
}

/// The places that such a body has.
///
/// # Errors
/// `InvalidData` for a body that no agent of this version sends.
pub(crate) fn extents(body: &[u8]) -> io::Result<Vec<Extent>> {
    let (mut from, mut found, mut last) = (Reader(body), Vec::new(), 0);
    while !from.0.is_empty() {
        let extent = extent(&mut from, last)?;
        last = extent.end();
        found.push(extent);
    }
    Ok(found)
}

/// The place of the next part, behind `last`.
pub(super) fn extent(from: &mut Reader<'_>, last: u64) -> io::Result<Extent> {
    let (gap, len) = (from.short()?, from.short()?);
    if len == 0 {
        return Err(bad("a part has no bytes"));
    }
    let offset = last.checked_add(gap);
    let end = offset.and_then(|offset| offset.checked_add(len));
    match (offset, end.filter(|end| i64::try_from(*end).is_ok())) {
        (Some(offset), Some(_)) => Ok(Extent::new(offset, len)),
        _ => Err(bad("a part is behind the end of every file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(parts: &[(u64, &[u8])]) -> Vec<u8> {
        let mut differences = Differences::default();
        parts.iter().for_each(|(offset, bytes)| differences.add(*offset, bytes));
        differences.into_body()
    }

    #[test]
    fn a_part_behind_the_end_of_every_file_is_refused() {
        let last = i64::MAX as u64 - 1;
        assert_eq!(parts(&body(&[(last, b"x")])).unwrap(), [(last, &b"x"[..])]);
        parts(&body(&[(last, b"xy")])).unwrap_err();
        parts(&body(&[(u64::MAX - 3, b"abc")])).unwrap_err();
        parts(&[5, 0]).unwrap_err();
        parts(&[0x85, 0, 1, b'x']).unwrap_err();
    }

    #[test]
    fn a_double_that_is_an_integer_costs_two_bytes_more_than_what_is_in_it() {
        let doubles: Vec<u8> = (1..=1000).flat_map(|n| f64::from(n).to_le_bytes()).collect();
        let ranges = doubles.chunk_by(|a, b| (*a == 0) == (*b == 0));
        let (mut differences, mut at, mut used) = (Differences::default(), 0, 0);
        for range in ranges {
            if range[0] != 0 {
                differences.add(at, range);
                used += range.len() as u64 + 2;
            }
            at += range.len() as u64;
        }
        assert_eq!(differences.len(), used);
        assert!(used < doubles.len() as u64, "{used}");
    }

    #[test]
    fn places_arrive_as_they_were() {
        let all = [Extent::new(3, 1), Extent::new(4, 200), Extent::new(1 << 40, 1 << 33)];
        assert_eq!(extents(&places(&all)).unwrap(), all);
        let cut = places(&all);
        extents(&cut[..cut.len() - 1]).unwrap_err();
        extents(&[5, 0]).unwrap_err();
        extents(&places(&[Extent::new(i64::MAX as u64, 1)])).unwrap_err();
    }

    proptest! {
        #[test]
        fn parts_are_those_that_were_sent_or_an_error(
            noise in prop::collection::vec(any::<u8>(), 0..80),
            sent in prop::collection::vec((0..1_u64 << 60, 1..20_usize), 0..6),
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..3),
        ) {
            let (bytes, mut at) = ([7; 20], 0);
            let sent: Vec<(u64, &[u8])> = sent
                .into_iter()
                .map(|(gap, len)| {
                    at += gap + len as u64;
                    (at - len as u64, &bytes[..len])
                })
                .collect();
            let whole = body(&sent);
            prop_assert_eq!(&parts(&whole).unwrap(), &sent);
            let mut changed = whole;
            for (at, value) in changes {
                let len = changed.len().max(1);
                changed.get_mut(at % len).into_iter().for_each(|byte| *byte = value);
            }
            for bytes in [noise, changed] {
                if let Ok(parts) = parts(&bytes) {
                    prop_assert_eq!(body(&parts), bytes);
                }
            }
        }
    }
}
