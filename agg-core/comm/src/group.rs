//! Collective steps of all ranks of a file, built on point-to-point messages.
//!
//! Every step takes O(log ranks) rounds and one tag of the caller's (see [`crate::tags`]). A send
//! may end only when its receiver has matched it, so each round starts its receive and its send
//! together and awaits both. Rank order is kept: `combine(left, right)` always gets the part of
//! lower ranks on the left.

use crate::task::{BoxFuture, join};
use aggio_base::error::{Error, ErrorClass, Result};

/// Ranks that take part in a collective step: all of a file, or some of them, numbered anew.
pub trait Ranks: Send + Sync {
    /// This process' number, `0..size`.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// As [`crate::transport::Transport::send`].
    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>>;

    /// As [`crate::transport::Transport::post`].
    fn post(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>>;

    /// As [`crate::transport::Transport::recv`].
    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>>;
}

impl<T: crate::transport::Transport + ?Sized> Ranks for T {
    fn rank(&self) -> usize {
        crate::transport::Transport::rank(self)
    }

    fn size(&self) -> usize {
        crate::transport::Transport::size(self)
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        crate::transport::Transport::send(self, to, tag, bytes)
    }

    fn post(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        crate::transport::Transport::post(self, to, tag, bytes)
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        crate::transport::Transport::recv(self, from, tag, capacity)
    }
}

/// Bytes of a message that travel with its length; longer ones follow in pieces.
const FIRST: usize = 1016;

/// Largest single message, far below the range of an `int` count.
const PIECE: usize = 256 << 20;

/// Sends `bytes`; the receiver need not know the length in advance.
pub async fn send_framed(
    t: &(impl Ranks + ?Sized),
    to: usize,
    tag: u32,
    bytes: &[u8],
) -> Result<()> {
    let (head, rest) = bytes.split_at(bytes.len().min(FIRST));
    let mut first = Vec::with_capacity(8 + head.len());
    first.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    first.extend_from_slice(head);
    t.post(to, tag, first).await?;
    for piece in rest.chunks(PIECE) {
        t.send(to, tag, piece.to_vec()).await?;
    }
    Ok(())
}

/// Receives a message of [`send_framed`].
pub async fn recv_framed(t: &(impl Ranks + ?Sized), from: usize, tag: u32) -> Result<Vec<u8>> {
    let first = t.recv(from, tag, 8 + FIRST).await?;
    let short = || Error::new(ErrorClass::Intern, "a message without its length").with_rank(from);
    let (len, head) = first.split_first_chunk::<8>().ok_or_else(short)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| short())?;
    let mut bytes = head.to_vec();
    while bytes.len() < len {
        let piece = t.recv(from, tag, (len - bytes.len()).min(PIECE)).await?;
        if piece.is_empty() {
            return Err(short());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Sends to one rank and receives from another at the same time.
async fn shift(
    t: &(impl Ranks + ?Sized),
    tag: u32,
    to: usize,
    from: usize,
    bytes: &[u8],
) -> Result<Vec<u8>> {
    let (got, sent) = join(recv_framed(t, from, tag), send_framed(t, to, tag, bytes)).await;
    sent?;
    got
}

/// The distances 1, 2, 4, ... below the number of ranks.
fn distances(size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |d| d.checked_mul(2)).take_while(move |d| *d < size)
}

/// Returns on no rank before all ranks have called it.
pub async fn barrier(t: &(impl Ranks + ?Sized), tag: u32) -> Result<()> {
    let (rank, size) = (t.rank(), t.size());
    for d in distances(size) {
        shift(t, tag, (rank + d) % size, (rank + size - d) % size, &[]).await?;
    }
    Ok(())
}

/// Sends the `bytes` of rank `root` to every rank; the argument of the other ranks is ignored.
pub async fn bcast(
    t: &(impl Ranks + ?Sized),
    tag: u32,
    root: usize,
    bytes: Vec<u8>,
) -> Result<Vec<u8>> {
    let (rank, size) = (t.rank(), t.size());
    // Ranks relative to the root; the lowest set bit says how far away the parent is.
    let relative = (rank + size - root % size) % size;
    let mut bytes = bytes;
    let reach = if relative == 0 { size.next_power_of_two() } else { lowest_bit(relative) };
    if relative != 0 {
        bytes = recv_framed(t, (relative - reach + root) % size, tag).await?;
    }
    let mut d = reach / 2;
    while d > 0 {
        if relative + d < size {
            send_framed(t, (relative + d + root) % size, tag, &bytes).await?;
        }
        d /= 2;
    }
    Ok(bytes)
}

fn lowest_bit(n: usize) -> usize {
    n & n.wrapping_neg()
}

/// Combines the bytes of all ranks, in rank order, and gives every rank the result.
pub async fn allreduce(
    t: &(impl Ranks + ?Sized),
    tag: u32,
    mine: Vec<u8>,
    combine: impl Fn(&[u8], &[u8]) -> Vec<u8> + Send + Sync,
) -> Result<Vec<u8>> {
    let sum = reduce(t, tag, mine, combine).await?.unwrap_or_default();
    bcast(t, tag, 0, sum).await
}

/// Combines the bytes of all ranks, in rank order, and gives rank 0 the result; `None` elsewhere.
pub async fn reduce(
    t: &(impl Ranks + ?Sized),
    tag: u32,
    mine: Vec<u8>,
    combine: impl Fn(&[u8], &[u8]) -> Vec<u8> + Send + Sync,
) -> Result<Option<Vec<u8>>> {
    let (rank, size) = (t.rank(), t.size());
    let mut sum = mine;
    for d in distances(size) {
        if rank & d != 0 {
            send_framed(t, rank - d, tag, &sum).await?;
            return Ok(None);
        }
        if rank + d < size {
            let right = recv_framed(t, rank + d, tag).await?;
            sum = combine(&sum, &right);
        }
    }
    Ok(Some(sum))
}

/// Gives each rank the combined bytes of all lower ranks, in rank order; `None` on rank 0.
pub async fn exscan(
    t: &(impl Ranks + ?Sized),
    tag: u32,
    mine: Vec<u8>,
    combine: impl Fn(&[u8], &[u8]) -> Vec<u8> + Send + Sync,
) -> Result<Option<Vec<u8>>> {
    let (rank, size) = (t.rank(), t.size());
    let mut upto = mine;
    let mut below: Option<Vec<u8>> = None;
    for d in distances(size) {
        let send = async {
            if rank + d < size { send_framed(t, rank + d, tag, &upto).await } else { Ok(()) }
        };
        let recv = async {
            match rank.checked_sub(d) {
                Some(from) => recv_framed(t, from, tag).await.map(Some),
                None => Ok(None),
            }
        };
        let (got, sent) = join(recv, send).await;
        sent?;
        if let Some(left) = got? {
            upto = combine(&left, &upto);
            below = Some(match below {
                Some(below) => combine(&left, &below),
                None => left,
            });
        }
    }
    Ok(below)
}

/// Gives every rank the `mine` of all ranks, in rank order, end to end. All are of equal length.
pub async fn allgather(t: &(impl Ranks + ?Sized), tag: u32, mine: &[u8]) -> Result<Vec<u8>> {
    let (rank, size, item) = (t.rank(), t.size(), mine.len());
    // Block i is that of rank (rank + i) % size, until the rotation at the end.
    let mut blocks = mine.to_vec();
    blocks.reserve(item.saturating_mul(size - 1));
    for d in distances(size) {
        let n = d.min(size - d) * item;
        let (to, from) = ((rank + size - d) % size, (rank + d) % size);
        let got = shift(t, tag, to, from, &blocks[..n]).await?;
        if got.len() != n {
            let detail = format!("rank {from} sent {} bytes, expected {n}", got.len());
            return Err(Error::new(ErrorClass::Intern, detail));
        }
        blocks.extend_from_slice(&got);
    }
    blocks.rotate_right(rank * item);
    Ok(blocks)
}

/// Ends a collective operation with one result: that of the lowest rank that failed, with its
/// message, or `Ok` if none did.
pub async fn agree(t: &(impl Ranks + ?Sized), tag: u32, local: Result<()>) -> Result<()> {
    agree_on(t, tag, local.err().map(|error| (t.rank(), error))).await
}

/// As [`agree`], for ranks that represent others: the error comes with the rank that failed.
pub async fn agree_on(
    t: &(impl Ranks + ?Sized),
    tag: u32,
    failed: Option<(usize, Error)>,
) -> Result<()> {
    let (rank, size) = (t.rank(), t.size());
    let mut word = failed.map_or_else(Vec::new, |(rank, error)| error_word(rank, error));
    for d in distances(size) {
        let other = shift(t, tag, (rank + d) % size, (rank + size - d) % size, &word).await?;
        if word.is_empty() || (!other.is_empty() && failed_rank(&other) < failed_rank(&word)) {
            word = other;
        }
    }
    match word.get(4..) {
        None => Ok(()),
        Some(bytes) => Err(Error::from_bytes(bytes)
            .unwrap_or_else(|| Error::new(ErrorClass::Intern, "a damaged error message"))),
    }
}

/// The rank of an error word, and the error behind it.
fn error_word(rank: usize, error: Error) -> Vec<u8> {
    let rank_word = u32::try_from(rank).unwrap_or(u32::MAX);
    let mut word = rank_word.to_le_bytes().to_vec();
    word.extend_from_slice(&error.with_rank(rank).to_bytes());
    word
}

fn failed_rank(word: &[u8]) -> u32 {
    word.first_chunk::<4>().map_or(u32::MAX, |rank| u32::from_le_bytes(*rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::threads::testing::run;

    fn text(bytes: Result<Vec<u8>>) -> String {
        String::from_utf8(bytes.expect("threads exchange")).expect("letters")
    }

    fn letter(rank: usize) -> Vec<u8> {
        vec![b'a' + rank as u8]
    }

    fn letters(ranks: std::ops::Range<usize>) -> String {
        ranks.map(|rank| (b'a' + rank as u8) as char).collect()
    }

    fn join_text(a: &[u8], b: &[u8]) -> Vec<u8> {
        [a, b].concat()
    }

    #[test]
    fn allgather_keeps_rank_order() {
        for size in 1..=13 {
            let all = run(size, |t| {
                Box::pin(async move { text(allgather(&*t, 0, &letter(t.rank())).await) })
            });
            assert_eq!(all, vec![letters(0..size); size]);
        }
    }

    #[test]
    fn bcast_reaches_all_from_any_root_whatever_the_length() {
        for (size, root, len) in [(1, 0, 5), (2, 1, 0), (7, 3, 1016), (7, 6, 1017), (8, 5, 90_000)]
        {
            let all = run(size, |t| {
                let bytes = if t.rank() == root { vec![7u8; len] } else { vec![1] };
                Box::pin(async move { bcast(&*t, 1, root, bytes).await })
            });
            assert_eq!(all, vec![Ok(vec![7u8; len]); size]);
        }
    }

    #[test]
    fn allreduce_and_exscan_combine_in_rank_order() {
        for size in 1..=13 {
            let all = run(size, |t| {
                Box::pin(async move {
                    let sum = text(allreduce(&*t, 0, letter(t.rank()), join_text).await);
                    let below = exscan(&*t, 1, letter(t.rank()), join_text).await;
                    (sum, text(below.map(Option::unwrap_or_default)))
                })
            });
            for (rank, (sum, below)) in all.into_iter().enumerate() {
                assert_eq!((sum, below), (letters(0..size), letters(0..rank)));
            }
        }
    }

    #[test]
    fn all_ranks_agree_on_the_error_of_the_lowest_failing_rank() {
        for size in 1..=9 {
            for failing in 0..size {
                let all = run(size, |t| {
                    Box::pin(async move {
                        let local = if t.rank() >= failing {
                            let detail = format!("{}{}", t.rank(), "x".repeat(2000));
                            Err(Error::new(ErrorClass::NoSpace, detail))
                        } else {
                            Ok(())
                        };
                        agree(&*t, 0, local).await
                    })
                });
                let detail = format!("{failing}{}", "x".repeat(2000));
                let wanted = Error::new(ErrorClass::NoSpace, detail).with_rank(failing);
                assert_eq!(all, vec![Err(wanted); size]);
            }
        }
        let all = run(5, |t| Box::pin(async move { agree(&*t, 0, Ok(())).await }));
        assert_eq!(all, vec![Ok(()); 5]);
    }

    #[test]
    fn nobody_leaves_a_barrier_before_all_have_come() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COME: AtomicUsize = AtomicUsize::new(0);
        let seen = run(7, |t| {
            Box::pin(async move {
                COME.fetch_add(1, Ordering::SeqCst);
                barrier(&*t, 0).await.expect("threads meet");
                COME.load(Ordering::SeqCst)
            })
        });
        assert_eq!(seen, [7; 7]);
    }
}
