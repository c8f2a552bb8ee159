//! Random programs with parallel HDF5 leave, with the library, the files that they leave natively.

use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{
    Directory, Family, Job, Mpi, Program, bytes_of_container, compile_with_hdf5, factor,
    installed_for, library,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The program for an MPI with HDF5.
fn program(mpi: &Mpi) -> Option<Program> {
    compile_with_hdf5("hdf5_ranks.c", mpi)
}

/// The output of `h5dump` for a file: properties and data.
fn dump(file: &Path) -> String {
    let name = file.file_name().expect("a name");
    let place = file.parent().expect("a directory");
    let dumped = Command::new("h5dump").arg("-p").arg(name).current_dir(place).output();
    let dumped = dumped.expect("h5dump starts");
    assert!(dumped.status.success(), "{file:?}: {}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

/// How the library serves the programs; every second time with `AGGIO_DEFER='*'`
/// besides, at any cost.
const WAYS: [&[(&str, &str)]; 5] = [
    &[],
    &[("AGGIO_HINTS", "*:aggio_tune=fill_elision=enable,cb_buffer_size=512,romio_cb_write=enable")],
    &[("AGGIO_BLOB", "*.h5")],
    &[("AGGIO_HINTS", "*:aggio_tune=fill_elision=disable,romio_cb_write=enable")],
    &[("AGGIO_HINTS", "*:romio_cb_write=disable,romio_cb_read=disable")],
];

/// How the library serves a run: variables, whether writes wait, hosts if it is not this one.
#[derive(Clone, Copy, Debug)]
struct How<'a> {
    variables: &'a [(&'a str, &'a str)],
    defers: bool,
    hosts: Option<&'a Cluster>,
}

impl How<'_> {
    fn serve(self, program: &Program, mut job: Job) -> Job {
        job = job.preload(library().as_deref());
        if self.defers {
            job = job.variable("AGGIO_DEFER", "*");
            job = job.variable("MPICH_MPIIO_HINTS", "*:aggio_tune=defer_always=true");
        }
        if let Some(hosts) = self.hosts {
            job = job.on(hosts);
            if program.mpi.family == Family::OpenMpi {
                // Debian switches off the only one-sided component of Open MPI that works over TCP.
                job = job.variable("OMPI_MCA_osc", "pt2pt");
            }
        }
        self.variables.iter().fold(job, |job, (name, value)| job.variable(name, value))
    }
}

/// Runs the programs of `seeds` on `ranks` ranks, natively or served; returns the seeds of programs
/// that read something wrong, or `None` if they do not end well natively.
fn run(
    program: &Program,
    ranks: u32,
    (first, count): (usize, usize),
    place: &Path,
    how: Option<How<'_>>,
) -> Option<BTreeSet<usize>> {
    let mut job = Job::new(program).ranks(ranks).directory(place).argument(".");
    job = job.argument(first.to_string()).argument(count.to_string());
    if let Some(how) = how {
        job = how.serve(program, job);
    }
    let seconds = if how.is_none() { 60 } else { 60 + 20 * count as u64 };
    let finished = job.limit(Duration::from_secs(seconds)).run();
    if how.is_none() && !finished.succeeded() {
        // HDF5's ranks wait for each other in some of these programs, or disagree on a broadcast,
        // under any MPI-IO.
        println!("seeds from {first} on, {ranks} ranks: do not end well natively");
        return None;
    }
    assert!(finished.succeeded(), "{ranks} ranks, {how:?}: {}", finished.report());
    let lines = finished.stdout.lines();
    let seeds = lines.filter_map(|line| line.strip_prefix("wrong: seed ")?.split_once(','));
    Some(seeds.map(|(seed, _)| seed.parse().expect("a seed")).collect())
}

/// The content of the file of a seed, which may be a container.
fn content(directory: &Path, seed: usize) -> String {
    let file = directory.join(format!("{seed}.h5"));
    if !file.is_dir() {
        return dump(&file);
    }
    let copy = directory.join(format!("of-container-{seed}/{seed}.h5"));
    std::fs::create_dir(copy.parent().expect("a parent")).expect("a directory");
    std::fs::write(&copy, bytes_of_container(&file)).expect("a copy");
    dump(&copy)
}

/// Compares the native and the served files of the programs of `seeds`; returns whether they end
/// natively.
fn compare(program: &Program, ranks: u32, seeds: (usize, usize), how: How<'_>) -> bool {
    let (native, served) = (Directory::new(), Directory::new());
    let Some(wrong_anyway) = run(program, ranks, seeds, native.path(), None) else { return false };
    let wrong = run(program, ranks, seeds, served.path(), Some(how)).expect("it has ended");
    assert!(wrong.is_subset(&wrong_anyway), "{ranks} ranks, {how:?}: seeds {wrong:?}");
    for seed in seeds.0..seeds.0 + seeds.1 {
        let is_same = content(native.path(), seed) == content(served.path(), seed);
        assert!(is_same, "seed {seed}, {ranks} ranks, {how:?}: the files differ");
    }
    true
}

#[test]
fn random_programs_leave_the_files_that_they_leave_natively() {
    if library().is_none() {
        return;
    }
    // Few in `make check`, 100 times the factor in long runs.
    let (rounds, count) = if factor() == 1 { (2 * WAYS.len(), 2) } else { (20 * factor(), 5) };
    let (began, mut compared) = (Instant::now(), 0);
    for round in 0..rounds {
        for program in installed_for(round).iter().filter_map(program) {
            let ranks = 2 + (round % 6) as u32;
            let variables = WAYS[round % WAYS.len()];
            let how = How { variables, defers: round / WAYS.len() % 2 == 1, hosts: None };
            if compare(&program, ranks, (1 + round * count, count), how) {
                compared += count;
            }
        }
    }
    assert!(compared * 2 > rounds * count, "{compared} programs were compared");
    aggio_tests::told("programs with parallel HDF5", "all MPIs together", compared, began);
}

/// Hosts, and ranks on each.
const HOSTS: [(u32, u32); 6] = [(3, 1), (4, 1), (2, 1), (2, 2), (1, 4), (3, 2)];

#[test]
fn random_programs_on_several_hosts_leave_the_files_that_they_leave_natively_on_one() {
    if library().is_none() {
        return;
    }
    let agent = Path::new(env!("CARGO_BIN_EXE_aggio-test-host"));
    // Each cluster runs so many rounds; other seeds than on one host.
    let (clusters, rounds, count) = if factor() == 1 { (2, 1, 2) } else { (6, 4 * factor(), 5) };
    let (began, mut compared, mut number) = (Instant::now(), 0, 0);
    for (hosts, ranks) in HOSTS.into_iter().take(clusters) {
        let Some(cluster) = Plan::new(hosts, ranks).start_if_possible(agent) else { return };
        for _ in 0..rounds {
            // Every second one into containers, or with other hints.
            let variables = WAYS[(2 * number + 2) % WAYS.len()];
            let how = How { variables, defers: number % 2 == 1, hosts: Some(&cluster) };
            for program in installed_for(number).iter().filter_map(program) {
                let seeds = (100_001 + number * count, count);
                compared += count * usize::from(compare(&program, cluster.ranks(), seeds, how));
            }
            number += 1;
        }
    }
    aggio_tests::told("programs with parallel HDF5 on several hosts", "all MPIs", compared, began);
}
