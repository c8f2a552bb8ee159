//! Sets of a model program, read back.

mod container;
mod model;

use crate::cdf::{Attribute, Endian, Header, Type, parse};
use crate::error::{Kind, Result};
use crate::logical::{Cache, Holes, Logical, Options};
use model::{Model, Request, model};
use proptest::prelude::*;
use std::sync::Arc;

type Written = Vec<(String, Vec<u8>)>;

fn pnetcdf(model: &Model) -> Written {
    (0..model.subfiles()).map(|s| (format!("f.{s:04}"), model.pnetcdf(s))).collect()
}

fn hdf5(model: &Model, endian: Endian) -> Written {
    (0..model.subfiles()).map(|s| (format!("f.{s:04}"), model.hdf5(s, endian))).collect()
}

fn open(files: &Written, options: &Options) -> Result<Logical> {
    super::open(Arc::new(files.clone()), "f", files.len(), options)
}

fn all(file: &Logical) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.size() as usize + 9];
    let count = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(count);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_set_is_the_file_that_the_program_meant(
        model in model(),
        reads in proptest::collection::vec((0..4000_usize, 0..3000_usize), 9),
    ) {
        let zeros = |kind: Type| vec![0; kind.size() as usize];
        let (truth, untold) = (model.canonical(zeros), model.unaligned().canonical(zeros));
        let small = Options { cache: Arc::new(Cache::new(300)), ..Options::default() };
        for (files, truth) in [
            (pnetcdf(&model), truth),
            (hdf5(&model, Endian::Little), untold.clone()),
            (hdf5(&model, Endian::Big), untold),
        ] {
            let file = open(&files, &small).unwrap();
            prop_assert_eq!(&all(&file), &truth);
            let mut windows = Vec::new();
            for window in file.windows() {
                let mut part = vec![0xEE; (window.end - window.start) as usize];
                file.read_window(&mut part, window.start).unwrap();
                windows.extend(part);
            }
            prop_assert_eq!(&windows, &truth);
            for (start, len) in &reads {
                let mut part = vec![0xEE; *len];
                let count = file.read_at(&mut part, *start as u64).unwrap();
                let wanted = truth.get(*start..).unwrap_or(&[]);
                prop_assert_eq!(&part[..count], &wanted[..wanted.len().min(*len)]);
                prop_assert!(small.cache.bytes() <= 300);
            }
        }
    }

    #[test]
    fn holes_are_filled_if_that_is_wanted(model in model()) {
        let truth = model.canonical(Type::fill);
        let options = Options { holes: Holes::Fill, ..Options::default() };
        prop_assert_eq!(all(&open(&pnetcdf(&model), &options).unwrap()), truth);
    }

    #[test]
    fn a_set_of_which_a_file_is_cut_or_missing_is_refused_by_its_name(
        model in model(),
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let model = model.unaligned();
        let whole = model.canonical(|kind| vec![0; kind.size() as usize]);
        for files in [pnetcdf(&model), hdf5(&model, Endian::Little)] {
            let victim = which.index(files.len());
            let mut files = files;
            let len = cut.index(files[victim].1.len());
            files[victim].1.truncate(len);
            match open(&files, &Options::default()) {
                Err(why) => prop_assert_eq!(why.file, format!("f.{victim:04}")),
                // Only a part that is taken from another subfile was cut, or the padding at the
                // end.
                Ok(file) => prop_assert_eq!(all(&file), whole.clone()),
            }
        }
    }

    #[test]
    fn bytes_that_were_changed_are_read_or_refused(
        model in model(),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>()),
            1..20,
        ),
    ) {
        for mut files in [pnetcdf(&model), hdf5(&model, Endian::Little)] {
            for (at, byte) in &changes {
                let file = &mut files[0].1;
                // Most numbers are small: changes to the first bytes matter most.
                let at = at.index(file.len().min(4096));
                file[at] = *byte;
            }
            if let Ok(file) = open(&files, &Options { partial: true, ..Options::default() })
                && file.size() < 1 << 20
            {
                let _ = file.read_at(&mut vec![0; file.size() as usize], 0);
            }
        }
    }
}

/// Two processes in a subfile each; the first owns even, the second odd columns.
fn sample() -> Model {
    let owned =
        |first: u32| (first..8).step_by(2).map(|at| Request { at, len: 1 }).collect::<Vec<_>>();
    Model {
        lev: 1,
        ncol: 8,
        records: 2,
        variables: vec![
            model::Made { decomposition: Some(0), kind: Type::Double, records: true },
            model::Made { decomposition: None, kind: Type::Int, records: false },
        ],
        owned: [vec![owned(0), owned(1)], vec![owned(0), owned(1)]],
        subfile: vec![0, 1],
        border: 512,
    }
}

fn change(files: &mut Written, which: usize, act: impl FnOnce(&mut Header)) {
    let mut header = parse(&files[which].1).unwrap();
    let len = header.size() as usize;
    act(&mut header);
    let bytes = header.write().unwrap();
    assert_eq!(bytes.len(), len, "the data stay where they are");
    files[which].1[..len].copy_from_slice(&bytes);
}

fn refusal(files: &Written) -> (Kind, String) {
    let why = open(files, &Options::default()).map(|_| ()).unwrap_err();
    (why.kind, why.to_string())
}

#[test]
fn subfiles_of_different_runs_are_refused() {
    let files = pnetcdf(&sample());
    let mut other = files.clone();
    change(&mut other, 1, |header| header.variables[11].name = "w1".into());
    assert_eq!(refusal(&other).0, Kind::Mismatch);
    assert!(
        refusal(&other)
            .1
            .contains("f.0001: has other dimensions, attributes or variables than f.0000")
    );

    let mut other = files.clone();
    change(&mut other, 1, |header| {
        header.attributes[0] = Attribute::of_ints("global_nprocs", &[9])
    });
    assert!(refusal(&other).1.contains("f.0001: is of 9 processes and 2 subfiles"));

    let mut other = files.clone();
    for which in 0..2 {
        change(&mut other, which, |header| {
            header.attributes[0] = Attribute::of_ints("global_nprocs", &[3]);
        });
    }
    assert!(
        refusal(&other)
            .1
            .contains("f: the 2 subfiles have data of 2 processes, but 3 wrote the file")
    );

    let mut other = files.clone();
    change(&mut other, 0, |header| header.attributes[2] = Attribute::of_ints("num_subfiles", &[3]));
    assert!(refusal(&other).1.contains("at most 2 (num_subfiles)"), "{:?}", refusal(&other));

    let twice = vec![files[0].clone(), ("f.0001".into(), files[0].1.clone())];
    assert!(refusal(&twice).1.contains("f.0000: element 0 of D1 is also in f.0001"));
}

#[test]
fn a_part_of_a_set_is_read_if_that_is_allowed() {
    let model = sample();
    let mut files = pnetcdf(&model);
    files.truncate(1);
    assert_eq!(refusal(&files), (Kind::Missing, "file 1: missing".into()));
    let partial = Options { partial: true, ..Options::default() };
    let file = open(&files, &partial).unwrap();
    let told = file.describe();
    assert_eq!((told.coverage[0].written, told.coverage[0].gaps), (4, 4));
    assert_eq!(told.coverage[0].first_gaps, [1..2, 3..4, 5..6, 7..8]);
    assert_eq!(told.notes.len(), 2);
    let mut less = model.clone();
    less.owned[0][1].clear();
    assert_eq!(all(&file), less.canonical(|kind| vec![0; kind.size() as usize]));
}

#[test]
fn the_fewest_records_of_all_subfiles_count() {
    let model = sample();
    let mut files = pnetcdf(&model);
    let shorter = Model { records: 1, ..model.clone() };
    files[1].1 = shorter.pnetcdf(1);
    let file = open(&files, &Options::default()).unwrap();
    assert_eq!(all(&file), shorter.canonical(|kind| vec![0; kind.size() as usize]));
}

#[test]
fn requests_outside_of_the_decomposition_are_refused() {
    let mut model = sample();
    model.owned[0][0][3].at = 8;
    assert!(refusal(&pnetcdf(&model)).1.contains("f.0000: D1: blob 0 request 3, 1 elements at 8"));
    let mut model = Model { lev: 2, ..sample() };
    model.owned[1][0] = vec![Request { at: 7, len: 2 }];
    assert!(refusal(&hdf5(&model, Endian::Little)).1.contains("2 elements at 7, lies in no row"));
}

/// Two variables of one decomposition: the second has layers for levels.
fn layered() -> Model {
    let row = |at: u32| Request { at, len: 1 };
    let made = |kind| model::Made { decomposition: Some(1), kind, records: true };
    Model {
        lev: 2,
        ncol: 3,
        records: 2,
        variables: vec![made(Type::Double), made(Type::Float)],
        owned: [vec![vec![], vec![]], vec![vec![row(0), row(4)], vec![row(1), row(5)]]],
        subfile: vec![0, 1],
        border: 4,
    }
}

#[test]
fn dimensions_of_the_lengths_of_a_decomposition_are_as_good_as_its_own() {
    let (model, truth) = (layered(), layered().canonical(|kind| vec![0; kind.size() as usize]));
    let files = pnetcdf(&model);
    let header = parse(&files[0].1).unwrap();
    let dimensions = |id: usize| header.variables[id].attribute("global_dimids").unwrap().ints();
    assert_eq!((dimensions(10), dimensions(11)), (Some(vec![1, 0, 3]), Some(vec![1, 4, 3])));
    assert_eq!(all(&open(&files, &Options::default()).unwrap()), truth);

    let mut other = files;
    for which in 0..2 {
        change(&mut other, which, |header| header.dimensions[4].length = 3);
    }
    assert!(
        refusal(&other).1.contains("f.0000: v1 has not the shape of D2"),
        "{:?}",
        refusal(&other)
    );
}

/// Headers of sixteen lengths: many are multiples of larger borders, too.
#[test]
fn data_that_follow_the_header_of_a_subfile_at_once_do_so_in_the_file() {
    for extra in 0..16 {
        let mut model = Model { border: 4, ..sample() };
        let more = (0..extra).map(|_| model.variables[1].clone());
        model.variables.extend(more.collect::<Vec<_>>());
        let truth = model.canonical(|kind| vec![0; kind.size() as usize]);
        let header = parse(&truth).unwrap();
        assert_eq!(header.variables.iter().map(|one| one.begin).min(), Some(header.size()));
        let file = open(&pnetcdf(&model), &Options::default()).unwrap();
        assert_eq!(all(&file), truth, "with {extra} variables more");
    }
}
