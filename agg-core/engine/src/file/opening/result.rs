//! The second step of an open: one broadcast sends the result of the first rank's open to all
//! ranks.

use crate::file::account::{report_from_word, report_to_word};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::group;
use aggio_comm::transport::{Identity, Transport};
use aggio_config::settings::Report;
use aggio_store::driver::Facts;

/// Properties of the file as the first rank opened it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Where the file pointers start, in bytes.
    pub(super) start: u64,
    /// About the file system.
    pub(super) facts: Facts,
    /// Which file it is on that rank's node, where other ranks cannot take its descriptor.
    pub(super) identity: Option<Identity>,
}

/// The result of rank 0's open, and its decisions for all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenResult {
    /// The error if rank 0 does not see the place of the file; others may.
    pub(super) found: std::result::Result<Found, Error>,
    /// Ranks that do not need the file do not open it.
    pub(super) deferred: bool,
    /// Where the file's messages travel.
    pub(super) place: Place,
    /// The report at close.
    pub(super) report: Report,
    /// Rank 0's hints name the aggregators.
    pub(super) names_aggregators: bool,
    /// Rank 0's hints that must be equal on all ranks, if they are not; and the first rank that has
    /// others.
    pub(super) hints: Option<(u32, Vec<u8>)>,
}

/// A lane, and the transport that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// How many times [`Transport::next`] leads there.
    pub(super) level: u32,
    /// The lane's number.
    pub(super) lane: u32,
}

/// A message from one rank to all.
pub(super) trait Message: Sized {
    fn to_bytes(&self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Runs `step` on rank `root` and gives every rank its result.
pub(super) async fn tell_all<M: Message>(
    transport: &dyn Transport,
    tag: u32,
    root: usize,
    step: impl FnOnce() -> Result<M> + Send,
) -> Result<M> {
    if transport.rank() != root {
        return unpack(&group::bcast(transport, tag, root, Vec::new()).await?);
    }
    let result = step().map_err(|error| error.with_rank(root));
    if transport.size() > 1 {
        group::bcast(transport, tag, root, pack(&result)).await?;
    }
    result
}

fn pack<M: Message>(result: &Result<M>) -> Vec<u8> {
    match result {
        Ok(result) => std::iter::once(0).chain(result.to_bytes()).collect(),
        Err(error) => std::iter::once(1).chain(error.to_bytes()).collect(),
    }
}

fn unpack<M: Message>(bytes: &[u8]) -> Result<M> {
    let damaged = || Error::new(ErrorClass::Intern, "the result of an open is damaged");
    match bytes {
        [0, result @ ..] => M::from_bytes(result).ok_or_else(damaged),
        [1, error @ ..] => Err(Error::from_bytes(error).unwrap_or_else(damaged)),
        _ => Err(damaged()),
    }
}

fn bytes_of<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The first `N` words of `bytes`, and the bytes behind them.
fn words_of<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (words, rest) = bytes.split_at_checked(8 * N)?;
    let word = |n: usize| words[8 * n..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    Some((std::array::from_fn(word), rest))
}

impl Message for Found {
    fn to_bytes(&self) -> Vec<u8> {
        let facts = &self.facts;
        let is_known = self.identity.is_some();
        let flags = [facts.has_logs, facts.is_staged, facts.is_by_node, is_known];
        let flags = flags.iter().rev().fold(0, |all, flag| all << 1 | u64::from(*flag));
        let factor = u64::from(facts.striping_factor) | flags << 32;
        let mut bytes = bytes_of([self.start, facts.block_size, facts.striping_unit, factor]);
        bytes.extend(self.identity.iter().flat_map(|it| bytes_of([it.device, it.inode])));
        bytes.extend_from_slice(facts.file_system.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([start, block_size, striping_unit, factor], rest) = words_of(bytes)?;
        let (identity, rest) = match factor >> 35 & 1 {
            0 => (None, rest),
            _ => {
                let ([device, inode], rest) = words_of(rest)?;
                (Some(Identity { device, inode }), rest)
            }
        };
        let facts = Facts {
            block_size,
            striping_unit,
            striping_factor: factor as u32,
            has_logs: factor >> 32 & 1 != 0,
            is_staged: factor >> 33 & 1 != 0,
            is_by_node: factor >> 34 & 1 != 0,
            file_system: String::from_utf8_lossy(rest).into_owned(),
        };
        Some(Self { start, facts, identity })
    }
}

impl Message for OpenResult {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = bytes_of([
            u64::from(self.place.level) << 32 | u64::from(self.place.lane),
            report_to_word(self.report),
            u64::from(self.names_aggregators) | u64::from(self.deferred) << 1,
            self.hints.as_ref().map_or(u64::MAX, |(_, hints)| hints.len() as u64),
            self.hints.as_ref().map_or(0, |(rank, _)| u64::from(*rank)),
        ]);
        bytes.extend(self.hints.iter().flat_map(|(_, hints)| hints));
        bytes.extend(pack(&self.found));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([place, report, flags, len, other], rest) = words_of(bytes)?;
        let (hints, rest) = match len {
            u64::MAX => (None, rest),
            len => {
                let (hints, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
                (Some((other as u32, hints.to_vec())), rest)
            }
        };
        let found = match rest {
            [0, found @ ..] => Ok(Found::from_bytes(found)?),
            [1, error @ ..] => Err(Error::from_bytes(error)?),
            _ => return None,
        };
        let place = Place { level: (place >> 32) as u32, lane: place as u32 };
        let (names_aggregators, deferred) = (flags & 1 != 0, flags & 2 != 0);
        let report = report_from_word(report);
        Some(Self { found, deferred, place, report, names_aggregators, hints })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_survive_the_way_to_another_rank() {
        let facts = Facts {
            block_size: 4096,
            striping_unit: 1 << 20,
            striping_factor: 7,
            has_logs: true,
            is_staged: true,
            is_by_node: true,
            file_system: "lustre".into(),
        };
        let identity = Some(Identity { device: 7, inode: 1 << 50 });
        let found = Found { start: 1 << 40, facts, identity };
        let unknown = Found { identity: None, ..found.clone() };
        let error = Error::new(ErrorClass::NoSuchFile, "open: none");
        for hints in [None, Some((1, Vec::new())), Some((7, b"cb_nodes=3\n".to_vec()))] {
            for (n, found) in [Ok(found.clone()), Err(error.clone())].into_iter().enumerate() {
                let result = OpenResult {
                    found,
                    deferred: n == 0,
                    place: Place { level: 2, lane: 255 },
                    report: Report::Json,
                    names_aggregators: n == 1,
                    hints: hints.clone(),
                };
                assert_eq!(unpack(&pack(&Ok(result.clone()))), Ok(result));
            }
        }
        assert_eq!(unpack(&pack(&Ok(unknown.clone()))), Ok(unknown));
        assert_eq!(unpack(&pack(&Ok(found.clone()))), Ok(found));
        assert_eq!(unpack::<OpenResult>(&pack::<OpenResult>(&Err(error.clone()))), Err(error));
        for damaged in [&[][..], &[0; 20], &[0; 64], &[1], &[2, 3]] {
            assert_eq!(
                unpack::<OpenResult>(damaged).expect_err("damaged").class(),
                ErrorClass::Intern
            );
        }
    }
}
