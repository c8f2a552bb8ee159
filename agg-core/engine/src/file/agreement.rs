//! Agreement, the first step of every collective operation: all ranks exchange their arguments.
//!
//! A rank with wrong arguments takes part too, so no rank waits for it. Ranks that call *different*
//! operations get an error here instead of waiting for each other forever.

use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::group;
use aggio_comm::meeting::{Brought, Meeting};
use aggio_comm::tags::TagBlock;
use aggio_comm::task::place::on_caller;
use aggio_comm::transport::Transport;
use aggio_plan::plan::Summary;

/// Which collective operation a rank is in; the number travels with the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Close = 9 << 2,
    SetView = 10 << 2,
    SetSize = 11 << 2,
    Preallocate = 12 << 2,
    Sync = 13 << 2,
    SetAtomicity = 14 << 2,
    SetInfo = 15 << 2,
    SeekShared = 16 << 2,
    ReadOrdered = 17 << 2,
    WriteOrdered = 18 << 2,
    Flush = 19 << 2,
    WriteBehind = 20 << 2,
}

/// Steps of operations that begin with a meeting, beside its own.
pub(super) mod step {
    /// Ranks exchange their findings about the file's format.
    pub(in super::super) const NEWS: u32 = 5;
}

/// Message of a rank: up to four numbers, with a meaning for each operation.
pub(super) type Words = [u64; 4];

/// Bytes of a rank's part: the numbers, a byte of 0, then the kind and whether the rank brings an
/// error. A part is as long as the [`Summary`] of a data operation, so that parts of both can meet
/// and be distinguished.
const PART: usize = Summary::WIRE_BYTES;
const FLAGS: usize = PART - 1;
const FAILED: u8 = 1;
/// Of a rank: it has new findings about the file's format.
const NEWS: u8 = 2;
/// Of a node: its ranks bring different numbers.
const DIFFER: u8 = 2;
/// Of a node: one of its ranks has new findings about the format.
const SOME_NEWS: u8 = 4;

/// Exchanges `words` between all ranks; returns those of every rank, in rank order.
///
/// # Errors
/// The same on every rank: the lowest rank's error if a rank brought one, or `Other` if the ranks
/// are in different operations.
pub(super) async fn meet(
    transport: &dyn Transport,
    tags: &TagBlock,
    kind: Kind,
    words: Words,
    checked: Result<()>,
) -> Result<Vec<Words>> {
    meet_with_news(transport, tags, kind, words, checked, false).await.map(|(all, _)| all)
}

/// As [`meet`]; also returns whether any rank has new findings about the file's format (`news`),
/// which all ranks exchange next.
///
/// # Errors
/// As [`meet`].
pub(super) async fn meet_with_news(
    transport: &dyn Transport,
    tags: &TagBlock,
    kind: Kind,
    words: Words,
    checked: Result<()>,
    news: bool,
) -> Result<(Vec<Words>, bool)> {
    if transport.size() == 1 {
        return checked.map(|()| (vec![words], news));
    }
    let mut mine: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    mine.resize(FLAGS, 0);
    mine.push(kind as u8 | (u8::from(checked.is_err()) * FAILED) | (u8::from(news) * NEWS));
    let (meeting, heard) = Meeting::hold(transport, tags, 0, &mine, brought, |_| false).await?;
    let has = |flag: u8| heard.nodes.iter().any(|node| node.flags & flag != 0);
    if has(FAILED) {
        meeting.agree(1, checked).await?;
    }
    let first: Words = std::array::from_fn(|i| heard.nodes[0].numbers[i]);
    if !has(DIFFER) && heard.nodes.iter().all(|node| node.numbers[..4] == first) {
        return Ok((vec![first; transport.size()], has(SOME_NEWS)));
    }
    let all = match heard.members.len() == PART * transport.size() {
        true => heard.members,
        false => group::allgather(transport, tags.tag(6), &mine).await?,
    };
    Ok((all.chunks_exact(PART).map(words_of).collect(), has(SOME_NEWS)))
}

/// Combines the messages of the ranks of a node: the numbers of the first, and whether others
/// differ.
fn brought(parts: &[u8]) -> Brought {
    let mut all = parts.chunks_exact(PART).map(words_of);
    let first = all.next().unwrap_or_default();
    let failed = parts.chunks_exact(PART).any(|part| part[FLAGS] & FAILED != 0);
    let news = parts.chunks_exact(PART).any(|part| part[FLAGS] & NEWS != 0);
    let differ = all.any(|words| words != first);
    let numbers = std::array::from_fn(|i| first.get(i).copied().unwrap_or(0));
    let flags = [(failed, FAILED), (differ, DIFFER), (news, SOME_NEWS)];
    Brought::new(numbers, flags.iter().fold(0, |flags, (on, flag)| flags | (u8::from(*on) * flag)))
}

fn words_of(part: &[u8]) -> Words {
    std::array::from_fn(|i| word_at(part, 8 * i))
}

fn word_at(part: &[u8], start: usize) -> u64 {
    part[start..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Checks that an argument of a collective operation is the same on all ranks.
pub(super) fn same_everywhere(all: &[Words], class: ErrorClass, what: &str) -> Result<()> {
    match all.iter().position(|words| words != &all[0]) {
        None => Ok(()),
        Some(rank) => {
            Err(Error::new(class, format!("{what} differs between rank 0 and rank {rank}")))
        }
    }
}

/// Runs `step` on one rank and gives every rank its result; all ranks have met before.
pub(super) async fn from_rank(
    transport: &dyn Transport,
    tags: &TagBlock,
    rank: usize,
    step: impl FnOnce() -> Result<Words> + Send,
) -> Result<Words> {
    on_caller().await;
    if transport.rank() != rank {
        return unpack(&group::bcast(transport, tags.tag(2), rank, Vec::new()).await?);
    }
    let result = step().map_err(|error| error.with_rank(rank));
    if transport.size() > 1 {
        group::bcast(transport, tags.tag(2), rank, pack(&result)).await?;
    }
    result
}

/// A result as bytes: the numbers or the error behind a byte that says which.
fn pack(result: &Result<Words>) -> Vec<u8> {
    match result {
        Ok(words) => std::iter::once(0).chain(words.iter().flat_map(|w| w.to_le_bytes())).collect(),
        Err(error) => [&[1][..], &error.to_bytes()].concat(),
    }
}

fn unpack(bytes: &[u8]) -> Result<Words> {
    let damaged = || Error::new(ErrorClass::Intern, "a message between ranks is damaged");
    match bytes {
        [0, words @ ..] if words.len() == 32 => Ok(std::array::from_fn(|i| word_at(words, 8 * i))),
        [1, error @ ..] => Err(Error::from_bytes(error).unwrap_or_else(damaged)),
        _ => Err(damaged()),
    }
}
