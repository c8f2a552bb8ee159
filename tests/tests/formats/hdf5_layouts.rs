//! `aggio stat` of HDF5 files shows the objects that HDF5 wrote.

use aggio_tests::{Directory, factor, parsers, repository, skip, tool};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const INDEXES: [&str; 6] =
    ["B-tree-1", "B-tree-2", "extensible-array", "fixed-array", "implicit", "single-chunk"];

/// A Python that has h5py.
fn python() -> Option<&'static str> {
    const PYTHON: &str = "/usr/bin/python3";
    let works = Command::new(PYTHON).args(["-c", "import h5py"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(PYTHON);
    }
    skip("python3-h5py is missing (tests/setup.sh check)");
    None
}

#[test]
fn groups_datasets_and_chunks_of_random_files_are_where_they_are_said_to_be() {
    let Some(python) = python() else { return };
    let Some(aggio) = tool() else { return };
    let place = Directory::new();
    let mut met = BTreeSet::new();
    for seed in 1..=16 * factor() {
        let script = repository().join("tests/programs/hdf5_layouts.py");
        let mut command = Command::new(python);
        command.arg(script).arg(&aggio).arg(place.path().join("file.h5")).arg(seed.to_string());
        let run = command.output().expect("python runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "seed {seed}: {said}");
        let indexes = String::from_utf8_lossy(&run.stdout);
        met.extend(indexes.split_whitespace().map(str::to_owned));
    }
    assert!(met.iter().eq(INDEXES), "{met:?}");
}

fn run(aggio: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let run = Command::new(aggio).args(arguments).output().expect("the tool runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
    (run.status.code(), text(run.stdout), text(run.stderr))
}

/// The output of `aggio stat` for the file that a script of Python makes.
fn stat_of(python: &str, aggio: &Path, script: &str) -> (Option<i32>, String) {
    let place = Directory::new();
    let path = place.path().join("file.h5").display().to_string();
    let made = Command::new(python).args(["-c", script, &path]).output().expect("python runs");
    assert!(made.status.success(), "{made:?}");
    let (status, told, _) = run(aggio, &["stat", &path]);
    (status, told)
}

fn advice_in(told: &str) -> Vec<&str> {
    told.lines().filter(|line| line.contains("advice: ")).collect()
}

#[test]
fn a_container_holds_what_its_file_holds() {
    let Some(aggio) = tool() else { return };
    let place = Directory::new();
    let blob = place.path().join("blob").display().to_string();
    let file = repository().join("tests/corpus/hdf5/seed-latest").display().to_string();
    assert_eq!(run(&aggio, &["split", &file, &blob]).0, Some(0));
    let [of_file, of_blob] = [&file, &blob].map(|path| run(&aggio, &["stat", "--chunks", path]));
    assert_eq!((of_file.0, of_blob.0), (Some(0), Some(0)), "{of_file:?} {of_blob:?}");
    let held = |told: &str| told.split_once("  HDF5").map(|(_, held)| held.to_owned());
    assert_eq!(held(&of_file.1), held(&of_blob.1));
    let held = held(&of_file.1).expect("what the file holds");
    assert!(
        held.contains("\n  /z  int8 (6, 4), fill 3, chunks (2, 2) of 4 bytes, fixed array, 2 of 6")
    );
    assert!(held.contains("\n  /g/e  -> /x in o.h5\n"), "{held}");
}

#[test]
fn advice_names_the_dataset_what_is_wrong_and_the_call() {
    let (Some(python), Some(aggio)) = (python(), tool()) else { return };
    const SCRIPT: &str = "import sys, os, h5py, numpy
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('good', (1 << 20,), 'i1', chunks=(1 << 16,))[...] = 1
    file.create_dataset('few', (20,), 'i1', chunks=(2,), compression='gzip')[...] = 1
    random = numpy.frombuffer(os.urandom(40000), 'i1')
    file.create_dataset('small', data=random, chunks=(20,), compression='gzip')";
    let (status, told) = stat_of(python, &aggio, SCRIPT);
    let advice = advice_in(&told);
    assert_eq!((status, advice.len()), (Some(0), 2), "{told}");
    assert!(advice[0].starts_with("  advice: /small: 2000 chunks of 20 bytes: "), "{told}");
    assert!(advice[0].contains("H5Pset_chunk"), "{told}");
    assert!(advice[1].starts_with("  advice: /small: filters increase 40000 bytes to "), "{told}");
}

#[test]
fn advice_names_the_datasets_whose_fill_value_was_written_before_the_data() {
    let (Some(python), Some(aggio)) = (python(), tool()) else { return };
    const SCRIPT: &str = "import sys, h5py, numpy
def add(name, value, time, allocation, side=1024):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((side // 8, side // 8))
    properties.set_fill_value(numpy.array(value, 'i4'))
    properties.set_fill_time(time)
    properties.set_alloc_time(allocation)
    space = h5py.h5s.create_simple((side, side))
    h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_INT32, space, properties)
d = h5py.h5d
with h5py.File(sys.argv[1], 'w') as file:
    add(b'filled', 7, d.FILL_TIME_IFSET, d.ALLOC_TIME_EARLY)
    add(b'small', 7, d.FILL_TIME_IFSET, d.ALLOC_TIME_EARLY, 64)
    add(b'zero', 0, d.FILL_TIME_IFSET, d.ALLOC_TIME_EARLY)
    add(b'never', 7, d.FILL_TIME_NEVER, d.ALLOC_TIME_EARLY)
    add(b'later', 7, d.FILL_TIME_IFSET, d.ALLOC_TIME_INCR)
    file['later'][...] = 1";
    let (status, told) = stat_of(python, &aggio, SCRIPT);
    let advice = advice_in(&told);
    assert_eq!((status, advice.len()), (Some(0), 1), "{told}");
    let wanted =
        "  advice: /filled: the fill value was written to all 4194304 bytes before the data";
    assert!(advice[0].starts_with(wanted) && advice[0].contains("H5Pset_fill_time"), "{told}");
}

#[test]
fn control_characters_in_names_are_escaped() {
    let (Some(python), Some(aggio)) = (python(), tool()) else { return };
    const SCRIPT: &str = "import sys, h5py
with h5py.File(sys.argv[1], 'w') as file:
    file['a\\x1b[31mb\\nc'] = h5py.SoftLink('/\\x07')";
    let place = Directory::new();
    let path = place.path().join("file.h5").display().to_string();
    let made = Command::new(python).args(["-c", SCRIPT, &path]).output().expect("python runs");
    assert!(made.status.success(), "{made:?}");
    let (status, told, why) = run(&aggio, &["stat", &path]);
    assert_eq!(status, Some(0), "{why}");
    assert!(told.contains("  /a\\u{1b}[31mb\\nc  -> /\\u{7}\n"), "{told}");
}

#[test]
fn groups_may_be_nested_as_deep_as_the_file_has_room_for() {
    let (Some(python), Some(aggio)) = (python(), tool()) else { return };
    const SCRIPT: &str = "import sys, h5py
with h5py.File(sys.argv[1], 'w', libver=sys.argv[2]) as group:
    for _ in range(1500): group = group.create_group('g')";
    for version in ["earliest", "latest"] {
        let place = Directory::new();
        let path = place.path().join("file.h5").display().to_string();
        let made = Command::new(python).args(["-c", SCRIPT, &path, version]).output();
        assert!(made.expect("python runs").status.success());
        let (status, told, why) = run(&aggio, &["stat", &path]);
        assert_eq!(status, Some(0), "{why}");
        assert_eq!(told.matches("/g  group\n").count(), 1500);
        parsers::hdf5(&std::fs::read(&path).unwrap());
    }
}

#[test]
fn what_is_damaged_is_named_and_the_rest_is_told() {
    let Some(aggio) = tool() else { return };
    let place = Directory::new();
    let path = place.path().join("file").display().to_string();
    let mut bytes = std::fs::read(repository().join("tests/corpus/hdf5/seed-latest")).unwrap();
    let array = bytes.windows(4).position(|part| part == b"FAHD").expect("a fixed array");
    bytes[array + 9] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (status, told, found) = run(&aggio, &["stat", &path]);
    assert_eq!(status, Some(1), "{found}");
    assert!(found.contains("/fixed") && found.contains("checksum is wrong"), "{found}");
    assert!(told.contains("  /fixed  not known: ") && told.contains("  /grows  int8"), "{told}");
    std::fs::write(&path, &std::fs::read(&path).unwrap()[..4000]).unwrap();
    let (status, _, found) = run(&aggio, &["stat", &path]);
    assert!(status == Some(1) && found.contains("truncated: 4000 of "), "{found}");
}
