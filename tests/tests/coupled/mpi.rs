//! MPI programs that exchange files in memory: the same and different MPIs, different numbers of
//! ranks and decompositions, the reader started first and second, and writers that die.

use aggio_tests::waiting::{until_agents, waiting};
use aggio_tests::{
    Directory, Family, MARK, Mpi, compile, installed, kill_marked, launcher, library, names_in,
    remove_left_since,
};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The time after which a program is taken to wait for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// The directories of two programs: for the agent, and for their file.
struct Meeting {
    place: Directory,
    files: Directory,
    /// The temporary directory of the MPI libraries.
    scratch: Directory,
    began: SystemTime,
    /// The test kills one of the jobs.
    kills: Cell<bool>,
    jobs: Cell<u32>,
}

/// A running job.
struct Job {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Meeting {
    fn new() -> Self {
        let [place, files, scratch] = [(); 3].map(|()| Directory::new());
        let (began, kills, jobs) = (SystemTime::now(), Cell::new(false), Cell::new(0));
        let meeting = Meeting { place, files, scratch, began, kills, jobs };
        let owner = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(meeting.place.path(), owner).expect("a directory of ours");
        meeting
    }

    fn start(&self, mpi: &Mpi, ranks: u32, arguments: &[&str], half: bool) -> Job {
        let mut command = self.command(mpi, &[], ranks, arguments);
        if half {
            self.kills.set(true);
            command.env("HALF", "1");
        }
        Job::of(command)
    }

    /// The command of a job, with these options for the launcher.
    fn command(&self, mpi: &Mpi, options: &[&str], ranks: u32, arguments: &[&str]) -> Command {
        let library = library().expect("a library");
        // Two launchers of Open MPI that make the same directory at the same time can fail.
        self.jobs.set(self.jobs.get() + 1);
        let scratch = self.scratch.path().join(self.jobs.get().to_string());
        std::fs::create_dir(&scratch).expect("a directory of ours");
        let mut command = Command::new(mpi.mpirun());
        command
            .args(options)
            .args(["-n", &ranks.to_string()])
            .arg(compile("coupled_mpi.c", mpi).path);
        command.args(arguments).envs(mpi.environment().iter().copied());
        command.env("LD_PRELOAD", &library).env("AGGIO_COUPLE", "*.dat");
        command.env("AGGIO_TEST_AGENT", library.with_file_name("aggio"));
        command.env("AGGIO_COUPLE_DIR", self.place.path()).current_dir(self.files.path());
        command.env(MARK, self.place.path()).env("TMPDIR", scratch);
        command
    }

    /// Waits until a program waits for a file.
    #[track_caller]
    fn until_waiting(&self) {
        let aggio = library().expect("a library").with_file_name("aggio");
        let status = || {
            let mut command = Command::new(&aggio);
            command.args(["couple", "--json", "--dir"]).arg(self.place.path());
            let printed = command.output().expect("aggio runs").stdout;
            String::from_utf8_lossy(&printed).into_owned()
        };
        until_agents(status, |agents| waiting(agents) > 0);
    }

    /// Waits until the agent has ended by itself and has left only the token of the directory.
    fn leaves_nothing(&self) {
        assert_eq!(names_in(self.files.path()), [] as [&str; 0]);
        let began = Instant::now();
        while names_in(self.place.path()) != ["token"] {
            assert!(began.elapsed() < LIMIT, "{:?}", names_in(self.place.path()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Launchers give ranks process groups of their own, and killed ranks leave shared memory.
impl Drop for Meeting {
    fn drop(&mut self) {
        kill_marked(self.place.path().as_os_str());
        if self.kills.get() || std::thread::panicking() {
            remove_left_since(self.began);
        }
    }
}

impl Job {
    fn of(mut command: Command) -> Self {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("mpirun");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Job { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    fn kill(&self) {
        // SAFETY: two numbers; the group is the job's.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
    }

    fn ends(mut self) -> (ExitStatus, String) {
        let Some(status) = launcher::wait_for(&mut self.child, Instant::now() + LIMIT) else {
            self.kill();
            panic!("it waits for ever");
        };
        let mut text = String::new();
        self.out.read_to_string(&mut text).expect("text");
        (status, text)
    }
}

/// Returns every pair of installed MPIs.
fn pairs() -> Vec<(Mpi, Mpi)> {
    let agent = library().map(|library| library.with_file_name("aggio"));
    if !agent.is_some_and(|agent| Path::is_file(&agent)) {
        aggio_tests::skip("the library or the command aggio is not built");
        return Vec::new();
    }
    let all = installed();
    all.iter().flat_map(|one| all.iter().map(|other| (one.clone(), other.clone()))).collect()
}

fn wanted(generations: u32) -> String {
    (1..=generations).map(|number| format!("generation {number}: right\n")).collect()
}

#[test]
fn subarrays_of_one_job_are_subarrays_of_another() {
    let shapes = [
        (4, "blocks", 3, "rows"),
        (3, "rows", 4, "blocks"),
        (1, "rows", 5, "columns"),
        (2, "columns", 1, "rows"),
    ];
    for (number, (writer, reader)) in pairs().iter().enumerate() {
        let (writers, out, readers, into) = shapes[number % shapes.len()];
        let meeting = Meeting::new();
        // One of the programs reaches the file through a link to its directory.
        let link = meeting.scratch.path().join("link");
        std::os::unix::fs::symlink(meeting.files.path(), &link).expect("a link");
        let linked = link.join("out.dat").display().to_string();
        let names = if number % 4 < 2 { ["out.dat", &linked] } else { [&linked, "out.dat"] };
        let write = ["write", out, names[0], "4", "61", "43"];
        let read = ["read", into, names[1], "4", "61", "43"];
        let (written, printed) = if number % 2 == 0 {
            let reader = meeting.start(reader, readers, &read, false);
            meeting.until_waiting();
            (meeting.start(writer, writers, &write, false).ends(), reader.ends())
        } else {
            let written = meeting.start(writer, writers, &write, false).ends();
            (written, meeting.start(reader, readers, &read, false).ends())
        };
        assert!(written.0.success() && printed.0.success(), "{written:?} {printed:?}");
        assert_eq!(printed.1, wanted(4), "{write:?} to {read:?}");
        meeting.leaves_nothing();
    }
}

#[test]
fn every_rank_of_a_reader_learns_that_the_writer_died() {
    for (writer, reader) in pairs() {
        let meeting = Meeting::new();
        let mut write =
            meeting.start(&writer, 2, &["write", "rows", "out.dat", "2", "61", "43"], true);
        let read = ["read", "columns", "out.dat", "2", "61", "43"];
        let mut read = meeting.start(&reader, 3, &read, false);
        assert_eq!(write.line(), "half\n");
        assert_eq!(read.line(), "generation 1: right\n");
        write.kill();
        let began = Instant::now();
        let (status, text) = read.ends();
        let soon = began.elapsed() < Duration::from_secs(10);
        assert!(soon && !status.success(), "{status}: {text}");
        for rank in 0..3 {
            let line = format!("rank {rank}: open: MPI_ERR_IO");
            assert_eq!(text.lines().filter(|told| *told == line).count(), 1, "{text}");
        }
        let _ = write.ends();
    }
}

/// Rank 0 has the file open, and has written its part; the other rank ends before it writes its
/// own. The call of rank 0 fails; it ends MPI and exits normally, if its launcher leaves it the
/// time.
#[test]
fn readers_learn_that_a_killed_rank_has_not_written_its_part() {
    for mpi in &installed() {
        let goes_on: &[&str] = match mpi.family {
            Family::Mpich => &["-disable-auto-cleanup"],
            Family::OpenMpi => &[],
        };
        a_reader_learns_of_a_killed_rank(mpi, goes_on, "seen");
    }
}

/// The system keeps an ended process until its parent has asked for its exit status.
#[test]
fn a_killed_rank_is_noticed_although_its_launcher_has_not_seen_that() {
    for mpi in &installed() {
        a_reader_learns_of_a_killed_rank(mpi, &[], "unseen");
    }
}

fn a_reader_learns_of_a_killed_rank(mpi: &Mpi, options: &[&str], fewer: &str) {
    let meeting = Meeting::new();
    meeting.kills.set(true);
    let size = ["f.dat", "1", "30", "1000"];
    let mut writer = meeting.command(mpi, options, 2, &[&["write", "rows"], &size[..]].concat());
    writer.env("FEWER", fewer);
    let writer = Job::of(writer);
    let reader = meeting.start(mpi, 1, &[&["read", "rows"], &size[..]].concat(), false);
    let (status, text) = reader.ends();
    assert!(!status.success() && text.contains("open: MPI_ERR_IO"), "{}: {text}", mpi.name);
    // The other rank of the writer may still wait.
    writer.kill();
    kill_marked(meeting.place.path().as_os_str());
}
