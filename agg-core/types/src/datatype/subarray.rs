//! A rectangular part of an array (MPI-4.1, 5.1.3, `MPI_TYPE_CREATE_SUBARRAY`).

use super::Datatype;
use super::constructors::invalid;
use super::facts::too_large;
use super::node::Node;
use aggio_base::error::Result;

/// How an array lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last index varies fastest.
    C,
    /// The first index varies fastest.
    Fortran,
}

impl Order {
    /// The dimensions from the fastest to the slowest.
    pub(super) fn fastest_first(self, dimensions: usize) -> impl Iterator<Item = usize> {
        (0..dimensions).map(move |n| match self {
            Order::C => dimensions - 1 - n,
            Order::Fortran => n,
        })
    }
}

impl Datatype {
    /// The part of an array of `sizes` elements of type `child` that starts at `starts` and has
    /// `subsizes` elements in each dimension. Lower bound 0, extent that of the whole array.
    pub fn subarray(
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
        order: Order,
        child: &Datatype,
    ) -> Result<Self> {
        check(sizes, subsizes, starts)?;
        let mut node = child.node().clone();
        let mut stride = child.extent();
        let mut start = i128::from(child.first_displacement());
        for dimension in order.fastest_first(sizes.len()) {
            start += i128::from(starts[dimension]) * i128::from(stride);
            node = Node::repeat(subsizes[dimension], stride, &node)?;
            stride = array_stride(stride, sizes[dimension])?;
        }
        let start = i64::try_from(start).map_err(|_| too_large("a displacement"))?;
        Datatype::from_parts(start, (0, stride), true, node)
    }
}

/// The distance of two neighbours in the next slower dimension.
pub(super) fn array_stride(stride: i64, size: u64) -> Result<i64> {
    i64::try_from(size)
        .ok()
        .and_then(|size| stride.checked_mul(size))
        .ok_or_else(|| too_large("the array"))
}

fn check(sizes: &[u64], subsizes: &[u64], starts: &[u64]) -> Result<()> {
    if sizes.len() != subsizes.len() || sizes.len() != starts.len() || sizes.is_empty() {
        return Err(invalid("subarray: sizes, subsizes and starts differ in length".into()));
    }
    for (dimension, size) in sizes.iter().enumerate() {
        let (subsize, start) = (subsizes[dimension], starts[dimension]);
        if subsize > *size || start > size - subsize {
            return Err(invalid(format!(
                "subarray: dimension {dimension}: {subsize} elements from {start} on leave the \
                 array of {size}"
            )));
        }
    }
    Ok(())
}
