//! Visibility of bytes that a rank has written and nobody has synchronised
//! (`programs/visibility.c`), for any change of the name of the file (`programs/litmus.c`), and the
//! winner of overlapping writes when a rank comes late (`programs/latecomers.c`): with writes that
//! wait in the memory of ranks or in a stage, in memory and in a directory, on one host and on
//! several.

use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{
    Directory, Family, Job, Mpi, compile, factor, installed_for, library, names_in, tool,
};
use std::path::Path;
use std::process::Command;

/// How writes wait.
#[derive(Debug)]
struct Setting {
    /// `AGGIO_HINTS`; nothing waits without.
    hints: Option<&'static str>,
    place: Place,
}

/// Where writes wait.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// In the memory of each rank, unless requests are `quick`.
    Ranks { quick: bool },
    /// In memory of the node, and on several nodes in that of each rank.
    Memory,
    /// In a directory.
    Directory,
}

const fn buffered(hints: &'static str, quick: bool) -> Setting {
    Setting { hints: Some(hints), place: Place::Ranks { quick } }
}

const fn in_memory(hints: &'static str) -> Setting {
    Setting { hints: Some(hints), place: Place::Memory }
}

const fn staged(hints: &'static str) -> Setting {
    Setting { hints: Some(hints), place: Place::Directory }
}

impl Setting {
    /// Whether system calls may miss buffered writes.
    fn is_blind(&self, on: &On<'_>) -> bool {
        match self.place {
            Place::Ranks { quick } => !quick,
            Place::Memory => matches!(on, On::Hosts(_)),
            Place::Directory => false,
        }
    }
}

const SETTINGS: [Setting; 10] = [
    staged("*:aggio_tune=defer_always=true"),
    buffered("*:aggio_tune=defer_always=true", false),
    in_memory("*:aggio_tune=defer_always=true"),
    staged("*:aggio_tune=defer_always=true:aggio_defer_drain=later"),
    staged("*:aggio_tune=defer_always=true:aggio_defer_drain=idle"),
    buffered("*:aggio_tune=defer_always=true defer_buffer=500 defer_spill=0", false),
    in_memory("*:aggio_tune=defer_always=true defer_buffer=500:aggio_defer_drain=idle"),
    staged("*:aggio_tune=defer_always=true defer_buffer=500 defer_spill=0"),
    buffered("*:aggio_tune=defer_always=false", true),
    Setting { hints: None, place: Place::Ranks { quick: true } },
];

/// Numbers of hosts and of ranks on each.
const CLUSTERS: [(u32, u32); 5] = [(2, 2), (3, 1), (1, 4), (4, 1), (2, 3)];

/// The cases of `make check` on several hosts.
const FEW: (&[(u32, u32)], &[Setting]) = (CLUSTERS.split_at(2).0, SETTINGS.split_at(2).0);

/// Where a job runs.
#[derive(Debug)]
enum On<'a> {
    Here(u32),
    Hosts(&'a Cluster),
}

/// A program that runs in a directory of its own succeeds, and leaves no stage behind: `aggio
/// recover` stores stages that are to be drained later.
fn check(source: &str, mpi: &Mpi, library: &Path, setting: &Setting, on: &On<'_>) {
    let (data, stages) = (Directory::new(), Directory::new());
    let job = Job::new(&compile(source, mpi)).argument(data.path().join("data"));
    let job = if setting.is_blind(on) { job.argument("blind") } else { job };
    let job = match on {
        // Debian switches off the only one-sided component of Open MPI that works over TCP.
        On::Hosts(cluster) if mpi.family == Family::OpenMpi => {
            job.on(cluster).variable("OMPI_MCA_osc", "pt2pt")
        }
        On::Hosts(cluster) => job.on(cluster),
        On::Here(ranks) => job.ranks(*ranks),
    };
    let job = match setting.hints {
        Some(hints) => job.variable("AGGIO_DEFER", "*").variable("AGGIO_HINTS", hints),
        None => job,
    };
    let job = match setting.place {
        Place::Ranks { .. } => job.variable("AGGIO_STAGE", "none"),
        Place::Memory => job,
        Place::Directory => job.variable("AGGIO_STAGE", stages.path()),
    };
    let finished = job.variable("AGGIO_STRICT", "1").preload(Some(library)).run();
    let what = format!("{source}, {}, {setting:?}, {on:?}", mpi.name);
    assert!(finished.succeeded(), "{what}: {}", finished.report());
    if setting.hints.is_some_and(|hints| hints.contains("later")) {
        let mut recover = Command::new(tool().expect("aggio is there"));
        let done = recover.arg("recover").arg("--stage").arg(stages.path()).output();
        let done = done.expect("aggio starts");
        assert!(done.status.success(), "{what}: {done:?}");
    }
    assert_eq!(names_in(stages.path()), [""; 0], "{what}: a stage is left");
}

/// Two to seven ranks; in `make check` one number for each setting.
fn numbers_of_ranks(row: usize) -> Vec<u32> {
    if factor() > 1 { (2..=7).collect() } else { vec![[4, 2, 7, 3][row % 4]] }
}

/// The same on this host, with each setting.
fn check_here(source: &str, library: &Path) {
    for (row, setting) in SETTINGS.iter().enumerate() {
        for ranks in numbers_of_ranks(row) {
            for mpi in installed_for(row) {
                check(source, &mpi, library, setting, &On::Here(ranks));
            }
        }
    }
}

#[test]
fn whatever_becomes_of_a_name_ranks_see_what_others_have_written() {
    let Some(library) = library() else { return };
    check_here("litmus.c", &library);
}

#[test]
fn what_follows_a_collective_write_comes_after_the_part_of_a_rank_that_is_late() {
    let Some(library) = library() else { return };
    check_here("latecomers.c", &library);
    for mpi in installed_for(0) {
        let data = Directory::new();
        let job = Job::new(&compile("latecomers.c", &mpi)).argument(data.path().join("data"));
        let job = job.ranks(3).variable("AGGIO_BLOB", "*/data").preload(Some(&library));
        let finished = job.run();
        assert!(finished.succeeded(), "container, {}: {}", mpi.name, finished.report());
    }
}

#[test]
fn so_do_ranks_of_several_hosts() {
    let Some(library) = library() else { return };
    let (clusters, settings) = if factor() > 1 { (&CLUSTERS[..], &SETTINGS[..]) } else { FEW };
    for (row, (hosts, ranks)) in clusters.iter().enumerate() {
        let agent = Path::new(env!("CARGO_BIN_EXE_aggio-test-host"));
        let Some(cluster) = Plan::new(*hosts, *ranks).start_if_possible(agent) else { return };
        for (number, setting) in settings.iter().enumerate() {
            for mpi in installed_for(row + number) {
                for source in ["litmus.c", "visibility.c", "latecomers.c"] {
                    check(source, &mpi, &library, setting, &On::Hosts(&cluster));
                }
            }
        }
    }
}
