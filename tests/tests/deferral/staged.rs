//! MPI programs with small writes that are staged in a directory of the node (`AGGIO_STAGE`).

use aggio_tests::battery::{PROGRAMS, failure_with};
use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{
    Directory, Family, Finished, Job, Mpi, SmallFileSystem, compile, factor, faults, installed,
    installed_for, library, names_in,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes are staged at any cost; on the file systems of tests it would not be worth it.
const ALWAYS: &str = "*:aggio_tune=defer_always=true";

/// A job with writes that are staged in `stages`.
fn staged(job: Job, stages: &Path, hints: &str) -> Job {
    let job = job.variable("AGGIO_DEFER", "*").variable("AGGIO_HINTS", hints);
    job.variable("AGGIO_STAGE", stages).variable("AGGIO_STRICT", "1")
}

#[test]
fn every_program_of_the_battery_is_content_when_its_writes_are_staged() {
    let Some(library) = library() else { return };
    let mut reports = Vec::new();
    let stages = Directory::new();
    let place = stages.path().to_str().expect("UTF-8");
    for (row, (source, ranks)) in PROGRAMS.iter().enumerate() {
        for mpi in installed_for(row) {
            let variables = [
                ("AGGIO_DEFER", "*"),
                ("AGGIO_HINTS", ALWAYS),
                ("AGGIO_STRICT", "1"),
                ("AGGIO_STAGE", place),
            ];
            reports.extend(failure_with(source, *ranks, &mpi, Some(&library), &variables));
            for left in names_in(stages.path()) {
                reports.push(format!("{}, {source}: {left} is left", mpi.name));
                std::fs::remove_dir_all(stages.path().join(left)).expect("it is removed");
            }
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

/// The command `aggio`, beside the library.
fn tool() -> PathBuf {
    library().expect("a library").with_file_name("aggio")
}

/// 4 ranks write 200 records each, alone, and kill themselves (`victim`), or compare ("check").
fn records(mpi: &Mpi, folder: &Path, victim: &str, hints: Option<&str>) -> Finished {
    let job = Job::new(&compile("staged.c", mpi)).ranks(4).argument(folder.join("data"));
    let job = job.argument(folder.join("told")).argument("200").argument(victim);
    match hints {
        Some(hints) => {
            staged(job, &folder.join("stages"), hints).preload(library().as_deref()).run()
        }
        None => job.run(),
    }
}

fn folder() -> Directory {
    let folder = Directory::new();
    std::fs::create_dir(folder.path().join("stages")).expect("a directory");
    folder
}

fn names_of_stages(folder: &Path) -> Vec<String> {
    names_in(&folder.join("stages"))
}

#[test]
fn what_ranks_have_written_survives_any_kill_for_the_next_job_or_the_user() {
    if library().is_none() {
        return;
    }
    for (number, mpi) in installed().iter().cycle().take(2 * installed().len()).enumerate() {
        for round in 0..factor() {
            let victim = ["-1", "0", "3"][(number + round) % 3];
            let folder = folder();
            let what = format!("{}, rank {victim}", mpi.name);
            let killed = records(mpi, folder.path(), victim, Some(ALWAYS));
            assert!(!killed.succeeded(), "{what}: {}", killed.report());
            assert_eq!(names_of_stages(folder.path()).len(), 1, "{what}");
            if number % 2 == 0 {
                let next = records(mpi, folder.path(), "check", Some(ALWAYS));
                assert!(next.succeeded(), "{what}: {}", next.report());
            } else {
                let stages = folder.path().join("stages");
                let done = Command::new(tool()).arg("recover").arg("--stage").arg(stages).output();
                let done = done.expect("aggio starts");
                assert!(done.status.success(), "{what}: {done:?}");
            }
            let native = records(mpi, folder.path(), "check", None);
            assert!(native.succeeded(), "{what}: {}", native.report());
            assert_eq!(names_of_stages(folder.path()), [""; 0], "{what}");
        }
    }
}

#[test]
fn with_drain_later_the_next_job_sees_what_waits_and_stores_it() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let folder = folder();
        let later = format!("{ALWAYS}:aggio_defer_drain=later");
        // There is no rank 9 to be killed.
        let first = records(&mpi, folder.path(), "9", Some(&later));
        assert!(first.succeeded(), "{}: {}", mpi.name, first.report());
        let size = std::fs::metadata(folder.path().join("data")).map(|facts| facts.len());
        // The synchronised records, and no more.
        let synchronised = (size.ok(), names_of_stages(folder.path()).len());
        assert_eq!(synchronised, (Some(4 * 51 * 400), 1), "{}", mpi.name);
        let next = records(&mpi, folder.path(), "check", Some(ALWAYS));
        assert!(next.succeeded(), "{}: {}", mpi.name, next.report());
        let native = records(&mpi, folder.path(), "check", None);
        assert!(native.succeeded(), "{}: {}", mpi.name, native.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);
    }
}

/// The same on hosts.
fn records_on(hosts: &Cluster, mpi: &Mpi, library: &Path, folder: &Path, what: &str) -> Finished {
    let job = Job::new(&compile("staged.c", mpi)).on(hosts).preload(Some(library));
    let job = job.argument(folder.join("data")).argument(folder.join("told"));
    let job = staged(job.argument("200").argument(what), &folder.join("stages"), ALWAYS);
    // Debian switches off the only one-sided component of Open MPI that works over TCP.
    let is_open = mpi.family == Family::OpenMpi;
    if is_open { job.variable("OMPI_MCA_osc", "pt2pt").run() } else { job.run() }
}

#[test]
fn a_job_on_several_hosts_finds_in_the_file_what_waits_on_the_first_one() {
    let Some(library) = library() else { return };
    let start = |hosts, ranks| {
        Plan::new(hosts, ranks).start_if_possible(Path::new(env!("CARGO_BIN_EXE_aggio-test-host")))
    };
    let (Some(one), Some(two)) = (start(1, 4), start(2, 2)) else { return };
    for mpi in installed() {
        let folder = folder();
        let killed = records_on(&one, &mpi, &library, folder.path(), "-1");
        assert!(!killed.succeeded(), "{}: {}", mpi.name, killed.report());
        assert_eq!(names_of_stages(folder.path()).len(), 1, "{}", mpi.name);
        let next = records_on(&two, &mpi, &library, folder.path(), "check");
        assert!(next.succeeded(), "{}: {}", mpi.name, next.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);
        let native = records(&mpi, folder.path(), "check", None);
        assert!(native.succeeded(), "{}: {}", mpi.name, native.report());
    }
}

#[test]
fn another_program_that_reads_the_file_meanwhile_sees_what_every_rank_has_written() {
    if library().is_none() {
        return;
    }
    for mpi in installed_for(1) {
        let folder = folder();
        let shown = records(&mpi, folder.path(), "show", Some(ALWAYS));
        assert!(shown.succeeded(), "{}: {}", mpi.name, shown.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);
    }
}

/// 4 ranks write 4.8 MB to a file system with room for some KB, as long as there is a filler. A
/// thread drains as well.
fn records_without_room(
    mpi: &Mpi,
    small: &SmallFileSystem,
    folder: &Path,
    stages: &Path,
    mode: &str,
) -> Finished {
    let job = Job::new(&compile("staged.c", mpi)).ranks(4).argument(small.path().join("data"));
    let job = job.argument(folder.join("told")).argument("3000").argument(mode);
    let job = if mode == "full" { job.argument(small.path().join("filler")) } else { job };
    let hints = format!("{ALWAYS}:aggio_defer_drain=idle");
    staged(job, stages, &hints).preload(library().as_deref()).with_small(small).run()
}

fn fill_up(small: &SmallFileSystem) {
    let len = small.free() - (48 << 10);
    std::fs::write(small.seen().join("filler"), vec![0; len as usize]).expect("room");
}

#[test]
fn on_a_full_file_system_every_rank_is_told_and_what_is_staged_stays_until_there_is_room() {
    if library().is_none() {
        return;
    }
    for mpi in installed_for(0) {
        let Some(small) = SmallFileSystem::mount_if_possible(8 << 20) else { return };
        let folder = folder();
        let stages = folder.path().join("stages");
        let without_room =
            |mode: &str| records_without_room(&mpi, &small, folder.path(), &stages, mode);
        fill_up(&small);
        let full = without_room("full");
        assert!(full.succeeded(), "{}: {}", mpi.name, full.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);

        std::fs::remove_file(small.seen().join("data")).expect("a file");
        fill_up(&small);
        let kept = without_room("kept");
        assert!(kept.succeeded(), "{}: {}", mpi.name, kept.report());
        assert!(kept.stdout.contains("still staged in"), "{}: {}", mpi.name, kept.report());
        let still = without_room("check");
        assert!(!still.succeeded(), "its close has no room either: {}", still.report());
        assert!(!still.stderr.contains("record "), "but it reads right: {}", still.report());
        std::fs::remove_file(small.seen().join("filler")).expect("a file");
        let next = without_room("check");
        assert!(next.succeeded(), "{}: {}", mpi.name, next.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);
        let len = std::fs::metadata(small.seen().join("data")).map(|facts| facts.len());
        assert_eq!(len.ok(), Some(4 * 3000 * 400), "{}", mpi.name);
    }
}

/// The same records on a file system where the first attempt of each rank to store, or each one,
/// fails with EIO: any rank may be the first to drain the staged bytes of all.
fn records_that_fail(
    mpi: &Mpi,
    library: &Path,
    folder: &Path,
    stages: &Path,
    mode: &str,
) -> Finished {
    let plan = if mode == "once" { "op=write,nth=1,errno=5" } else { "op=write,errno=5" };
    let preloaded = format!("{}:{}", library.display(), faults::shim().display());
    let job = Job::new(&compile("staged.c", mpi)).ranks(4).argument(folder.join("data"));
    let job = job.argument(folder.join("told")).argument("200").argument(mode);
    let job = job.variable("FAULT_FILE", folder.join("data")).variable("FAULT_PLAN", plan);
    staged(job, stages, ALWAYS).variable("LD_PRELOAD", preloaded).run()
}

#[test]
fn an_error_of_the_disk_is_told_to_every_rank_and_what_is_staged_stays_until_it_is_stored() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let folder = folder();
        let stages = folder.path().join("stages");
        let that_fail =
            |mode: &str| records_that_fail(&mpi, &library, folder.path(), &stages, mode);
        let once = that_fail("once");
        assert!(once.succeeded(), "{}: {}", mpi.name, once.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);
        let native = records(&mpi, folder.path(), "check", None);
        assert!(native.succeeded(), "{}: {}", mpi.name, native.report());

        std::fs::remove_file(folder.path().join("data")).expect("a file");
        let ever = that_fail("ever");
        assert!(ever.succeeded(), "{}: {}", mpi.name, ever.report());
        assert!(ever.stdout.contains("still staged in"), "{}: {}", mpi.name, ever.report());
        assert_eq!(names_of_stages(folder.path()).len(), 1, "{}", mpi.name);
        let next = records(&mpi, folder.path(), "check", Some(ALWAYS));
        assert!(next.succeeded(), "{}: {}", mpi.name, next.report());
        let native = records(&mpi, folder.path(), "check", None);
        assert!(native.succeeded(), "{}: {}", mpi.name, native.report());
        assert_eq!(names_of_stages(folder.path()), [""; 0], "{}", mpi.name);
    }
}

/// The place of stages that end with their last user.
const MEMORY: &str = "memory";

#[test]
fn in_memory_every_rank_is_told_as_well_and_closing_says_what_it_loses() {
    let Some(library) = library() else { return };
    for mpi in installed_for(1) {
        let Some(small) = SmallFileSystem::mount_if_possible(8 << 20) else { return };
        let folder = folder();
        let data = folder.path().join("data");
        for mode in ["full", "kept"] {
            fill_up(&small);
            let memory = Path::new(MEMORY);
            let ended = records_without_room(&mpi, &small, folder.path(), memory, mode);
            assert!(ended.succeeded(), "{}, {mode}: {}", mpi.name, ended.report());
            let loses = ended.stdout.contains("closing loses it");
            assert_eq!(loses, mode == "kept", "{}, {mode}: {}", mpi.name, ended.report());
            std::fs::remove_file(small.seen().join("data")).expect("a file");
            let _ = std::fs::remove_file(small.seen().join("filler"));
        }
        for mode in ["once", "ever"] {
            let ended = records_that_fail(&mpi, &library, folder.path(), Path::new(MEMORY), mode);
            assert!(ended.succeeded(), "{}, {mode}: {}", mpi.name, ended.report());
            let loses = ended.stdout.contains("closing loses it");
            assert_eq!(loses, mode == "ever", "{}, {mode}: {}", mpi.name, ended.report());
            if mode == "once" {
                let native = records(&mpi, folder.path(), "check", None);
                assert!(native.succeeded(), "{}: {}", mpi.name, native.report());
            }
            std::fs::remove_file(&data).expect("a file");
        }
    }
}

#[test]
fn the_report_counts_staged_writes_and_what_drains_them() {
    let Some(library) = library() else { return };
    for mpi in installed_for(0) {
        let folder = folder();
        let job =
            Job::new(&compile("staged.c", &mpi)).ranks(4).argument(folder.path().join("data"));
        let job = job.argument(folder.path().join("told")).argument("200").argument("9");
        let job = staged(job, &folder.path().join("stages"), ALWAYS).preload(Some(&library));
        let done = job.variable("AGGIO_REPORT", "json").run();
        let report = done.json_report().expect("a report");
        // Some bytes are synchronised after a quarter, the others at the close.
        assert_eq!(report["deferred"], 4 * 200, "{}: {}", mpi.name, done.report());
        assert!(report["flushes"] >= 2, "{}: {}", mpi.name, done.report());
    }
}
