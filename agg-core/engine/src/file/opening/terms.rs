//! The first step of an open: one reduction combines the arguments of all ranks on rank 0.
//!
//! The message has constant size: the values of the lowest rank, and the first rank with different
//! arguments or an error.

use crate::file::Amode;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::group;
use aggio_comm::transport::Transport;

/// The combined arguments of a group of neighbouring ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenTerms {
    /// The lowest rank of the group; the next two are its values.
    rank: u32,
    amode: Amode,
    /// Digest of the hints that must be equal on all ranks.
    hints: u64,
    /// The first rank with hints that differ from the lowest rank's.
    other_hints: Option<u32>,
    /// The first rank with an access mode that differs from the lowest rank's.
    other_mode: Option<u32>,
    /// Of the first rank that has one.
    error: Option<Error>,
}

const FIXED: usize = 4 + 4 + 8 + 4 + 4;
const NOBODY: u32 = u32::MAX;

impl OpenTerms {
    /// The arguments of this rank; `checked` is an error found before.
    pub(super) fn of(rank: usize, amode: Amode, hints: u64, checked: Result<()>) -> Self {
        let error = checked.err().map(|error| error.with_rank(rank));
        let rank = u32::try_from(rank).unwrap_or(NOBODY - 1);
        Self { rank, amode, hints, other_hints: None, other_mode: None, error }
    }

    /// Combines the terms of all ranks on rank 0; `None` on the others.
    pub(super) async fn reduce(self, transport: &dyn Transport, tag: u32) -> Result<Option<Self>> {
        if transport.size() == 1 {
            return Ok(Some(self));
        }
        let all = group::reduce(transport, tag, self.to_bytes(), combine).await?;
        all.map(|bytes| Self::from_bytes(&bytes).ok_or_else(damaged)).transpose()
    }

    /// The first rank with hints that differ from rank 0's although they must be equal.
    ///
    /// # Errors
    /// That of the lowest rank that has one; `NotSame` if the access modes differ.
    pub(super) fn check(self) -> Result<Option<u32>> {
        match (self.error, self.other_mode) {
            (Some(error), _) => Err(error),
            (None, Some(rank)) => {
                let text = format!("the access mode differs between rank 0 and rank {rank}");
                Err(Error::new(ErrorClass::NotSame, text))
            }
            (None, None) => Ok(self.other_hints),
        }
    }

    /// The combined terms of two groups, the lower ranks' first.
    fn and(self, right: Self) -> Self {
        let differs = (self.amode != right.amode).then_some(right.rank);
        let hints_differ = (self.hints != right.hints).then_some(right.rank);
        Self {
            other_hints: self.other_hints.or(hints_differ).or(right.other_hints),
            other_mode: self.other_mode.or(differs).or(right.other_mode),
            error: self.error.or(right.error),
            ..self
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED);
        bytes.extend_from_slice(&self.rank.to_le_bytes());
        bytes.extend_from_slice(&self.amode.0.to_le_bytes());
        bytes.extend_from_slice(&self.hints.to_le_bytes());
        bytes.extend_from_slice(&self.other_hints.unwrap_or(NOBODY).to_le_bytes());
        bytes.extend_from_slice(&self.other_mode.unwrap_or(NOBODY).to_le_bytes());
        bytes.extend(self.error.iter().flat_map(Error::to_bytes));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fixed, error) = bytes.split_first_chunk::<FIXED>()?;
        let word = |at: usize| fixed[at..].first_chunk().map(|word| u32::from_le_bytes(*word));
        let error = if error.is_empty() { None } else { Some(Error::from_bytes(error)?) };
        Some(Self {
            rank: word(0)?,
            amode: Amode(word(4)?),
            hints: fixed[8..].first_chunk().map(|word| u64::from_le_bytes(*word))?,
            other_hints: word(16).filter(|rank| *rank != NOBODY),
            other_mode: word(20).filter(|rank| *rank != NOBODY),
            error,
        })
    }
}

fn damaged() -> Error {
    Error::new(ErrorClass::Intern, "the terms of the other ranks are damaged")
}

/// Damaged bytes stay damaged, and rank 0 finds out.
fn combine(left: &[u8], right: &[u8]) -> Vec<u8> {
    match (OpenTerms::from_bytes(left), OpenTerms::from_bytes(right)) {
        (Some(left), Some(right)) => left.and(right).to_bytes(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(rank: usize, amode: Amode, hints: u64) -> OpenTerms {
        OpenTerms::of(rank, amode, hints, Ok(()))
    }

    #[test]
    fn terms_survive_the_way_to_another_rank() {
        let error = Error::new(ErrorClass::Amode, "no access");
        let mut terms = OpenTerms::of(3, Amode::RDWR, 1 << 60, Err(error));
        terms.other_mode = Some(7);
        terms.other_hints = Some(2);
        let bytes = terms.to_bytes();
        assert_eq!(OpenTerms::from_bytes(&bytes), Some(terms));
        for n in 0..FIXED {
            assert_eq!(OpenTerms::from_bytes(&bytes[..n]), None);
        }
    }

    #[test]
    fn the_first_rank_that_differs_is_named_and_an_error_counts_more() {
        let (a, b) = (Amode::RDWR, Amode::RDONLY);
        let four = |modes: [Amode; 4]| {
            let [p, q, r, s] = std::array::from_fn(|rank| terms(rank, modes[rank], 5));
            p.and(q).and(r.and(s))
        };
        assert_eq!(four([a; 4]).check(), Ok(None));
        for (modes, rank) in [([a, b, a, a], 1), ([a, a, b, a], 2), ([a, a, a, b], 3)] {
            assert_eq!(four(modes).other_mode, Some(rank));
        }
        let failed = OpenTerms::of(4, a, 5, Err(Error::new(ErrorClass::Amode, "x")));
        let error = four([a, b, a, b]).and(failed).check().expect_err("an error");
        assert_eq!((error.class(), error.rank()), (ErrorClass::Amode, Some(4)));
    }

    #[test]
    fn the_first_rank_with_different_hints_is_named_wherever_it_is() {
        let mode = Amode::RDWR;
        for odd in 0..4 {
            let one = |rank| terms(rank, mode, if rank == odd { 6 } else { 5 });
            let other = odd.max(1) as u32;
            assert_eq!(one(0).and(one(1)).and(one(2).and(one(3))).check(), Ok(Some(other)));
        }
    }
}
