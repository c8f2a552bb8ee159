//! Scripts of everyday programs (`programs/works`), run in one of the modes in which aggio may
//! serve them.

use crate::mounted::Mounted;
use crate::{Directory, compile_plain, library, repository};
use agg_core::blob::{Container, is_container};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How the programs' files are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By the kernel alone.
    Native,
    /// The library is loaded and has nothing to do.
    Loaded,
    /// `AGGIO_POSIX`, mode close.
    Close,
    /// `AGGIO_POSIX`, mode causal.
    Causal,
    /// `AGGIO_POSIX`, mode posix.
    Posix,
    /// Every new file is a container (`AGGIO_BLOB`), with this behind the pattern.
    Container(&'static str),
    /// A mount shows containers, and makes new files containers; nothing is preloaded.
    View,
}

/// All modes.
pub const MODES: &[Mode] = &[
    Mode::Native,
    Mode::Loaded,
    Mode::Close,
    Mode::Causal,
    Mode::Posix,
    Mode::Container(""),
    Mode::Container(":close"),
    Mode::Container(":causal"),
    Mode::View,
];

/// The names of all works, or the one that `AGGIO_TEST_WORK` names.
///
/// # Panics
///
/// If the folder cannot be read.
pub fn works() -> Vec<String> {
    let folder = repository().join("tests/programs/works");
    let entries = std::fs::read_dir(folder).expect("the works").flatten();
    let scripts = entries.map(|entry| entry.path()).filter(|path| is_script(path));
    let name = |path: PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = scripts.filter_map(name).collect();
    names.sort();
    let only = std::env::var("AGGIO_TEST_WORK").unwrap_or_default();
    names.retain(|name| only.is_empty() || *name == only);
    names
}

fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "sh")
}

/// The output of a run, its end, and its files.
#[derive(Debug, PartialEq)]
pub struct Left {
    /// Standard output.
    pub printed: String,
    /// Standard error.
    pub complained: String,
    /// The exit status; `None` after a signal.
    pub status: Option<i32>,
    /// Permissions and content of every file, permissions of every directory, and where links
    /// point, by name.
    pub files: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Left {
    /// The first difference from another run, in words.
    pub fn difference(&self, other: &Left) -> Option<String> {
        let texts = [
            ("printed", &self.printed, &other.printed),
            ("complained", &self.complained, &other.complained),
        ];
        for (what, one, two) in texts {
            if one != two {
                return Some(format!("{what}: {}", first_line(one, two)));
            }
        }
        if self.status != other.status {
            return Some(format!("status: {:?}, not {:?}", other.status, self.status));
        }
        for name in self.files.keys().chain(other.files.keys()) {
            match (self.files.get(name), other.files.get(name)) {
                (Some(one), Some(two)) if one == two => {}
                (Some((mode, one)), Some((other, two))) => {
                    let at = one.iter().zip(two).position(|(a, b)| a != b);
                    let (len, had) = (two.len(), one.len());
                    return Some(format!(
                        "{name}: mode {other:o}, not {mode:o}; {len} bytes, not {had}; first \
                            difference {at:?}"
                    ));
                }
                (one, _) => {
                    let whose = if one.is_some() { "natively" } else { "here" };
                    return Some(format!("only {whose} there is {name}"));
                }
            }
        }
        None
    }
}

fn first_line(one: &str, other: &str) -> String {
    let (one, other): (Vec<_>, Vec<_>) = (one.lines().collect(), other.lines().collect());
    let at = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at));
    let at = at.unwrap_or(0);
    format!("line {}: {:?}, not {:?}", at + 1, other.get(at), one.get(at))
}

/// Runs a work in an empty directory; `None` where a mode cannot be had, with the reason on
/// standard error.
///
/// # Panics
///
/// If something cannot be started, or a mode leaves files that it must not leave.
pub fn run(work: &str, mode: Mode) -> Option<Left> {
    let directory = Directory::new();
    let (data, backing) = (directory.path().join("data"), directory.path().join("backing"));
    let home = directory.path().join("home");
    for path in [&data, &backing, &home] {
        std::fs::create_dir(path).expect("a directory");
    }
    let mount = match mode {
        Mode::View => {
            Some(Mounted::new(&["--rw", "--new-files", "container"], &backing, &data, &[])?)
        }
        _ => None,
    };
    let script = repository().join("tests/programs/works").join(format!("{work}.sh"));
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["-k", "10", "300", "/bin/bash"]).arg(script).current_dir(&data);
    prepare(&mut command, mode, &data, directory.path());
    let output = command.env("HOME", home).stdin(Stdio::null()).output().expect("bash starts");
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&data.display().to_string(), "DATA");
    let mut files = BTreeMap::new();
    collect(&data, &data, &mut files);
    if let Some(mount) = mount {
        mount.end();
        check(&backing, &mut files, mode);
    }
    if matches!(mode, Mode::Container(_)) {
        check(&data, &mut files.clone(), mode);
    }
    let spool = directory.path().join("spool");
    let left = std::fs::read_dir(&spool).map_or(0, |entries| entries.count());
    assert_eq!(left, 0, "{work}, {mode:?}: a spool file is left");
    let (printed, complained) = (text(&output.stdout), text(&output.stderr));
    Some(Left { printed, complained, status: output.status.code(), files })
}

/// The environment: nothing of the caller's, the same in every run, and the variables of the mode.
fn prepare(command: &mut Command, mode: Mode, data: &Path, directory: &Path) {
    let library = library().expect("the library was found before");
    let programs: Vec<_> = ["streams.c", "fstreams.cc", "units.f90"]
        .iter()
        .map(|source| compile_plain(&format!("works/{source}"), &[]))
        .collect();
    let folder = programs[0].parent().expect("a folder");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command.env("WORKS", folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let everything = format!("{}/**", data.display());
    let spool = directory.join("spool");
    let rule = match mode {
        Mode::Native | Mode::View => return,
        Mode::Loaded => None,
        Mode::Close => Some("close"),
        Mode::Causal => Some("causal"),
        Mode::Posix => Some("posix"),
        Mode::Container(how) => {
            command.env("AGGIO_BLOB", format!("{everything}{how}"));
            None
        }
    };
    std::fs::create_dir(&spool).expect("the spool directory");
    command.env("LD_PRELOAD", library).env("AGGIO_SPOOL", spool);
    if let Some(rule) = rule {
        command.env("AGGIO_POSIX", format!("{everything}:{rule}"));
    }
}

/// Everything below a directory; containers are files.
fn collect(root: &Path, place: &Path, files: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(place).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("below it").display().to_string();
        let facts = path.symlink_metadata().expect("its attributes");
        let mode = facts.permissions().mode() & 0o7777;
        let value = if is_container(&path) {
            container(&path)
        } else if facts.is_symlink() {
            let target = std::fs::read_link(&path).expect("a link");
            (0o120000, target.display().to_string().into_bytes())
        } else if facts.is_dir() {
            collect(root, &path, files);
            (0o040000 | mode, Vec::new())
        } else {
            (mode, std::fs::read(&path).expect("a file"))
        };
        files.insert(name, value);
    }
}

/// The mode and the bytes of a container.
fn container(path: &Path) -> (u32, Vec<u8>) {
    let attributes = Container::open(path).and_then(|container| container.attributes());
    (attributes.expect("its attributes").mode, bytes_of_container(path))
}

/// All bytes of the container at `path`.
///
/// # Panics
///
/// If it cannot be read.
pub fn bytes_of_container(path: &Path) -> Vec<u8> {
    let reader = Container::open(path).and_then(|it| it.reader()).expect("a container");
    let mut bytes = vec![0; usize::try_from(reader.size()).expect("not so large")];
    assert_eq!(reader.read_at(&mut bytes, 0).expect("its bytes"), bytes.len());
    bytes
}

/// Every file below `place` is a sound container, and has the bytes that are known of it.
fn check(place: &Path, files: &mut BTreeMap<String, (u32, Vec<u8>)>, mode: Mode) {
    let mut found = BTreeMap::new();
    collect(place, place, &mut found);
    for (name, (bits, bytes)) in &found {
        let path = place.join(name);
        if bits & 0o170000 == 0 {
            let is_ordinary = NEVER_CONTAINERS.iter().any(|end| name.ends_with(end));
            assert!(is_container(&path) || is_ordinary, "{mode:?}: {name} is no container");
        }
        assert!(files.get(name) == Some(&(*bits, bytes.clone())), "{mode:?}: {name} is different");
    }
    assert_eq!(found.len(), files.len(), "{mode:?}: {:?} {:?}", found.keys(), files.keys());
}

/// Endings of names of files that never become containers: shared memory of SQLite, and the file
/// that `streams.c` makes by `freopen`.
const NEVER_CONTAINERS: [&str; 2] = ["-shm", "reopened"];
