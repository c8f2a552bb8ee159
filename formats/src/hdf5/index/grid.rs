//! The grid of chunks: which chunk has which number in an array.

use super::Sink;
use crate::error::Result;

/// How many chunks there are along each dimension, the slowest one of the numbering first.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Chunks along each dimension; the first one's may have no limit.
    lengths: Vec<u64>,
    /// Which dimension of the dataset was put in front; zero for none.
    front: usize,
}

impl Grid {
    /// The grid of the largest shape, which has no unlimited dimension.
    pub(super) fn fixed(sink: &Sink<'_>) -> Result<Self> {
        let most = sink.dataset.space.most();
        let each =
            most.iter().zip(&sink.chunked.shape).map(|(most, of)| Some((*most)?.div_ceil(*of)));
        let lengths = each.collect::<Option<Vec<u64>>>();
        let wrong = || sink.reader.corrupt("an index of fixed size for what may grow without end");
        Ok(Grid { lengths: lengths.ok_or_else(wrong)?, front: 0 })
    }

    /// The grid of the largest shape, the only unlimited dimension in front of the others.
    pub(super) fn extensible(sink: &Sink<'_>) -> Result<Self> {
        let most = sink.dataset.space.most();
        let unlimited: Vec<usize> = (0..most.len()).filter(|at| most[*at].is_none()).collect();
        let [front] = unlimited[..] else {
            return Err(sink.reader.corrupt("an extensible array, not one unlimited dimension"));
        };
        let mut lengths = vec![u64::MAX];
        let others = most.iter().zip(&sink.chunked.shape);
        lengths.extend(others.filter_map(|(most, of)| Some((*most)?.div_ceil(*of))));
        Ok(Grid { lengths, front })
    }

    /// Chunks along each dimension.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u64> + '_ {
        self.lengths.iter().copied()
    }

    /// All chunks; `None` if there are more than a number holds.
    pub(super) fn chunks(&self) -> Option<u64> {
        self.lengths.iter().try_fold(1_u64, |all, one| all.checked_mul(*one))
    }

    /// The first element of the chunk that has a number; `None` if the grid has none.
    pub(super) fn offset(&self, number: u64, shape: &[u64]) -> Option<Vec<u64>> {
        let (mut rest, mut scaled) = (number, vec![0; self.lengths.len()]);
        for (at, length) in self.lengths.iter().enumerate().skip(1).rev() {
            scaled[at] = rest.checked_rem(*length)?;
            rest /= length;
        }
        *scaled.first_mut()? = rest;
        if rest >= self.lengths[0] {
            return None;
        }
        scaled[..=self.front].rotate_left(1);
        scaled.iter().zip(shape).map(|(at, of)| at.checked_mul(*of)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dimension_runs_fastest() {
        let grid = Grid { lengths: vec![2, 3], front: 0 };
        let offsets: Vec<_> = (0..7).map(|number| grid.offset(number, &[10, 5])).collect();
        let expected = [(0, 0), (0, 5), (0, 10), (10, 0), (10, 5), (10, 10)];
        let expected = expected.map(|(first, second)| Some(vec![first, second]));
        assert_eq!(offsets[..6], expected);
        assert_eq!(offsets[6], None);
    }

    #[test]
    fn an_unlimited_dimension_runs_slowest_wherever_it_is() {
        // Chunks along (2, 3, unlimited): the last one was put in front.
        let grid = Grid { lengths: vec![u64::MAX, 2, 3], front: 2 };
        assert_eq!(grid.offset(0, &[1, 1, 1]), Some(vec![0, 0, 0]));
        assert_eq!(grid.offset(1, &[1, 1, 1]), Some(vec![0, 1, 0]));
        assert_eq!(grid.offset(6, &[1, 1, 1]), Some(vec![0, 0, 1]));
        assert_eq!(grid.offset(6 * 7 + 5, &[1, 1, 1]), Some(vec![1, 2, 7]));
    }
}
