//! Caches of clients: a host reads bytes anew after another one has changed them.

use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{Job, Mpi, compile, factor, installed, library, postpone, tool};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Two hosts with a GlusterFS, which takes half a minute and more: in `make check-long` only.
fn two_hosts() -> Option<(Cluster, PathBuf, PathBuf)> {
    let library = library()?;
    if factor() == 1 {
        postpone("GlusterFS is tried by make check-long (AGGIO_TEST_FACTOR above 1)");
        return None;
    }
    let cluster = Plan::new(2, 2).start_if_possible(Path::new(AGENT))?;
    let point = cluster.gluster()?;
    Some((cluster, point, library))
}

fn job(program: &str, mpi: &Mpi, cluster: &Cluster, library: &Path) -> Job {
    Job::new(&compile(program, mpi)).on(cluster).preload(Some(library))
}

#[test]
fn ranks_of_two_hosts_read_on_glusterfs_what_was_written_last() {
    let Some((cluster, point, library)) = two_hosts() else { return };
    for mpi in installed() {
        for how in ["close", "sync", "atomic"] {
            let job = job("stale.c", &mpi, &cluster, &library);
            let run = job.argument(point.join(how)).argument("8").argument(how).run();
            let passed = run.succeeded() && run.stdout.lines().any(|line| line == "ok");
            assert!(passed, "{how} {}: {}", mpi.name, run.report());
        }
    }
}

/// Reads the file, and says how many bytes are those of this round.
const READER: &str = "
import sys
data = open(sys.argv[1], 'rb').read()
print(len(data), data.count(int(sys.argv[2])))
";

#[test]
fn a_program_reads_on_glusterfs_what_another_host_wrote_last() {
    let Some((cluster, point, library)) = two_hosts() else { return };
    let on = |host: &str, settings: &str, words: &[&str]| {
        let mut command = cluster.launch().command(host);
        command.args(["env", settings]).arg(format!("LD_PRELOAD={}", library.display()));
        let output = command.args(words).output().expect("the agent starts");
        assert!(output.status.success(), "{words:?} on {host}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    for settings in ["AGGIO_POSIX=**:posix", "AGGIO_POSIX=**:close"] {
        let file = point.join(settings.replace(['*', '='], "_"));
        let file = file.to_str().expect("a name");
        for round in 1..=8_u32 {
            let len = 300_000 + round * 4321;
            let write = format!(
                "
import os
fd = os.open('{file}', os.O_RDWR | os.O_CREAT)
os.write(fd, bytes([{round}]) * {len}); os.fsync(fd); os.close(fd)"
            );
            on("node1", settings, &["python3", "-c", &write]);
            let read = on("node2", settings, &["python3", "-c", READER, file, &round.to_string()]);
            assert_eq!(read, format!("{len} {len}"), "{settings}, round {round}");
        }
    }
}

/// Says that a host keeps of a name that nothing, or a file, has it.
const LOOKED: &str = "
import os, sys
print(os.path.exists(sys.argv[1]))
";

#[test]
fn a_container_of_one_host_is_whole_on_another_that_has_looked_for_its_name_before() {
    let Some((cluster, point, library)) = two_hosts() else { return };
    let Some(tool) = tool() else { return };
    let settings = format!("AGGIO_BLOB={}/**", point.display());
    let preload = format!("LD_PRELOAD={}", library.display());
    let tool = tool.to_str().expect("a name");
    let say = |host: &str, words: &[&str]| cluster.output(host, words).trim().to_owned();
    for round in 0..6 {
        let file = point.join(format!("of_round{round}"));
        let file = file.to_str().expect("a name");
        let served = |host: &str, script: &str| {
            let number = (round + 1).to_string();
            let words = ["env", &settings, &preload, "python3", "-c", script, file, &number];
            say(host, &words)
        };
        let write = format!(
            "
import os
fd = os.open('{file}', os.O_RDWR | os.O_CREAT)
os.write(fd, bytes([{round} + 1]) * 300000); os.fsync(fd); os.close(fd)"
        );
        if round % 3 == 1 {
            say("node2", &["python3", "-c", LOOKED, file]);
        }
        if round % 3 == 2 {
            say("node1", &["sh", "-c", &format!("echo old > {file}")]);
            say("node2", &["cat", file]);
            say("node1", &["rm", file]);
            // The client of GlusterFS itself keeps names and bytes for a second.
            std::thread::sleep(Duration::from_secs(2));
        }
        served("node1", &write);
        assert_eq!(served("node2", READER), "300000 300000", "round {round}");
        let merged = format!("{file}.merged");
        say("node2", &[tool, "fsck", file]);
        say("node2", &[tool, "merge", file, &merged]);
        say("node2", &["sh", "-c", &format!("{tool} cat {file} | cmp - {merged}")]);
        say("node2", &["sh", "-c", &format!("test $(wc -c < {merged}) = 300000")]);
    }
}

#[test]
fn ranks_of_two_hosts_write_and_read_containers_on_glusterfs() {
    let Some((cluster, point, library)) = two_hosts() else { return };
    let settings = format!("{}/**", point.display());
    for mpi in installed() {
        for how in ["close", "sync", "atomic"] {
            let job = job("stale.c", &mpi, &cluster, &library).variable("AGGIO_BLOB", &settings);
            let file = point.join(format!("container_{how}"));
            let run = job.argument(file).argument("8").argument(how).run();
            let passed = run.succeeded() && run.stdout.lines().any(|line| line == "ok");
            assert!(passed, "{how} {}: {}", mpi.name, run.report());
        }
    }
}
