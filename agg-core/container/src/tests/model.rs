//! Random programs of several writers, against a plain vector of bytes.

use crate::blob::*;
use crate::directory::dir::Dir;
use crate::directory::part_names::log_name;
use crate::tests::how;
use aggio_base::Extent;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// One step of a program; the first number chooses the writer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write(usize, u64, usize),
    /// `count` pieces of `length` bytes, `gap` apart.
    Strided(usize, u64, usize, u64, usize),
    /// Two writers take turns with the same stride, their pieces overlap, and the third one
    /// truncates or punches somewhere in between: where which piece is newer is only to be seen in
    /// the frames.
    Interleaved {
        at: [u64; 2],
        length: [usize; 2],
        count: u64,
        event: u64,
        punch: bool,
    },
    /// Pieces anywhere.
    Pieces(usize, Vec<(u64, usize)>),
    Append(usize, usize),
    Truncate(usize, u64),
    Punch(usize, u64, u64),
    Sync(usize),
    /// The writer closes, and another one takes its place.
    Reopen(usize),
    /// The writer ends without closing, and another one takes its place.
    Vanish(usize),
    /// All writers close.
    Seal,
    /// A reader that exists from the beginning refreshes.
    Refresh,
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let (w, at) = (0..3_usize, 0..600_u64);
    let step = prop_oneof![
        6 => (w.clone(), at.clone(), 0..80_usize).prop_map(|(w, at, n)| Step::Write(w, at, n)),
        4 => (w.clone(), at.clone(), 1..20_usize, 0..30_u64, 1..12_usize)
            .prop_map(|(w, at, n, gap, count)| Step::Strided(w, at, n, gap, count)),
        3 => ([0..100_u64, 0..100], [1..20_usize, 1..20], 2..12_u64, 0..20_u64, any::<bool>())
            .prop_map(|(at, length, count, event, punch)| {
                Step::Interleaved { at, length, count, event, punch }
            }),
        2 => (w.clone(), prop::collection::vec((at.clone(), 0..30_usize), 0..8))
            .prop_map(|(w, pieces)| Step::Pieces(w, pieces)),
        2 => (w.clone(), 0..50_usize).prop_map(|(w, n)| Step::Append(w, n)),
        1 => (w.clone(), at.clone()).prop_map(|(w, size)| Step::Truncate(w, size)),
        1 => (w.clone(), at, 0..100_u64).prop_map(|(w, at, n)| Step::Punch(w, at, n)),
        1 => w.clone().prop_map(Step::Sync),
        1 => w.clone().prop_map(Step::Reopen),
        1 => w.prop_map(Step::Vanish),
        1 => Just(Step::Seal),
        2 => Just(Step::Refresh),
    ];
    prop::collection::vec(step, 1..most)
}

/// A container, its expected content, and its writers.
pub(crate) struct Run {
    pub(crate) container: Container,
    pub(crate) model: Vec<u8>,
    writers: [Option<Writer>; 3],
    reader: Reader,
    byte: u8,
}

impl Run {
    pub(crate) fn new(path: &Path) -> Self {
        let container = Container::create(path, &how()).unwrap();
        let reader = container.reader().unwrap();
        Self { container, model: Vec::new(), writers: [None, None, None], reader, byte: 0 }
    }

    /// The same with logs of at most so many bytes that wait in the directory `stage`.
    pub(crate) fn staged(path: &Path, stage: &Path, limit: u64) -> Self {
        let run = Self::new(path);
        run.container.stage_logs(stage, limit);
        run
    }

    /// The last one is as on a file system where nothing can be mapped.
    fn writer(&mut self, number: usize) -> &Writer {
        let container = &self.container;
        self.writers[number].get_or_insert_with(|| match number {
            2 => Writer::without_mapping(Arc::clone(&container.shared)).unwrap(),
            _ => container.writer().unwrap(),
        })
    }

    /// Bytes that no other step writes soon.
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let next = |byte: &mut u8| {
            *byte = if *byte >= 250 { 1 } else { *byte + 1 };
            *byte
        };
        (0..n).map(|_| next(&mut self.byte)).collect()
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let (at, end) = (at as usize, at as usize + bytes.len());
        if !bytes.is_empty() {
            self.model.resize(self.model.len().max(end), 0);
            self.model[at..end].copy_from_slice(bytes);
        }
    }

    fn pieces(&mut self, w: usize, pieces: &[(u64, usize)]) {
        let bytes: Vec<Vec<u8>> = pieces.iter().map(|(_, n)| self.bytes(*n)).collect();
        let pieces: Vec<(u64, &[u8])> =
            pieces.iter().zip(&bytes).map(|((at, _), bytes)| (*at, &bytes[..])).collect();
        self.writer(w).write_pieces(&pieces).unwrap();
        pieces.iter().for_each(|(at, bytes)| self.put(*at, bytes));
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Write(w, at, n) => {
                let bytes = self.bytes(*n);
                assert_eq!(self.writer(*w).write_at(&bytes, *at).unwrap(), *n);
                self.put(*at, &bytes);
            }
            Step::Strided(w, at, n, gap, count) => {
                let place = |k: usize| at + (*n as u64 + gap) * k as u64;
                if gap % 2 == 0 {
                    let pieces: Vec<_> = (0..*count).map(|k| (place(k), *n)).collect();
                    return self.pieces(*w, &pieces);
                }
                (0..*count).for_each(|k| self.step(&Step::Write(*w, place(k), *n)));
            }
            Step::Interleaved { at, length, count, event, punch } => {
                for k in 0..*count {
                    (0..2).for_each(|w| self.step(&Step::Write(w, at[w] + 25 * k, length[w])));
                    match k == *event {
                        true if *punch => self.step(&Step::Punch(2, 30, 25 * k)),
                        true => self.step(&Step::Truncate(2, 20 * k)),
                        false => {}
                    }
                }
            }
            Step::Pieces(w, pieces) => self.pieces(*w, pieces),
            Step::Append(w, n) => {
                let (bytes, end) = (self.bytes(*n), self.model.len() as u64);
                assert_eq!(self.writer(*w).append(&bytes).unwrap(), end);
                self.put(end, &bytes);
            }
            Step::Truncate(w, size) => {
                self.writer(*w).set_size(*size).unwrap();
                self.model.resize(*size as usize, 0);
            }
            Step::Punch(w, at, n) => {
                self.writer(*w).punch(Extent::new(*at, *n)).unwrap();
                let end = ((at + n) as usize).min(self.model.len());
                self.model[(*at as usize).min(end)..end].fill(0);
            }
            other => self.step_of_life(other),
        }
    }

    fn step_of_life(&mut self, step: &Step) {
        match step {
            Step::Sync(w) => self.writer(*w).sync().unwrap(),
            Step::Reopen(w) => {
                self.writers[*w].take().map_or(Ok(()), Writer::close).unwrap();
                let size = self.model.len() as u64;
                assert_eq!(self.writer(*w).size().unwrap(), size);
            }
            Step::Vanish(w) => {
                if let Some(writer) = self.writers[*w].take() {
                    writer.abandon();
                }
            }
            Step::Seal => {
                self.close();
                let attributes = self.container.attributes().unwrap();
                assert_eq!(attributes.size, self.model.len() as u64);
            }
            _ => {
                self.reader.refresh().unwrap();
                compare(&self.reader, &self.model);
            }
        }
    }

    /// Closes all writers; old and new readers find the bytes before and afterwards.
    fn finish(&mut self, path: &Path) {
        self.step(&Step::Refresh);
        compare(&self.container.reader().unwrap(), &self.model);
        self.close();
        self.step(&Step::Refresh);
        compare(&Container::open(path).unwrap().reader().unwrap(), &self.model);
    }

    pub(crate) fn close(&mut self) {
        self.writers.iter_mut().for_each(|w| w.take().map_or(Ok(()), Writer::close).unwrap());
    }
}

/// The whole file, and parts of it: alone, and at once, some of them in another order.
pub(crate) fn compare(reader: &Reader, model: &[u8]) {
    assert_eq!(reader.size(), model.len() as u64);
    let ranges: Vec<Extent> = (0..model.len() as u64 / 13)
        .map(|n| Extent::new(if n % 5 == 4 { 13 * n - 26 } else { 13 * n }, 9))
        .collect();
    let mut bytes = vec![0xEE; 9 * ranges.len()];
    assert_eq!(reader.read_ranges(&mut bytes, &ranges).unwrap(), bytes.len());
    for (bytes, range) in bytes.chunks(9).zip(&ranges) {
        assert_eq!(bytes, &model[range.offset as usize..range.end() as usize], "{range}");
    }
    for (start, len) in [(0, model.len() + 5), (model.len() / 3, 40), (model.len() / 2, 7)] {
        let mut bytes = vec![0xEE; len];
        let n = reader.read_at(&mut bytes, start as u64).unwrap();
        assert_eq!(&bytes[..n], &model[start..(start + len).min(model.len())], "{start} {len}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_container_holds_what_its_writers_wrote_in_their_order(program in steps(40)) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut run = Run::new(&path);
        program.iter().for_each(|step| run.step(step));
        run.finish(&path);
    }

    #[test]
    fn so_it_does_where_logs_wait_elsewhere(program in steps(40), limit in 0..3000_u64) {
        let place = tempfile::tempdir().unwrap();
        let (path, stage) = (place.path().join("file"), place.path().join("stage"));
        std::fs::create_dir(&stage).unwrap();
        let mut run = Run::staged(&path, &stage, limit);
        program.iter().for_each(|step| run.step(step));
        run.finish(&path);
        drain(&path).unwrap();
        assert_eq!(std::fs::read_dir(&stage).unwrap().count(), 0);
        run.step(&Step::Refresh);
        compare(&Container::open(&path).unwrap().reader().unwrap(), &run.model);
    }

    #[test]
    fn after_a_crash_at_any_byte_the_whole_frames_before_it_count(
        before in steps(10), program in steps(8),
    ) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut run = Run::new(&path);
        before.iter().for_each(|step| run.step(step));
        run.close();
        let dir = Dir::open(&path).unwrap();
        let old = dir.logs().unwrap();
        let last = |dir: &Dir| dir.logs().unwrap().into_iter().find(|id| !old.contains(id));
        // The expected content after each frame of the one new log, by the log's length.
        let mut states = vec![(0, run.model.clone())];
        for step in &program {
            let change = match step.clone() {
                Step::Write(_, at, n) => Step::Write(0, at, n),
                Step::Truncate(_, size) => Step::Truncate(0, size),
                Step::Punch(_, at, n) => Step::Punch(0, at, n),
                Step::Append(_, n) => Step::Append(0, n),
                Step::Pieces(_, pieces) => Step::Pieces(0, pieces),
                _ => Step::Sync(0),
            };
            run.step(&change);
            if let Some(id) = last(&dir) {
                states.push((dir.length_of(&log_name(id)).unwrap().unwrap(), run.model.clone()));
            }
        }
        run.writers[0].take().into_iter().for_each(Writer::abandon);
        let Some(id) = last(&dir) else { return Ok(()) };
        let log = std::fs::OpenOptions::new().write(true).open(path.join(log_name(id))).unwrap();
        for length in (0..=states.last().unwrap().0).rev() {
            log.set_len(length).unwrap();
            let (_, model) = states.iter().rev().find(|(end, _)| *end <= length).unwrap();
            compare(&run.container.reader().unwrap(), model);
        }
    }
}
