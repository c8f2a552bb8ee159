//! Starts a program under `mpirun`, watches it, and leaves no process behind.

use crate::hosts::{Cluster, Launch};
use crate::mark::{MARK, await_marked, kill_marked, what_marked_do};
use crate::{Directory, MemoryGroup, Program, SmallFileSystem};
use crate::{launcher, memory};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// A run of a program that has not been started yet.
#[derive(Debug)]
pub struct Job {
    program: Program,
    ranks: u32,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<std::path::PathBuf>,
    launch: Option<Launch>,
    /// The command that starts `mpirun`.
    starter: Vec<OsString>,
    limit: Duration,
}

/// The result of a [`Job`].
#[derive(Debug)]
pub struct Finished {
    /// How `mpirun` ended; `None` if the watchdog had to end it.
    pub status: Option<ExitStatus>,
    /// The standard output of all ranks.
    pub stdout: String,
    /// The standard error of all ranks and of `mpirun`.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
    /// Number of processes that were still running a while after `mpirun` had ended by itself.
    pub processes_left: usize,
    /// The state of each process when the watchdog ended the job.
    pub waiting: Vec<String>,
    /// Names left in the job's own temporary directory, besides folders of the launchers.
    pub left_in_temporary_directory: Vec<String>,
}

/// Two jobs of several spinning ranks on a small machine only slow each other down.
static RUNNING: Mutex<()> = Mutex::new(());

impl Job {
    /// A run of `program` on one rank with one minute of time.
    pub fn new(program: &Program) -> Self {
        Job {
            program: program.clone(),
            ranks: 1,
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            launch: None,
            starter: Vec::new(),
            limit: Duration::from_secs(60),
        }
    }

    /// Sets the number of ranks.
    #[must_use]
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// Adds an argument for the program.
    #[must_use]
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Sets a variable in the environment of `mpirun` and of all ranks.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Preloads `library` into `mpirun` and all ranks, if there is one.
    #[must_use]
    pub fn preload(self, library: Option<&Path>) -> Self {
        match library {
            Some(library) => self.variable("LD_PRELOAD", library),
            None => self,
        }
    }

    /// Sets the directory the ranks start in.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_path_buf());
        self
    }

    /// Spreads the ranks over the hosts of `cluster`, and sets their number to fill these.
    #[must_use]
    pub fn on(mut self, cluster: &Cluster) -> Self {
        self.launch = Some(cluster.launch());
        self.ranks(cluster.ranks())
    }

    /// Lets all ranks see a small file system.
    #[must_use]
    pub fn with_small(mut self, small: &SmallFileSystem) -> Self {
        self.starter = small.starter();
        self
    }

    /// Limits the memory of all processes of the job together.
    #[must_use]
    pub fn within(mut self, group: &MemoryGroup) -> Self {
        self.starter = group.starter();
        self
    }

    /// Sets the time after which all processes of the job are killed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the job to its end, or until its time is over.
    ///
    /// # Panics
    ///
    /// If `mpirun` cannot be started.
    pub fn run(self) -> Finished {
        // A test that failed while it held the lock has no effect on this one.
        let _guard = RUNNING.lock().unwrap_or_else(|poison| poison.into_inner());
        let private = Directory::new();
        let mark = private.path().as_os_str().to_owned();
        let outputs = Directory::new();
        let (stdout, stderr) = (outputs.path().join("stdout"), outputs.path().join("stderr"));
        let mut command = self.command(private.path());
        command
            .stdout(File::create(&stdout).expect("the temporary directory can be written"))
            .stderr(File::create(&stderr).expect("the temporary directory can be written"));
        let (started, since) = (Instant::now(), SystemTime::now());
        let mut child = command.spawn().expect("mpirun starts");
        let end = started + self.limit;
        // On several hosts ranks are no children of the launcher.
        let status = match &self.launch {
            Some(_) => wait(&mut child, end),
            None => launcher::wait_for(&mut child, end),
        };
        let waiting = if status.is_none() { what_marked_do(&mark) } else { Vec::new() };
        let processes_left = if status.is_some() { await_marked(&mark) } else { 0 };
        kill_marked(&mark);
        if status.is_none() {
            // Killed above; it only has to be collected.
            let _ = child.kill();
            let _ = child.wait();
        }
        if !status.is_some_and(|status| status.success()) {
            memory::remove_left_since(since);
        }
        Finished {
            status,
            stdout: read_lossy(&stdout),
            stderr: read_lossy(&stderr),
            elapsed: started.elapsed(),
            processes_left,
            waiting,
            left_in_temporary_directory: files_in(private.path()),
        }
    }

    fn command(&self, private: &Path) -> Command {
        let mpi = &self.program.mpi;
        let mut command = match &self.launch {
            Some(launch) => launch.mpirun(mpi),
            None => match self.starter.split_first() {
                Some((program, arguments)) => {
                    let mut command = Command::new(program);
                    command.args(arguments).arg(mpi.mpirun());
                    command
                }
                None => Command::new(mpi.mpirun()),
            },
        };
        command
            .arg("-n")
            .arg(self.ranks.to_string())
            .arg(&self.program.path)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .process_group(0)
            .env_remove("LD_PRELOAD")
            // For the tests themselves; the library would call them unknown settings.
            .env_remove("AGGIO_TESTS")
            .env_remove("AGGIO_LIBRARY")
            .env("TMPDIR", private)
            .env(MARK, private)
            .envs(mpi.environment().iter().copied())
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(shim) = self.launch.as_ref().and_then(|launch| launch.preload(mpi)) {
            command.env("LD_PRELOAD", self.preloaded_and(&shim));
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// The value of `LD_PRELOAD` with another library at its end.
    fn preloaded_and(&self, last: &Path) -> OsString {
        let already = self.environment.iter().rfind(|(name, _)| name == "LD_PRELOAD");
        let mut list = already.map_or_else(OsString::new, |(_, list)| list.clone());
        if !list.is_empty() {
            list.push(":");
        }
        list.push(last);
        list
    }
}

impl Finished {
    /// Whether all ranks ended in time and with success.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The numbers that `AGGIO_REPORT=json` told about the first file that was closed, by name.
    pub fn json_report(&self) -> Option<BTreeMap<String, u64>> {
        self.json_reports().into_iter().next()
    }

    /// The same for every file, in the order in which these were closed.
    pub fn json_reports(&self) -> Vec<BTreeMap<String, u64>> {
        let lines = self.stderr.lines();
        let is_of_mpi = |report: &&str| report.contains("\"interface\":\"mpi\"");
        let reports = lines.filter_map(|line| Some(line.split_once("{\"aggio_report\":")?.1));
        let reports = reports.filter(is_of_mpi);
        let numbers = |report: &str| {
            let fields = report.split([',', '{', '}']).filter_map(|field| field.split_once("\":"));
            let number = |(name, value): (&str, &str)| {
                Some((name.trim_start_matches('"').to_owned(), value.parse().ok()?))
            };
            fields.filter_map(number).collect()
        };
        reports.map(numbers).collect()
    }

    /// Everything a person needs to see why the job failed.
    pub fn report(&self) -> String {
        let end =
            self.status.map_or("killed by the watchdog".to_owned(), |status| status.to_string());
        format!(
            "{end} after {:.1} s\n{}\n--- stdout\n{}\n--- stderr\n{}",
            self.elapsed.as_secs_f64(),
            self.waiting.join("\n"),
            self.stdout,
            self.stderr
        )
    }
}

fn wait(child: &mut std::process::Child, end: Instant) -> Option<ExitStatus> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn files_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
