//! Sets of netCDF files get other names, modes and times as ordinary files do, where a rule makes
//! sets of files of their name.

use aggio_formats::files::Folder;
use aggio_formats::{Options, Set};
use aggio_tests::{Directory, factor, library, names_in, netcdf_samples};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

const RULE: &str = "*.nc:e3sm";

/// A directory with `out.nc`, a set of four files, and `older.nc`, another one of one file; and the
/// bytes of the former.
fn place() -> (Directory, Vec<u8>) {
    let (samples, directory) = (netcdf_samples(), Directory::new());
    let e3sm = samples.path().join("e3sm");
    for (of, name) in [("blob4_h1.nc", "out.nc"), ("blob1_h1.nc", "older.nc")] {
        for file in names_in(&e3sm).iter().filter(|file| file.starts_with(&format!("{of}."))) {
            let number = file.rsplit_once('.').expect("a number").1;
            let to = directory.path().join(format!("{name}.{number}"));
            std::fs::copy(e3sm.join(file), to).expect("a copy");
        }
    }
    let bytes = std::fs::read(e3sm.join("can_h1.nc")).expect("the canonical file");
    (directory, bytes)
}

/// The names of the set `name` of so many files.
fn files_of(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}.{number:04}")).collect()
}

/// The file that a whole set stands for.
fn whole(path: &Path) -> Option<Vec<u8>> {
    let (folder, name) = Folder::of(path)?;
    let file = Set::find(&folder, &name).ok()??.open(&Options::default()).ok()?;
    let mut bytes = vec![0; usize::try_from(file.size()).ok()?];
    let len = file.read_at(&mut bytes, 0).ok()?;
    (len == bytes.len()).then_some(bytes)
}

/// A command in the directory, below the library, with this rule of `AGGIO_BLOB`.
fn command(program: impl AsRef<std::ffi::OsStr>, directory: &Path, rule: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env("LD_PRELOAD", library().expect("the library"));
    command.env("AGGIO_SETS", "on").env("AGGIO_BLOB", rule).env("AGGIO_LOG", "error");
    command
}

fn shell(script: &str, directory: &Path, rule: &str) -> Output {
    let mut shell = command("/bin/bash", directory, rule);
    shell.args(["-c", script]).output().expect("a shell starts")
}

/// After this script there are these names, and `name` is read as the bytes that `out.nc` had.
#[track_caller]
fn moved(script: &str, names: &[String], name: &str) {
    let (directory, bytes) = place();
    let output = shell(script, directory.path(), RULE);
    assert!(output.status.success(), "{script}: {output:?}");
    let found: Vec<String> = names_in(directory.path());
    assert_eq!(found, names, "{script}: {output:?}");
    let read = shell(&format!("cat {name}"), directory.path(), RULE);
    assert!(read.stdout == bytes, "{script}: {:?}", read.stderr);
}

/// The names of these sets and files, sorted.
fn all(sets: &[(&str, usize)], files: &[&str]) -> Vec<String> {
    let mut names: Vec<String> =
        sets.iter().flat_map(|(name, count)| files_of(name, *count)).collect();
    names.extend(files.iter().map(|name| (*name).to_owned()));
    names.sort();
    names
}

const OLDER: (&str, usize) = ("older.nc", 1);

#[test]
fn a_set_gets_a_name_that_nothing_has() {
    if library().is_none() {
        return;
    }
    let names = all(&[OLDER, ("new.nc", 4)], &[]);
    moved("mv out.nc new.nc", &names, "new.nc");
    moved("mv -n out.nc new.nc", &names, "new.nc");
    moved("python3 -c \"import os; os.rename('out.nc', 'new.nc')\"", &names, "new.nc");
    moved("mv out.nc other && mv other new.nc", &names, "new.nc");
    let rename =
        "ln -s . same && python3 -c \"import os; os.rename('out.nc', 'same/out.nc')\" && rm same";
    moved(rename, &all(&[OLDER, ("out.nc", 4)], &[]), "out.nc");
    moved("mv out.nc out.nc || test $? = 1", &all(&[OLDER, ("out.nc", 4)], &[]), "out.nc");
    moved(
        "mkdir d && mv out.nc d && mv d/out.nc . && rmdir d && mv out.nc new.nc",
        &names,
        "new.nc",
    );
}

#[test]
fn a_set_replaces_what_has_the_name() {
    if library().is_none() {
        return;
    }
    moved("mv out.nc older.nc", &all(&[("older.nc", 4)], &[]), "older.nc");
    // One of fewer files.
    let script = "mv older.nc kept && mv out.nc older.nc && mv kept out.nc && mv out.nc older.nc \
        && cat older.nc > plain";
    let (directory, _) = place();
    let output = shell(script, directory.path(), RULE);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names_in(directory.path()), all(&[("older.nc", 1)], &["plain"]));
    let names = all(&[OLDER, ("new.nc", 4)], &[]);
    moved("env -u LD_PRELOAD touch new.nc && mv out.nc new.nc", &names, "new.nc");
    moved("echo > new.nc && mv out.nc new.nc", &names, "new.nc");
    moved(
        "env -u LD_PRELOAD touch new.nc && ! mv -nT --no-copy out.nc new.nc 2>&1; mv out.nc new.nc",
        &names,
        "new.nc",
    );
}

#[test]
fn a_set_is_replaced_by_what_gets_its_name() {
    if library().is_none() {
        return;
    }
    let (directory, bytes) = place();
    std::fs::write(directory.path().join("plain"), b"plain").expect("a file");
    let script = "mv plain older.nc && cat older.nc && echo made > made.nc && mv made.nc out.nc && \
        cat out.nc";
    let output = shell(script, directory.path(), RULE);
    assert_eq!(output.stdout, b"plainmade\n", "{output:?}");
    assert_eq!(names_in(directory.path()), ["older.nc", "out.nc"], "{output:?}");
    // A container that hides its older set does not leave it when it goes.
    let (directory, _) = place();
    let script = "printf x >> out.nc && mv out.nc new.nc && ls && cat new.nc > plain";
    let output = shell(script, directory.path(), RULE);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "new.nc\nolder.nc.0000\n", "{output:?}");
    let read = std::fs::read(directory.path().join("plain")).expect("a file");
    assert!(read == [&bytes[..], b"x"].concat());
}

#[test]
fn a_container_that_replaces_an_open_one_does_not_leave_its_older_set() {
    if library().is_none() {
        return;
    }
    let (directory, bytes) = place();
    let script = "import os, sys\nopen('out.nc', 'ab').write(b'x')\nmade = open('made.nc', \
        'wb+')\nmade.write(b'made')\n\
                  made.flush()\nos.rename('out.nc', 'made.nc')\nprint(os.path.exists('out.nc'))\n\
                  made.seek(0)\nprint(made.read())\nopen('plain', 'wb').write(open('made.nc', \
                  'rb').read())";
    let output = command("python3", directory.path(), RULE).args(["-c", script]).output();
    let output = output.expect("python3 starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "False\nb'made'\n", "{output:?}");
    let read = std::fs::read(directory.path().join("plain")).expect("a file");
    assert!(read == [&bytes[..], b"x"].concat());
}

#[test]
fn names_that_a_set_cannot_have_are_refused_and_nothing_is_changed() {
    if library().is_none() {
        return;
    }
    let (directory, _) = place();
    let path = directory.path();
    std::fs::create_dir(path.join("folder")).expect("a directory");
    std::fs::write(path.join("taken.nc.0002"), b"no blob").expect("a file");
    let before = aggio_tests::snapshot(path);
    let calls = [
        ("os.rename('out.nc', 'folder')", "EISDIR"),
        ("os.rename('folder', 'out.nc')", "ENOTDIR"),
        ("os.rename('out.nc', 'taken.nc')", "EEXIST"),
        ("os.rename('out.nc', 'none/there.nc')", "ENOENT"),
        ("os.rename('missing', 'out.nc')", "ENOENT"),
        ("os.rename('out.nc', 'new.nc/')", "ENOTDIR"),
    ];
    for (call, errno) in calls {
        let script = format!(
            "import errno, os\ntry:\n {call}\nexcept OSError as e:\n \
                print(errno.errorcode[e.errno])"
        );
        let output =
            command("python3", path, RULE).args(["-c", &script]).output().expect("python3 starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), errno, "{call}: {output:?}");
        assert!(aggio_tests::snapshot(path) == before, "{call}");
    }
    // No rule makes sets of files of these names.
    for script in
        ["mv out.nc new.nc", "mv taken.nc.0002 out.nc", "chmod 600 out.nc", "touch -c out.nc"]
    {
        let output = shell(script, path, "*.other:e3sm");
        assert!(!output.status.success(), "{script}: {output:?}");
        assert!(aggio_tests::snapshot(path) == before, "{script}");
    }
}

#[test]
fn a_set_moves_to_another_file_system_as_one_file() {
    if library().is_none() {
        return;
    }
    let (directory, bytes) = place();
    let elsewhere = Directory::below(Path::new("/dev/shm"));
    let script =
        format!("mv out.nc {0}/out.nc && cat {0}/out.nc > plain", elsewhere.path().display());
    let output = shell(&script, directory.path(), RULE);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names_in(directory.path()), all(&[OLDER], &["plain"]));
    assert!(std::fs::read(directory.path().join("plain")).expect("a file") == bytes);
}

#[test]
fn modes_and_times_are_those_of_all_files() {
    if library().is_none() {
        return;
    }
    let (directory, bytes) = place();
    let script = "chmod 640 out.nc && touch -c -d @1000000000 out.nc && stat -c '%a %Y' out.nc";
    let output = shell(script, directory.path(), RULE);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "640 1000000000\n", "{output:?}");
    for name in files_of("out.nc", 4) {
        let facts = directory.path().join(&name).metadata().expect("a file");
        assert_eq!(facts.permissions().mode() & 0o7777, 0o640, "{name}");
        assert_eq!(facts.mtime(), 1_000_000_000, "{name}");
    }
    assert!(whole(&directory.path().join("out.nc")) == Some(bytes));
}

/// Runs `mv out.nc older.nc`, with a failure of each `linkat`.
fn moved_without_links(directory: &Path, errno: &str) -> Output {
    let library = format!("LD_PRELOAD={}", library().expect("the library").display());
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=linkat", "-E", &library]);
    strace.args(["-e", &format!("inject=linkat:error={errno}"), "mv", "out.nc", "older.nc"]);
    strace.current_dir(directory).env("AGGIO_SETS", "on").env("AGGIO_BLOB", RULE);
    strace.output().expect("strace starts (tests/setup.sh check)")
}

#[test]
fn where_files_have_one_name_only_they_are_renamed_one_by_one() {
    if library().is_none() {
        return;
    }
    for errno in ["EPERM", "EOPNOTSUPP", "ENOSYS", "EMLINK"] {
        let (directory, bytes) = place();
        let output = moved_without_links(directory.path(), errno);
        assert!(output.status.success(), "{errno}: {output:?}");
        assert_eq!(names_in(directory.path()), files_of("older.nc", 4), "{errno}");
        assert!(whole(&directory.path().join("older.nc")) == Some(bytes), "{errno}");
    }
}

#[test]
fn where_there_is_no_room_for_names_nothing_is_changed() {
    if library().is_none() {
        return;
    }
    let (directory, _) = place();
    let before = aggio_tests::snapshot(directory.path());
    let output = moved_without_links(directory.path(), "ENOSPC");
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
    assert!(aggio_tests::snapshot(directory.path()) == before);
}

/// Runs `mv out.nc older.nc`, killed at its system call `number`; how many there were, if it was
/// not.
fn killed(directory: &Path, number: u64) -> Option<u64> {
    let mut killer = Command::new(env!("CARGO_BIN_EXE_aggio-test-kill"));
    let library = format!("LD_PRELOAD={}", library().expect("the library").display());
    killer.arg(number.to_string()).args(["/usr/bin/env", &library, "mv", "out.nc", "older.nc"]);
    killer.current_dir(directory).env("AGGIO_SETS", "on").env("AGGIO_BLOB", RULE);
    let output = killer.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split("ended after ").nth(1)?.split(' ').next()?.parse().ok()
}

#[test]
fn whenever_a_rename_is_killed_one_of_both_names_has_the_whole_set() {
    if library().is_none() {
        return;
    }
    let calls = killed(place().0.path(), u64::MAX).expect("a number of calls");
    let renamed = calls - calls.min(90);
    let (mut before, mut after) = (0, 0);
    for number in (renamed..calls).step_by(if factor() > 1 { 1 } else { 4 }) {
        let (directory, bytes) = place();
        killed(directory.path(), number);
        let [old, new] = ["out.nc", "older.nc"].map(|name| whole(&directory.path().join(name)));
        let is_there = |set: &Option<Vec<u8>>| set.as_ref() == Some(&bytes);
        let names = names_in(directory.path());
        assert!(is_there(&old) || is_there(&new), "call {number} of {calls}: {names:?}");
        assert!(old.is_none() || is_there(&old), "call {number} of {calls}: {names:?}");
        (before, after) =
            (before + usize::from(is_there(&old)), after + usize::from(is_there(&new)));
        if is_there(&old) {
            // `mv` would say that both are the same file, as it does of one with two names.
            let script = "python3 -c \"import os; os.rename('out.nc', 'older.nc')\"";
            let again = shell(script, directory.path(), RULE);
            assert!(again.status.success(), "call {number} of {calls}: {again:?}");
        }
        let path = directory.path().join("older.nc");
        assert!(whole(&path) == Some(bytes), "call {number} of {calls}: {names:?}");
    }
    assert!(before > 3 && after > 3, "{before} kills before, {after} after");
}
