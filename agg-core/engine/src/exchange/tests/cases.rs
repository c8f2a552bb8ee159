//! Random collective calls and their expected results.

use super::chunks::some_chunks;
use aggio_base::Extent;
use aggio_comm::transport::ThreadTransport;
use aggio_config::hints::{Hints, Switch};
use aggio_plan::format::{Chosen, Records};
use aggio_store::driver::Facts;
use aggio_types::datatype::{Datatype, Order};
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// The request of one rank.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) view: View,
    pub(crate) position: u64,
    /// Blocks of the buffer in the order of the data: (start, length).
    pub(crate) blocks: Vec<(usize, usize)>,
    /// The first byte of the file that any rank may have data in.
    pub(crate) base: u64,
}

/// A call of all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) parts: Vec<Part>,
    pub(crate) aggregators: Vec<usize>,
    pub(crate) facts: Facts,
    pub(crate) hints: Hints,
    /// Contents of the file before the call.
    pub(crate) before: Vec<u8>,
    /// Ranks of one host share memory.
    pub(crate) memory: bool,
    /// The host of each rank.
    pub(crate) hosts: Vec<usize>,
    /// The first byte of the file that any rank may have data in.
    pub(crate) base: u64,
    /// For each rank, the length of pieces from which it transfers speculatively, or 0.
    pub(crate) habits: Vec<u64>,
}

/// How many random cases a test runs: `usual`, or as many thousandths of `AGGIO_EXCHANGE_CASES`.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let wanted = std::env::var("AGGIO_EXCHANGE_CASES").ok().and_then(|text| text.parse().ok());
    let cases = wanted.map_or(usual, |all: u32| (all / 1000).max(1).saturating_mul(usual));
    ProptestConfig { cases, ..ProptestConfig::default() }
}

impl Case {
    /// The ranks of the call.
    pub(crate) fn ranks(&self) -> Vec<Arc<ThreadTransport>> {
        match self.memory {
            true => {
                let name = |host: &usize| format!("host{host}");
                ThreadTransport::group_on(self.hosts.iter().map(name).collect())
            }
            false => ThreadTransport::group_without_memory(self.parts.len()),
        }
    }
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.1).sum()
    }

    /// The buffer's length.
    pub(crate) fn room(&self) -> usize {
        self.blocks.iter().map(|block| block.0 + block.1).max().unwrap_or(0)
    }

    /// The place of each data byte in the file that the test keeps.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let extents = self.view.extents(self.position, self.len() as u64);
        let place = |offset: u64| (offset - self.base) as usize;
        extents.flat_map(|e: Extent| place(e.offset)..place(e.end())).collect()
    }

    /// The same part, moved by `base` bytes in the file.
    fn moved(mut self, base: u64) -> Self {
        let displacement = self.view.displacement() + base;
        let (etype, filetype) = (self.view.etype().clone(), self.view.filetype().clone());
        let moved = View::new(displacement, etype, filetype, Representation::Native, false);
        (self.view, self.base) = (moved.expect("an ascending filetype"), base);
        self
    }

    /// The place in the buffer of each data byte.
    pub(crate) fn places(&self) -> Vec<usize> {
        self.blocks.iter().flat_map(|(start, len)| *start..start + len).collect()
    }

    /// Bytes from each block of the buffer to the next, if all blocks are equally long and far
    /// apart.
    pub(crate) fn stride(&self) -> Option<i64> {
        let [first, second, ..] = self.blocks[..] else { return None };
        let stride = |one: &(usize, usize), next: &(usize, usize)| next.0 as i64 - one.0 as i64;
        let of_first = stride(&first, &second);
        let regular = |pair: &[(usize, usize)]| {
            stride(&pair[0], &pair[1]) == of_first && pair[0].1 == pair[1].1
        };
        self.blocks.windows(2).all(regular).then_some(of_first)
    }

    /// The buffer as the engine sees it: one vector, also with a negative stride, or many blocks.
    pub(crate) fn memory(&self, buffer: &mut [u8]) -> Memory {
        assert!(buffer.len() >= self.room());
        if let Some(stride) = self.stride() {
            let ((start, len), count) = (self.blocks[0], self.blocks.len() as u64);
            let datatype = Datatype::hvector(count, len as u64, stride, &Datatype::bytes(1));
            // SAFETY: all blocks lie in the buffer, which outlives the call of the test.
            let first = unsafe { buffer.as_mut_ptr().add(start) };
            // SAFETY: as above.
            return unsafe { Memory::new(first, datatype.expect("a small type"), 1) };
        }
        let blocks: Vec<(u64, i64)> =
            self.blocks.iter().map(|(start, len)| (*len as u64, *start as i64)).collect();
        let datatype = Datatype::hindexed(&blocks, &Datatype::bytes(1)).expect("a small type");
        // SAFETY: all blocks lie in the buffer, which outlives the call of the test.
        unsafe { Memory::new(buffer.as_mut_ptr(), datatype, 1) }
    }
}

/// Blocks with gaps, in file order: (length, gap before it).
fn blocks() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((prop_oneof![1 => Just(1u64), 3 => 1..12u64], 0..20u64), 1..6)
}

fn indexed(blocks: &[(u64, u64)], rest: u64) -> Datatype {
    let mut at = 0;
    let placed: Vec<(u64, i64)> = blocks
        .iter()
        .map(|(len, gap)| {
            at += gap + len;
            (*len, (at - len) as i64)
        })
        .collect();
    let datatype = Datatype::hindexed(&placed, &Datatype::bytes(1)).expect("a small type");
    datatype.resized(0, (at + rest) as i64).expect("a small extent")
}

fn view(displacement: u64, filetype: Datatype) -> View {
    View::new(displacement, Datatype::bytes(1), filetype, Representation::Native, false)
        .expect("an ascending filetype")
}

/// Records of `len` bytes of all ranks in turn.
fn in_turn(rank: u64, ranks: u64, len: u64) -> View {
    view(rank * len, indexed(&[(len, 0)], len * (ranks - 1)))
}

fn any_view(rank: u64, ranks: u64) -> impl Strategy<Value = View> {
    prop_oneof![
        1 => (0..300u64).prop_map(|at| view(at, Datatype::bytes(1))),
        2 => (0..100u64, blocks(), 0..30u64).prop_map(|(at, b, rest)| view(at, indexed(&b, rest))),
        2 => Just(in_turn(rank, ranks, 5)),
        1 => Just(in_turn(rank, ranks, 1)),
        1 => Just(view(rank * 90, Datatype::bytes(1))),
        // The rank's part of a matrix of 3-byte elements that ranks share by rows and columns.
        1 => (2..5u64, 1..4u64, 1..4u64).prop_map(move |(columns, rows, wide)| {
            let sizes = [rows * ranks.div_ceil(columns), wide * columns];
            let starts = [rows * (rank / columns), wide * (rank % columns)];
            let part = Datatype::subarray(
                &sizes, &[rows, wide], &starts, Order::C, &Datatype::bytes(3),
            );
            view(7, part.expect("a part of the matrix"))
        }),
    ]
}

/// Blocks of a buffer as `Part` has them: none, one, blocks in any order, or a stride, forwards or
/// backwards.
fn memory() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let length = || prop_oneof![1 => Just(1usize), 2 => 1..40usize];
    prop_oneof![
        1 => Just(vec![]),
        2 => (1..300usize).prop_map(|len| vec![(0, len)]),
        3 => vec((0..9usize, length(), any::<u32>()), 1..9).prop_map(in_any_order),
        2 => (2..30usize, length(), 0..9usize, any::<bool>()).prop_map(|(count, len, gap, back)| {
            let mut blocks: Vec<_> = (0..count).map(|i| (i * (len + gap), len)).collect();
            if back {
                blocks.reverse();
            }
            blocks
        }),
    ]
}

/// Blocks of (gap before it, length, key); data is in the order of the keys.
fn in_any_order(pieces: Vec<(usize, usize, u32)>) -> Vec<(usize, usize)> {
    let mut at = 0;
    let mut blocks: Vec<(u32, (usize, usize))> = Vec::new();
    for (gap, len, key) in pieces {
        blocks.push((key, (at + gap, len)));
        at += gap + len;
    }
    blocks.sort_unstable();
    blocks.into_iter().map(|block| block.1).collect()
}

fn any_part(rank: u64, ranks: u64) -> impl Strategy<Value = Part> {
    (any_view(rank, ranks), 0..60u64, memory()).prop_map(|(view, position, blocks)| Part {
        view,
        position,
        blocks,
        base: 0,
    })
}

fn any_switch() -> impl Strategy<Value = Switch> {
    prop_oneof![3 => Just(Switch::Enable), 1 => Just(Switch::Automatic), 1 => Just(Switch::Disable)]
}

/// Calls of 1 to 8 ranks.
pub(crate) fn any_case() -> impl Strategy<Value = Case> {
    (1..=8usize).prop_flat_map(|ranks| {
        let parts: Vec<_> = (0..ranks as u64).map(|rank| any_part(rank, ranks as u64)).collect();
        let aggregators = vec(any::<u32>(), ranks);
        let window = prop_oneof![3 => 1..120u64, 1 => Just(1u64 << 20)];
        // The file has records, or its format is unknown.
        let records = proptest::option::of((1..200u64, 0..50u64));
        let sizes = (window, 1..40u64, 0..100u64, records);
        let file = vec(any::<u8>(), 0..700);
        let far = prop_oneof![3 => Just(0u64), 1 => (1u64 << 40)..(1u64 << 60)];
        let hosts = prop_oneof![
            Just(vec![0; ranks]),
            vec(0..4usize, ranks),
            (1..4usize).prop_map(move |n| (0..ranks).map(|rank| rank * n / ranks).collect()),
        ];
        // Requests take long, or do not.
        let system = prop_oneof![Just("lustre"), Just("overlay")];
        let node = (any::<bool>(), hosts, any::<bool>(), system);
        let switches = (any_switch(), any_switch(), node, (far, any::<bool>()));
        let file = (file, vec(prop_oneof![Just(0u64), 1..20u64], ranks), some_chunks());
        (parts, aggregators, 1..=ranks, sizes, switches, file).prop_map(
            |(
                parts,
                order,
                n,
                (window, block_size, least, records),
                (cb_read, cb_write, (memory, hosts, named, system), (base, apart)),
                (before, habits, chunks),
            )| {
                let mut ranked: Vec<(u32, usize)> =
                    order.into_iter().enumerate().map(|(rank, key)| (key, rank)).collect();
                ranked.sort_unstable();
                let mut hints = Hints::default();
                hints.cb_buffer_size = window;
                hints.romio_min_fdomain_size = least;
                let records = records.and_then(|(size, header)| Records::new(size, header));
                hints.aggio_format = records.map_or(Chosen::Bytes, Chosen::Records);
                (hints.romio_cb_read, hints.romio_cb_write) = (cb_read, cb_write);
                if named {
                    // Only the aggregators may store and read.
                    hints.note("cb_nodes", &n.to_string());
                }
                let facts = Facts {
                    block_size,
                    striping_unit: 0,
                    striping_factor: 0,
                    has_logs: false,
                    is_staged: false,
                    is_by_node: false,
                    file_system: system.into(),
                };
                let aggregators = ranked.into_iter().take(n).map(|(_, rank)| rank).collect();
                let mut parts: Vec<Part> = parts;
                if let Some(chunks) = chunks {
                    chunks.wish(&mut hints);
                    parts = chunks.parts(parts);
                }
                let parts = parts.into_iter().map(|part| part.moved(base)).collect();
                let case =
                    Case { parts, aggregators, facts, hints, before, memory, base, hosts, habits };
                if apart { disjoint(case) } else { case }
            },
        )
    })
}

/// The same call with other views, if two ranks write the same byte.
pub(crate) fn disjoint(mut case: Case) -> Case {
    let ranks = case.parts.len() as u64;
    if conflict(&case) {
        for (rank, part) in case.parts.iter_mut().enumerate() {
            part.view = in_turn(rank as u64, ranks, 5);
            *part = part.clone().moved(part.base);
        }
    }
    case
}

/// A byte that no rank writes.
pub(crate) const NOBODYS: u8 = 255;

/// The byte that rank `rank` writes as its `i`th.
pub(crate) fn byte(rank: usize, i: usize) -> u8 {
    ((rank * 41 + i * 7 + 1) % 255) as u8
}

/// The file after all ranks wrote in rank order.
pub(crate) fn written(case: &Case) -> Vec<u8> {
    let mut file = case.before.clone();
    for (rank, part) in case.parts.iter().enumerate() {
        for (i, offset) in part.offsets().into_iter().enumerate() {
            if file.len() <= offset {
                file.resize(offset + 1, 0);
            }
            file[offset] = byte(rank, i);
        }
    }
    file
}

/// Whether two ranks write the same byte.
pub(crate) fn conflict(case: &Case) -> bool {
    let mut offsets: Vec<usize> = case.parts.iter().flat_map(Part::offsets).collect();
    let all = offsets.len();
    offsets.sort_unstable();
    offsets.dedup();
    offsets.len() < all
}
