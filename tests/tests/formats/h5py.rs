//! Parallel programs in Python, with h5py and mpi4py, unmodified: they leave the same bytes and
//! read the same values however they are served.

use aggio_tests::{
    Directory, Finished, Job, Mpi, Program, installed, library, read_container, repository, skip,
};
use std::path::{Path, PathBuf};
use std::process::Command;

type Variables<'a> = &'a [(&'a str, &'a str)];

/// The settings under which the programs are served.
const SERVED: &[Variables<'static>] = &[
    &[],
    &[("AGGIO_DEFER", "*"), ("AGGIO_HINTS", "*:aggio_tune=defer_always=true")],
    &[
        ("AGGIO_DEFER", "*"),
        ("AGGIO_HINTS", "*:aggio_tune=defer_always=true"),
        ("AGGIO_STAGE", "/dev/shm"),
    ],
    &[("AGGIO_BLOB", "*.h5")],
    &[("AGGIO_BLOB", "*.h5"), ("AGGIO_DEFER", "*")],
];

/// The MPI that Debian's h5py is built for, if both are there; if the tests are required, they are.
fn python() -> Option<Program> {
    let test = "import mpi4py, h5py._debian_h5py_mpi";
    let path = PathBuf::from("/usr/bin/python3");
    let works = Command::new(&path).args(["-c", test]).output();
    let works = works.is_ok_and(|output| output.status.success());
    if !works {
        skip("python3-h5py-mpi or python3-mpi4py is missing (tests/setup.sh check)");
    }
    let mpi: Option<Mpi> = installed().into_iter().find(|mpi| mpi.name == "openmpi");
    mpi.filter(|_| works).map(|mpi| Program { path, mpi })
}

/// Runs the program; `None` serves it natively.
fn run(python: &Program, what: &str, file: &Path, variables: Option<Variables<'_>>) -> Finished {
    let job = Job::new(python).ranks(4).argument(repository().join("tests/programs/h5py_job.py"));
    let job = job.argument(what).argument(file).variable("PYTHONDONTWRITEBYTECODE", "1");
    let settings = variables.unwrap_or_default().iter();
    let job = settings.fold(job, |job, (name, value)| job.variable(name, value));
    let finished = job.preload(library().filter(|_| variables.is_some()).as_deref()).run();
    assert!(finished.succeeded(), "{what} {variables:?}\n{}", finished.report());
    finished
}

#[test]
fn what_h5py_writes_in_parallel_is_byte_for_byte_what_it_writes_natively() {
    let (Some(python), Some(_)) = (python(), library()) else { return };
    let place = Directory::new();
    let native = place.path().join("native.h5");
    run(&python, "write", &native, None);
    let wanted = std::fs::read(&native).expect("a file");
    let told = run(&python, "read", &native, None).stdout;
    assert!(wanted.len() > 400_000 && told.contains("group/chunked"), "{told}");
    for (number, variables) in SERVED.iter().enumerate() {
        let file = place.path().join(format!("{number}.h5"));
        run(&python, "write", &file, Some(variables));
        let found = if file.is_dir() {
            read_container(&file)
        } else {
            std::fs::read(&file).expect("a file")
        };
        assert_eq!(file.is_dir(), variables.iter().any(|(name, _)| *name == "AGGIO_BLOB"));
        let other = wanted.iter().zip(&found).position(|(one, other)| one != other);
        assert_eq!((other, found.len()), (None, wanted.len()), "{variables:?}");
        assert_eq!(run(&python, "read", &file, Some(variables)).stdout, told, "{variables:?}");
    }
}

#[test]
fn what_hdf5_writes_does_not_wait() {
    let (Some(python), Some(_)) = (python(), library()) else { return };
    let place = Directory::new();
    let variables = [("AGGIO_DEFER", "*"), ("AGGIO_REPORT", "json")];
    for what in ["write", "share"] {
        let finished = run(&python, what, &place.path().join(what), Some(&variables));
        let reports: Vec<&str> =
            finished.stderr.lines().filter(|line| line.contains("\"deferred\":")).collect();
        let waited = reports.iter().find(|line| !line.contains("\"deferred\":0,"));
        assert!(!reports.is_empty() && waited.is_none(), "{what}: {}", finished.report());
    }
}

#[test]
fn ranks_that_write_parts_of_one_filtered_chunk_find_all_of_it() {
    let (Some(python), Some(_)) = (python(), library()) else { return };
    let place = Directory::new();
    for (number, variables) in SERVED[..2].iter().enumerate() {
        run(&python, "share", &place.path().join(format!("{number}.h5")), Some(variables));
    }
}
