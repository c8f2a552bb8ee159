//! A container that becomes a set of blobs, and a set that is changed: one process, killed at each
//! of its system calls.

use super::sample::{RANKS, Sample};
use super::verify::fsck_of;
use super::writers::Kill;
use agg_core::blob::is_container;
use aggio_tests::{Directory, factor, names_in, read_container, read_set, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SEALER: &str = env!("CARGO_BIN_EXE_aggio-test-sealer");
const NAME: &str = "out.nc";

/// A job that makes a set of two files.
struct Job {
    layout: &'static str,
    /// The files before: the container, the files of a set, or both.
    before: Directory,
    /// The bytes that it adds: a file with the bytes that are there afterwards, and where the new
    /// ones begin.
    adds: Option<(PathBuf, usize)>,
    /// The file that the set stands for then.
    wanted: Sample,
    /// The allowed content of the container meanwhile.
    allowed: Vec<Vec<u8>>,
}

impl Job {
    /// A container is sealed; beside it is the set of an older file, unless `older` is zero, of so
    /// many files.
    fn of_container(layout: &'static str, older: u64) -> Self {
        let (wanted, before) = (Sample::new(3, 0x5a), directory());
        let path = before.path().join(NAME);
        if older > 0 {
            Sample::new(2, 0x33).store(&path);
            seal(&path, layout, older);
        }
        wanted.store(&path);
        let allowed = vec![wanted.bytes.clone()];
        Job { layout, before, adds: None, wanted, allowed }
    }

    /// A set of three files is opened to add a record to it.
    fn of_set(layout: &'static str) -> Self {
        let (old, wanted, before) = (Sample::new(2, 0x5a), Sample::new(3, 0x5a), directory());
        let path = before.path().join(NAME);
        old.store(&path);
        seal(&path, layout, 3);
        let from = wanted.last();
        let file = before.path().with_extension("wanted");
        fs::write(&file, &wanted.bytes).expect("a file");
        // Each rank's part is there as a whole or not at all, and the number of records comes last.
        let third = (wanted.bytes.len() - from) / RANKS as usize;
        let with =
            |ranks: usize| [&old.bytes[..], &wanted.bytes[from..from + ranks * third]].concat();
        let allowed = (0..=RANKS as usize).map(with).chain([wanted.bytes.clone()]).collect();
        Job { layout, before, adds: Some((file, from)), wanted, allowed }
    }

    /// Runs it in `folder`; returns the message of `aggio-test-kill`.
    fn run(&self, folder: &Path, kill: Kill) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggio-test-kill"));
        command.arg(kill.number.to_string()).arg(SEALER).args(self.arguments(folder));
        let output = command.output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{kill:?}: {told}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn arguments(&self, folder: &Path) -> Vec<std::ffi::OsString> {
        let mut arguments = vec![folder.join(NAME).into(), self.layout.into(), "2".into()];
        if let Some((file, from)) = &self.adds {
            arguments.extend([file.into(), from.to_string().into()]);
        }
        arguments
    }

    /// Kills it at a call, checks the files, runs it again; returns whether it had ended before.
    fn kill(&self, number: u64) -> bool {
        let directory = directory();
        copy(self.before.path(), directory.path());
        let said = self.run(directory.path(), Kill { number, all: false });
        let what = format!("{}, call {number}: {said}", self.layout);
        assert!(!said.starts_with("hung"), "{what}");
        let path = directory.path().join(NAME);
        if is_container(&path) {
            assert!(self.allowed.contains(&read_container(&path)), "{what}: the container's bytes");
            if number.is_multiple_of(2) {
                // Every other time the job meets the files as the kill left them, else as a repair
                // left them.
                fsck_of(&path, &what);
            }
        } else {
            let bytes = read_set(&path);
            let bytes = bytes.unwrap_or_else(|| panic!("{what}: neither a container nor a set"));
            let allowed = [&self.allowed[0], &self.wanted.bytes];
            assert!(allowed.contains(&&bytes), "{what}: the set's bytes");
        }
        let again = Command::new(SEALER).args(self.arguments(directory.path())).output();
        let again = again.expect("it starts");
        assert!(again.status.success() && again.stderr.is_empty(), "{what}, again: {again:?}");
        assert!(read_set(&path).as_ref() == Some(&self.wanted.bytes), "{what}, again");
        // Removes the killed job's files under names that cannot be predicted.
        let recovered = Command::new(aggio_tests::tool().expect("aggio"))
            .args(["recover", "--spool"])
            .args([directory.path(), directory.path()])
            .output()
            .expect("it starts");
        assert!(recovered.status.success(), "{what}: {recovered:?}");
        assert_eq!(names_in(directory.path()), ["out.nc.0000", "out.nc.0001"], "{what}, again");
        said.starts_with("ended")
    }

    fn kill_at_calls(&self) {
        let first = calls_of_a_start();
        for number in (first..).step_by(if factor() > 1 { 1 } else { super::STEP }) {
            if self.kill(number) {
                assert!(number > first + 100, "the job makes more calls than {number}");
                return;
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some((file, _)) = &self.adds {
            // Nobody else needs it.
            let _ = fs::remove_file(file);
        }
    }
}

/// How many calls the program makes at least before it looks at any file: those of a start that
/// ends at once.
fn calls_of_a_start() -> u64 {
    let killer = Command::new(env!("CARGO_BIN_EXE_aggio-test-kill"))
        .args([&u64::MAX.to_string(), SEALER])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&killer.stdout);
    let calls: Option<u64> = said.split(' ').find_map(|word| word.parse().ok());
    // Without the calls that print the usage, and those at the end.
    calls.expect("a number of calls") - 10
}

/// An empty directory, in memory where there is room: a job makes its files durable, and is run a
/// thousand times.
fn directory() -> Directory {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { Directory::below(memory) } else { Directory::new() }
}

/// Makes a set of a container, or of a set.
fn seal(path: &Path, layout: &str, files: u64) {
    let sealed = Command::new(SEALER).arg(path).args([layout, &files.to_string()]).output();
    let sealed = sealed.expect("it starts");
    assert!(sealed.status.success(), "{sealed:?}");
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            fs::create_dir(&to).expect("a directory");
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a file");
        }
    }
}

/// One layout, and the other one too where there is time.
fn layouts(first: &'static str) -> impl Iterator<Item = &'static str> {
    ["e3sm", "e3sm-h5"].into_iter().filter(move |layout| factor() > 1 || *layout == first)
}

#[test]
fn a_container_or_the_whole_set_is_there_when_sealing_is_killed_at_any_call() {
    layouts("e3sm").for_each(|layout| Job::of_container(layout, 0).kill_at_calls());
}

#[test]
fn so_it_is_when_an_older_set_of_more_files_is_replaced() {
    layouts("e3sm-h5").for_each(|layout| Job::of_container(layout, 3).kill_at_calls());
}

#[test]
fn so_it_is_when_a_set_is_opened_to_add_a_record() {
    layouts("e3sm").for_each(|layout| Job::of_set(layout).kill_at_calls());
}

/// The calls of the program that bring bytes and names to the disk, in their order: the call with
/// its arguments.
fn calls_of(job: &Job, folder: &Path) -> Option<Vec<String>> {
    let log = directory();
    let log = log.path().join("trace");
    let calls = "trace=fsync,fdatasync,rename,renameat,renameat2,write,pwrite64,pwritev";
    let strace = Command::new("strace")
        .args(["-qq", "-y", "-e", calls, "-o"])
        .arg(&log)
        .arg(SEALER)
        .args(job.arguments(folder))
        .status();
    if !strace.is_ok_and(|status| status.success()) {
        skip("strace is missing, or may not trace (tests/setup.sh check)");
        return None;
    }
    let trace = fs::read_to_string(log).expect("a trace");
    Some(trace.lines().map(str::to_owned).collect())
}

/// Where the last call of these names is that has all `words`.
fn last(trace: &[String], calls: &[&str], words: &[&str]) -> Option<usize> {
    let is_meant = |line: &&String| {
        calls.iter().any(|call| line.starts_with(&format!("{call}(")))
            && words.iter().all(|word| line.contains(word))
    };
    trace.iter().rposition(|line| is_meant(&line))
}

#[test]
fn what_takes_the_place_of_the_file_is_durable_before_it_has_the_name() {
    const WRITES: &[&str] = &["write", "pwrite64", "pwritev"];
    const SYNCS: &[&str] = &["fsync", "fdatasync"];
    const RENAMES: &[&str] = &["rename", "renameat", "renameat2"];
    for layout in ["e3sm", "e3sm-h5"] {
        let (job, directory) = (Job::of_set(layout), directory());
        copy(job.before.path(), directory.path());
        let Some(trace) = calls_of(&job, directory.path()) else { return };
        let at = |calls, words: &[&str]| {
            let found = last(&trace, calls, words);
            found.unwrap_or_else(|| panic!("{layout}: no {calls:?} of {words:?} in {trace:#?}"))
        };
        // The container that is made of the set.
        let named = at(RENAMES, &["/.aggio-", "/out.nc\", RENAME_"]);
        let hidden = trace[named].split('"').nth(1).expect("a name");
        let hidden = Path::new(hidden).file_name().and_then(|name| name.to_str()).expect("a name");
        let logs = ["1", "2", "3"].map(|log| format!("{hidden}/{log:0>16}.log>"));
        for part in logs.iter().map(String::as_str).chain([&*format!("{hidden}>")]) {
            assert!(at(SYNCS, &[part]) < named, "{layout}: {part}: {trace:#?}");
        }
        for log in &logs {
            assert!(at(WRITES, &[log]) < at(SYNCS, &[log]), "{layout}: {log}: {trace:#?}");
        }
        // The set that is made of the container.
        let gone = at(RENAMES, &["/out.nc\", AT_", "/.aggio-"]);
        for part in [".part.0000", ".part.0001"] {
            let (written, stored) = (at(WRITES, &[part]), at(SYNCS, &[part]));
            assert!(written < stored && stored < at(RENAMES, &[part]), "{layout}: {trace:#?}");
        }
        let folder = format!("{}>", directory.path().display());
        let names = at(SYNCS, &[&folder]);
        assert!(at(RENAMES, &[".part.0000", "out.nc.0000"]) < names && names < gone, "{trace:#?}");
    }
}
