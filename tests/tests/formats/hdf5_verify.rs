//! `aggio verify` of HDF5 and netCDF-4 files: layouts do not matter, and differences are named.

use aggio_tests::{Directory, compile_with, factor, installed, repository, skip, tool};
use std::path::PathBuf;
use std::process::Command;

const PYTHON: &str = "/usr/bin/python3";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a program could do its work.
fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|run| run.status.success())
}

/// The tool, and a directory with the files of a test.
struct Place {
    aggio: PathBuf,
    directory: Directory,
}

impl Place {
    /// Unless something is missing that the tests need besides the tool.
    fn new() -> Option<Self> {
        let needed = [("h5repack", "--version"), ("nccopy", "-h"), (PYTHON, "-cimport h5py")];
        for (program, argument) in needed {
            if Command::new(program).arg(argument).output().is_err() {
                skip(&format!("{program} is missing (tests/setup.sh check)"));
                return None;
            }
        }
        Some(Place { aggio: tool()?, directory: Directory::new() })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Files that a Python script makes; their paths are its arguments.
    fn with(script: &str, files: &[&str]) -> Option<Self> {
        let place = Place::new()?;
        let paths = files.iter().map(|name| place.path(name));
        let run = Command::new(PYTHON).args(["-c", script]).args(paths).output();
        let run = run.expect("python runs");
        assert!(run.status.success(), "{}", text(&run.stderr));
        Some(place)
    }

    /// The status of `aggio verify` of two files, its output, and its warnings.
    fn verify(&self, one: &str, other: &str) -> (Option<i32>, String, String) {
        let paths = [one, other].map(|name| self.path(name));
        let run = Command::new(&self.aggio).arg("verify").args(paths).output();
        let run = run.expect("the tool runs");
        (run.status.code(), text(&run.stdout), text(&run.stderr))
    }
}

#[test]
fn random_files_are_the_same_in_every_layout_and_differ_where_one_value_does() {
    let Some(place) = Place::new() else { return };
    let Some(mpi) = installed().into_iter().next() else { return };
    let headers = format!("-I/usr/include/hdf5/{}", mpi.name);
    let libraries = format!("-L/usr/lib/x86_64-linux-gnu/hdf5/{}", mpi.name);
    let options = [&headers[..], &libraries, "-lhdf5"];
    let generator = compile_with("hdf5_random.c", &mpi, &options);
    let count = (12 * factor()).to_string();
    let folder = place.path("");
    assert!(runs(&generator.path.display().to_string(), &[&folder, "1", &count]));
    let (mut packed, mut changed) = (0, 0);
    for number in 1..=12 * factor() {
        let (one, two) = (format!("{number}.h5"), format!("{number}.other.h5"));
        let (file, other) = (place.path(&one), place.path(&two));
        assert_eq!(place.verify(&one, &one), (Some(0), String::new(), String::new()));
        // It cannot pack every file.
        if runs("h5repack", &["-f", "SHUF", "-f", "GZIP=3", "-L", &file, &other]) {
            let (status, said, why) = place.verify(&one, &two);
            assert_eq!((status, said.as_str()), (Some(0), ""), "{file}: {why}");
            packed += 1;
        }
        std::fs::copy(&file, &other).unwrap();
        let script = "import sys, h5py
def change(name, found):
    if isinstance(found, h5py.Dataset) and found.dtype.kind in 'iu' and found.size:
        at = tuple(length - 1 for length in found.shape)
        found[at] = found[at] ^ 1
        print('/' + name)
        return True
with h5py.File(sys.argv[1], 'r+') as file:
    file.visititems(change)";
        let run = Command::new(PYTHON).args(["-c", script, &other]).output().expect("python");
        let name = text(&run.stdout).trim().to_owned();
        if !run.status.success() || name.is_empty() {
            continue;
        }
        let (status, said, why) = place.verify(&one, &two);
        assert_eq!(status, Some(1), "{file} {name}: {said} {why}");
        assert!(said.starts_with(&format!("{name}: element (")), "{file} {name}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        changed += 1;
    }
    assert!(packed >= 6 && changed >= 3, "{packed} packed, {changed} changed");
}

#[test]
fn every_kind_of_difference_is_named() {
    let script = "import sys, h5py, numpy
def make(path, second):
    with h5py.File(path, 'w') as file:
        file['a'] = [1, 2, 3]
        file['b'] = numpy.zeros(3, 'f4' if second else 'i4')
        file['c'] = numpy.zeros(4 if second else 3)
        file['d'] = ['one', 'two' if second else 'deux']
        file['e'] = h5py.SoftLink('/a' if second else '/b')
        file.create_group('only2' if second else 'only1')
        file['a'].attrs['units'] = 'm' if second else 's'
        file['a'].attrs['x2' if second else 'x1'] = 1
        file['r'] = numpy.array([file['a'].ref, file['b' if second else 'c'].ref], h5py.ref_dtype)
make(sys.argv[1], False)
make(sys.argv[2], True)";
    let Some(place) = Place::with(script, &["one.h5", "two.h5"]) else { return };
    let (status, said, why) = place.verify("one.h5", "two.h5");
    let begins = [
        "/a: attribute units: another value",
        "/a: attribute x1: only in the first",
        "/a: attribute x2: only in the second",
        "/b: type signed integer of 4 bytes",
        "/c: shape (3), (4)",
        "/d: element (1): ",
        "/e: link to /b, link to /a",
        "/only1: only in the first",
        "/r: element (1): ",
        "/only2: only in the second",
    ];
    assert_eq!(status, Some(1), "{why}");
    assert_eq!(said.lines().count(), begins.len(), "{said}");
    for (line, begin) in said.lines().zip(begins) {
        assert!(line.starts_with(begin), "{line}, not {begin}");
    }
}

#[test]
fn netcdf_4_files_and_containers_are_compared_by_what_they_hold() {
    let Some(place) = Place::new() else { return };
    let path = |name: &str| place.path(name);
    let text = "netcdf x { dimensions: t = UNLIMITED; n = 5; variables: int v(t, n); \
                v:units = \"m\"; string s(n); double n(n); data: \
                v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10; s = \"a\", \"b\", \"c\", \"d\", \"e\"; }";
    std::fs::write(path("x.cdl"), text).unwrap();
    assert!(runs("ncgen", &["-k", "nc4", "-o", &path("x.nc"), &path("x.cdl")]));
    assert!(runs("nccopy", &["-c", "t/1,n/2", &path("x.nc"), &path("y.nc")]));
    let same = place.verify("x.nc", "y.nc");
    assert_eq!(same, (Some(0), String::new(), String::new()));
    assert!(runs(&place.aggio.display().to_string(), &["split", &path("y.nc"), &path("blob")]));
    let same = place.verify("x.nc", "blob");
    assert_eq!(same, (Some(0), String::new(), String::new()));
    std::fs::write(path("x.cdl"), text.replace("\"d\"", "\"D\"").replace("9, 10", "9, 0")).unwrap();
    assert!(runs("ncgen", &["-k", "nc4", "-o", &path("z.nc"), &path("x.cdl")]));
    let (status, said, _) = place.verify("blob", "z.nc");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((status, lines.len()), (Some(1), 2), "{said}");
    assert!(lines[0].starts_with("/s: element (3): "), "{said}");
    assert_eq!(lines[1], "/v: element (1, 4): 10, 0");
}

#[test]
fn what_cannot_be_decoded_is_compared_as_it_is_stored() {
    let script = "import sys, h5py, numpy
for number, path in enumerate(sys.argv[1:]):
    with h5py.File(path, 'w') as file:
        values = numpy.arange(1000) % 7
        values[500] += number // 2
        file.create_dataset('x', data=values, chunks=(100,), compression='lzf')";
    let Some(place) = Place::with(script, &["one.h5", "two.h5", "three.h5"]) else { return };
    let (status, said, why) = place.verify("one.h5", "two.h5");
    assert_eq!((status, said.as_str()), (Some(0), ""), "{why}");
    assert!(why.contains("/x: compared as stored: filter lzf is not known"), "{why}");
    let (status, said, _) = place.verify("one.h5", "three.h5");
    let line = "/x: the stored bytes of the chunk at [500]\n";
    assert_eq!((status, said.as_str()), (Some(1), line));
    // A damaged file cannot be compared, and that is no difference.
    let seed = repository().join("tests/corpus/hdf5/seed-latest");
    let mut bytes = std::fs::read(seed).unwrap();
    std::fs::write(place.path("good.h5"), &bytes).unwrap();
    let array = bytes.windows(4).position(|part| part == b"FAHD").expect("a fixed array");
    bytes[array + 9] ^= 1;
    std::fs::write(place.path("bad.h5"), &bytes).unwrap();
    let (status, said, why) = place.verify("good.h5", "bad.h5");
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(why.contains("bad.h5: /fixed: HDF5: ") && why.contains("checksum is wrong"), "{why}");
}

#[test]
fn fill_values_are_compared_also_where_no_chunk_can_be_decoded() {
    let script = "import sys, h5py
for fill, path in enumerate(sys.argv[1:]):
    with h5py.File(path, 'w') as file:
        x = file.create_dataset('x', (300,), 'i4', chunks=(100,), compression='lzf',
                                fillvalue=fill // 2)
        x[100:200] = 7";
    let Some(place) = Place::with(script, &["one.h5", "two.h5", "three.h5"]) else { return };
    assert_eq!(place.verify("one.h5", "two.h5").0, Some(0));
    let (status, said, why) = place.verify("one.h5", "three.h5");
    assert_eq!((status, said.as_str()), (Some(1), "/x: where nothing is stored: 0, 1\n"), "{why}");
}

#[test]
fn references_to_parts_and_to_nothing_are_never_taken_for_the_same() {
    let script = "import sys, h5py, numpy
for number, path in enumerate(sys.argv[1:]):
    with h5py.File(path, 'w') as file:
        file['a'] = numpy.arange(10)
        if number < 2:
            region = file['a'].regionref[number:5]
            file['part'] = numpy.array([region], h5py.regionref_dtype)
        else:
            file['gone'] = [1]
            file['r'] = numpy.array([file['gone'].ref if number == 3 else None], h5py.ref_dtype)
            del file['gone']";
    let all = ["one.h5", "two.h5", "null.h5", "gone.h5"];
    let Some(place) = Place::with(script, &all) else { return };
    for (one, other, wanted) in [
        (all[0], all[1], "cannot be compared: reference of 12 bytes to a part"),
        (all[2], all[3], "a reference leads to no object"),
    ] {
        let (status, said, why) = place.verify(one, other);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{why}");
        assert!(why.contains(wanted), "{why}");
    }
    assert_eq!(place.verify(all[2], all[2]).0, Some(0));
}

#[test]
fn texts_that_lie_in_many_heaps_by_turns_are_read() {
    // Written by strides, so that neighbours lie in heaps far from each other.
    let script = "import sys, h5py
for path in sys.argv[1:]:
    with h5py.File(path, 'w') as file:
        x = file.create_dataset('x', (20000,), h5py.string_dtype())
        for first in range(20):
            x[first::20] = ['%d %d' % (first, number) for number in range(1000)]";
    let Some(place) = Place::with(script, &["one.h5", "two.h5"]) else { return };
    let (status, said, why) = place.verify("one.h5", "two.h5");
    assert_eq!((status, said.as_str()), (Some(0), ""), "{why}");
}
