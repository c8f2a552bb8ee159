//! A directory with containers, files and a netCDF container, on which commands are tried.

use crate::killed::sample::Sample;
use agg_core::blob::{Container, Create, is_container};
use aggio_tests::{Directory, names_in, read_set};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::{fs, thread, time::Duration, time::Instant};

/// Bytes of `one` and `two`: enough for several frames and several calls of each copy.
const LENGTH: usize = 300_000;
const WRITERS: &str = env!("CARGO_BIN_EXE_aggio-test-writers");
const KILLER: &str = env!("CARGO_BIN_EXE_aggio-test-kill");
/// Records of `torn`, and their bytes.
const RECORDS: [&str; 2] = ["8", "700"];

/// The sources of all files: `one`, `two` (containers), `nc` (a container with a netCDF file),
/// `torn` (a container of killed writers), `file`, `other` (ordinary files), and `acknowledged`, of
/// the writers of `torn`.
pub(crate) struct Scene {
    directory: Directory,
    tool: PathBuf,
}

/// The bytes of a container or file of a scene.
pub(crate) fn content(name: &str) -> Vec<u8> {
    let seed = name.bytes().map(u64::from).sum::<u64>();
    (0..LENGTH as u64).map(|at| ((at * 131 + at / 251 + seed * 7) % 255) as u8).collect()
}

impl Scene {
    /// A new one in memory; `None`, aloud, if `aggio` has not been built.
    pub(crate) fn new() -> Option<Self> {
        let tool = aggio_tests::tool()?;
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { Directory::below(memory) } else { Directory::new() };
        let scene = Scene { directory, tool };
        for name in ["one", "two"] {
            store(&scene.path(name), &content(name));
        }
        for name in ["file", "other"] {
            fs::write(scene.path(name), content(name)).expect("a file");
        }
        netcdf().store(&scene.path("nc"));
        scene.tear();
        Some(scene)
    }

    /// Makes `torn`: its writers are killed when they have written some records. How many calls
    /// that takes depends on how many the start of a program makes.
    fn tear(&self) {
        let (path, acknowledged) = (self.path("torn"), self.path("acknowledged"));
        for number in (150..).step_by(20) {
            let mut command = Command::new(KILLER);
            command.args(["--all", &number.to_string(), WRITERS]);
            command.args([path.as_os_str(), acknowledged.as_os_str()]).args(RECORDS);
            let told = command.output().expect("it starts");
            assert!(told.stdout.starts_with(b"killed"), "{told:?}");
            let records = fs::read_to_string(&acknowledged).unwrap_or_default();
            if is_container(&path) && records.matches("w ").count() > 2 {
                return;
            }
            // Its remains have names that cannot be predicted.
            for name in names_in(self.directory.path()) {
                let path = self.path(&name);
                if name == "torn" || name.starts_with(".aggio-") {
                    fs::remove_dir_all(path).expect("a directory");
                } else if name == "acknowledged" {
                    fs::remove_file(path).expect("a file");
                }
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The arguments of `aggio` with names of the scene for words that begin with `@`.
    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let word = |word: &&str| match word.strip_prefix('@') {
            Some(name) => self.path(name).to_str().expect("a short path").to_owned(),
            None => (*word).to_owned(),
        };
        words.iter().map(word).collect()
    }

    /// A command that has begun.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        let mut command = Command::new(&self.tool);
        command.args(self.arguments(words)).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    /// Runs a command to its end; it is a failure if that takes longer than half a minute.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        finish(self.start(words), &format!("{words:?}"))
    }

    /// Runs it, killed at its system call `number`; returns the message of the killer.
    pub(crate) fn kill(&self, number: u64, words: &[&str]) -> String {
        let mut command = Command::new(KILLER);
        command.args(["--all", &number.to_string()]).arg(&self.tool);
        let output = command.args(self.arguments(words)).output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stdout);
        told.trim().lines().last().unwrap_or_default().to_owned()
    }

    /// The content of `name`, read by the `aggio` command: `None` if there is nothing, or if it is
    /// reported as damaged.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let output = self.run(&["cat", &format!("@{name}")]);
        output.status.success().then_some(output.stdout)
    }

    /// The set called `name` as our reader sees it, or nothing while it is incomplete.
    pub(crate) fn set(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name);
        let is_complete = self.path(&format!("{name}.0001")).exists();
        is_complete.then(|| read_set(&path)).flatten()
    }

    /// All names, but for those that every scene has.
    pub(crate) fn added(&self) -> Vec<String> {
        let usual = ["acknowledged", "file", "nc", "one", "other", "torn", "two"];
        let mut names = names_in(self.directory.path());
        names.retain(|name| !usual.contains(&&**name));
        names
    }

    /// All names in the container `name`.
    pub(crate) fn parts(&self, name: &str) -> Vec<String> {
        names_in(&self.path(name))
    }

    /// Nothing has changed that the commands must not change.
    pub(crate) fn is_untouched(&self, what: &str) {
        for name in ["one", "two", "file", "other"] {
            assert!(self.read(name).as_ref() == Some(&content(name)), "{what}: {name} is another");
        }
        assert!(self.read("nc") == Some(netcdf().bytes), "{what}: nc is another");
        self.torn_is_whole(what);
    }

    /// All acknowledged bytes are in `torn`, and each other record whole or not at all.
    pub(crate) fn torn_is_whole(&self, what: &str) {
        let bytes = self.read("torn").unwrap_or_else(|| panic!("{what}: torn cannot be read"));
        is_acknowledged(
            &bytes,
            &fs::read_to_string(self.path("acknowledged")).expect("it is"),
            what,
        );
    }

    /// `aggio recover` and a check find nothing more to do.
    pub(crate) fn is_recovered(&self, what: &str) {
        let root = self.directory.path().to_str().expect("a short path").to_owned();
        let done = self.run(&["recover", "--spool", &root, &root]);
        assert!(done.status.success(), "{what}: recover: {done:?}");
        let found = self.run(&["fsck", &root]);
        assert_eq!(found.status.code(), Some(0), "{what}: fsck after recover: {found:?}");
    }
}

/// The netCDF file that `nc` holds.
pub(crate) fn netcdf() -> Sample {
    Sample::new(3, 0x5a)
}

/// Whether records that were acknowledged are in the bytes, and others whole or not at all.
fn is_acknowledged(bytes: &[u8], acknowledged: &str, what: &str) {
    let length: usize = RECORDS[1].parse().expect("a number");
    let value = |process: usize, record: usize| (1 + (7 * record + process) % 255) as u8;
    for line in acknowledged.lines().filter_map(|line| line.strip_prefix("w ")) {
        let (process, record) = line.split_once(' ').expect("two numbers");
        let (process, record): (usize, usize) =
            (process.parse().expect("a number"), record.parse().expect("a number"));
        let start = (2 * record + process) * length;
        let found = bytes.get(start..start + length).unwrap_or_default();
        let right = found.len() == length && found.iter().all(|b| *b == value(process, record));
        assert!(right, "{what}: record {record} of process {process} was acknowledged");
    }
    for (place, found) in bytes.chunks(length).enumerate() {
        let whole = found.iter().all(|byte| *byte == value(place % 2, place / 2));
        assert!(whole || found.iter().all(|byte| *byte == 0), "{what}: record {place} is torn");
    }
}

/// Waits for a command.
pub(crate) fn finish(mut child: Child, what: &str) -> Output {
    let mut pipes = (child.stdout.take(), child.stderr.take());
    let drain = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // The comparison of the bytes detects those that cannot be read.
            let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            bytes
        })
    };
    let stdout = drain(pipes.0.take().map(|pipe| Box::new(pipe) as _));
    let stderr = drain(pipes.1.take().map(|pipe| Box::new(pipe) as _));
    let until = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break status;
        }
        if Instant::now() > until {
            child.kill().and_then(|()| child.wait()).expect("it can be killed");
            panic!("{what}: still running after half a minute");
        }
        thread::sleep(Duration::from_micros(300));
    };
    let bytes = |thread: thread::JoinHandle<Vec<u8>>| thread.join().expect("it reads");
    Output { status, stdout: bytes(stdout), stderr: bytes(stderr) }
}

/// A container with these bytes, which two writers wrote by turns.
pub(crate) fn store(path: &Path, bytes: &[u8]) {
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let blob = Container::create(path, &how).expect("a container");
    let writers = [blob.writer().expect("a writer"), blob.writer().expect("a writer")];
    for (number, piece) in bytes.chunks(40_000).enumerate() {
        writers[number % 2].write_at(piece, number as u64 * 40_000).expect("it is written");
    }
    writers.into_iter().for_each(|writer| writer.close().expect("it is closed"));
}
