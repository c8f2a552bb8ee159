//! Bytes that several ranks have written since the last flush: the last write is stored, as without
//! write-behind.
//!
//! Ranks first exchange a rough description of their writes in each collective call, and between
//! calls. Mostly it shows that no two of them wrote the same bytes at different times. If not, some
//! ranks gather the exact extents and times of all writes, and send each rank the extents that
//! another rank has written later: the rank does not write these.

use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::join;
use aggio_comm::task::place::on_caller;
use aggio_comm::transport::Transport;
use aggio_staging::pending::{Contest, Pending, Spans, Written};

/// Steps of the operation.
mod step {
    pub(super) const SPANS: u32 = 0;
    pub(super) const WRITTEN: u32 = 1;
    pub(super) const LOST: u32 = 2;
}

/// The answer of a rank that cannot decide; it is not a list.
const UNKNOWN: u8 = 0;

/// Bytes of the file that one rank decides on.
const SHARE: u64 = 1 << 20;

/// The order of overlapping writes; ranges are sorted and disjoint.
#[derive(Debug)]
pub(super) struct Settled {
    /// Ranges that several ranks wrote: the last version is written, even if it is in the file
    /// already.
    pub(super) contested: Vec<Extent>,
    /// Ranges that another rank has written later; an error if they could not be determined.
    pub(super) lost: Result<Vec<Extent>>,
    /// Whether bytes of any rank wait in files.
    pub(super) spills: bool,
}

/// Determines the last write of each byte; `kept` are this rank's writes, the older first.
/// Collective.
///
/// # Errors
/// If a rank cannot be reached.
pub(super) async fn settle(
    transport: &dyn Transport,
    tags: &TagBlock,
    kept: [&Pending; 2],
) -> Result<Settled> {
    on_caller().await;
    tags.ready().await;
    let own = Spans::of(transport.rank(), kept.iter().flat_map(|kept| kept.moments()));
    let own = own.in_files(kept.iter().any(|kept| kept.spilled_bytes() > 0));
    let and = |left: &[u8], right: &[u8]| {
        let spans = (Spans::from_bytes(left), Spans::from_bytes(right));
        // All ranks see a message without content.
        if let (Some(left), Some(right)) = spans { left.and(right).to_bytes() } else { Vec::new() }
    };
    let all = group::allreduce(transport, tags.tag(step::SPANS), own.to_bytes(), and).await?;
    let all = Spans::from_bytes(&all).ok_or_else(damaged)?;
    let (contested, spills) = (all.contested(), all.are_in_files());
    if contested.is_empty() {
        return Ok(Settled { contested, lost: Ok(Vec::new()), spills });
    }
    let (parts, count) = parts(&contested, transport.size());
    let newest = kept.iter().flat_map(|kept| kept.newest_moments());
    let written = Written::by_part(newest, &parts, count);
    let contest = gather(transport, tags, &written).await;
    let lost = return_lost(transport, tags, contest, count).await;
    Ok(Settled { contested, lost, spills })
}

fn damaged() -> Error {
    Error::new(ErrorClass::Intern, "a message between ranks is damaged")
}

/// The ranges divided among the first ranks, and how many these are.
fn parts(ranges: &[Extent], ranks: usize) -> (Vec<(Extent, usize)>, usize) {
    let total: u64 = ranges.iter().map(|range| range.len).sum();
    let share = SHARE.max(total.div_ceil(ranks as u64));
    let (mut parts, mut before) = (Vec::new(), 0);
    for range in ranges {
        let mut rest = *range;
        while !rest.is_empty() {
            let len = rest.len.min(share - before % share);
            parts.push((Extent::new(rest.offset, len), (before / share) as usize));
            rest = Extent::between(rest.offset + len, rest.end());
            before += len;
        }
    }
    (parts, total.div_ceil(share) as usize)
}

/// Sends each deciding rank the writes of all ranks in its part; `None` on other ranks. An error of
/// one rank does not stop the exchange with the others.
async fn gather(
    transport: &dyn Transport,
    tags: &TagBlock,
    written: &[Vec<Written>],
) -> Result<Option<Contest>> {
    let (rank, size) = (transport.rank(), transport.size());
    let (mut all, mut heard) = (vec![Vec::new(); size], Ok(()));
    for distance in 0..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let message = written.get(to).map(|written| Written::to_bytes(written));
        let expects = rank < written.len();
        let got = pass(transport, tags.tag(step::WRITTEN), to, from, message, expects).await;
        let read = |bytes: Vec<u8>| Written::from_bytes(&bytes).ok_or_else(damaged);
        match got.and_then(|bytes| bytes.map(read).transpose()) {
            Ok(written) => all[from] = written.unwrap_or_default(),
            Err(error) => heard = heard.and(Err(error.with_rank(from))),
        }
    }
    heard.map(|()| (rank < written.len()).then(|| all.into_iter().collect()))
}

/// Sends each rank its lost extents, as found by the first `count` ranks. A rank that cannot decide
/// sends an answer that says so, so that no rank waits for it.
async fn return_lost(
    transport: &dyn Transport,
    tags: &TagBlock,
    contest: Result<Option<Contest>>,
    count: usize,
) -> Result<Vec<Extent>> {
    let (rank, size) = (transport.rank(), transport.size());
    let (found, mut heard) = match contest {
        Ok(contest) => (contest.map(|contest| contest.lost()), Ok(())),
        Err(error) => (None, Err(error)),
    };
    let mut lost: Vec<Vec<Extent>> = vec![Vec::new(); count];
    for distance in 0..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let answer = || found.as_ref().map_or_else(|| vec![UNKNOWN], |found| to_bytes(&found[to]));
        let message = (rank < count).then(answer);
        let got = pass(transport, tags.tag(step::LOST), to, from, message, from < count).await;
        let read = |bytes: Vec<u8>| from_bytes(&bytes).ok_or_else(damaged);
        match got.and_then(|bytes| bytes.map(read).transpose()) {
            Ok(Some(extents)) => lost[from] = extents,
            Ok(None) => {}
            Err(error) => heard = heard.and(Err(error.with_rank(from))),
        }
    }
    heard.map(|()| lost.concat())
}

/// Sends `message` to a rank, if there is one, and receives one if it `expects` it; either may be
/// for this rank itself.
async fn pass(
    transport: &dyn Transport,
    tag: u32,
    to: usize,
    from: usize,
    message: Option<Vec<u8>>,
    expects: bool,
) -> Result<Option<Vec<u8>>> {
    if to == transport.rank() {
        return Ok(message);
    }
    let send = async {
        match &message {
            Some(bytes) => group::send_framed(transport, to, tag, bytes).await,
            None => Ok(()),
        }
    };
    let receive = async {
        match expects {
            true => group::recv_framed(transport, from, tag).await.map(Some),
            false => Ok(None),
        }
    };
    let (got, sent) = join(receive, send).await;
    sent?;
    got
}

fn to_bytes(extents: &[Extent]) -> Vec<u8> {
    let words = extents.iter().flat_map(|extent| [extent.offset, extent.len]);
    words.flat_map(u64::to_le_bytes).collect()
}

fn from_bytes(bytes: &[u8]) -> Option<Vec<Extent>> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    Some(
        pairs
            .iter()
            .map(|pair| pair.map(u64::from_le_bytes))
            .map(|[at, len]| Extent::new(at, len))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_comm::tags::Tags;
    use aggio_comm::transport::threads::testing::run;
    use aggio_staging::pending::Moment;
    use aggio_types::datatype::Datatype;
    use aggio_types::memory::Memory;
    use aggio_types::view::View;

    /// A write of 100 bytes at the beginning of the file.
    fn kept(moment: Moment) -> Pending {
        let (mut bytes, mut kept) = ([1; 100], Pending::default());
        // SAFETY: the bytes are only read, before this function ends.
        let memory = unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(100), 1) };
        kept.add(&View::bytes(), 0, &memory, 100, moment).unwrap();
        kept
    }

    #[test]
    fn a_damaged_message_is_an_error_of_those_who_need_it_and_nobody_waits() {
        for bad_step in [step::SPANS, step::WRITTEN] {
            let results = run(3, move |transport| {
                Box::pin(async move {
                    let (tags, rank) = (Tags::new(100).next(), transport.rank());
                    let kept = kept(Moment::of_call(rank as u64 + 1));
                    if rank != 2 {
                        return settle(&*transport, &tags, [&Pending::default(), &kept])
                            .await
                            .and_then(|settled| settled.lost)
                            .map(drop);
                    }
                    let told = Spans::of(2, kept.moments()).to_bytes();
                    let told = if bad_step == step::SPANS { vec![1, 2, 3] } else { told };
                    let tag = tags.tag(step::SPANS);
                    group::allreduce(&*transport, tag, told, |left, _| left.to_vec()).await?;
                    if bad_step == step::WRITTEN {
                        let (written, lost) = (tags.tag(step::WRITTEN), tags.tag(step::LOST));
                        group::send_framed(&*transport, 0, written, b"damaged").await?;
                        group::recv_framed(&*transport, 0, lost).await?;
                    }
                    Ok(())
                })
            });
            for result in &results[..2] {
                let class = result.as_ref().err().map(Error::class);
                assert_eq!(class, Some(ErrorClass::Intern), "{bad_step}");
            }
        }
    }

    #[test]
    fn ranges_are_divided_among_as_many_ranks_as_they_are_worth() {
        let ranges = [Extent::new(10, 5), Extent::new(100, 20)];
        assert_eq!(parts(&ranges, 4), (vec![(ranges[0], 0), (ranges[1], 0)], 1));
        let ranges = [Extent::new(0, SHARE), Extent::new(2 * SHARE, 2 * SHARE)];
        let (parts, count) = parts(&ranges, 2);
        assert_eq!(count, 2);
        let half = SHARE / 2;
        let wanted = [
            (Extent::new(0, SHARE), 0),
            (Extent::new(2 * SHARE, half), 0),
            (Extent::new(2 * SHARE + half, SHARE + half), 1),
        ];
        assert_eq!(parts, wanted);
    }
}
