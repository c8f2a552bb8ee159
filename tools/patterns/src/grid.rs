//! How ranks and arrays are divided among dimensions.

use crate::layout::Dimension;

/// A grid of `ranks` ranks in `dimensions` dimensions, as `MPI_Dims_create` makes it: sizes as
/// equal as possible, the largest first.
///
/// # Panics
///
/// If `ranks` or `dimensions` is 0.
pub fn dims_create(ranks: u64, dimensions: usize) -> Vec<u64> {
    assert!(ranks > 0 && dimensions > 0, "a grid has ranks and dimensions");
    let mut best = vec![1; dimensions];
    best[0] = ranks;
    search(ranks, ranks, &mut Vec::with_capacity(dimensions), &mut best);
    best
}

/// Tries every descending factorisation; less spread from the largest to the smallest is better.
fn search(left: u64, most: u64, chosen: &mut Vec<u64>, best: &mut Vec<u64>) {
    if chosen.len() + 1 == best.len() {
        if left <= most {
            chosen.push(left);
            if spread(chosen) < spread(best) {
                best.clone_from(chosen);
            }
            chosen.pop();
        }
        return;
    }
    for factor in divisors(left).into_iter().filter(|&factor| factor <= most) {
        chosen.push(factor);
        search(left / factor, factor, chosen, best);
        chosen.pop();
    }
}

/// Largest and smallest size first, then all of them: a smaller largest size wins a tie.
fn spread(grid: &[u64]) -> (u64, Vec<u64>) {
    (grid[0] - grid[grid.len() - 1], grid.to_vec())
}

fn divisors(number: u64) -> Vec<u64> {
    let low = (1..).take_while(|factor| factor * factor <= number);
    let low: Vec<u64> = low.filter(|factor| number.is_multiple_of(*factor)).collect();
    let high = low.iter().rev().map(|factor| number / factor);
    low.iter().copied().chain(high.filter(|factor| factor * factor != number)).collect()
}

/// The block of a global array that `rank` owns; ranks are laid out with the last dimension varying
/// fastest.
///
/// Sizes that do not divide evenly give blocks that differ by one element.
pub(crate) fn block(array: &[u64], grid: &[u64], rank: u64) -> Vec<Dimension> {
    let mut left = rank;
    let mut dimensions: Vec<Dimension> = (0..array.len())
        .rev()
        .map(|axis| {
            let (size, parts, index) = (array[axis], grid[axis], left % grid[axis]);
            left /= parts;
            let edge = |index: u64| {
                // Arrays have fewer than 2^60 elements and grids at most 2^20 ranks: u128 for the
                // product.
                (u128::from(size) * u128::from(index) / u128::from(parts)) as u64
            };
            Dimension { size, part: edge(index + 1) - edge(index), start: edge(index) }
        })
        .collect();
    dimensions.reverse();
    dimensions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_those_of_mpi() {
        for (ranks, dimensions, expected) in [
            (1, 3, vec![1, 1, 1]),
            (4, 2, vec![2, 2]),
            (4, 3, vec![2, 2, 1]),
            (6, 2, vec![3, 2]),
            (7, 2, vec![7, 1]),
            (8, 4, vec![2, 2, 2, 1]),
            (16, 3, vec![4, 2, 2]),
            (36, 3, vec![4, 3, 3]),
            (60, 2, vec![10, 6]),
            (100_000, 2, vec![400, 250]),
        ] {
            let grid = dims_create(ranks, dimensions);
            assert_eq!(grid, expected, "{ranks} ranks");
            assert_eq!(grid.iter().product::<u64>(), ranks);
        }
    }

    #[test]
    fn blocks_tile_the_array() {
        let (array, grid) = ([7, 5, 3], [2, 3, 1]);
        let mut owned = [0u8; 7 * 5 * 3];
        for rank in 0..6 {
            let dimensions = block(&array, &grid, rank);
            let layout = crate::Layout::Subarray { dimensions, element: 1 };
            layout.for_each_piece(0, &mut |piece| {
                for byte in piece.offset..piece.offset + piece.len {
                    owned[byte as usize] += 1;
                }
            });
        }
        assert!(owned.iter().all(|&times| times == 1), "{owned:?}");
    }
}
