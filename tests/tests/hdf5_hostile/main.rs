//! HDF5 files made to do harm end in an answer within a second of work and 64 MiB of memory.

mod account;
mod make;

use account::measured;
use aggio_formats::Error;
use aggio_formats::hdf5::{Contents, OneOf, Source, What};
use aggio_tests::{factor, parsers, repository};
use make::{File, number};
use std::time::Duration;

/// The errors that the reader gives for a file, without the name of the file.
fn told(source: &dyn Source) -> String {
    let (found, cost) = measured(|| Contents::read_unverified(source));
    assert!(cost.time < Duration::from_secs(1), "{cost:?}");
    assert!(cost.memory <= 64 << 20, "{cost:?}");
    let unknown = |found: Contents| {
        let each = found.objects.into_iter().filter_map(|object| match object.what {
            What::Unknown(why) => Some(why.what),
            _ => None,
        });
        each.collect::<Vec<_>>().join("\n")
    };
    found.map_or_else(|why: Error| why.what, unknown)
}

fn told_of(file: &File) -> String {
    told(&OneOf(&vec![("file".to_owned(), file.finish())], 0))
}

/// A file of a given size, with zeros behind its first bytes.
struct Sparse(Vec<u8>, u64);

impl Source for Sparse {
    fn name(&self) -> String {
        "sparse".into()
    }

    fn size(&self) -> Result<u64, Error> {
        Ok(self.1)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        buffer.fill(0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let there = &self.0[start..];
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(())
    }
}

#[test]
fn trees_that_lead_back_to_themselves_are_loops() {
    // The root of the chunks' tree is its own child, one level below.
    let mut file = File::new();
    let tree = file.end();
    file.add(&make::tree_of_chunks(1, &[(0, tree), (1, tree)]));
    file.dataset(&[1 << 60], &make::chunks_by_tree(1, tree));
    assert!(told_of(&file).contains(&format!("the B-tree 1 node at {tree} is linked twice")));
    let mut file = File::new();
    let tree = file.end();
    file.add(&make::tree_of_chunks(0xFF, &[]));
    file.dataset(&[1 << 60], &make::chunks_by_tree(1, tree));
    assert!(told_of(&file).contains("is malformed"), "{}", told_of(&file));
}

#[test]
fn a_header_that_goes_on_in_itself_is_a_loop() {
    let mut file = File::new();
    let block = file.end();
    let again = make::message(16, &[number(block), number(8 + 20)].concat());
    file.add(&[&b"OCHK"[..], &again, &[0; 4]].concat());
    file.object(&make::message(16, &[number(block), number(8 + 20)].concat()));
    let told = told_of(&file);
    assert!(told.contains("are a loop"), "{told}");
}

#[test]
fn chunks_that_share_bytes_are_named() {
    let mut file = File::new();
    let tree = file.end();
    file.add(&make::tree_of_chunks(0, &[(0, 100), (8, 104), (16, 200)]));
    file.add(&[7; 300]);
    file.dataset(&[24], &make::chunks_by_tree(8, tree));
    assert!(told_of(&file).contains("the chunks at 100 and 104 overlap"), "{}", told_of(&file));
    let mut file = File::new();
    let tree = file.end();
    file.add(&make::tree_of_chunks(0, &[(0, 100), (0, 200)]));
    file.add(&[7; 300]);
    file.dataset(&[24], &make::chunks_by_tree(8, tree));
    assert!(told_of(&file).contains("two chunks at [0]"), "{}", told_of(&file));
    let mut file = File::new();
    let tree = file.end();
    file.add(&make::tree_of_chunks(0, &[(0, 0)]));
    file.dataset(&[24], &make::chunks_by_tree(8, tree));
    assert!(told_of(&file).contains("a chunk at 0, in the superblock"), "{}", told_of(&file));
}

#[test]
fn as_many_elements_as_there_are_numbers_cost_nothing() {
    for (index, parameters) in [(2, 0), (3, 1), (4, 5), (5, 6)] {
        let mut file = File::new();
        let layout = make::chunks_by(index, parameters, 60);
        file.dataset(&[1 << 60], &layout);
        let told = told_of(&file);
        assert!(!told.is_empty(), "index {index}");
        // In a file that promises the room, implicit chunks are there.
        let sparse = Sparse(file.finish(), 1 << 62);
        let told = self::told(&sparse);
        assert_eq!(told.is_empty(), index == 2, "index {index}: {told}");
    }
    let mut file = File::new();
    file.dataset(&[1 << 40, 1 << 40], &[3, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut contiguous = vec![3, 1];
    contiguous.extend([number(60), number(8)].concat());
    file.dataset(&[1 << 40, 1 << 40], &contiguous);
    assert!(told_of(&file).contains("more elements than numbers"), "{}", told_of(&file));
}

#[test]
fn what_one_small_file_refers_to_a_million_times_ends_at_a_limit() {
    // A tree of 60,000 times the same node of names.
    let mut file = File::new();
    let node = file.end();
    let entries = [number(8), number(48), vec![0; 24]].concat().repeat(8);
    file.add(&[&b"SNOD\x01\x00\x08\x00"[..], &entries].concat());
    let tree = file.end();
    file.add(&make::tree_of_names(0, 60_000, node));
    let names = file.end();
    file.add(
        &[&b"HEAP\0\0\0\0"[..], &number(32), &number(0), &number(names + 32), &[0; 8], b"name"]
            .concat(),
    );
    file.add(&[0; 64]);
    file.nodes_of_groups = 30_000;
    file.root = make::message(17, &[number(tree), number(names)].concat());
    let told = told_of(&file);
    assert!(told.contains("limit of"), "{told}");
}

#[test]
fn many_datasets_with_the_same_index_end_at_a_limit() {
    let mut file = File::new();
    let tree = file.end();
    let chunks: Vec<(u64, u64)> = (0..64).map(|at| (at, 100_000 + 2 * at)).collect();
    file.add(&make::tree_of_chunks(0, &chunks));
    for _ in 0..20_000 {
        file.dataset(&[64], &make::chunks_by_tree(1, tree));
    }
    let told = told_of(&file);
    assert!(told.contains("limit of"), "{}", told.len());
}

#[test]
fn a_header_of_nothing_but_empty_messages_ends_at_a_limit() {
    let mut file = File::new();
    file.object(&make::message(0, &[]).repeat((4 << 20) - 16));
    let told = told_of(&file);
    assert!(told.contains("limit of"), "{told}");
}

/// Numbers that look random, always the same ones.
fn numbers() -> impl Iterator<Item = u64> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(20_261_124), next).map(|state| state >> 24)
}

#[test]
fn damaged_files_end_in_an_answer() {
    let mut numbers = numbers();
    let mut number = |limit: usize| numbers.next().unwrap_or(0) as usize % limit;
    for seed in ["seed-earliest", "seed-latest"] {
        let good = std::fs::read(repository().join("tests/corpus/hdf5").join(seed)).unwrap();
        for round in 0..2000 * factor() {
            let mut bytes = good.clone();
            for _ in 0..1 + number(3) {
                let at = number(bytes.len());
                let value = [0, 1, 0x7F, 0xFF, number(256) as u8][number(5)];
                let end = bytes.len().min(at + [1, 1, 2, 8][number(4)]);
                bytes[at..end].fill(value);
            }
            let ((), cost) = measured(|| parsers::hdf5(&bytes));
            assert!(cost.time < Duration::from_secs(1), "{seed} {round}: {cost:?}");
            assert!(cost.memory <= 64 << 20, "{seed} {round}: {cost:?}");
        }
    }
}
