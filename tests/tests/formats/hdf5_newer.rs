//! HDF5 1.14 with both MPIs: sets of its subfiling, and writes to several datasets at a time.

use aggio_tests::{Directory, Job, Mpi, installed, library, names_in, newer_hdf5, tool};
use std::path::Path;
use std::process::Command;

const RANKS: u32 = 4;

fn run(program: &Path, arguments: &[&str]) -> Vec<u8> {
    let run = Command::new(program).args(arguments).output().expect("it starts");
    assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

/// The output of h5dump for the file at a path.
fn dumped(path: &str) -> String {
    let text = String::from_utf8(run(Path::new("h5dump"), &[path])).expect("a text");
    // The first line has the name.
    text.split_once('\n').map(|(_, rest)| rest.to_owned()).expect("lines")
}

/// A set of subfiles in a folder, under the name `x.h5`.
fn write_set(mpi: &Mpi, folder: &Path) -> Option<String> {
    let program = newer_hdf5("1.14", "subfiling.c", mpi)?;
    let path = folder.join("x.h5").display().to_string();
    let job = Job::new(&program).ranks(RANKS).argument(&path).argument("4096").argument("3");
    let finished = job.run();
    assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
    Some(path)
}

#[test]
fn sets_of_subfiles_are_the_file_that_they_stand_for_also_when_copied() {
    let Some(aggio) = tool() else { return };
    for mpi in installed() {
        let place = Directory::new();
        let Some(path) = write_set(&mpi, place.path()) else { return };
        assert_eq!(names_in(place.path()).len(), 5, "{:?}", names_in(place.path()));
        let told = String::from_utf8(run(&aggio, &["stat", &path])).expect("a text");
        assert!(told.contains("  HDF5 subfiles\n"), "{told}");
        let line = format!("  /x  int32 ({}, 50), fill 0, contiguous at 2048, ", 100 * RANKS);
        assert!(told.contains(&line), "{told}");
        let whole = place.path().join("whole").display().to_string();
        std::fs::write(&whole, run(&aggio, &["cat", &path])).unwrap();
        let values = dumped(&whole);
        for value in 0..5000 * RANKS {
            assert!(value % 997 != 0 || values.contains(&format!(" {value}")), "{value}");
        }
        // A copy has another inode, which its names do not show.
        let copy = Directory::new();
        for name in names_in(place.path()) {
            std::fs::copy(place.path().join(&name), copy.path().join(&name)).unwrap();
        }
        let copied = copy.path().join("x.h5").display().to_string();
        assert!(run(&aggio, &["verify", &copied, &whole]).is_empty());
        assert!(run(&aggio, &["verify", "--bytes", &copied, &whole]).is_empty());
        let merged = copy.path().join("merged.h5").display().to_string();
        run(&aggio, &["merge", &copied, &merged]);
        assert!(std::fs::read(&merged).unwrap() == std::fs::read(&whole).unwrap());
        let Some(library) = library() else { return };
        let seen = Command::new("h5dump")
            .arg(&copied)
            .env("LD_PRELOAD", library)
            .env("AGGIO_SETS", "*.h5")
            .output()
            .expect("h5dump starts");
        let seen = String::from_utf8(seen.stdout).expect("a text");
        let same = seen.split_once('\n').is_some_and(|(_, rest)| rest == values);
        assert!(same, "{}: {}", mpi.name, seen.chars().take(300).collect::<String>());
    }
}

#[test]
fn writes_to_several_datasets_give_the_native_file() {
    let (Some(library), Some(aggio)) = (library(), tool()) else { return };
    for mpi in installed() {
        let Some(program) = newer_hdf5("1.14", "hdf5_multi.c", &mpi) else { return };
        let place = Directory::new();
        let path = |name: &str| place.path().join(name).display().to_string();
        for ranks in [2, 4] {
            let job = |name: &str| Job::new(&program).ranks(ranks).argument(path(name));
            let natively = job("native.h5").run();
            assert!(natively.succeeded(), "{}: {}", mpi.name, natively.report());
            for defer in ["", "*"] {
                let job = job("aggio.h5").variable("AGGIO_DEFER", defer);
                let job = job.variable("AGGIO_HINTS", "*:aggio_tune=defer_always=true");
                let finished = job.preload(Some(&library)).run();
                assert!(finished.succeeded(), "{} {defer}: {}", mpi.name, finished.report());
                assert_eq!(dumped(&path("aggio.h5")), dumped(&path("native.h5")), "{}", mpi.name);
                let said = run(&aggio, &["verify", &path("native.h5"), &path("aggio.h5")]);
                assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
            }
        }
    }
}
