//! Jobs whose memory is limited, as those of Slurm and of containers are, write more than that.

use aggio_tests::{Directory, Job, MemoryGroup, compile, installed, library, target_directory};

const LIMIT: u64 = 160 << 20;

#[test]
fn what_waits_never_takes_so_much_memory_that_the_kernel_kills_the_job() {
    let Some(library) = library() else { return };
    let Some(group) = MemoryGroup::new(LIMIT) else { return };
    for mpi in installed() {
        // 128 MiB of one file, and 256 MiB of eight.
        for (files, mebibytes, place) in
            [("1", "64", "memory"), ("8", "16", "memory"), ("8", "16", "none")]
        {
            // Files of temporary directories may be memory.
            let folder = Directory::below(&target_directory());
            let job = Job::new(&compile("many_files.c", &mpi)).ranks(2).within(&group);
            let job = job.argument(folder.path().join("data")).argument(files).argument(mebibytes);
            let finished = job
                .preload(Some(&library))
                .variable("AGGIO_DEFER", "*")
                .variable("AGGIO_STAGE", place)
                .variable("AGGIO_HINTS", "*:aggio_defer_always=true")
                .run();
            let what = format!("{}, {files} files, {place}: {}", mpi.name, finished.report());
            assert!(finished.succeeded(), "{what}");
        }
    }
}
