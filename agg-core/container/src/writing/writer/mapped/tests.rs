//! Stores to memory, writes and changes of the size by several writers, against a plain vector.

use crate::directory::log_name;
use crate::file::container::Container;
use crate::format::manifest::is_container;
use crate::repair::check::check;
use crate::repair::findings::Check;
use crate::tests::how;
use crate::writing::writer::mapped::*;
use proptest::prelude::*;
use std::path::Path;

const PAGE: u64 = 64;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, usize),
    Pieces(usize, Vec<(u64, usize)>),
    Append(usize, usize),
    Punch(usize, u64, u64),
    Size(usize, u64),
    Grow(usize, u64),
    Store(usize, u64, usize),
    Map(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let piece = || (0_u64..1500, 1_usize..200);
    prop_oneof![
        3 => (0..2_usize, piece()).prop_map(|(w, (at, len))| Step::Write(w, at, len)),
        1 => (0..2_usize, prop::collection::vec(piece(), 1..5))
            .prop_map(|(w, pieces)| Step::Pieces(w, pieces)),
        1 => (0..2_usize, 1_usize..100).prop_map(|(w, len)| Step::Append(w, len)),
        1 => (0..2_usize, 0_u64..1500, 1_u64..300).prop_map(|(w, at, len)| Step::Punch(w, at, len)),
        1 => (0..2_usize, 0_u64..1500).prop_map(|(w, size)| Step::Size(w, size)),
        1 => (0..2_usize, 0_u64..1500).prop_map(|(w, size)| Step::Grow(w, size)),
        4 => (0..2_usize, 0_u64..1500, 1_usize..200)
            .prop_map(|(w, at, len)| Step::Store(w, at, len)),
        1 => (0..2_usize, 0_u64..12).prop_map(|(w, page)| Step::Map(w, page)),
    ]
}

/// Two writers that have mapped the file from a page on, and the expected content of the file. The
/// second one maps anew only after its own changes.
struct Run {
    container: Container,
    writers: Vec<Writer>,
    from: u64,
    placed: [Vec<Placed>; 2],
    model: Vec<u8>,
    value: u8,
}

impl Run {
    fn new(path: &Path) -> Self {
        let container = Container::create(path, &how()).unwrap();
        let writers = vec![container.writer().unwrap(), container.writer().unwrap()];
        Self {
            container,
            writers,
            from: u64::MAX,
            placed: Default::default(),
            model: Vec::new(),
            value: 0,
        }
    }

    fn put(&mut self, at: u64, len: usize) -> Vec<u8> {
        self.value = self.value.wrapping_add(1).max(1);
        let end = at as usize + len;
        self.model.resize(self.model.len().max(end), 0);
        self.model[at as usize..end].fill(self.value);
        vec![self.value; len]
    }

    fn step(&mut self, step: &Step) {
        let size = self.model.len();
        match step {
            Step::Write(w, at, len) => {
                let bytes = self.put(*at, *len);
                self.writers[*w].write_at(&bytes, *at).unwrap();
            }
            Step::Pieces(w, pieces) => {
                let data: Vec<_> =
                    pieces.iter().map(|(at, len)| (*at, self.put(*at, *len))).collect();
                let parts: Vec<_> = data.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
                self.writers[*w].write_pieces(&parts).unwrap();
            }
            Step::Append(w, len) => {
                let bytes = self.put(size as u64, *len);
                assert_eq!(self.writers[*w].append(&bytes).unwrap(), size as u64);
            }
            Step::Punch(w, at, len) => {
                self.writers[*w].punch(Extent::new(*at, *len)).unwrap();
                let end = (*at + *len).min(size as u64) as usize;
                self.model[(*at as usize).min(end)..end].fill(0);
            }
            Step::Size(w, to) => {
                self.writers[*w].set_size(*to).unwrap();
                self.model.resize(*to as usize, 0);
            }
            Step::Grow(w, to) => {
                self.writers[*w].grow(*to).unwrap();
                self.model.resize(size.max(*to as usize), 0);
            }
            Step::Store(w, at, len) => self.store(*w, *at, *len),
            Step::Map(_, page) => self.from = page * PAGE,
        }
        // As the library does it: a writer that has changed the size maps anew.
        let changed = match step {
            Step::Write(w, ..) | Step::Pieces(w, ..) | Step::Append(w, ..) => *w,
            Step::Size(w, ..) | Step::Grow(w, ..) | Step::Map(w, ..) => *w,
            _ => 0,
        };
        if self.from != u64::MAX {
            for w in [0, changed] {
                let all = Extent::between(self.from, 1 << 20);
                self.placed[w] = self.writers[w].place_pages(all, PAGE).unwrap();
            }
        }
    }

    /// Changes bytes as a store to memory would.
    fn store(&mut self, w: usize, at: u64, len: usize) {
        let size = self.model.len() as u64;
        let range = Extent::between(at.max(self.from).min(size), (at + len as u64).min(size));
        let mut stored = 0;
        for part in self.placed[w].clone() {
            let pages = Extent::new(part.logical.offset, part.logical.len.next_multiple_of(PAGE));
            let both = pages.intersect(range);
            if !both.is_empty() {
                let bytes = self.put(both.offset, both.len as usize);
                let file = self.writers[w].part(part.log).unwrap();
                file.write_all_at(&bytes, part.place + (both.offset - pages.offset)).unwrap();
                stored += both.len;
            }
        }
        assert!(w == 1 || stored == range.len, "every byte is mapped: {:?}", self.placed);
        self.same_in_memory(w);
    }

    /// Compares the mapped bytes with the expected content.
    fn same_in_memory(&self, w: usize) {
        for part in &self.placed[w] {
            let file = self.writers[w].part(part.log).unwrap();
            let mut bytes = vec![0; part.logical.len.next_multiple_of(PAGE) as usize];
            file.read_exact_at(&mut bytes, part.place).unwrap();
            let from = (part.logical.offset as usize).min(self.model.len());
            let model = &self.model[from..self.model.len().min(from + bytes.len())];
            assert_eq!(bytes[..model.len()], *model);
            assert!(bytes[model.len()..].iter().all(|byte| *byte == 0), "behind the end");
        }
    }

    fn compare(&self) {
        let reader = self.container.reader().unwrap();
        let mut bytes = vec![0xEE; self.model.len() + 10];
        let n = reader.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes[..n], self.model[..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 300 }))]

    #[test]
    fn stores_to_memory_and_writes_are_changes_of_one_file(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut run = Run::new(&path);
        for step in &steps {
            run.step(step);
            run.compare();
        }
        run.writers.drain(..).for_each(|writer| writer.close().unwrap());
        run.compare();
        let how = Check { data: true, ..Check::default() };
        prop_assert!(is_container(&path));
        prop_assert_eq!(check(&path, &how).unwrap().exit_code(), 0);
        prop_assert_eq!(
            crate::tests::independent(&path).unwrap_or(run.model.clone()), run.model);
    }
}

#[test]
fn pages_begin_at_pages_of_the_log_and_holes_take_no_room() {
    let place = tempfile::tempdir().unwrap();
    let container = Container::create(&place.path().join("file"), &how()).unwrap();
    let writer = container.writer().unwrap();
    writer.set_size(1 << 40).unwrap();
    writer.write_at(b"x", 1 << 39).unwrap();
    let placed = writer.place_pages(Extent::new(0, 1 << 40), 4096).unwrap();
    let [one] = placed[..] else { panic!("{placed:?}") };
    assert_eq!((one.logical, one.place % 4096), (Extent::new(0, 1 << 40), 0));
    let facts = writer.part(one.log).unwrap().metadata().unwrap();
    assert!(facts.len() > 1 << 40);
    assert!(std::os::unix::fs::MetadataExt::blocks(&facts) * 512 < 4 << 20);
    assert_eq!(writer.place_pages(Extent::new(8192, 4096), 4096).unwrap()[0].log, one.log);
}

#[test]
fn pages_that_are_sealed_are_not_changed_any_more() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let container = Container::create(&path, &how()).unwrap();
    let all = Extent::new(0, 1 << 20);
    let writer = container.writer().unwrap();
    writer.write_at(&[1; 500], 0).unwrap();
    let first = writer.place_pages(all, PAGE).unwrap()[0];
    writer.close().unwrap();
    let log = std::fs::read(path.join(log_name(first.log))).unwrap();
    let generation = container.attributes().unwrap().generation;
    let writer = container.writer().unwrap();
    let second = writer.place_pages(all, PAGE).unwrap();
    assert!(second.iter().all(|part| part.log != first.log), "{second:?}");
    writer.write_at(&[2; 100], 0).unwrap();
    writer.punch(Extent::new(200, 10)).unwrap();
    writer.close().unwrap();
    assert_eq!(std::fs::read(path.join(log_name(first.log))).unwrap(), log);
    let now = container.attributes().unwrap();
    assert!(now.sealed && now.generation > generation);
}

#[test]
fn a_frame_that_has_bytes_lie_where_there_are_none_is_an_error_and_damage() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let container = Container::create(&path, &how()).unwrap();
    let writer = container.writer().unwrap();
    writer.write_at(&[1; 500], 0).unwrap();
    let there = writer.place_pages(Extent::new(0, 500), PAGE).unwrap()[0];
    for wrong in [Placed { place: 1 << 40, ..there }, Placed { log: 12_345, ..there }] {
        writer.say_again(&mut writer.log(), wrong).unwrap();
        let read = container.reader().and_then(|r| r.read_at(&mut [0; 500], 0));
        assert!(read.is_err(), "{wrong:?}");
    }
    drop(writer);
    assert!(check(&path, &Check { data: true, ..Check::default() }).unwrap().exit_code() > 0);
}

#[test]
fn writes_and_growths_beside_one_who_maps_are_in_the_pages() {
    const RECORD: u64 = 48;
    const RECORDS: u64 = 400;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let container = Container::create(&path, &how()).unwrap();
    let mapping = container.writer().unwrap();
    let all = Extent::new(0, 1 << 20);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let writer = container.writer().unwrap();
            scope.spawn(move || {
                for k in 0..RECORDS {
                    let at = (3 * k + number) * RECORD;
                    if k % 7 == 0 {
                        writer.grow(at + 1).unwrap();
                    }
                    writer.write_at(&[number as u8 + 1; RECORD as usize], at).unwrap();
                }
                writer.close().unwrap();
            });
        }
        for _ in 0..100 {
            mapping.place_pages(all, PAGE).unwrap();
        }
    });
    let model: Vec<u8> =
        (0..3 * RECORDS).flat_map(|k| [(k % 3) as u8 + 1; RECORD as usize]).collect();
    let placed = mapping.place_pages(all, PAGE).unwrap();
    let mut bytes = Vec::new();
    for part in placed {
        let mut some = vec![0; part.logical.len as usize];
        mapping.part(part.log).unwrap().read_exact_at(&mut some, part.place).unwrap();
        assert_eq!(part.logical.offset, bytes.len() as u64);
        bytes.extend(some);
    }
    assert!(bytes == model, "what is in memory");
    mapping.close().unwrap();
    let mut read = vec![0; model.len() + 1];
    let n = container.reader().unwrap().read_at(&mut read, 0).unwrap();
    assert!(read[..n] == model, "what is read");
}

#[test]
fn a_container_whose_words_cannot_be_mapped_refuses_with_the_number_of_such_a_file_system() {
    let place = tempfile::tempdir().unwrap();
    let container = Container::create(&place.path().join("file"), &how()).unwrap();
    let writer = Writer::without_mapping(Arc::clone(&container.shared)).unwrap();
    writer.write_at(b"abc", 0).unwrap();
    let error = writer.place_pages(Extent::new(0, 4096), 4096).unwrap_err();
    assert_eq!(error.errno(), libc::ENODEV);
}
