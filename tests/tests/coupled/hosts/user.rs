//! Programs of one user on several hosts.

use aggio_tests::hosts::{Cluster, Plan, end};
use aggio_tests::waiting::until_agents;
use aggio_tests::{Directory, skip};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");
const RULES: &str = "/coupled/*.sync:ready=sync,/coupled/*.one:keep=1,/coupled/*";
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_aggio-test-coupled");

/// Programs of one user that exchange files through a directory that all hosts see.
pub(crate) struct User {
    pub(crate) cluster: Cluster,
    pub(crate) directory: Directory,
    /// The transport between the agents.
    pub(crate) link: &'static str,
}

impl User {
    pub(crate) fn new(hosts: u32) -> Option<Self> {
        Self::with(hosts, "tcp")
    }

    pub(crate) fn with(hosts: u32, link: &'static str) -> Option<Self> {
        let cluster = Plan::new(hosts, 1).start_if_possible(Path::new(AGENT))?;
        Some(Self { cluster, directory: Directory::new(), link })
    }

    pub(crate) fn with_ucx(hosts: u32) -> Option<Self> {
        // SAFETY: a terminated string; UCX's libraries can be loaded into any program.
        if unsafe { libc::dlopen(c"libucp.so.0".as_ptr(), libc::RTLD_LAZY) }.is_null() {
            skip("UCX is not installed");
            return None;
        }
        Self::with(hosts, "ucx")
    }

    /// The directory of the agents.
    pub(crate) fn meeting(&self) -> PathBuf {
        self.directory.path().join("couple")
    }

    pub(crate) fn command(&self, host: &str, words: &[&str]) -> Command {
        let mut command = self.cluster.launch().command(host);
        command
            .args(words)
            .env("AGGIO_COUPLE", RULES)
            .env("AGGIO_COUPLE_DIR", self.meeting())
            .env("AGGIO_COUPLE_LINK", self.link)
            .env("AGGIO_TEST_AGENT", PROGRAM)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the program on a host; it is killed after 60 s.
    pub(crate) fn start(&self, host: &str, words: &[&str]) -> Child {
        let limit = ["timeout", "-s", "KILL", "60", PROGRAM];
        let started = self.command(host, &[&limit, words].concat()).spawn();
        started.expect("the program starts")
    }

    /// Waits until the agents of all hosts are in a state.
    #[track_caller]
    pub(crate) fn until(&self, is_reached: impl Fn(&[Value]) -> bool) {
        let (words, directory) = ([PROGRAM, "status"].map(OsStr::new), self.meeting());
        until_agents(|| self.cluster.statuses(&words, &directory), is_reached);
    }

    /// Kills the agent of a host.
    pub(crate) fn kill_agent(&self, host: &str) {
        self.cluster.output(host, &["sh", "-c", "kill -9 $(pgrep -f 'agent --foregroun[d]')"]);
    }

    /// Waits until the agents have ended. Returns the names that are left in their directory.
    pub(crate) fn left(&self) -> Vec<String> {
        let start = Instant::now();
        loop {
            let names = aggio_tests::names_in(&self.meeting());
            // A process of an agent that ends removes its files one after the other.
            let of_agents = [".sock", ".lock", ".start"];
            let lives = names.iter().any(|name| of_agents.iter().any(|end| name.ends_with(end)));
            if !lives || start.elapsed() > Duration::from_secs(20) {
                return names;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[track_caller]
pub(crate) fn succeeds(child: Child) {
    let (succeeded, text) = end(child);
    assert!(succeeded, "{text}");
}

#[track_caller]
pub(crate) fn fails(child: Child, words: &[&str]) {
    let (succeeded, text) = end(child);
    assert!(!succeeded && words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
}

/// Waits until the program has printed a line, and leaves the rest of the output unread.
pub(crate) fn first_line(child: &mut Child) {
    use std::io::Read;
    let output = child.stdout.as_mut().expect("its output is a pipe");
    let mut byte = [0];
    while byte[0] != b'\n' {
        output.read_exact(&mut byte).expect("a line");
    }
}
