//! Dataspaces: the shape of a dataset and how far it may grow.

use super::cursor::Cursor;

/// Dimensions at most.
pub(super) const MOST_DIMENSIONS: usize = 32;

/// The shape of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Space {
    /// No element at all.
    Null,
    /// A scalar has no dimensions.
    Simple {
        /// Elements along each dimension, the slowest one first.
        shape: Vec<u64>,
        /// To how many each dimension may grow; `None` is unlimited.
        most: Vec<Option<u64>>,
    },
}

impl Space {
    /// Elements along each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        match self {
            Space::Null => &[],
            Space::Simple { shape, .. } => shape,
        }
    }

    /// To how many elements each dimension may grow.
    #[must_use]
    pub fn most(&self) -> &[Option<u64>] {
        match self {
            Space::Null => &[],
            Space::Simple { most, .. } => most,
        }
    }

    /// All elements; `None` if there are more than a number holds.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        match self {
            Space::Null => Some(0),
            Space::Simple { shape, .. } if shape.contains(&0) => Some(0),
            Space::Simple { shape, .. } => {
                shape.iter().try_fold(1_u64, |all, one| all.checked_mul(*one))
            }
        }
    }
}

/// The message of a dataspace.
pub(super) fn parse(mut cursor: Cursor<'_>) -> Option<Space> {
    let (version, rank, flags) = (cursor.byte()?, cursor.byte()?, cursor.byte()?);
    let kind = cursor.byte()?;
    match version {
        1 => cursor.take(4)?,
        2 if kind == 2 => return Some(Space::Null),
        2 => &[],
        _ => return None,
    };
    if usize::from(rank) > MOST_DIMENSIONS {
        return None;
    }
    let shape: Vec<u64> = (0..rank).map(|_| cursor.length()).collect::<Option<_>>()?;
    let most = match flags & 1 {
        0 => shape.iter().copied().map(Some).collect(),
        _ => (0..rank).map(|_| cursor.limit()).collect::<Option<_>>()?,
    };
    let grows = |(one, most): (&u64, &Option<u64>)| most.is_none_or(|most| *one <= most);
    shape.iter().zip(&most).all(grows).then_some(Space::Simple { shape, most })
}
