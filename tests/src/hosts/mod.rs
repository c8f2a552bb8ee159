//! Several hosts on one machine: network, PID, UTS, IPC and mount namespaces, joined by a switch.
//!
//! ```text
//! Cluster -> switch.sh (a PID and a network namespace) -> host.sh, one a host -> agent
//!         -> mpirun, ranks
//! ```
//!
//! A cluster is invisible outside. All its processes are in one PID namespace. The first process of
//! that namespace ends when its standard input does, that is when the [`Cluster`] is dropped, or
//! when the process that owns it ends for any reason; the kernel then removes everything. Root is
//! not needed where users may create namespaces.

pub mod agent;
mod cost;
mod coupled;
mod gluster;
mod launch;
mod request;
mod traffic;

pub use cost::{Bounds, Cost};
pub use coupled::{CoupledHosts, LATE, end};
pub use launch::Launch;
pub use traffic::Traffic;

use crate::Directory;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The configuration of a cluster.
#[derive(Clone, Debug)]
pub struct Plan {
    hosts: u32,
    ranks_per_host: u32,
    hidden: Option<(PathBuf, u32)>,
    shares_processes: bool,
}

impl Plan {
    /// A cluster of `hosts` hosts that see the same files, for `ranks_per_host` ranks each.
    pub fn new(hosts: u32, ranks_per_host: u32) -> Self {
        Plan { hosts, ranks_per_host, hidden: None, shares_processes: false }
    }

    /// Makes `directory` empty on all hosts but `host`, counted from 1.
    #[must_use]
    pub fn seen_by(mut self, host: u32, directory: &Path) -> Self {
        self.hidden = Some((directory.to_path_buf(), host));
        self
    }

    /// Puts all hosts into one PID namespace, like containers of one pod.
    #[must_use]
    pub fn share_processes(mut self) -> Self {
        self.shares_processes = true;
        self
    }

    /// Starts the hosts; `agent` is the program `aggio-test-host`.
    ///
    /// # Errors
    ///
    /// The reason why this machine or this user cannot have them.
    ///
    /// # Panics
    ///
    /// If the temporary directory cannot be written.
    pub fn start(self, agent: &Path) -> Result<Cluster, String> {
        let directory = Directory::new();
        let complaints = directory.path().join("complaints");
        let mut command = self.command(agent, directory.path());
        let log = std::fs::File::create(&complaints).expect("the directory can be written");
        let spawned = command.stderr(log).spawn();
        let mut switch = spawned.map_err(|error| format!("unshare does not start: {error}"))?;
        let output = switch.stdout.take().expect("its output is a pipe");
        let cluster = Cluster { switch, directory, plan: self, agent: agent.to_path_buf() };
        let mut line = String::new();
        // If the process ends for any reason, there is nothing to read.
        let _ = BufReader::new(output).read_line(&mut line);
        if line.trim() == "ready" {
            return Ok(cluster);
        }
        let why = std::fs::read_to_string(&complaints).unwrap_or_default();
        Err(format!("no simulated hosts: {}", why.trim()))
    }

    /// As [`start`](Self::start), but returns `None` if this machine cannot have the hosts. Users
    /// other than root, and root in a container or a changed root directory, may not be allowed to
    /// create namespaces.
    ///
    /// # Panics
    ///
    /// If the hosts cannot be started although the tests are required to run.
    pub fn start_if_possible(self, agent: &Path) -> Option<Cluster> {
        match self.start(agent) {
            Ok(cluster) => Some(cluster),
            Err(why) => {
                crate::skip(&why);
                None
            }
        }
    }

    fn command(&self, agent: &Path, directory: &Path) -> Command {
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let (hidden, sighted) = self.hidden.clone().unwrap_or_default();
        command
            .args(["--net", "--mount", "--propagation", "slave", "--pid", "--fork"])
            .args(["--kill-child", "--mount-proc", "sh"])
            .arg(crate::repository().join("tests/hosts/switch.sh"))
            .args([agent, directory])
            .arg(self.hosts.to_string())
            .arg(hidden)
            .arg(sighted.to_string())
            .arg(if self.shares_processes { "shared" } else { "own" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env_remove("LD_PRELOAD")
            .env("PATH", path_with_system_tools());
        command
    }
}

/// `ip` is in a directory that is not on the `PATH` of users.
fn path_with_system_tools() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    // SAFETY: has no requirement.
    unsafe { libc::geteuid() == 0 }
}

/// Running hosts `node1`, `node2`, ...; they are removed when the value is dropped.
#[derive(Debug)]
pub struct Cluster {
    switch: Child,
    directory: Directory,
    plan: Plan,
    agent: PathBuf,
}

impl Cluster {
    /// The names of the hosts.
    pub fn names(&self) -> Vec<String> {
        (1..=self.plan.hosts).map(|number| format!("node{number}")).collect()
    }

    /// Returns the number of ranks that fill all hosts.
    pub fn ranks(&self) -> u32 {
        self.plan.hosts * self.plan.ranks_per_host
    }

    /// Returns the means to start jobs on the hosts.
    pub fn launch(&self) -> Launch {
        Launch {
            agent: self.agent.clone(),
            sockets: self.directory.path().to_path_buf(),
            hosts: (1, self.plan.hosts),
            ranks_per_host: self.plan.ranks_per_host,
        }
    }

    /// Runs a command on a host and returns its output.
    ///
    /// # Panics
    ///
    /// If the command cannot be started or fails.
    pub fn output(&self, host: &str, words: &[&str]) -> String {
        let output = self.launch().command(host).args(words).output().expect("the agent starts");
        assert!(output.status.success(), "{words:?} on {host}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the statuses of the agents of all hosts, as JSON. `aggio` is a command that prints
    /// the status of one, and `directory` the directory of the agents.
    ///
    /// # Panics
    ///
    /// If the command cannot run.
    pub fn statuses(&self, aggio: &[&OsStr], directory: &Path) -> String {
        let status = |host: String| {
            let mut command = self.launch().command(&host);
            command.args(aggio).env("AGGIO_COUPLE_DIR", directory).stderr(Stdio::null());
            let printed = command.output().expect("the command runs").stdout;
            String::from_utf8_lossy(&printed).into_owned()
        };
        self.names().into_iter().map(status).collect()
    }

    /// Returns the traffic of the network device of each host so far.
    pub fn traffic(&self) -> Vec<Traffic> {
        let device = |host: &String| self.output(host, &["cat", "/proc/net/dev"]);
        self.names().iter().map(|host| Traffic::of_device(&device(host), "eth0")).collect()
    }

    /// Returns the directory with the files of the cluster.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the process that is killed to end all others; for tests of the harness.
    pub fn process(&self) -> u32 {
        self.switch.id()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.switch.stdin.take());
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.switch.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        // It has ended already, unless it was stopped. Its children are killed with it.
        let _ = self.switch.kill();
        let _ = self.switch.wait();
    }
}
