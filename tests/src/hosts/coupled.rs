//! Programs on several hosts that exchange files in memory.

use super::{Cluster, Plan};
use crate::{Directory, Family, Mpi, Program, library};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that has not ended by then waits for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// What [`end`] says of a program that it had to kill.
pub const LATE: &str = "\nit was killed: it did not end";

/// Hosts, and directories: in which programs find each other, for their file, and for what is of a
/// moment.
#[derive(Debug)]
pub struct CoupledHosts {
    /// The hosts.
    pub cluster: Cluster,
    /// Where programs find each other, and for their logs.
    pub meeting: Directory,
    /// The directory of the coupled files.
    pub files: Directory,
    scratch: Directory,
}

impl CoupledHosts {
    /// The hosts of `plan`, unless this machine cannot have them; `agent` is the program
    /// `aggio-test-host`.
    pub fn new(plan: Plan, agent: &Path) -> Option<Self> {
        library()?;
        let cluster = plan.start_if_possible(agent)?;
        let [meeting, files, scratch] = [(); 3].map(|()| Directory::new());
        Some(Self { cluster, meeting, files, scratch })
    }

    /// The full name of a coupled file.
    pub fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Lets a command run with the library, and with rules for coupled files.
    ///
    /// # Panics
    ///
    /// If there is no library.
    pub fn prepare(&self, mut command: Command, mpi: &Mpi) -> Command {
        let library = library().expect("a library");
        let shim = self.cluster.launch().preload(mpi);
        let words = shim.into_iter().chain([library.clone()]).map(OsString::from);
        let preload = words.collect::<Vec<_>>().join(":".as_ref());
        command.envs(mpi.environment().iter().copied());
        if mpi.family == Family::OpenMpi {
            command.env("OMPI_MCA_osc", "pt2pt");
            // Ranks of several hosts share the processors of this one.
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            // Hosts of other tests have the same names, and processes the same numbers.
            command.env("OMPI_MCA_orte_tmpdir_base", self.scratch.path());
        }
        command
            .env("TMPDIR", self.scratch.path())
            .env("LD_PRELOAD", preload)
            .env("AGGIO_COUPLE", "*.dat,*.nc,*.sync:ready=sync,*.step:ready=step")
            .env("AGGIO_COUPLE_DIR", self.meeting.path().join("couple"))
            .env("AGGIO_AGENT", library.with_file_name("aggio"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A job of so many ranks, two on each host from the first on.
    pub fn job(&self, mpi: &Mpi, ranks: u32, program: &Program, words: &[&str]) -> Command {
        let mut command = self.cluster.launch().mpirun(mpi);
        command.args(["-n", &ranks.to_string()]).arg(&program.path).args(words);
        self.prepare(command, mpi)
    }

    /// A job of a rank on each host from `first` to `last`, counted from 1.
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

    /// A job of two ranks on one host.
    pub fn reader(&self, host: &str, mpi: &Mpi, program: &Program, words: &[&str]) -> Command {
        let mut command = self.cluster.launch().command(host);
        command.arg(mpi.mpirun()).args(["-n", "2"]).arg(&program.path).args(words);
        self.prepare(command, mpi)
    }

    /// What a job printed, which is to succeed.
    ///
    /// # Panics
    ///
    /// If it fails, with what it and the agents have said.
    #[track_caller]
    pub fn succeeds(&self, what: &str, child: Child) -> String {
        let (succeeded, text) = end(child);
        assert!(succeeded, "{what}: {text}\n{}", self.logs());
        text
    }

    /// What the agents have logged.
    pub fn logs(&self) -> String {
        let directory = self.meeting.path().join("couple");
        let names = crate::names_in(&directory).into_iter();
        let logs = names.filter(|name| name.ends_with(".log")).map(|name| {
            let text = std::fs::read_to_string(directory.join(&name)).unwrap_or_default();
            format!("--- {name}\n{text}")
        });
        logs.collect()
    }

    /// A number of the status of the agent of a host; 0 without an agent.
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

    /// How many coupled files have an owner.
    pub fn owned(&self) -> usize {
        let directory = self.meeting.path().join("couple");
        let names = if directory.exists() { crate::names_in(&directory) } else { Vec::new() };
        names.iter().filter(|name| name.ends_with(".name")).count()
    }

    /// Returns when more than so many have one, or not for long.
    pub fn wait_for_more_than(&self, owned: usize) {
        let began = Instant::now();
        while self.owned() <= owned && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The agents end when no program is connected; then the directory has the token alone.
    ///
    /// # Panics
    ///
    /// If something is left.
    #[track_caller]
    pub fn leaves_nothing(&self) {
        let began = Instant::now();
        let aggio = library().expect("a library").with_file_name("aggio");
        let directory = self.meeting.path().join("couple");
        let left = || crate::names_in(&directory);
        let is_left = |name: &String| !name.ends_with("token") && !name.ends_with(".log");
        while left().iter().any(is_left) {
            assert!(began.elapsed() < LIMIT, "{:?}", left());
            for host in self.cluster.names() {
                let mut quit = self.cluster.launch().command(&host);
                quit.arg(&aggio).args(["agent", "--quit", "--dir"]).arg(&directory);
                quit.stdout(Stdio::null()).stderr(Stdio::null());
                // One that is still busy is asked again.
                let _ = quit.status().expect("aggio runs");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(crate::names_in(self.files.path()), [] as [&str; 0]);
    }
}

/// What a job printed; whether it succeeded. It is killed if it takes too long, which
/// the text says.
///
/// # Panics
///
/// If the system does not tell how it ended.
#[track_caller]
pub fn end(child: Child) -> (bool, String) {
    let id = child.id().cast_signed();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        let is_late = told.recv_timeout(LIMIT).is_err();
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
