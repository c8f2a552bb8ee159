//! Programs on several hosts that exchange files in memory.

use super::{Cluster, Plan};
use crate::waiting::{until_agents, waiting};
use crate::{Directory, Family, Mpi, Program, library};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Returns the time after which a program is killed. `make check-long` exchanges gibibytes.
fn limit() -> Duration {
    Duration::from_secs(if crate::factor() > 1 { 600 } else { 60 })
}

/// Text that [`end`] appends to the output of a program that it had to kill.
pub const LATE: &str = "\nit was killed: it did not end";

/// The rules of coupled files: their endings tell the rule.
const RULES: &str = "*.dat,*.nc,*.sync:ready=sync,*.step:ready=step,*.latest:gen=latest,\
                     *.stored:persist=yes,*.after:persist=after";

/// Simulated hosts, with directories for the agents, the coupled files, and temporary files.
#[derive(Debug)]
pub struct CoupledHosts {
    /// The hosts.
    pub cluster: Cluster,
    /// The directory of the agents and their logs.
    pub meeting: Directory,
    /// The directory of the coupled files.
    pub files: Directory,
    scratch: Directory,
    /// The number of commands that [`prepare`](Self::prepare) has made.
    commands: AtomicU32,
}

impl CoupledHosts {
    /// Starts the hosts of `plan`. Returns `None` if this machine cannot have them. `agent` is the
    /// program `aggio-test-host`.
    pub fn new(plan: Plan, agent: &Path) -> Option<Self> {
        library()?;
        let cluster = plan.start_if_possible(agent)?;
        let [meeting, files, scratch] = [(); 3].map(|()| Directory::new());
        Some(Self { cluster, meeting, files, scratch, commands: AtomicU32::new(0) })
    }

    /// Returns the full name of a coupled file.
    pub fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Adds the library, rules for coupled files, and a directory for temporary files of its own
    /// to the environment of a command.
    ///
    /// # Panics
    ///
    /// If there is no library, or the directory cannot be made.
    pub fn prepare(&self, mut command: Command, mpi: &Mpi) -> Command {
        let library = library().expect("a library");
        // Two of Open MPI's launchers that make the same directory at the same time can fail.
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let temporary = self.scratch.path().join(number.to_string());
        std::fs::create_dir(&temporary).expect("a directory");
        let shim = self.cluster.launch().preload(mpi);
        let words = shim.into_iter().chain([library.clone()]).map(OsString::from);
        let preload = words.collect::<Vec<_>>().join(":".as_ref());
        command.envs(mpi.environment().iter().copied());
        if mpi.family == Family::OpenMpi {
            command.env("OMPI_MCA_osc", "pt2pt");
            // Ranks of several hosts share the processors of this one.
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            // Hosts of other tests have the same names, and their processes have the same numbers.
            command.env("OMPI_MCA_orte_tmpdir_base", &temporary);
        }
        command
            .env("TMPDIR", &temporary)
            .env("LD_PRELOAD", preload)
            .env("AGGIO_COUPLE", RULES)
            .env("AGGIO_COUPLE_DIR", self.meeting.path().join("couple"))
            .env("AGGIO_TEST_AGENT", library.with_file_name("aggio"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The command of a job of `ranks` ranks, two on each host from the first on.
    pub fn job(&self, mpi: &Mpi, ranks: u32, program: &Program, words: &[&str]) -> Command {
        let mut command = self.cluster.launch().mpirun(mpi);
        command.args(["-n", &ranks.to_string()]).arg(&program.path).args(words);
        self.prepare(command, mpi)
    }

    /// The command of a job with one rank on each host from `first` to `last`, counted from 1.
    pub fn spread(
        &self,
        mpi: &Mpi,
        (first, last): (u32, u32),
        program: &Program,
        words: &[&str],
    ) -> Command {
        let mut command = self.cluster.launch().among(first, last).mpirun(mpi);
        command.args(["-n", &(last - first + 1).to_string()]).arg(&program.path).args(words);
        self.prepare(command, mpi)
    }

    /// The command of a job of two ranks on one host.
    pub fn reader(&self, host: &str, mpi: &Mpi, program: &Program, words: &[&str]) -> Command {
        let mut command = self.cluster.launch().command(host);
        command.arg(mpi.mpirun()).args(["-n", "2"]).arg(&program.path).args(words);
        self.prepare(command, mpi)
    }

    /// Waits for a job that must succeed. Returns its output.
    ///
    /// # Panics
    ///
    /// If the job fails; the message has its output and the logs of the agents.
    #[track_caller]
    pub fn succeeds(&self, what: &str, child: Child) -> String {
        let (succeeded, text) = end(child);
        assert!(succeeded, "{what}: {text}\n{}", self.logs());
        text
    }

    /// Returns the logs of the agents.
    pub fn logs(&self) -> String {
        let directory = self.meeting.path().join("couple");
        let names = crate::names_in(&directory).into_iter();
        let logs = names.filter(|name| name.ends_with(".log")).map(|name| {
            let text = std::fs::read_to_string(directory.join(&name)).unwrap_or_default();
            format!("--- {name}\n{text}")
        });
        logs.collect()
    }

    /// Keeps the agents of all hosts running until the value is dropped: agents that have nothing
    /// to do end, and their counts with them. A program on each host waits for a file that nobody
    /// writes.
    ///
    /// # Panics
    ///
    /// If a program cannot be started.
    pub fn keep_agents(&self, mpi: &Mpi) -> KeptAgents {
        let programs = self.cluster.names().into_iter().map(|host| {
            let mut command = self.cluster.launch().command(&host);
            let file = self.file(&format!("nobody-writes-{host}.dat"));
            command.args(["sh", "-c", "cat \"$1\" & read line; kill $!", "sh", &file]);
            self.prepare(command, mpi).stdin(Stdio::piped()).spawn().expect("sh")
        });
        let kept = KeptAgents(programs.collect());
        self.until_waiting(kept.0.len());
        kept
    }

    /// Returns a number in the status of the agent of a host; 0 without an agent.
    ///
    /// # Panics
    ///
    /// If `aggio` cannot run.
    pub fn status(&self, host: &str, field: &str) -> u64 {
        let aggio = library().expect("a library").with_file_name("aggio");
        let mut command = self.cluster.launch().command(host);
        command.arg(aggio).args(["couple", "--json"]).stderr(Stdio::null());
        command.env("AGGIO_COUPLE_DIR", self.meeting.path().join("couple"));
        let text = command.output().expect("aggio runs").stdout;
        let text = String::from_utf8_lossy(&text);
        let number = text.split(&format!("\"{field}\": ")).nth(1);
        let digits = number.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        digits.flatten().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// Returns the statuses of the agents of all hosts, as JSON.
    ///
    /// # Panics
    ///
    /// If `aggio` cannot run.
    pub fn statuses(&self) -> String {
        let aggio = library().expect("a library").with_file_name("aggio");
        let directory = self.meeting.path().join("couple");
        let words = [aggio.as_os_str(), "couple".as_ref(), "--json".as_ref()];
        self.cluster.statuses(&words, &directory)
    }

    /// Waits until `count` programs wait for a file or for memory.
    #[track_caller]
    pub fn until_waiting(&self, count: usize) {
        until_agents(|| self.statuses(), |agents| waiting(agents) >= count);
    }

    /// Waits until a generation has bytes.
    #[track_caller]
    pub fn until_written(&self) {
        let has_bytes = |agent: &Value| {
            let files = agent["files"].as_array().into_iter().flatten();
            let mut generations = files.flat_map(|file| file["generations"].as_array()).flatten();
            generations.any(|generation| generation["bytes"].as_u64() > Some(0))
        };
        until_agents(|| self.statuses(), |agents| agents.iter().any(has_bytes));
    }

    /// Returns how many coupled files have an owner.
    pub fn owned(&self) -> usize {
        let directory = self.meeting.path().join("couple");
        let names = if directory.exists() { crate::names_in(&directory) } else { Vec::new() };
        names.iter().filter(|name| name.ends_with(".name")).count()
    }

    /// Waits until more than `owned` files have an owner, or for the limit.
    pub fn wait_for_more_than(&self, owned: usize) {
        let began = Instant::now();
        while self.owned() <= owned && began.elapsed() < limit() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the agents, and checks that only the token and the logs are left in their directory,
    /// and no file.
    ///
    /// # Panics
    ///
    /// If something is left.
    #[track_caller]
    pub fn leaves_nothing(&self) {
        self.end_agents();
        assert_eq!(crate::names_in(self.files.path()), [] as [&str; 0]);
    }

    /// Ends the agents, and checks that only the token and the logs are left in their directory.
    ///
    /// # Panics
    ///
    /// If something is left.
    #[track_caller]
    pub fn end_agents(&self) {
        let began = Instant::now();
        let aggio = library().expect("a library").with_file_name("aggio");
        let directory = self.meeting.path().join("couple");
        let left = || crate::names_in(&directory);
        let is_left = |name: &String| !name.ends_with("token") && !name.ends_with(".log");
        while left().iter().any(is_left) {
            let (is_early, status) = (began.elapsed() < limit(), || self.statuses());
            assert!(is_early, "{:?} is left: {}\n{}", left(), status(), self.logs());
            for host in self.cluster.names() {
                let mut quit = self.cluster.launch().command(&host);
                quit.arg(&aggio).args(["agent", "--quit", "--dir"]).arg(&directory);
                quit.stdout(Stdio::null()).stderr(Stdio::null());
                // A busy agent is asked again.
                let _ = quit.status().expect("aggio runs");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Agents that run although no other program needs them.
#[derive(Debug)]
pub struct KeptAgents(Vec<Child>);

impl Drop for KeptAgents {
    fn drop(&mut self) {
        for program in &mut self.0 {
            // The shell ends when its input does.
            drop(program.stdin.take());
            let _ = program.wait();
        }
    }
}

/// Waits for a job. Returns whether it succeeded, and its output. A job that takes too long is
/// killed, and [`LATE`] is appended to its output.
///
/// # Panics
///
/// If waiting for the job fails.
#[track_caller]
pub fn end(child: Child) -> (bool, String) {
    let id = child.id().cast_signed();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        let is_late = told.recv_timeout(limit()).is_err();
        if is_late {
            // SAFETY: two numbers; the child has not been waited for.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
        is_late
    });
    let output = child.wait_with_output().expect("it ends");
    let _ = tell.send(());
    let is_late = guard.join().unwrap_or(true);
    let text = [&output.stdout[..], &output.stderr].concat();
    let late = if is_late { LATE } else { "" };
    (output.status.success(), format!("{}{late}", String::from_utf8_lossy(&text)))
}
