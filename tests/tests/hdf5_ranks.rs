//! Random programs with parallel HDF5 leave, with the library, the files that they leave natively.

use aggio_tests::{
    Directory, Job, Mpi, Program, bytes_of_container, compile_with, factor, installed_for, library,
    skip,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The program for an MPI whose HDF5 is there.
fn program(mpi: &Mpi) -> Option<Program> {
    let package = format!("hdf5-{}", mpi.name);
    let options = Command::new("pkg-config").args(["--cflags", "--libs", &package]).output();
    let Some(options) = options.ok().filter(|options| options.status.success()) else {
        skip(&format!("{package} is missing (tests/setup.sh check)"));
        return None;
    };
    let options = String::from_utf8_lossy(&options.stdout).into_owned();
    Some(compile_with("hdf5_ranks.c", mpi, &options.split_whitespace().collect::<Vec<_>>()))
}

/// What `h5dump` tells of a file: properties and data.
fn dump(file: &Path) -> String {
    let name = file.file_name().expect("a name");
    let place = file.parent().expect("a directory");
    let dumped = Command::new("h5dump").arg("-p").arg(name).current_dir(place).output();
    let dumped = dumped.expect("h5dump starts");
    assert!(dumped.status.success(), "{file:?}: {}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

/// How the library serves the programs; every second time with `AGGIO_DEFER='*'` besides.
const WAYS: [&[(&str, &str)]; 5] = [
    &[],
    &[("AGGIO_HINTS", "*:aggio_fill_elision=enable,cb_buffer_size=512,romio_cb_write=enable")],
    &[("AGGIO_BLOB", "*.h5")],
    &[("AGGIO_HINTS", "*:aggio_fill_elision=disable,romio_cb_write=enable")],
    &[("AGGIO_HINTS", "*:romio_cb_write=disable,romio_cb_read=disable")],
];

/// Runs the programs of `seeds` on `ranks` ranks, natively or in one of the ways; the seeds whose
/// programs read something wrong, or `None` if they do not end well natively.
fn run(
    program: &Program,
    ranks: u32,
    (first, count): (usize, usize),
    place: &Path,
    way: Option<(&[(&str, &str)], bool)>,
) -> Option<BTreeSet<usize>> {
    let mut job = Job::new(program).ranks(ranks).directory(place).argument(".");
    job = job.argument(first.to_string()).argument(count.to_string());
    if let Some((variables, defers)) = way {
        job = job.preload(library().as_deref());
        if defers {
            job = job.variable("AGGIO_DEFER", "*");
        }
        for (name, value) in variables {
            job = job.variable(name, value);
        }
    }
    let seconds = if way.is_none() { 60 } else { 60 + 20 * count as u64 };
    let finished = job.limit(Duration::from_secs(seconds)).run();
    if way.is_none() && !finished.succeeded() {
        // HDF5's ranks wait for each other in some of these programs, or disagree on a broadcast,
        // whatever serves their files.
        println!("seeds from {first} on, {ranks} ranks: do not end well natively");
        return None;
    }
    assert!(finished.succeeded(), "{ranks} ranks, {way:?}: {}", finished.report());
    let lines = finished.stdout.lines();
    let seeds = lines.filter_map(|line| line.strip_prefix("wrong: seed ")?.split_once(','));
    Some(seeds.map(|(seed, _)| seed.parse().expect("a seed")).collect())
}

#[test]
fn random_programs_leave_the_files_that_they_leave_natively() {
    if library().is_none() {
        return;
    }
    // Few in `make check`, 100 times the factor in long runs.
    let (rounds, count) = if factor() == 1 { (2 * WAYS.len(), 3) } else { (20 * factor(), 5) };
    let (began, mut compared) = (Instant::now(), 0);
    for round in 0..rounds {
        for program in installed_for(round).iter().filter_map(program) {
            let ranks = 2 + (round % 6) as u32;
            let seeds = (1 + round * count, count);
            let (native, served) = (Directory::new(), Directory::new());
            let way = (WAYS[round % WAYS.len()], round / WAYS.len() % 2 == 1);
            let wrong_anyway = run(&program, ranks, seeds, native.path(), None);
            let Some(wrong_anyway) = wrong_anyway else { continue };
            compared += count;
            let wrong = run(&program, ranks, seeds, served.path(), Some(way));
            let wrong = wrong.expect("it has ended");
            assert!(wrong.is_subset(&wrong_anyway), "{ranks} ranks, {way:?}: seeds {wrong:?}");
            for seed in seeds.0..seeds.0 + count {
                let [wanted, found] = [&native, &served].map(|directory| {
                    let file = directory.path().join(format!("{seed}.h5"));
                    if file.is_dir() {
                        let bytes = bytes_of_container(&file);
                        let copy = directory.path().join(format!("of-container-{seed}/{seed}.h5"));
                        std::fs::create_dir(copy.parent().expect("a parent")).expect("a directory");
                        std::fs::write(&copy, bytes).expect("a copy");
                        return dump(&copy);
                    }
                    dump(&file)
                });
                assert!(wanted == found, "seed {seed}, {ranks} ranks, {way:?}: the files differ");
            }
        }
    }
    assert!(compared * 2 > rounds * count, "{compared} programs were compared");
    aggio_tests::told("programs with parallel HDF5", "all MPIs together", compared, began);
}
