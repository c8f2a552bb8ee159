//! Containers of MPI programs that cannot become sets of blobs for lack of space.

use agg_core::blob::is_container;
use aggio_tests::{
    Finished, Job, Mpi, SmallFileSystem, compile, factor, installed, library, names_in,
    read_container, read_set,
};
use std::path::Path;

const NAME: &str = "out.nc";
/// The size of a page there.
const PAGE: u64 = 4096;
/// Room for the bytes written while a container is closed, and not for its blobs.
const SPARE: u64 = 3 * PAGE;

/// Runs the program, which writes a netCDF file in `folder`, by this rule.
fn climate(mpi: &Mpi, small: &SmallFileSystem, rule: &str) -> Finished {
    let finished = Job::new(&compile("climate.c", mpi))
        .ranks(2)
        .with_small(small)
        .argument(small.path().join(NAME))
        .argument("5")
        .variable("AGGIO_BLOB", rule)
        .variable("AGGIO_REPORT", "json")
        .preload(library().as_deref())
        .run();
    assert!(finished.succeeded(), "{}, {rule}: {}", mpi.name, finished.report());
    finished
}

/// The bytes that the program writes, and those that its container takes.
fn container(mpi: &Mpi, small: &SmallFileSystem) -> (Vec<u8>, u64) {
    let free = small.free();
    climate(mpi, small, "*.nc");
    let path = small.seen().join(NAME);
    let (bytes, taken) = (read_container(&path), free - small.free());
    std::fs::remove_dir_all(path).expect("it can be removed");
    (bytes, taken)
}

/// Leaves so many bytes free.
fn fill(small: &SmallFileSystem, free: u64) {
    let ballast = vec![1; (small.free() - free) as usize];
    std::fs::write(small.seen().join("ballast"), ballast).expect("there is room");
    assert_eq!(small.free(), free);
}

fn has_nothing_unfinished(container: &Path) {
    let hidden = names_in(container).into_iter().filter(|name| name.starts_with('.'));
    assert_eq!(hidden.collect::<Vec<_>>(), [""; 0], "in the container");
}

#[test]
fn on_a_full_disk_the_container_stays_and_becomes_blobs_when_there_is_room() {
    if library().is_none() {
        return;
    }
    // Each layout under one MPI, or under all where there is time.
    let both = |number: usize| (0..2).filter(move |layout| factor() > 1 || *layout == number % 2);
    for (number, mpi) in installed().into_iter().enumerate() {
        for layout in both(number).map(|layout| ["e3sm", "e3sm-h5"][layout]) {
            let Some(small) = SmallFileSystem::mount_if_possible(100 * PAGE) else { return };
            let (bytes, taken) = container(&mpi, &small);
            fill(&small, taken + SPARE);
            let rule = format!("*.nc:{layout}:blobs=2");
            let full = climate(&mpi, &small, &rule);
            let what = format!("{}, {layout}: {}", mpi.name, full.report());
            let path = small.seen().join(NAME);
            assert_eq!(names_in(&small.seen()), ["ballast", NAME], "{what}");
            assert!(is_container(&path) && read_container(&path) == bytes, "{what}");
            has_nothing_unfinished(&path);
            assert_eq!(small.free(), SPARE, "what was written is free again: {what}");
            let told = |line: &&str| {
                line.contains("stays a container: ") && line.contains("No space left on device")
            };
            let lines: Vec<&str> = full.stderr.lines().filter(told).collect();
            assert!(lines.iter().any(|line| line.contains("\"sealed\":")), "the report: {what}");
            assert!(lines.iter().any(|line| !line.contains("\"sealed\":")), "a warning: {what}");
            std::fs::remove_file(small.seen().join("ballast")).expect("it is there");
            let again = climate(&mpi, &small, &rule);
            let what = format!("{}, {layout}: {}", mpi.name, again.report());
            assert_eq!(names_in(&small.seen()), ["out.nc.0000", "out.nc.0001"], "{what}");
            assert!(read_set(&path).as_ref() == Some(&bytes), "{what}");
        }
    }
}
