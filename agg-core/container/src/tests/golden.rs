//! The container in `tests/golden/` and the seeds of the fuzzers, and the reader that shares no
//! code.

use crate::blob::*;
use crate::directory::dir::Dir;
use crate::tests::model::{Run, steps};
use crate::tests::whole::sample;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn content(path: &Path) -> Vec<u8> {
    let reader = Container::open(path).unwrap().reader().unwrap();
    let mut bytes = vec![0; reader.size() as usize];
    assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// The content of the file according to the independent reader; `None` without Python.
pub(crate) fn independent(path: &Path) -> Option<Vec<u8>> {
    let script = repository().join("tests/blob_reader.py");
    let output = Command::new("python3").arg(script).arg(path).output().ok()?;
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    Some(output.stdout)
}

#[test]
fn the_golden_container_is_read_as_ever() {
    let folder = repository().join("tests/golden");
    let bytes = std::fs::read(folder.join("blob.bytes")).unwrap();
    assert_eq!(content(&folder.join("blob")), bytes);
    assert_eq!(
        check(&folder.join("blob"), &Check { data: true, ..Check::default() }).unwrap().exit_code(),
        0
    );
    if let Some(other) = independent(&folder.join("blob")) {
        assert_eq!(other, bytes);
    }
}

#[test]
fn a_reader_that_shares_no_code_reads_the_same() {
    let mut runner = TestRunner::deterministic();
    for case in 0..25 {
        let program = steps(40).new_tree(&mut runner).unwrap().current();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut run = Run::new(&path);
        program.iter().for_each(|step| run.step(step));
        if case % 2 == 0 {
            run.close();
        }
        match independent(&path) {
            Some(bytes) => assert_eq!(bytes, run.model, "case {case}: {program:?}"),
            None => return,
        }
    }
}

/// Makes the golden container and the seeds anew, when the format changes: with the variable set,
/// they are written to its directory.
#[test]
fn the_golden_files_are_made_when_asked_for() {
    let Some(to) = std::env::var_os("AGGIO_MAKE_GOLDEN").map(PathBuf::from) else { return };
    let bytes = sample(&to.join("golden/blob"));
    std::fs::write(to.join("golden/blob.bytes"), bytes).unwrap();
    let dir = Dir::open(&to.join("golden/blob")).unwrap();
    for name in dir.names().unwrap() {
        let bytes = std::fs::read(dir.path_of(&name)).unwrap();
        let seed = match &name[..] {
            "aggio-manifest" => Some(("manifests", bytes)),
            name if name.starts_with("index.") => Some(("indexes", bytes)),
            name if name.ends_with(".log") => Some(("frames", bytes[..96].to_vec())),
            _ => None,
        };
        if let Some((folder, bytes)) = seed {
            let folder = to.join("corpus").join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let count = std::fs::read_dir(&folder).unwrap().count();
            std::fs::write(folder.join(format!("seed-{count}")), bytes).unwrap();
        }
    }
}
