//! Sets of blobs of a land model's file, as PnetCDF writes them itself, and as aggio makes them of
//! the file.

use aggio_tests::{
    Directory, Family, Finished, Job, Mpi, compile_with, installed, library, names_in, read_set,
};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "land.nc";
const RANKS: u32 = 4;

/// The MPI for which PnetCDF is installed.
fn with_pnetcdf() -> Option<Mpi> {
    let found = installed().into_iter().find(|mpi| mpi.family == Family::OpenMpi)?;
    let is_there = Path::new("/usr/include/pnetcdf.h").exists();
    if !is_there {
        aggio_tests::skip("PnetCDF is not installed (tests/setup.sh check)");
    }
    Some(found).filter(|_| is_there)
}

/// Runs `land.c`, under the library if there are `variables`.
fn land(mpi: &Mpi, directory: &Directory, words: &[&str], variables: &[(&str, &str)]) -> Finished {
    let program = compile_with("land.c", mpi, &["-lpnetcdf"]);
    let job = Job::new(&program).ranks(RANKS).argument(directory.path().join(NAME));
    let job = words.iter().fold(job, |job, word| job.argument(word));
    let job = variables.iter().fold(job, |job, (name, value)| job.variable(name, value));
    let library = library().filter(|_| !variables.is_empty());
    let finished = job.preload(library.as_deref()).run();
    assert!(finished.succeeded(), "{words:?}: {}", finished.report());
    finished
}

/// The file itself. Natively Open MPI leaves anything where nobody writes.
fn file(mpi: &Mpi, hints: &[&str]) -> Vec<u8> {
    let directory = Directory::new();
    land(mpi, &directory, &[&["file"], hints].concat(), &[("AGGIO_STRICT", "1")]);
    std::fs::read(directory.path().join(NAME)).expect("the file")
}

#[test]
fn blobs_of_pnetcdf_stand_for_the_file_that_it_writes_wherever_its_data_begin() {
    if library().is_none() {
        return;
    }
    let Some(mpi) = with_pnetcdf() else { return };
    for hints in [&[][..], &["nc_header_align_size=4"], &["nc_header_align_size=1024"]] {
        let native = file(&mpi, hints);
        let directory = Directory::new();
        land(&mpi, &directory, &[&["blobs"], hints].concat(), &[]);
        assert_eq!(names_in(directory.path()), [format!("{NAME}.0000")]);
        let set = read_set(&directory.path().join(NAME));
        assert_eq!(set.as_ref().map(Vec::len), Some(native.len()), "{hints:?}");
        assert!(set == Some(native), "{hints:?}");
    }
}

/// The files of the set that a run with these hints leaves.
fn set(mpi: &Mpi, hints: &[&str], rule: &str, native: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let directory = Directory::new();
    let rule = format!("*.nc:{rule}:blobs=2");
    let variables = [("AGGIO_BLOB", rule.as_str())];
    let finished = land(mpi, &directory, &[&["file"], hints].concat(), &variables);
    let what = format!("{hints:?}: {}", finished.report());
    assert!(read_set(&directory.path().join(NAME)).as_deref() == Some(native), "{what}");
    let read = |name: String| {
        let bytes = std::fs::read(directory.path().join(&name)).expect("a file of the set");
        (name, bytes)
    };
    names_in(directory.path()).into_iter().map(read).collect()
}

/// Hints that ask for aggregators, and for windows with borders inside of elements.
const EXCHANGES: [&[&str]; 3] = [
    &["romio_cb_write=enable", "cb_buffer_size=1004"],
    &["romio_cb_write=enable", "cb_buffer_size=65537", "cb_nodes=2"],
    &["romio_no_indep_rw=true", "cb_buffer_size=1004", "cb_config_list=*:1"],
];

#[test]
fn hints_that_ask_for_aggregators_make_no_other_set() {
    if library().is_none() {
        return;
    }
    let Some(mpi) = with_pnetcdf() else { return };
    let native = file(&mpi, &[]);
    for rule in ["e3sm", "e3sm-h5"] {
        let plain = set(&mpi, &[], rule, &native);
        assert_eq!(plain.len(), 2);
        for hints in EXCHANGES {
            let hinted = set(&mpi, hints, rule, &native);
            let sizes = |set: &BTreeMap<String, Vec<u8>>| -> Vec<usize> {
                set.values().map(Vec::len).collect()
            };
            assert_eq!(sizes(&hinted), sizes(&plain), "{rule}, {hints:?}");
            assert!(hinted == plain, "{rule}, {hints:?}");
        }
    }
}
