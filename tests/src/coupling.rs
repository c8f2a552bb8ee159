//! Programs that exchange files in memory: started together, watched, and ended with their agent.

use crate::mark::{MARK, kill_marked, processes_with};
use crate::memory::remove_left_since;
use crate::waiting::{connected, until_agents, waiting};
use crate::{Directory, Mpi, SmallFileSystem, library, repository};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Time that a script may take before it counts as one that waits for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory of exchanged files, and a place where programs find each other.
#[derive(Debug)]
pub struct Coupling {
    place: Directory,
    meeting: Directory,
    /// The place for temporary files of MPIs, which they leave if a job is killed.
    scratch: Directory,
    rules: String,
    variables: Vec<(String, String)>,
    /// The command that starts scripts.
    starter: Vec<OsString>,
    began: SystemTime,
}

/// A script that runs.
#[derive(Debug)]
pub struct Running {
    script: String,
    child: Child,
    outputs: Directory,
    started: Instant,
}

/// How a script ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status of the shell.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

impl Coupling {
    /// Files that `rules`, a value of `AGGIO_COUPLE`, name. `None` if there is no library.
    pub fn of(rules: &str) -> Option<Self> {
        library()?;
        let meeting = Directory::new();
        let owner = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(meeting.path(), owner).expect("a directory of ours");
        let [place, scratch] = [(); 2].map(|()| Directory::new());
        let (rules, variables, starter) = (rules.to_owned(), Vec::new(), Vec::new());
        let began = SystemTime::now();
        Some(Self { place, meeting, scratch, rules, variables, starter, began })
    }

    /// Sets a variable for all scripts.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Lets all scripts, and the agent, see a small file system.
    #[must_use]
    pub fn with_small(mut self, small: &SmallFileSystem) -> Self {
        self.starter = small.starter();
        self
    }

    /// Where scripts run.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Where programs find each other.
    pub fn meeting(&self) -> &Path {
        self.meeting.path()
    }

    /// Starts a script of the shell; its programs exchange files.
    pub fn start(&self, script: &str) -> Running {
        let outputs = Directory::new();
        let file = |name| std::fs::File::create(outputs.path().join(name)).expect("a file");
        let words = self.starter.iter().map(OsString::as_os_str).chain(["/bin/sh".as_ref()]);
        let words: Vec<&OsStr> = words.collect();
        let mut command = self.command(words[0]);
        command.args(&words[1..]);
        let script = format!("cd '{}'; {script}", self.path().display());
        // Two of Open MPI's launchers that make the same directory at the same time can fail.
        let own = self.scratch.path().join(outputs.path().file_name().unwrap_or_default());
        std::fs::create_dir(&own).expect("a directory of ours");
        command.env("TMPDIR", own);
        command.args(["-c", &script]).process_group(0);
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let child = command.spawn().expect("a shell");
        Running { script, child, outputs, started: Instant::now() }
    }

    /// A program that exchanges files.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env_remove("AGGIO_TESTS").env_remove("AGGIO_LIBRARY");
        command.env("LD_PRELOAD", library().expect("a library"));
        command.env("AGGIO_COUPLE", &self.rules).env("AGGIO_COUPLE_DIR", self.meeting());
        command.env("AGGIO_TEST_AGENT", aggio()).env(MARK, self.meeting());
        command.env("PROGRAMS", repository().join("tests/programs"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("HDF5_USE_FILE_LOCKING", "TRUE");
        command.env("TMPDIR", self.scratch.path());
        for mpi in crate::installed() {
            command.envs(mpi.environment().iter().copied());
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a script to its end, which must be a success; returns its output.
    #[track_caller]
    pub fn run(&self, script: &str) -> String {
        self.start(script).succeeds()
    }

    /// Names in the directory of exchanged files, as seen without aggio.
    pub fn on_disk(&self) -> Vec<String> {
        crate::names_in(self.path())
    }

    /// Processes of its scripts, and the agent, that have `variable` in their environment and
    /// `word` in their command line; empty texts are no conditions.
    pub fn processes(&self, variable: &str, word: &str) -> Vec<libc::pid_t> {
        let mark = format!("{MARK}={}", self.meeting().display());
        let all = processes_with(&[&mark, variable]);
        let has_word = |id: &libc::pid_t| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(word)
        };
        all.into_iter().filter(has_word).collect()
    }

    /// The log of the agent.
    pub fn log(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let file = self.meeting().join(format!("{}.log", host.trim()));
        std::fs::read_to_string(file).unwrap_or_default()
    }

    /// Sends the agent a signal.
    #[track_caller]
    pub fn signal_agent(&self, number: libc::c_int) {
        let agents = self.processes("", "--foreground");
        assert!(!agents.is_empty(), "there is no agent");
        for agent in agents {
            // SAFETY: two numbers; the process is one of these scripts' agents.
            unsafe { libc::kill(agent, number) };
        }
    }

    /// Kills the agent, as `kill -9`.
    pub fn kill_agent(&self) {
        for id in self.processes("", "--foreground") {
            // SAFETY: kill takes two numbers; the process is one of these scripts' agents.
            unsafe { libc::kill(id, libc::SIGKILL) };
            // Its locks are free when it has ended, not before.
            let has_ended = || {
                let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
                stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
            };
            while !has_ended() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Asks the agent to end if no process is connected.
    pub fn end_agent(&self) {
        self.aggio(&["agent", "--quit", "--dir"]);
    }

    /// The status of the agent, as JSON.
    pub fn status(&self) -> String {
        self.aggio(&["couple", "list", "--json", "--dir"])
    }

    /// Waits until `count` programs wait for a file or for memory.
    #[track_caller]
    pub fn until_waiting(&self, count: usize) {
        until_agents(|| self.status(), |agents| waiting(agents) == count);
    }

    /// Waits until `count` processes are connected to the agent.
    #[track_caller]
    pub fn until_connected(&self, count: usize) {
        until_agents(|| self.status(), |agents| connected(agents) == count);
    }

    /// Bytes of memory that the agent has for files, now.
    pub fn memory(&self) -> u64 {
        let text = self.status();
        let told = text.split("\"bytes\":").nth(1).unwrap_or_default();
        let digits = told.trim_start().chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap_or(0)
    }

    /// The output of `aggio` with these arguments and the directory behind them.
    fn aggio(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(aggio());
        let output = command.args(arguments).arg(self.meeting()).env_remove("AGGIO_TESTS").output();
        String::from_utf8_lossy(&output.expect("aggio runs").stdout).into_owned()
    }
}

impl Drop for Coupling {
    fn drop(&mut self) {
        kill_marked(self.meeting().as_os_str());
        if std::thread::panicking() {
            remove_left_since(self.began);
        }
        // Nobody is connected any more, as soon as the agent has seen that.
        for _ in 0..200 {
            let has_socket = |name: &String| name.ends_with(".sock");
            let is_left = crate::names_in(self.meeting()).iter().any(has_socket);
            if !is_left || self.processes("", "").is_empty() {
                break;
            }
            self.end_agent();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Running {
    /// Whether it has not ended yet.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it and all that it has started, as `kill -9`.
    pub fn kill(&mut self) {
        let group = self.child.id().cast_signed();
        // SAFETY: kill takes two numbers; the group is that of the child.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }

    /// Waits until it executes the program `name`.
    #[track_caller]
    pub fn until_executes(&self, name: &str) {
        let file = format!("/proc/{}/comm", self.child.id());
        while std::fs::read_to_string(&file).unwrap_or_default().trim() != name {
            assert!(self.started.elapsed() < LIMIT, "{}", self.told("it executes no such program"));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Its output so far.
    pub fn printed(&self) -> String {
        read(&self.outputs, "out")
    }

    /// Waits until it has printed `text`.
    #[track_caller]
    pub fn until(&mut self, text: &str) {
        while !self.printed().contains(text) {
            assert!(self.started.elapsed() < LIMIT && self.runs(), "{}", self.told("no such line"));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(self) -> Ended {
        self.ends_within(LIMIT)
    }

    /// Waits for its end, which must come soon.
    #[track_caller]
    pub fn ends_within(mut self, limit: Duration) -> Ended {
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            if Instant::now() > end {
                self.kill();
                let _ = self.child.wait();
                panic!("{}", self.told("it does not end"));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (stdout, stderr) = (read(&self.outputs, "out"), read(&self.outputs, "err"));
        Ended { status, stdout, stderr, elapsed: self.started.elapsed() }
    }

    /// Waits for its end, which must be a success; returns its output.
    #[track_caller]
    pub fn succeeds(self) -> String {
        let script = self.script.clone();
        let ended = self.ends();
        assert!(ended.status.success(), "{script}\n{ended:?}");
        ended.stdout
    }

    fn told(&self, what: &str) -> String {
        let (out, err) = (self.printed(), read(&self.outputs, "err"));
        format!("{what}: {}\n--- stdout\n{out}\n--- stderr\n{err}", self.script)
    }
}

fn read(outputs: &Directory, name: &str) -> String {
    let bytes = std::fs::read(outputs.path().join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn aggio() -> PathBuf {
    library().expect("a library").with_file_name("aggio")
}

/// The words that start so many ranks of a program for `mpi` in a script.
pub fn ranks(mpi: &Mpi, ranks: u32) -> String {
    format!("{} -n {ranks}", mpi.mpirun().display())
}
