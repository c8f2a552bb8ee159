//! MPI jobs across simulated hosts: right bytes, bounded traffic, clear errors, nothing left
//! behind.

use aggio_tests::hosts::{Bounds, Cluster, Cost, Plan};
use aggio_tests::{
    Directory, Family, Finished, Job, Mpi, compile, compile_shim, installed, installed_for,
    is_of_a_runtime, library, netcdf_samples,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// The hosts, unless this machine cannot have them.
fn start(plan: Plan) -> Option<Cluster> {
    plan.start_if_possible(Path::new(AGENT))
}

/// Runs `check` under every MPI on so many hosts with two ranks each.
fn across(hosts: u32, check: impl Fn(&Cluster, &Mpi, &Path)) {
    let Some(library) = library() else { return };
    let Some(cluster) = start(Plan::new(hosts, 2)) else { return };
    for mpi in installed() {
        check(&cluster, &mpi, &library);
    }
}

/// A job on all hosts with the library preloaded.
fn job(source: &str, cluster: &Cluster, mpi: &Mpi, library: &Path) -> Job {
    let job = Job::new(&compile(source, mpi)).on(cluster).preload(Some(library));
    // Debian switches off the only one-sided component of Open MPI that works over TCP.
    if mpi.family == Family::OpenMpi { job.variable("OMPI_MCA_osc", "pt2pt") } else { job }
}

#[track_caller]
fn expect_ok(what: &str, mpi: &Mpi, finished: &Finished) {
    let content = finished.stdout.lines().any(|line| line == "ok" || line.starts_with("ok:"));
    assert!(content && finished.succeeded(), "{what}, {}: {}", mpi.name, finished.report());
}

/// Runs each program on so many hosts, under one of the MPIs in turn or, in long runs, under all.
fn battery(hosts: u32, sources: &[&str], variables: &[(&str, &str)]) {
    let Some(library) = library() else { return };
    let Some(cluster) = start(Plan::new(hosts, 2)) else { return };
    for (row, source) in sources.iter().enumerate() {
        for mpi in installed_for(row + hosts as usize) {
            let data = Directory::new();
            let job = job(source, &cluster, &mpi, &library).argument(data.path().join("data"));
            let with = |job: Job, (name, value): &(&str, &str)| job.variable(name, value);
            expect_ok(source, &mpi, &variables.iter().fold(job, with).run());
        }
    }
}

#[test]
fn programs_find_on_two_hosts_what_they_find_on_one() {
    battery(
        2,
        &[
            "errors.c",
            "explicit.c",
            "individual.c",
            "orders.c",
            "progress.c",
            "requests.c",
            "split.c",
            "views.c",
        ],
        &[],
    );
}

#[test]
fn programs_find_on_three_hosts_what_they_find_on_one() {
    battery(3, &["ends.c", "explicit.c", "manage.c", "views.c"], &[]);
}

#[test]
fn programs_find_in_containers_what_other_hosts_have_written() {
    let containers = [("AGGIO_BLOB", "*"), ("AGGIO_STRICT", "1")];
    let two = ["errors.c", "explicit.c", "individual.c", "requests.c", "split.c", "views.c"];
    battery(2, &two, &containers);
    battery(3, &["ends.c", "explicit.c", "manage.c"], &containers);
}

#[test]
fn ranks_on_several_hosts_read_a_set_of_files_as_one() {
    for hosts in [2, 3] {
        across(hosts, |cluster, mpi, library| {
            let samples = netcdf_samples();
            let place = samples.path().join("e3sm");
            for set in ["blob4_h1.nc", "h5blob4_h1.h5"] {
                let job = job("sets.c", cluster, mpi, library).argument(place.join(set));
                expect_ok(set, mpi, &job.argument(place.join("can_h1.nc")).run());
            }
        });
    }
}

#[test]
fn in_atomic_mode_accesses_of_different_hosts_do_not_mix() {
    battery(2, &["atomic.c"], &[]);
    battery(3, &["atomic.c"], &[]);
}

#[test]
fn shared_pointers_and_ordered_calls_work_across_hosts() {
    battery(2, &["shared.c", "modes.c"], &[]);
    battery(3, &["shared.c"], &[]);
}

#[test]
fn they_work_across_hosts_where_writes_wait_and_each_view_has_a_pointer_of_its_own() {
    across(2, |cluster, mpi, library| {
        for source in ["shared.c", "views.c", "split.c"] {
            let data = Directory::new();
            let job = job(source, cluster, mpi, library).variable("AGGIO_DEFER", "*");
            expect_ok(source, mpi, &job.argument(data.path().join("data")).run());
        }
    });
}

#[test]
fn what_hosts_cannot_share_is_refused_on_all_ranks_and_spoils_nothing() {
    across(2, |cluster, mpi, library| {
        let data = Directory::new();
        // As the system's administrator has set up the MPI.
        let job = Job::new(&compile("apart.c", mpi)).on(cluster).preload(Some(library));
        expect_ok("apart.c", mpi, &job.argument(data.path().join("data")).run());
    });
}

#[test]
fn random_programs_agree_with_the_oracle_across_hosts() {
    for (hosts, cases) in [(2, 12), (3, 6)] {
        across(hosts, |cluster, mpi, library| {
            let data = Directory::new();
            let finished = job("differential.c", cluster, mpi, library)
                .argument(data.path())
                .argument((hosts * 1_000_000).to_string())
                .argument(cases.to_string())
                // There are no locks between hosts.
                .argument("plain")
                .run();
            let verdict = format!("{cases} cases, 0 mismatches");
            let right = finished.succeeded() && finished.stdout.contains(&verdict);
            assert!(right, "{hosts} hosts, {}: {}", mpi.name, finished.report());
        });
    }
}

/// A byte goes to the host of one aggregator, once, if it is not there: together with those of all
/// ranks of its host in the same window.
const WRITE: Bounds = Bounds {
    wire_per_mille: 1000,
    wire_constant: 128 << 10,
    messages_per_mille: 750,
    messages_per_window: 1,
};

/// The same the other way round, after a question.
const READ: Bounds = Bounds { messages_per_window: 2, ..WRITE };

#[test]
fn a_collective_call_sends_each_byte_at_most_once_to_another_host() {
    for hosts in [2, 3] {
        across(hosts, |cluster, mpi, library| {
            let data = Directory::new();
            let file = data.path().join("data");
            let before = cluster.traffic();
            let costs = [("write", &WRITE), ("read", &READ)].map(|(direction, bounds)| {
                let job = job("traffic.c", cluster, mpi, library);
                let cost = Cost::of(job, cluster, &file, direction);
                let cost = cost.unwrap_or_else(|run| panic!("{}: {}", mpi.name, run.report()));
                if let Err(why) = cost.within(bounds) {
                    panic!("{direction}, {hosts} hosts, {}: {why}", mpi.name);
                }
                cost
            });
            // The kernel's counts are no smaller: they include the launchers of the jobs.
            let during = cluster.traffic().into_iter().zip(before).map(|(now, then)| now - then);
            for (host, traffic) in cluster.names().iter().zip(during) {
                let inside: u64 = costs.iter().map(|cost| cost.sent[host]).sum();
                assert!(inside > 0 && traffic.bytes_out >= inside, "{host}: {traffic:?}, {inside}");
            }
        });
    }
}

/// The counts of the ranks in a time loop of so many steps, which are written and then read.
fn steps(steps: u64, cluster: &Cluster, mpi: &Mpi, library: &Path) -> BTreeMap<String, u64> {
    let data = Directory::new();
    let finished = job("steps.c", cluster, mpi, library)
        .argument(data.path().join("data"))
        .argument(steps.to_string())
        .argument("2000")
        .variable("AGGIO_REPORT", "json")
        // A file system that seems to become slow gets another plan.
        .variable("AGGIO_TEST_COSTS", "assumed")
        .variable("AGGIO_HINTS", "*:romio_cb_write=enable,romio_cb_read=enable")
        .run();
    expect_ok("steps.c", mpi, &finished);
    finished.json_report().expect("a report")
}

#[test]
fn a_time_loop_is_planned_once_and_tells_other_hosts_once_what_belongs_where() {
    across(2, |cluster, mpi, library| {
        let [once, often] = [1, 6].map(|number| steps(number, cluster, mpi, library));
        let ranks = u64::from(cluster.ranks());
        assert_eq!([once["plans"], often["plans"]], [ranks; 2], "{}", mpi.name);
        // All steps after the first one, and all that are read.
        assert_eq!([once["plans_reused"], often["plans_reused"]], [ranks, 11 * ranks]);
        assert!(once["metadata_bytes"] > 0);
        assert_eq!(often["metadata_bytes"], once["metadata_bytes"], "{}", mpi.name);
    });
}

/// Two hosts; only one sees the data. `list` is the hint `cb_config_list`.
fn blind(sighted: u32, list: Option<&str>) {
    let Some(library) = library() else { return };
    let data = Directory::new();
    let folder = data.path().join("folder");
    std::fs::create_dir(&folder).expect("the temporary directory can be written");
    let Some(cluster) = start(Plan::new(2, 2).seen_by(sighted, data.path())) else { return };
    for mpi in installed() {
        let file = folder.join(&mpi.name);
        let mut job = job("blind.c", &cluster, &mpi, &library).argument(&file);
        if let Some(list) = list {
            job = job.argument(list);
        }
        expect_ok("blind.c", &mpi, &job.run());
        let length = file.metadata().map(|data| data.len()).ok();
        assert_eq!(length, Some(4 * 40 * 1000), "{}", mpi.name);
    }
}

#[test]
fn ranks_that_cannot_see_the_file_take_part_through_aggregators_that_a_hint_names() {
    blind(1, Some("node1:*"));
}

#[test]
fn ranks_that_cannot_see_the_file_take_part_without_any_hint() {
    blind(1, None);
}

#[test]
fn the_first_rank_may_be_one_that_cannot_see_the_file() {
    blind(2, Some("node2:*"));
    blind(2, None);
}

#[test]
fn an_open_that_no_host_can_do_fails_on_every_rank() {
    let Some(library) = library() else { return };
    let data = Directory::new();
    let Some(cluster) = start(Plan::new(2, 2).seen_by(1, data.path())) else { return };
    for mpi in installed() {
        let file = data.path().join("folder/data");
        let finished = job("blind.c", &cluster, &mpi, &library).argument(file).run();
        let report = finished.report();
        assert!(finished.status.is_some() && !finished.succeeded(), "{report}");
        let opens = finished.stderr.matches("open gave").count();
        let classes = finished.stderr.matches("MPI_ERR_NO_SUCH_FILE").count();
        assert_eq!((opens, classes), (4, 4), "{}: {report}", mpi.name);
    }
}

/// The rest of a job in which a rank was killed: an end in time, and nothing left on any host.
fn expect_clean_end(cluster: &Cluster, mpi: &Mpi, job: Job) {
    let finished = job.limit(Duration::from_secs(60)).run();
    let report = finished.report();
    assert!(finished.status.is_some(), "{}: {report}", mpi.name);
    assert!(!finished.succeeded() && !finished.stdout.contains("ok"), "{}: {report}", mpi.name);
    assert_eq!(finished.processes_left, 0, "{}: {report}", mpi.name);
    let left = finished.left_in_temporary_directory.iter().filter(|name| !is_of_a_runtime(name));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new(), "{}: {report}", mpi.name);
    for host in cluster.names() {
        let memory = cluster.output(&host, &["ls", "-A", "/dev/shm"]);
        let left: Vec<&str> = memory.lines().filter(|name| !is_of_a_runtime(name)).collect();
        assert!(left.is_empty(), "{} left {left:?} on {host}", mpi.name);
    }
}

#[test]
fn a_rank_killed_before_it_sends_its_part_ends_the_job_on_all_hosts() {
    across(2, |cluster, mpi, library| {
        let data = Directory::new();
        let job = job("dies.c", cluster, mpi, library).argument(data.path().join("data"));
        expect_clean_end(cluster, mpi, job.argument("3"));
    });
}

#[test]
fn an_aggregator_killed_while_it_writes_ends_the_job_on_all_hosts() {
    let shim = compile_shim("fault_shim.c");
    across(2, |cluster, mpi, library| {
        for rank in [0, 2] {
            let data = Directory::new();
            let file = data.path().join("faulty.data");
            let preloaded = format!("{}:{}", library.display(), shim.display());
            let job = job("traffic.c", cluster, mpi, library)
                .argument(&file)
                .argument("write")
                .argument("1024")
                .argument("1024")
                .variable("LD_PRELOAD", preloaded)
                // One aggregator a host, which alone writes: ranks 0 and 2.
                .variable("AGGIO_HINTS", "*:cb_buffer_size=64K:cb_nodes=2")
                .variable("FAULT_FILE", "faulty.data")
                .variable("FAULT_PLAN", format!("op=write,rank={rank},nth=3,signal=9"));
            expect_clean_end(cluster, mpi, job);
            let stored = file.metadata().map_or(0, |data| data.len());
            assert!(stored > 0, "rank {rank} never wrote");
        }
    });
}

/// How many processes were started with a path below `directory` on their command line.
fn processes_of(directory: &Path) -> usize {
    let needle = directory.to_str().expect("a temporary directory has a plain name");
    let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline"));
    let processes = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    processes.filter_map(|entry| command(entry).ok()).filter(|line| line.contains(needle)).count()
}

fn devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/net").expect("there is /sys").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.path()).collect();
    names.sort();
    names
}

#[test]
fn hosts_are_apart_and_vanish_with_all_they_run_however_they_end() {
    for killed in [false, true] {
        let before = devices();
        let Some(cluster) = start(Plan::new(3, 1)) else { return };
        let directory = cluster.directory().to_path_buf();
        assert!(processes_of(&directory) >= 4);
        for host in cluster.names() {
            assert_eq!(cluster.output(&host, &["hostname"]).trim(), host);
            cluster.output(&host, &["sh", "-c", "echo 1 >/dev/shm/only_here"]);
            assert_eq!(cluster.output(&host, &["sh", "-c", "ls /dev/shm | wc -l"]).trim(), "1");
            // A process that outlives the command that started it.
            cluster.output(&host, &["sh", "-c", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &"]);
        }
        assert_eq!(devices(), before);
        if killed {
            // SAFETY: the process is a child of ours that nobody has waited for.
            unsafe { libc::kill(cluster.process().cast_signed(), libc::SIGKILL) };
        }
        drop(cluster);
        for _ in 0..200 {
            if processes_of(&directory) == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(processes_of(&directory), 0);
        assert!(!directory.exists());
    }
}
