//! Finds the rank that wrote last, for bytes that several ranks have written.

use super::Moment;
use aggio_base::extent::Extent;
use aggio_base::overlay::Overlay;
use aggio_container::blob::Strip;

/// Bytes that a rank wrote at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    strip: Strip,
    moment: Moment,
}

/// Numbers of a [`Written`] in a message.
const WORDS: usize = 6;

impl Written {
    /// Cuts `all` to some parts of the file. `parts` are ranges in order, apart, each with the
    /// number of its part, out of `count` parts. Pieces that continue a strip are joined to it.
    pub fn by_part(
        all: impl Iterator<Item = (Extent, Moment)>,
        parts: &[(Extent, usize)],
        count: usize,
    ) -> Vec<Vec<Self>> {
        let mut written: Vec<Vec<Self>> = vec![Vec::new(); count];
        for (extent, moment) in all {
            let first = parts.partition_point(|(range, _)| range.end() <= extent.offset);
            let near = parts[first..].iter().take_while(|(range, _)| range.offset < extent.end());
            for (range, part) in near {
                let (extent, written) = (range.intersect(extent), &mut written[*part]);
                let last = written.last_mut().filter(|last: &&mut Self| last.moment == moment);
                if !last.is_some_and(|last| last.strip.extend(extent)) {
                    written.push(Self { strip: Strip::one(extent), moment });
                }
            }
        }
        written
    }

    /// For a message.
    pub fn to_bytes(all: &[Self]) -> Vec<u8> {
        let words = |one: &Self| {
            let Strip { start, length, stride, count } = one.strip;
            [start, length, stride as u64, count, one.moment.epoch, one.moment.time]
        };
        all.iter().flat_map(words).flat_map(u64::to_le_bytes).collect()
    }

    /// From a message; `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Vec<Self>> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let (all, []) = words.as_chunks::<WORDS>() else { return None };
        let one = |words: &[[u8; 8]; WORDS]| {
            let [start, length, stride, count, epoch, time] = words.map(u64::from_le_bytes);
            let strip = Strip { start, length, stride: stride as i64, count };
            strip.is_sound().then_some(Self { strip, moment: Moment { epoch, time } })
        };
        all.iter().map(one).collect()
    }

    fn extents(&self) -> impl Iterator<Item = Extent> + use<> {
        let Strip { start, length, stride, count } = self.strip;
        (0..count).map(move |number| {
            Extent::new(start.wrapping_add_signed(stride * number as i64), length)
        })
    }
}

/// The writes to a part of the file, in the order of the ranks.
#[derive(Debug)]
pub struct Contest {
    ranks: Vec<Vec<Written>>,
}

impl FromIterator<Vec<Written>> for Contest {
    fn from_iter<I: IntoIterator<Item = Vec<Written>>>(ranks: I) -> Self {
        Self { ranks: ranks.into_iter().collect() }
    }
}

impl Contest {
    /// For each rank the bytes that another one has written later, in order, apart. Of the same
    /// moment, which is that of one collective call, the last rank counts.
    pub fn lost(&self) -> Vec<Vec<Extent>> {
        let mut all: Vec<(Moment, usize, &Written)> = Vec::new();
        for (rank, written) in self.ranks.iter().enumerate() {
            all.extend(written.iter().map(|one| (one.moment, rank, one)));
        }
        all.sort_by_key(|(moment, rank, _)| (*moment, *rank));
        // Which rank wrote which bytes last.
        let mut last = Overlay::default();
        for (_, rank, written) in all {
            written.extents().for_each(|extent| last.put(extent, rank));
        }
        let lost = |(rank, written): (usize, &Vec<Written>)| {
            let extents = written.iter().flat_map(Written::extents);
            let parts = extents.flat_map(|extent| last.within(extent));
            joined(parts.filter(|(_, writer)| *writer != rank).map(|(part, _)| part).collect())
        };
        self.ranks.iter().enumerate().map(lost).collect()
    }
}

/// The same bytes in order, apart.
fn joined(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.sort_by_key(|extent| extent.offset);
    let mut apart: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        match apart.last_mut() {
            Some(last) if last.end() >= extent.offset => {
                *last = Extent::between(last.offset, last.end().max(extent.end()));
            }
            _ => apart.push(extent),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_rank_loses_exactly_the_bytes_that_another_one_wrote_later(
            writes in prop::collection::vec(
                (0..4_usize, 0..200_u64, 1..30_u64, 0..6_u64), 0..40),
        ) {
            let mut all = Vec::new();
            let moment = |number: usize| Moment { epoch: number as u64 / 3, time: number as u64 };
            let mut bytes = vec![None; 240];
            for rank in 0..4 {
                let own = writes.iter().enumerate().filter(|(_, write)| write.0 == rank);
                let own = own.map(|(k, (_, at, len, _))| (Extent::new(*at, *len), moment(k)));
                let parts = [(Extent::new(0, 100), 0), (Extent::new(100, 140), 0)];
                let written = Written::by_part(own, &parts, 1).remove(0);
                let told = Written::from_bytes(&Written::to_bytes(&written));
                prop_assert_eq!(told, Some(written.clone()));
                all.push(written);
            }
            let contest: Contest = all.into_iter().collect();
            for (rank, at, len, _) in &writes {
                (*at..at + len).for_each(|byte| bytes[byte as usize] = Some(*rank));
            }
            for (rank, lost) in contest.lost().into_iter().enumerate() {
                prop_assert!(lost.windows(2).all(|two| two[0].end() < two[1].offset));
                for (byte, writer) in bytes.iter().enumerate() {
                    let wrote = |w: &&(usize, u64, u64, u64)| {
                        w.0 == rank && w.1 <= byte as u64 && (byte as u64) < w.1 + w.2
                    };
                    let wanted = *writer != Some(rank) && writes.iter().find(wrote).is_some();
                    let byte = byte as u64;
                    let found = lost.iter().any(|e| e.offset <= byte && byte < e.end());
                    prop_assert_eq!(found, wanted, "rank {} byte {}", rank, byte);
                }
            }
        }
    }

    #[test]
    fn damaged_messages_are_none() {
        assert_eq!(Written::from_bytes(&[0; 48]), None);
        assert_eq!(Written::from_bytes(&[1; 47]), None);
        let bytes = [0_u64, 10, 5, u64::MAX, 0, 0].map(u64::to_le_bytes);
        assert_eq!(Written::from_bytes(bytes.as_flattened()), None);
    }
}
