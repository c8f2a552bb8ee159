//! Calls for chunks: random ones for all other tests, and which requests come of some.

use super::cases::{NOBODYS, Part, byte};
use super::disk::{FakeFile, Seen};
use super::{FakeDriver, Fresh, Request, Way};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::report::Totals;
use aggio_comm::tags::Tags;
use aggio_comm::transport::threads::testing::run_on;
use aggio_comm::transport::{ThreadTransport, Transport};
use aggio_config::hints::{Hints, Sources, Switch};
use aggio_store::driver::{Driver, Facts};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// The ranks with data in a chunk.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// The rank of this number, counted around.
    One(usize),
    /// All ranks, rows in turn.
    All,
    Nobodys,
}

/// Chunks that ranks touch, and the hints for them.
#[derive(Clone, Debug)]
pub(crate) struct SomeChunks {
    /// Bytes of a chunk, and of the gap behind it.
    len: u64,
    gap: u64,
    /// Bytes of a row.
    row: u64,
    whose: Vec<Whose>,
    number: i64,
    ratio: i64,
}

/// Chunks for one case of three.
pub(crate) fn some_chunks() -> impl Strategy<Value = Option<SomeChunks>> {
    let whose = prop_oneof![
        3 => (0..8usize).prop_map(Whose::One),
        2 => Just(Whose::All),
        1 => Just(Whose::Nobodys),
    ];
    let number = prop_oneof![Just(-1i64), Just(0), Just(2), Just(100)];
    let ratio = prop_oneof![Just(-1i64), Just(0), Just(30), Just(60), Just(100)];
    let sizes = (1..60u64, prop_oneof![Just(0u64), 1..9u64], 1..20u64);
    let chunks = (sizes, vec(whose, 1..12), number, ratio);
    let chunks = chunks.prop_map(|((len, gap, row), whose, number, ratio)| SomeChunks {
        len,
        gap,
        row,
        whose,
        number,
        ratio,
    });
    prop_oneof![2 => Just(None), 1 => chunks.prop_map(Some)]
}

fn view(at: u64, filetype: Datatype) -> View {
    View::new(at, Datatype::bytes(1), filetype, Representation::Native, false)
        .expect("an ascending filetype")
}

impl SomeChunks {
    pub(crate) fn wish(&self, hints: &mut Hints) {
        hints.aggio_chunks = Switch::Enable;
        (hints.aggio_chunk_opt_num, hints.aggio_chunk_opt_ratio) = (self.number, self.ratio);
    }

    /// The views of `parts` with these chunks instead, and as much of their data as fits.
    pub(crate) fn parts(&self, parts: Vec<Part>) -> Vec<Part> {
        let ranks = parts.len();
        let parts = parts.into_iter().enumerate();
        parts.map(|(rank, part)| self.part(rank, ranks, part)).collect()
    }

    fn part(&self, rank: usize, ranks: usize, part: Part) -> Part {
        let Some(view) = self.view(rank, ranks) else {
            return Part { view: view(0, Datatype::bytes(1)), position: 0, blocks: vec![], ..part };
        };
        let size = view.filetype().size();
        let position = part.position % size;
        let mut room = (size - position) as usize;
        let mut blocks = part.blocks;
        blocks.retain_mut(|(_, len)| {
            *len = room.min(*len);
            room -= *len;
            *len > 0
        });
        Part { view, position, blocks, ..part }
    }

    /// As HDF5 makes it: a structure of chunks from the first one on.
    fn view(&self, rank: usize, ranks: usize) -> Option<View> {
        let (step, turn) = (self.len + self.gap, self.row * ranks as u64);
        let mut fields = Vec::new();
        for (number, whose) in (0u64..).zip(&self.whose) {
            let rows = match whose {
                Whose::One(one) if one % ranks == rank => vec![(self.len, 0)],
                Whose::All => (self.row * rank as u64..self.len)
                    .step_by(turn as usize)
                    .map(|at| (self.row.min(self.len - at), at as i64))
                    .collect(),
                _ => continue,
            };
            if rows.is_empty() {
                continue;
            }
            let rows = Datatype::hindexed(&rows, &Datatype::bytes(1));
            let chunk = rows.and_then(|rows| rows.resized(0, self.len as i64)).expect("a chunk");
            fields.push((1, (number * step) as i64, chunk));
        }
        let first = fields.first()?.1;
        fields.iter_mut().for_each(|field| field.1 -= first);
        let filetype = Datatype::structure(&fields).expect("a structure");
        Some(view(100 + first as u64, filetype))
    }
}

const KIB: usize = 1 << 10;
const CHUNK: usize = 128 * KIB;

/// Four ranks write or read consecutive chunks; returns the requests of each, and the totals.
fn requests(way: Way, whose: &[Whose], hints: &[(&str, &str)]) -> (Vec<Vec<Seen>>, Totals) {
    let pairs = [("aggio_chunks", "enable")].iter().chain(hints);
    let pairs: Vec<_> = pairs.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let hints = Hints::resolve(&Sources::default(), "/x", &pairs, &mut Diagnostics::default());
    let (len, row, whose) = (CHUNK as u64, KIB as u64, whose.to_vec());
    let before = vec![NOBODYS; 100 + whose.len() * CHUNK];
    let chunks = SomeChunks { len, gap: 0, row, whose, number: -1, ratio: -1 };
    let (hints, disk) = (Arc::new(hints), FakeFile::new(before));
    let chunks = Arc::new(chunks);
    let seen = run_on(ThreadTransport::group(4), |transport| {
        let (hints, chunks) = (Arc::clone(&hints), Arc::clone(&chunks));
        let access = FakeDriver::new(&disk);
        Box::pin(async move {
            let rank = transport.rank();
            let view = chunks.view(rank, 4).unwrap_or_default();
            let len = chunks.view(rank, 4).map_or(0, |view| view.filetype().size()) as usize;
            let mut data: Vec<u8> = (0..len).map(|i| byte(rank, i)).collect();
            // SAFETY: `data` outlives the call.
            let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(len as u64), 1) };
            let facts = Facts { file_system: "tmpfs".into(), ..access.facts() };
            let fresh = Fresh::new(&*transport, &access, &[1, 3], &hints).with(facts);
            let scene = fresh.scene();
            let request = Ok(Request { view: &view, position: 0, memory: &memory });
            let tags = Tags::new(transport.max_tag()).next();
            let outcome = way.call(scene, request, &tags).await;
            assert_eq!((outcome.bytes, outcome.result), (len as u64, Ok(())));
            (access.requests(), fresh.counters.totals())
        })
    });
    let mut sum = Totals::default();
    seen.iter().for_each(|(_, totals)| sum.add(totals));
    (seen.into_iter().map(|(seen, _)| seen).collect(), sum)
}

/// Chunks 0 to 3 of rank 0, 4 of all, 5 to 8 of rank 2, 9 of all: rows of a KiB in turn.
const MIXED: [Whose; 10] = {
    let (a, c) = (Whose::One(0), Whose::One(2));
    [a, a, a, a, Whose::All, c, c, c, c, Whose::All]
};

const WAYS: [Way; 2] = [Way::Read, Way::Write];

fn extents(seen: &[Seen]) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = seen.iter().map(|request| (request.offset, request.len)).collect();
    all.sort_unstable();
    all
}

#[test]
fn chunks_of_one_rank_are_moved_by_it_and_those_of_all_pass_through_windows() {
    let chunk = CHUNK as u64;
    for way in WAYS {
        // Pieces are small relative to the cost of a request, so ranks would exchange all of them.
        let (seen, totals) = requests(way, &MIXED, &[]);
        let all = extents(&seen.concat());
        let wanted = [(0, 4), (4, 1), (5, 4), (9, 1)];
        let wanted = wanted.map(|(first, chunks)| (100 + first * chunk, chunks * chunk));
        assert_eq!(all, wanted, "{:?}", totals.decided.decisions());
        assert!(extents(&seen[0]).contains(&wanted[0]) && extents(&seen[2]).contains(&wanted[2]));
        assert_eq!((totals.chunks_alone, totals.chunks_exchanged), (8, 8));
        assert_eq!((totals.calls_linked, totals.calls_of_a_chunk), (4, 0));
    }
}

#[test]
fn hints_say_which_chunks_are_exchanged() {
    for way in WAYS {
        let alone = |hints: &[(&str, &str)]| {
            let (_, totals) = requests(way, &MIXED, hints);
            assert_eq!(totals.chunks_alone + totals.chunks_exchanged, 16);
            totals.chunks_alone
        };
        assert_eq!(alone(&[("aggio_tune", "chunk_opt_num=0")]), 0, "linked");
        assert_eq!(alone(&[("aggio_tune", "chunk_opt_num=4")]), 0, "16 of 4 ranks");
        assert_eq!(alone(&[("aggio_tune", "chunk_opt_num=5")]), 8, "chunk by chunk, by 60 percent");
        assert_eq!(alone(&[("aggio_tune", "chunk_opt_ratio=0")]), 0, "each");
        assert_eq!(alone(&[("aggio_tune", "chunk_opt_ratio=99")]), 8, "more than 3 ranks");
        assert_eq!(alone(&[("aggio_tune", "chunk_opt_ratio=100")]), 16, "more than 4 ranks");
        let both = [("aggio_tune", "chunk_opt_num=4"), ("aggio_tune", "chunk_opt_ratio=100")];
        assert_eq!(alone(&both), 0, "the number comes first");
    }
}

#[test]
fn without_the_hint_nothing_is_known_of_chunks() {
    let off = [("aggio_chunks", "disable"), ("aggio_tune", "chunk_opt_ratio=100")];
    let (_, totals) = requests(Way::Write, &MIXED, &off);
    assert_eq!((totals.chunks_alone, totals.chunks_exchanged, totals.calls_linked), (0, 0, 0));
}

#[test]
fn hints_that_switch_exchanges_off_come_before_chunks() {
    let off = [("romio_cb_write", "disable"), ("aggio_tune", "chunk_opt_num=0")];
    let (_, totals) = requests(Way::Write, &MIXED, &off);
    assert_eq!((totals.two_phase, totals.chunks_exchanged), (0, 0));
    let on = [("romio_cb_write", "enable")];
    let (_, totals) = requests(Way::Write, &MIXED, &on);
    assert_eq!((totals.chunks_alone, totals.chunks_exchanged), (0, 16));
}

/// Other tests use this case and rely on it.
#[test]
fn views_of_chunks_have_parts_that_begin_at_chunks() {
    let chunks = SomeChunks { len: 40, gap: 2, row: 3, whose: MIXED.to_vec(), number: 0, ratio: 0 };
    let starts = |rank| {
        let view = chunks.view(rank, 4).expect("data");
        view.parts(0, view.filetype().size())
    };
    let at = |chunk: u64| 100 + 42 * chunk;
    assert_eq!(starts(0), Some([0, 1, 2, 3, 4, 9].map(at).to_vec()));
    assert_eq!(starts(1), Some([4, 9].map(at).to_vec()));
}
