//! Jobs with limited memory, as under Slurm and in containers, write more than the limit.

use aggio_tests::{
    Directory, Job, MemoryGroup, compile, installed_for, library, names_in, target_directory,
};
use std::ffi::OsStr;
use std::path::Path;

const LIMIT: u64 = 160 << 20;

#[test]
fn what_waits_never_takes_so_much_memory_that_the_kernel_kills_the_job() {
    let Some(library) = library() else { return };
    let Some(group) = MemoryGroup::new(LIMIT) else { return };
    let in_memory = Directory::below(Path::new("/dev/shm"));
    let places = [OsStr::new("memory"), OsStr::new("none"), in_memory.path().as_os_str()];
    for (row, place) in places.into_iter().enumerate() {
        for mpi in installed_for(row) {
            // Files of temporary directories may be memory.
            let folder = Directory::below(&target_directory());
            let job = Job::new(&compile("many_files.c", &mpi)).ranks(2).within(&group);
            // 256 MiB.
            let job = job.argument(folder.path().join("data")).argument("8").argument("16");
            let finished = job
                .preload(Some(&library))
                .variable("AGGIO_DEFER", "*")
                .variable("AGGIO_STAGE", place)
                .variable("AGGIO_HINTS", "*:aggio_tune=defer_always=true")
                .run();
            let what = format!("{}, {}: {}", mpi.name, place.display(), finished.report());
            assert!(finished.succeeded(), "{what}");
            assert_eq!(names_in(in_memory.path()), [""; 0], "{what}");
        }
    }
}
