//! Random views and memory layouts against a plain vector of bytes, through real files.

mod combs;

use super::{Strategy, read_strided, write_runs, write_strided};
use crate::driver::scratch::Scratch;
use crate::driver::{Driver, OpenHow, Outcome, fault, open};
use aggio_base::report::Counters;
use aggio_base::{ErrorClass, Result};
use aggio_config::hints::Switch;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

/// Marks bytes that no piece may touch; none may be left inside a piece.
const CANARY: u8 = 0xC5;

/// Blocks of data with gaps before them, repeated.
#[derive(Clone, Debug)]
struct Layout {
    start: usize,
    blocks: Vec<(usize, usize)>,
    tail: usize,
}

impl Layout {
    fn extent(&self) -> usize {
        self.blocks.iter().map(|(gap, len)| gap + len).sum::<usize>() + self.tail
    }

    fn size(&self) -> usize {
        self.blocks.iter().map(|(_, len)| len).sum()
    }

    /// (displacement, length) of each block of one copy, ascending.
    fn placed(&self) -> Vec<(usize, usize)> {
        let mut at = 0;
        let place = |&(gap, len): &(usize, usize)| {
            at += gap + len;
            (at - len, len)
        };
        self.blocks.iter().map(place).collect()
    }

    /// Where the data bytes of `count` copies are, for blocks in the order `placed`.
    fn bytes(&self, placed: &[(usize, usize)], count: usize) -> Vec<usize> {
        let copy = |n: usize| {
            let base = self.start + n * self.extent();
            placed.iter().flat_map(move |&(at, len)| base + at..base + at + len)
        };
        (0..count).flat_map(copy).collect()
    }

    fn datatype(&self, placed: &[(usize, usize)], origin: usize) -> Datatype {
        let blocks: Vec<(u64, i64)> =
            placed.iter().map(|&(at, len)| (len as u64, at as i64 - origin as i64)).collect();
        let data = Datatype::hindexed(&blocks, &Datatype::bytes(1)).unwrap();
        data.resized(-(origin as i64), self.extent() as i64).unwrap()
    }

    fn view(&self) -> View {
        let filetype = self.datatype(&self.placed(), 0);
        let etype = Datatype::bytes(1);
        View::new(self.start as u64, etype, filetype, Representation::Native, true).unwrap()
    }

    /// File bytes of `len` data bytes from `pos` on.
    fn file_bytes(&self, pos: usize, len: usize) -> Vec<usize> {
        let copies = (pos + len).div_ceil(self.size());
        self.bytes(&self.placed(), copies)[pos..pos + len].to_vec()
    }
}

/// Mostly few blocks; sometimes hundreds of small ones, close together.
fn view_layout() -> impl Generator<Value = Layout> {
    let comb = proptest::collection::vec((0..20usize, 1..9usize), 100..400)
        .prop_map(|blocks| Layout { start: 3, blocks, tail: 5 });
    prop_oneof![2 => layout(5, 2000), 1 => comb]
}

fn layout(blocks: usize, long: usize) -> impl Generator<Value = Layout> {
    let len = prop_oneof![4 => 1..30usize, 1 => long..long + 80];
    let gap = prop_oneof![2 => 0..3usize, 3 => 1..60usize, 1 => 9000..9100usize];
    (0..50usize, proptest::collection::vec((gap, len), 1..=blocks), 0..40usize)
        .prop_map(|(start, blocks, tail)| Layout { start, blocks, tail })
}

/// One buffer with scattered data, canaries everywhere else.
#[derive(Clone, Debug)]
struct Buffer {
    layout: Layout,
    order: Vec<(usize, usize)>,
    count: usize,
    origin: usize,
    bytes: Vec<u8>,
}

impl Buffer {
    fn places(&self) -> Vec<usize> {
        self.layout.bytes(&self.order, self.count)
    }

    fn len(&self) -> usize {
        self.layout.size() * self.count
    }

    /// Puts a recognisable value into each data byte.
    fn fill(&mut self) {
        for (n, at) in self.places().into_iter().enumerate() {
            self.bytes[at] = (n as u8).wrapping_mul(31) | 1;
        }
    }

    fn data(&self) -> Vec<u8> {
        self.places().into_iter().map(|at| self.bytes[at]).collect()
    }

    fn memory(&mut self) -> Memory {
        let datatype = self.layout.datatype(&self.order, self.origin);
        let base = self.bytes.as_mut_ptr().wrapping_add(self.layout.start + self.origin);
        // SAFETY: the bytes cover all copies, and the tests use them through this value only.
        unsafe { Memory::new(base, datatype, self.count as u64) }
    }
}

fn buffer() -> impl Generator<Value = Buffer> {
    (layout(4, 1100), 1..4usize, 0..200usize, any::<bool>()).prop_map(
        |(mut layout, count, origin, backwards)| {
            for (gap, _) in &mut layout.blocks {
                *gap %= 50;
            }
            let mut order = layout.placed();
            if backwards {
                order.reverse();
            }
            let bytes = vec![CANARY; layout.start + count * layout.extent() + 20];
            Buffer { layout, order, count, origin, bytes }
        },
    )
}

fn strategy() -> impl Generator<Value = Strategy> {
    let switch =
        || prop_oneof![Just(Switch::Automatic), Just(Switch::Enable), Just(Switch::Disable)];
    let size = || prop_oneof![Just(1u64), 10..100u64, 2000..5000u64, Just(4 << 20)];
    (switch(), switch(), size(), size()).prop_map(|(read, write, read_buffer, write_buffer)| {
        Strategy { read, write, read_buffer, write_buffer }
    })
}

/// Nothing special, or everything that a system may legally do to a transfer.
fn weather() -> impl Generator<Value = String> {
    let rough = (2..4u32, 1..40u32)
        .prop_map(|(every, short)| format!("every={every},errno=EINTR;short={short}"));
    prop_oneof![Just(String::new()), rough]
}

struct Bench {
    scratch: Scratch,
    driver: Box<dyn Driver>,
    _plan: fault::Arrangement,
}

impl Bench {
    fn new(content: &[u8], plan: &str) -> Self {
        let scratch = Scratch::new();
        let path = scratch.file("f");
        std::fs::write(&path, content).unwrap();
        let _plan = fault::arrange(&path, plan).unwrap();
        let prefix = if plan.is_empty() { "" } else { "testfs:" };
        let path = format!("{prefix}{path}");
        let driver = open(&OpenHow { path, read: true, write: true, ..OpenHow::default() });
        Self { scratch, driver: driver.unwrap(), _plan }
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(self.scratch.file("f")).unwrap()
    }

    fn write(&self, view: &View, pos: usize, memory: &Memory, strategy: &Strategy) -> Outcome {
        let counters = Counters::default();
        write_strided(&*self.driver, view, pos as u64, memory, strategy, &counters)
    }

    fn read(&self, view: &View, pos: usize, memory: &Memory, strategy: &Strategy) -> Outcome {
        let counters = Counters::default();
        read_strided(&*self.driver, view, pos as u64, memory, strategy, &counters)
    }
}

/// The oracle of a write: `content` with `data` at `places`, zeros in new holes.
fn written(mut content: Vec<u8>, places: &[usize], data: &[u8]) -> Vec<u8> {
    for (&at, &byte) in places.iter().zip(data) {
        if content.len() <= at {
            content.resize(at + 1, 0);
        }
        content[at] = byte;
    }
    content
}

fn old_content() -> impl Generator<Value = Vec<u8>> {
    (prop_oneof![Just(0usize), 0..500usize, 0..30_000usize])
        .prop_map(|len| (0..len).map(|i| (i as u8).wrapping_mul(7) | 0x80).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_write_changes_exactly_the_bytes_of_the_view(
        view in view_layout(), mut buffer in buffer(), pos in 0..300usize,
        strategy in strategy(), weather in weather(), old in old_content(),
    ) {
        buffer.fill();
        let bench = Bench::new(&old, &weather);
        let before = buffer.bytes.clone();
        let Outcome { bytes, result } =
            bench.write(&view.view(), pos, &buffer.memory(), &strategy);
        prop_assert_eq!((bytes as usize, result), (buffer.len(), Ok(())));
        let places = view.file_bytes(pos, buffer.len());
        prop_assert!(bench.content() == written(old, &places, &buffer.data()));
        prop_assert!(buffer.bytes == before);
    }

    #[test]
    fn a_read_delivers_the_view_up_to_the_end_of_the_file_and_touches_nothing_else(
        view in view_layout(), mut buffer in buffer(), pos in 0..300usize,
        strategy in strategy(), weather in weather(), old in old_content(),
    ) {
        let bench = Bench::new(&old, &weather);
        let places = view.file_bytes(pos, buffer.len());
        let have = places.iter().filter(|at| **at < old.len()).count();
        let mut expected = buffer.bytes.clone();
        for (from, to) in places[..have].iter().zip(buffer.places()) {
            expected[to] = old[*from];
        }
        let Outcome { bytes, result } = bench.read(&view.view(), pos, &buffer.memory(), &strategy);
        prop_assert_eq!((bytes as usize, result), (have, Ok(())));
        prop_assert!(buffer.bytes == expected);
        prop_assert!(bench.content() == old);
    }

    #[test]
    fn a_failed_write_reports_exactly_the_bytes_it_stored(
        view in view_layout(), mut buffer in buffer(), pos in 0..300usize,
        strategy in strategy(), old in old_content(), after in 0..3000usize,
    ) {
        buffer.fill();
        let bench = Bench::new(&old, &format!("op=write,after={after},errno=EDQUOT"));
        let Outcome { bytes, result } =
            bench.write(&view.view(), pos, &buffer.memory(), &strategy);
        let stored = bytes as usize;
        if let Err(error) = &result {
            prop_assert_eq!((error.class(), error.errno()), (ErrorClass::Quota, libc::EDQUOT));
            prop_assert!(error.extent().is_some());
        }
        if strategy.write == Switch::Enable {
            prop_assert!(stored <= after.min(buffer.len()));
            prop_assert_eq!(stored == buffer.len(), result.is_ok());
        } else {
            prop_assert_eq!(stored, after.min(buffer.len()));
            prop_assert_eq!(after >= buffer.len(), result.is_ok());
        }
        let places = view.file_bytes(pos, buffer.len());
        let mut expected = written(old, &places[..stored], &buffer.data());
        // Sieving may have extended the file by zeros from a gap before it failed.
        let content = bench.content();
        if strategy.write == Switch::Enable {
            expected.resize(expected.len().max(content.len()), 0);
        }
        prop_assert!(content == expected);
    }

    #[test]
    fn the_runs_of_a_window_are_written_and_its_gaps_are_not(
        layout in view_layout(), old in old_content(), start in 0..900usize,
        after in prop_oneof![Just(usize::MAX >> 1), 0..3000usize], real in any::<bool>(),
    ) {
        let plan = format!("op=write,after={after},errno=ENOSPC");
        let (plan, after) = if real { ("", usize::MAX) } else { (plan.as_str(), after) };
        let bench = Bench::new(&old, plan);
        let window: Vec<u8> = (0..layout.extent()).map(|at| at as u8 | 1).collect();
        let runs: Vec<_> = Layout { start: 0, tail: 0, ..layout.clone() }
            .placed()
            .into_iter()
            .map(|(at, len)| at..at + len)
            .collect();
        let places: Vec<usize> = runs.iter().cloned().flatten().collect();
        let counters = Counters::default();
        let Outcome { bytes, result } =
            write_runs(&*bench.driver, start as u64, &window, runs.into_iter(), &counters);
        let stored = after.min(places.len());
        prop_assert_eq!(bytes as usize, stored);
        prop_assert_eq!(stored == places.len(), result.is_ok());
        if let Err(error) = result {
            prop_assert_eq!(error.extent().unwrap().offset as usize, start + places[stored]);
        }
        let data: Vec<u8> = places.iter().map(|at| window[*at]).collect();
        let places: Vec<usize> = places.iter().map(|at| start + at).collect();
        prop_assert!(bench.content() == written(old, &places[..stored], &data));
    }

    #[test]
    fn a_failed_read_reports_exactly_the_bytes_it_delivered(
        view in view_layout(), mut buffer in buffer(), pos in 0..300usize,
        strategy in strategy(), after in 0..3000usize,
    ) {
        let places = view.file_bytes(pos, buffer.len());
        let old: Vec<u8> = (0..places[places.len() - 1] + 9).map(|i| i as u8 | 0x80).collect();
        let bench = Bench::new(&old, &format!("op=read,after={after},errno=EIO"));
        let clean = buffer.bytes.clone();
        let Outcome { bytes, result } = bench.read(&view.view(), pos, &buffer.memory(), &strategy);
        let delivered = bytes as usize;
        prop_assert_eq!(delivered == buffer.len(), result.is_ok());
        if strategy.read == Switch::Disable {
            prop_assert_eq!(delivered, after.min(buffer.len()));
        }
        let mut expected = clean;
        for (from, to) in places[..delivered].iter().zip(buffer.places()) {
            expected[to] = old[*from];
        }
        prop_assert!(buffer.bytes == expected);
    }
}
