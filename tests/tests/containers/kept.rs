//! Programs without MPI with buffered writes to containers (`AGGIO_BLOB=PATTERN:close` and
//! `:causal`): when others see the bytes, and which bytes are left when a program is killed or
//! there is no room.

use agg_core::blob::is_container;
use aggio_tests::{
    Directory, bytes_of_container, compile_plain, kill_when_written, library, records, skip,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODES: [&str; 2] = ["close", "causal"];

/// `program`, with its file `file` in `directory` as a container in this mode.
fn served(program: &Path, mode: &str, directory: &Path, library: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX"] {
        command.env_remove(name);
    }
    let spool = directory.join("spool");
    std::fs::create_dir_all(&spool).expect("a directory");
    command.env("LD_PRELOAD", library).env("AGGIO_SPOOL", spool).env("AGGIO_REPORT", "1");
    command.env("AGGIO_BLOB", format!("{}/**/file:{mode}", directory.display()));
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn spools(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("spool")).expect("a directory").count()
}

fn content(path: &Path) -> Vec<u8> {
    assert!(is_container(path), "{} is no container", path.display());
    bytes_of_container(path)
}

#[test]
fn whatever_way_a_program_ends_its_acknowledged_bytes_are_in_the_container() {
    let Some(library) = library() else { return };
    let writer = compile_plain("ends_of_writers.c", &[]);
    let ends =
        "return exit _exit _Exit quick_exit abort close fsync execl execv".split_ascii_whitespace();
    for (mode, end) in ends.flat_map(|end| MODES.map(|mode| (mode, end))) {
        let directory = Directory::new();
        let file = directory.path().join("file");
        let mut command = served(&writer, mode, directory.path(), &library);
        command.arg(&file).args([end, "1000"]);
        output(&mut command);
        assert_eq!(content(&file), records(1000), "{mode} {end}");
    }
}

#[test]
fn many_writes_become_one_frame() {
    let Some(library) = library() else { return };
    for mode in MODES {
        let directory = Directory::new();
        let file = directory.path().join("file");
        let writer = compile_plain("ends_of_writers.c", &[]);
        let mut command = served(&writer, mode, directory.path(), &library);
        command.arg(&file).args(["return", "1000"]);
        let said = String::from_utf8(output(&mut command).stderr).expect("text");
        let line = format!("{}: without MPI, mode {mode}; 1000 writes", file.display());
        let rest = "kept back, 16000 bytes, stored by 1 requests";
        assert!(said.contains(&format!("{line} {rest}")), "{said}");
        assert_eq!((content(&file), spools(directory.path())), (records(1000), 0));
    }
}

/// Writes records in `mode` and is killed where nobody can see it coming; the container.
fn killed(mode: &str, count: usize, library: &Path) -> (Directory, PathBuf) {
    let directory = Directory::new();
    let file = directory.path().join("file");
    let writer = compile_plain("ends_of_writers.c", &[]);
    let mut command = served(&writer, mode, directory.path(), library);
    kill_when_written(command.arg(&file), count);
    (directory, file)
}

#[test]
fn bytes_of_a_killed_writer_are_recovered() {
    let Some(library) = library() else { return };
    for mode in MODES {
        for count in [1, 100, 20_000, 300_000] {
            let (directory, file) = killed(mode, count, &library);
            let done = agg_core::spool::recover(&directory.path().join("spool")).expect("a list");
            assert!(done.iter().all(|one| one.error.is_none()), "{done:?}");
            assert!(content(&file) == records(count), "{mode} {count}");
            assert_eq!(spools(directory.path()), 0, "{mode} {count}");
        }
    }
}

#[test]
fn the_next_program_finds_the_bytes_of_a_killed_writer_before_it_does_anything() {
    let Some(library) = library() else { return };
    let (directory, file) = killed("close", 100, &library);
    let mut reader = served(Path::new("/bin/cat"), "close", directory.path(), &library);
    reader.arg(&file);
    assert_eq!(output(&mut reader).stdout, records(100));
    // A container that is emptied when it is opened is not filled again afterwards.
    let (directory, file) = killed("close", 100, &library);
    let writer = compile_plain("ends_of_writers.c", &[]);
    let mut writer = served(&writer, "close", directory.path(), &library);
    writer.arg(&file).args(["exit", "3"]);
    assert!(output(&mut writer).status.success());
    assert_eq!((content(&file), spools(directory.path())), (records(3), 0));
}

#[test]
fn bytes_whose_container_is_gone_stay_in_the_spool_and_are_told() {
    let Some(library) = library() else { return };
    for other in [false, true] {
        let (directory, file) = killed("close", 100, &library);
        agg_core::blob::remove(&file).expect("it can be removed");
        if other {
            let (again, new) = killed("causal", 0, &library);
            std::fs::rename(&new, &file).expect("both are below one directory");
            drop(again);
        }
        let done = agg_core::spool::recover(&directory.path().join("spool")).expect("a list");
        let error = done[0].error.as_ref().expect("an error").to_string();
        let reason = if other { "another file has the name" } else { "No such file" };
        assert!(error.contains(reason) && error.contains("/file"), "{error}");
        assert_eq!(spools(directory.path()), 1);
        assert!(!other || content(&file).is_empty(), "nothing was written to the other one");
    }
}

/// Runs a Python program with the container in its variable `name`; returns its output.
fn python(program: &str, mode: &str, library: &Path) -> String {
    let directory = Directory::new();
    let mut command = served(Path::new("/usr/bin/python3"), mode, directory.path(), library);
    let begin = "import os, subprocess, sys\nname = sys.argv[1]\n\
                 def others(): return subprocess.run(['cat', name], capture_output=True).stdout\n\
                 fd = os.open(name, os.O_CREAT | os.O_RDWR)\n";
    command.args(["-c", &format!("{begin}{program}")]).arg(directory.path().join("file"));
    let output = output(&mut command);
    assert!(output.status.success(), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_program_and_its_children_see_at_once_what_it_has_written() {
    let Some(library) = library() else { return };
    let program = "
for number in range(4):
    os.write(fd, b'%d' % number * 3)
print(os.pread(fd, 99, 0), os.fstat(fd).st_size, os.stat(name).st_size, others())
second = os.open(name, os.O_RDWR)
os.pwrite(fd, b'one', 6)
os.pwrite(second, b'two', 7)
os.pwrite(fd, b'x', 8)
print(os.read(second, 99), os.lseek(fd, 0, os.SEEK_END))
os.pwrite(fd, b'after', 12)
os.ftruncate(second, 14)
os.pwrite(fd, b'!', 14)
print(os.pread(second, 99, 0))
os.rename(name, name + '2')
os.pwrite(fd, b'0', 0)
print(os.stat(name + '2').st_size, open(name + '2', 'rb').read())
os.unlink(name + '2')
os.pwrite(fd, b'gone', 0)
print(os.pread(second, 4, 0), os.path.exists(name + '2'))
";
    for mode in MODES {
        let said = python(program, mode, &library);
        let wanted = "b'000111222333' 12 12 b'000111222333'\n\
                      b'000111otxo33' 12\n\
                      b'000111otxo33af!'\n\
                      15 b'000111otxo33af!'\n\
                      b'gone' False\n";
        assert_eq!(said, wanted, "{mode}");
    }
}

#[test]
fn others_see_it_when_they_can_know_of_it() {
    let Some(library) = library() else { return };
    // A child that waits for a word, and then prints the file.
    let program = "
reader, writer = os.pipe()
child = subprocess.Popen(['sh', '-c', 'read word; cat \"$0\"', name], stdin=reader, \
stdout=subprocess.PIPE)
for number in range(9):
    os.pwrite(fd, b'record %d' % number, 8 * number)
ACT
os.write(writer, b'now\\n')
print(child.communicate()[0])
";
    let all: String = (0..9).map(|number| format!("record {number}")).collect();
    let acts = [
        "os.fsync(fd)",
        "os.close(fd)",
        "os.close(os.dup(fd))",
        "import fcntl; fcntl.flock(fd, fcntl.LOCK_EX)",
    ];
    for (mode, act) in acts.into_iter().flat_map(|act| MODES.map(|mode| (mode, act))) {
        let said = python(&program.replace("ACT", act), mode, &library);
        assert_eq!(said, format!("b'{all}'\n"), "{mode} {act}");
    }
    assert_eq!(python(&program.replace("ACT", "pass"), "causal", &library), format!("b'{all}'\n"));
}

#[test]
fn what_does_not_fit_is_an_error_of_the_program_and_what_came_before_it_is_stored() {
    let Some(library) = library() else { return };
    for (mode, count) in [("close", 100_000), ("causal", 100_000), ("close", 1_000_000)] {
        let directory = Directory::new();
        let small = directory.path().join("small");
        std::fs::create_dir(&small).expect("a directory");
        let script = "mount -t tmpfs -o size=1m none \"$1\" || exit 77; \"$2\" \"$1/file\" close \
            \"$4\"; \
                      code=$?; cat \"$1/file\" > \"$3\"; exit $code";
        let mut command = served(Path::new("/usr/bin/unshare"), mode, directory.path(), &library);
        command.args(["-m", "/bin/sh", "-c", script, "sh"]).arg(&small);
        command.arg(compile_plain("ends_of_writers.c", &[])).arg(directory.path().join("copy"));
        command.arg(count.to_string());
        let run = output(&mut command);
        if run.status.code() == Some(77) || run.status.code() == Some(1) {
            skip("no file system can be mounted here");
            return;
        }
        // A write or the close failed.
        assert!(matches!(run.status.code(), Some(4 | 5)), "{mode} {run:?}");
        let stored = std::fs::read(directory.path().join("copy")).expect("a copy");
        assert!(stored.len() > 900 * 1024, "{mode}: {} bytes", stored.len());
        assert!(records(count).starts_with(&stored), "{mode}");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(said.contains("bytes are not stored"), "{mode}: {said}");
    }
}

#[test]
fn where_there_is_no_room_for_a_spool_or_a_larger_one_all_is_written() {
    let Some(library) = library() else { return };
    // No directory; one that has room for the first slot, not for the second; one that has not even
    // that.
    for (size, frames) in [(None, 0), (Some("2m"), 4), (Some("512k"), 0)] {
        let directory = Directory::new();
        let writer = compile_plain("ends_of_writers.c", &[]);
        let mut command =
            served(Path::new("/usr/bin/unshare"), "close", directory.path(), &library);
        let spool = directory.path().join("spool");
        let (script, spool) = match size {
            Some(size) => (
                format!(
                    "mount -t tmpfs -o size={size} none \"$1\" || exit 77; exec \"$2\" \"$3\" \
                        return 250000"
                ),
                spool,
            ),
            None => ("exec \"$2\" \"$3\" return 250000".to_owned(), spool.join("nowhere")),
        };
        command.args(["-m", "/bin/sh", "-c", &script, "sh"]).env("AGGIO_SPOOL", &spool).arg(spool);
        let file = directory.path().join("file");
        let run = output(command.arg(writer).arg(&file));
        if matches!(run.status.code(), Some(77 | 1)) {
            skip("no file system can be mounted here");
            return;
        }
        assert!(run.status.success(), "{size:?}: {run:?}");
        assert!(content(&file) == records(250_000), "{size:?}");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(said.contains("small writes are not kept back"), frames == 0, "{said}");
        let line = format!("250000 writes kept back, 4000000 bytes, stored by {frames} requests");
        assert_eq!(said.contains(&line), frames > 0, "{said}");
    }
}
