//! One process' part of a distributed array (MPI-4.1, 5.1.4, `MPI_TYPE_CREATE_DARRAY`).

use super::constructors::invalid;
use super::facts::too_large;
use super::node::Node;
use super::subarray::array_stride;
use super::{Datatype, Order};
use aggio_base::error::Result;
use std::sync::Arc;

/// How one dimension is distributed over the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not distributed (`MPI_DISTRIBUTE_NONE`).
    None,
    /// One block for each process (`MPI_DISTRIBUTE_BLOCK`).
    Block,
    /// Blocks dealt out in turn (`MPI_DISTRIBUTE_CYCLIC`).
    Cyclic,
}

/// One dimension and this process' place in it.
struct Dimension {
    size: u64,
    distribution: Distribution,
    argument: Option<u64>,
    processes: u64,
    coordinate: u64,
}

impl Datatype {
    /// The part of process `rank` of `size` of an array of `gsizes` elements of type `child`.
    ///
    /// `dargs` holds the distribution arguments, `None` for `MPI_DISTRIBUTE_DFLT_DARG`; processes
    /// are numbered in row-major order regardless of the array's `order`.
    pub fn darray(
        (size, rank): (u64, u64),
        gsizes: &[u64],
        distributions: &[Distribution],
        dargs: &[Option<u64>],
        psizes: &[u64],
        order: Order,
        child: &Datatype,
    ) -> Result<Self> {
        let n = gsizes.len();
        if n == 0 || distributions.len() != n || dargs.len() != n || psizes.len() != n {
            return Err(invalid("darray: the lists of dimensions differ in length".into()));
        }
        let coordinates = coordinates(size, rank, psizes)?;
        let mut node = child.node().clone();
        let mut stride = child.extent();
        let mut start = i128::from(child.first_displacement());
        for at in order.fastest_first(n) {
            let dimension = Dimension {
                size: gsizes[at],
                distribution: distributions[at],
                argument: dargs[at],
                processes: psizes[at],
                coordinate: coordinates[at],
            };
            let (first, part) = dimension.part(stride, &node)?;
            start += i128::from(first) * i128::from(stride);
            node = part;
            stride = array_stride(stride, gsizes[at])?;
        }
        let start = i64::try_from(start).map_err(|_| too_large("a displacement"))?;
        Datatype::from_parts(start, (0, stride), true, node)
    }
}

/// The place of `rank` in the grid of processes.
fn coordinates(size: u64, rank: u64, psizes: &[u64]) -> Result<Vec<u64>> {
    let grid = psizes.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
    if grid != Some(size) || rank >= size {
        let text = format!("darray: rank {rank} of {size} is not in a grid of {psizes:?}");
        return Err(invalid(text));
    }
    let mut rest = rank;
    let mut coordinates = vec![0; psizes.len()];
    for (coordinate, processes) in coordinates.iter_mut().zip(psizes).rev() {
        *coordinate = rest % processes;
        rest /= processes;
    }
    Ok(coordinates)
}

impl Dimension {
    /// The first index that belongs to this process, and the layout of all of its indices.
    fn part(&self, stride: i64, child: &Arc<Node>) -> Result<(u64, Arc<Node>)> {
        let argument = self.argument;
        match self.distribution {
            Distribution::None if self.processes != 1 => {
                let n = self.processes;
                Err(invalid(format!(
                    "darray: {n} processes in a dimension that is not distributed"
                )))
            }
            Distribution::None => Ok((0, Node::repeat(self.size, stride, child)?)),
            Distribution::Block => {
                let block = argument.unwrap_or(self.size.div_ceil(self.processes));
                if block.checked_mul(self.processes).is_none_or(|all| all < self.size) {
                    return Err(invalid(format!(
                        "darray: blocks of {block} do not hold the array"
                    )));
                }
                let first = self.coordinate.saturating_mul(block).min(self.size);
                let len = block.min(self.size - first);
                Ok((first, Node::repeat(len, stride, child)?))
            }
            Distribution::Cyclic => self.cyclic(argument.unwrap_or(1), stride, child),
        }
    }

    fn cyclic(&self, block: u64, stride: i64, child: &Arc<Node>) -> Result<(u64, Arc<Node>)> {
        if block == 0 {
            return Err(invalid("darray: blocks of 0 elements".into()));
        }
        let (whole, rest) = (self.size / block, self.size % block);
        // Whole blocks number c, c + p, c + 2p, ... are ours; the last, short one may be.
        let ours = whole.saturating_sub(self.coordinate).div_ceil(self.processes);
        // An argument beyond the array is legal, so nothing is computed from it without a block.
        let (blocks, turn) = if ours == 0 {
            (Node::empty(), 0)
        } else {
            let turn = array_stride(array_stride(stride, block)?, self.processes)?;
            (Node::repeat(ours, turn, &Node::repeat(block, stride, child)?)?, turn)
        };
        let first = if ours > 0 || whole % self.processes == self.coordinate {
            self.coordinate.saturating_mul(block)
        } else {
            0
        };
        if rest == 0 || whole % self.processes != self.coordinate {
            return Ok((first, blocks));
        }
        let short = Node::repeat(rest, stride, child)?;
        let (_, node) = Node::sequence(vec![(0, blocks), (array_stride(turn, ours)?, short)])?;
        Ok((first, node))
    }
}

#[cfg(test)]
mod tests;
