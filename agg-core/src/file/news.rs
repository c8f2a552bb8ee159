//! The second step of an open: all ranks hear, in one broadcast, how rank 0 opened the file.

use super::account::{report_from_word, report_to_word};
use crate::driver::Facts;
use crate::error::{Error, ErrorClass, Result};
use crate::group;
use crate::settings::Report;
use crate::transport::Transport;

/// What rank 0 found and decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    /// Where the file pointers start, in bytes.
    pub(super) start: u64,
    /// About the file system.
    pub(super) facts: Facts,
    /// Where the file's messages travel.
    pub(super) place: Place,
    /// What is told when the file is closed.
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

/// Runs `step` on rank 0 and gives every rank its result.
pub(super) async fn from_rank_zero(
    transport: &dyn Transport,
    tag: u32,
    step: impl FnOnce() -> Result<News> + Send,
) -> Result<News> {
    if transport.rank() != 0 {
        return unpack(&group::bcast(transport, tag, 0, Vec::new()).await?);
    }
    let result = step().map_err(|error| error.with_rank(0));
    if transport.size() > 1 {
        group::bcast(transport, tag, 0, pack(&result)).await?;
    }
    result
}

fn pack(result: &Result<News>) -> Vec<u8> {
    match result {
        Ok(news) => std::iter::once(0).chain(news.to_bytes()).collect(),
        Err(error) => std::iter::once(1).chain(error.to_bytes()).collect(),
    }
}

fn unpack(bytes: &[u8]) -> Result<News> {
    let damaged = || Error::new(ErrorClass::Intern, "the news of an open are damaged");
    match bytes {
        [0, news @ ..] => News::from_bytes(news).ok_or_else(damaged),
        [1, error @ ..] => Err(Error::from_bytes(error).unwrap_or_else(damaged)),
        _ => Err(damaged()),
    }
}

impl News {
    fn to_bytes(&self) -> Vec<u8> {
        let Facts { block_size, striping_unit, striping_factor, file_system } = &self.facts;
        let words = [
            self.start,
            *block_size,
            *striping_unit,
            u64::from(*striping_factor),
            u64::from(self.place.level) << 32 | u64::from(self.place.lane),
            report_to_word(self.report),
            u64::from(self.names_aggregators),
            self.hints.as_ref().map_or(u64::MAX, |(_, hints)| hints.len() as u64),
            self.hints.as_ref().map_or(0, |(rank, _)| u64::from(*rank)),
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(self.hints.iter().flat_map(|(_, hints)| hints));
        bytes.extend_from_slice(file_system.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.split_first_chunk::<72>()?;
        let word = |n: usize| words[8 * n..].first_chunk().map(|word| u64::from_le_bytes(*word));
        let (hints, rest) = match word(7)? {
            u64::MAX => (None, rest),
            len => {
                let (hints, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
                (Some((word(8)? as u32, hints.to_vec())), rest)
            }
        };
        let facts = Facts {
            block_size: word(1)?,
            striping_unit: word(2)?,
            striping_factor: u32::try_from(word(3)?).ok()?,
            file_system: String::from_utf8_lossy(rest).into_owned(),
        };
        let place = Place { level: (word(4)? >> 32) as u32, lane: word(4)? as u32 };
        let (report, names_aggregators) = (report_from_word(word(5)?), word(6)? != 0);
        Some(Self { start: word(0)?, facts, place, report, names_aggregators, hints })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_and_errors_survive_the_way_to_another_rank() {
        let facts = Facts {
            block_size: 4096,
            striping_unit: 1 << 20,
            striping_factor: 7,
            file_system: "lustre".into(),
        };
        for hints in [None, Some((1, Vec::new())), Some((7, b"cb_nodes=3\n".to_vec()))] {
            let news = News {
                start: 1 << 40,
                facts: facts.clone(),
                place: Place { level: 2, lane: 255 },
                report: Report::Json,
                names_aggregators: true,
                hints,
            };
            assert_eq!(unpack(&pack(&Ok(news.clone()))), Ok(news));
        }
        let error = Error::new(ErrorClass::NoSuchFile, "open: none");
        assert_eq!(unpack(&pack(&Err(error.clone()))), Err(error));
        for damaged in [&[][..], &[0; 72], &[1], &[2, 3]] {
            assert_eq!(unpack(damaged).expect_err("damaged").class(), ErrorClass::Intern);
        }
    }
}
