//! Caches of clients: what one host has read it reads anew after another has changed it.

use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{Job, Mpi, compile, factor, installed, library, postpone};
use std::path::{Path, PathBuf};

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
