//! Programs without MPI whose files become blob containers: they behave as with ordinary files.

use agg_core::blob::{Container, is_container};
use aggio_tests::{Directory, library, repository};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// `command` with every new file below `data` a container, if a library is given.
fn run(mut command: Command, data: &Path, library: Option<&Path>) -> Output {
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX", "AGGIO_BLOB"] {
        command.env_remove(name);
    }
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
        command.env("AGGIO_BLOB", format!("{}/**", data.display()));
    }
    let output = command.current_dir(data).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a run printed, and the content of the files that it left, by name.
#[derive(Debug, PartialEq)]
struct Left {
    printed: String,
    complained: String,
    files: BTreeMap<String, Vec<u8>>,
}

fn left(command: Command, library: Option<&Path>) -> Left {
    let directory = Directory::new();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    let output = run(command, &data, library);
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&data.display().to_string(), "DATA");
    let mut files = BTreeMap::new();
    collect(&data, &data, library.is_some(), &mut files);
    Left { printed: text(&output.stdout), complained: text(&output.stderr), files }
}

/// All files below a directory. With the library there must not be an ordinary one among them.
fn collect(root: &Path, place: &Path, containers: bool, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(place).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("below it").display().to_string();
        if is_container(&path) {
            files.insert(name, bytes_of(&path));
        } else if path.is_dir() {
            collect(root, &path, containers, files);
        } else {
            assert!(!containers, "{name} is no container");
            files.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    let reader = Container::open(path).and_then(|it| it.reader()).expect("a container");
    let mut bytes = vec![0; reader.size() as usize];
    assert_eq!(reader.read_at(&mut bytes, 0).expect("its bytes"), bytes.len());
    bytes
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/bash");
    command.args(["-c", script]);
    command
}

#[test]
fn random_operations_give_what_they_give_on_files() {
    let Some(library) = library() else { return };
    let factor: usize =
        std::env::var("AGGIO_TEST_FACTOR").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in 0..25 * factor {
        let command = || {
            let mut command = Command::new("python3");
            command.arg(repository().join("tests/programs/operations.py"));
            command.args([&seed.to_string(), "400", "."]);
            command
        };
        let (native, served) = (left(command(), None), left(command(), Some(&library)));
        let (one, other) = (native.printed.lines(), served.printed.lines());
        let difference = one.zip(other).position(|(one, other)| one != other);
        assert_eq!(difference, None, "seed {seed}: {}", served.complained);
        assert!(native == served, "seed {seed}: {}", served.complained);
    }
}

#[test]
fn ways_that_the_library_does_not_see_fail_instead_of_touching_other_bytes() {
    let Some(library) = library() else { return };
    let script = "echo content > f; python3 -c \"
import os, mmap
f = os.open('f', os.O_RDWR)
def told(what, act):
    try: print(what, act())
    except OSError as error: print(what, error.errno)
out = os.open('/dev/null', os.O_WRONLY)
told('splice', lambda: os.splice(f, os.pipe()[1], 5, offset_src=0))
told('shared', lambda: mmap.mmap(f, 7))
told('copy', lambda: os.copy_file_range(f, out, 5))
told('link', lambda: os.link('f', 'g'))
\"; cat f";
    let served = left(shell(script), Some(&library));
    let expected = "splice 9\nshared 19\ncopy 18\nlink 1\ncontent\n";
    assert_eq!((served.printed.as_str(), served.complained.as_str()), (expected, ""));
}

#[test]
fn a_program_that_may_have_few_descriptors_gets_the_lowest_ones() {
    let Some(library) = library() else { return };
    let script = "ulimit -n 64; echo content > f; exec 9> lock; flock 9; flock -n lock true; echo $?; python3 -c \"
files = [open(f'x{index}', 'w') for index in range(9)]
print([file.fileno() for file in files])
for file in files: file.close()
\"; cat f";
    let (native, served) = (left(shell(script), None), left(shell(script), Some(&library)));
    assert_eq!((served.printed, served.complained), (native.printed, native.complained));
    assert!(native.files == served.files);
}
