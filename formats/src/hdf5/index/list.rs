//! The chunks of a dataset, one by one or as a rule.

use super::Chunk;

/// The chunks of a dataset that are in the file and within its shape, in order of their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Listed(Vec<Chunk>),
    Regular(Regular),
}

/// Chunks that lie one behind the other, in the order of the largest shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regular {
    /// Where the first one begins in the file.
    pub(super) place: u64,
    /// Bytes of each.
    pub(super) bytes: u64,
    /// Elements of each along each dimension.
    pub(super) shape: Vec<u64>,
    /// How many there are along each dimension, and how many there may be.
    pub(super) lengths: Vec<(u64, u64)>,
}

impl Regular {
    /// How many there are; their place was found to be in the file, so that numbers hold it.
    fn count(&self) -> u64 {
        self.lengths.iter().map(|(now, _)| now).product()
    }

    /// The chunk that has a number among those that are there.
    fn chunk(&self, number: u64) -> Chunk {
        let (mut rest, mut stride, mut position) = (number, 1, 0);
        let mut offset = vec![0; self.shape.len()];
        for (at, (now, most)) in self.lengths.iter().enumerate().rev() {
            offset[at] = rest % now * self.shape[at];
            position += rest % now * stride;
            rest /= now;
            stride *= most;
        }
        let place = self.place + position * self.bytes;
        Chunk { offset, place, stored: self.bytes, mask: 0 }
    }
}

impl Chunks {
    /// Chunks in order of their offsets.
    pub(super) fn listed(list: Vec<Chunk>) -> Self {
        Chunks(Kind::Listed(list))
    }

    pub(super) fn regular(regular: Regular) -> Self {
        Chunks(Kind::Regular(regular))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Kind::Listed(list) => list.len() as u64,
            Kind::Regular(regular) => regular.count(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all in the file, as the filters left them.
    #[must_use]
    pub fn stored(&self) -> u64 {
        match &self.0 {
            Kind::Listed(list) => {
                list.iter().fold(0, |all: u64, chunk| all.saturating_add(chunk.stored))
            }
            Kind::Regular(regular) => regular.count() * regular.bytes,
        }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Chunk> + '_ {
        (0..self.len()).filter_map(move |number| match &self.0 {
            Kind::Listed(list) => list.get(number as usize).cloned(),
            Kind::Regular(regular) => Some(regular.chunk(number)),
        })
    }

    /// The chunk with its first element at `offset`.
    #[must_use]
    pub fn at(&self, offset: &[u64]) -> Option<Chunk> {
        match &self.0 {
            Kind::Listed(list) => {
                let found = list.binary_search_by(|chunk| chunk.offset.as_slice().cmp(offset));
                list.get(found.ok()?).cloned()
            }
            Kind::Regular(regular) => {
                let mut number = 0;
                for ((at, of), (now, _)) in offset.iter().zip(&regular.shape).zip(&regular.lengths)
                {
                    if at % of != 0 || at / of >= *now {
                        return None;
                    }
                    number = number * now + at / of;
                }
                Some(regular.chunk(number))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_chunks_lie_where_those_before_them_in_the_largest_shape_end() {
        // Two of three rows and two of four columns of chunks of 5 by 7 elements.
        let lengths = vec![(2, 3), (2, 4)];
        let regular = Regular { place: 100, bytes: 35, shape: vec![5, 7], lengths };
        let chunks = Chunks::regular(regular);
        let found: Vec<_> = chunks.iter().map(|one| (one.offset, one.place)).collect();
        let numbers = [0, 1, 4, 5].map(|number| 100 + 35 * number);
        let offsets = [vec![0, 0], vec![0, 7], vec![5, 0], vec![5, 7]];
        assert_eq!(found, offsets.into_iter().zip(numbers).collect::<Vec<_>>());
        assert_eq!((chunks.len(), chunks.stored()), (4, 140));
        assert_eq!(chunks.at(&[5, 7]).map(|one| one.place), Some(275));
        assert_eq!((chunks.at(&[5, 8]), chunks.at(&[10, 0])), (None, None));
    }
}
