//! netCDF files and sets that are wrong in one respect each (`tests/corpus/hostile.py`) are refused
//! with the reason, or read.

use crate::mounted::aggio;
use aggio_tests::{Directory, repository};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// No command may ask for more memory; in KiB.
const MOST_MEMORY: u32 = 400_000;

/// The expected result for a file or set.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The error has these words.
    Refused(&'static str),
    /// It is legal, or harmless; the output of `aggio stat` has these words.
    Read(&'static str),
}
use Fate::{Read, Refused};

const NEEDS_MORE: Fate = Refused("the header has at least");
const BEFORE: Fate = Refused("the end of what lies before it");
const TOO_LARGE: Fate = Refused("is larger than any file");
const NAME_NEGATIVE: Fate = Refused("the length of a name is negative");
const NOT_FIRST: Fate = Refused("which has no limit, is not its first dimension");
const NO_NETCDF: Fate = Read(": file, ");

/// By class: the name between `hostile-` and the version.
const FILES: &[(&str, Fate)] = &[
    ("attribute-name-long", NEEDS_MORE),
    ("attribute-name-longest", NEEDS_MORE),
    ("attribute-name-negative", NAME_NEGATIVE),
    ("attributes-absent", Refused("0x0 where a list of attributes begins")),
    ("attributes-many", NEEDS_MORE),
    ("attributes-negative", Refused("the number of attributes is negative")),
    ("attributes-none", Read("0 records")),
    ("attributes-overflow", Refused("4611686018427387904 attributes")),
    ("attributes-tag", Refused("0x1869f where a list of attributes begins")),
    ("begin", Refused("v ends beyond every file")),
    ("begin-apart", Refused("the variables of a record are further apart than 32 bytes")),
    ("begin-header", BEFORE),
    ("begin-largest", Refused("v ends beyond every file")),
    ("begin-mixed", BEFORE),
    ("begin-negative", Refused("where data begin is negative")),
    ("begin-overlap", BEFORE),
    ("begin-zero", BEFORE),
    ("count", NEEDS_MORE),
    ("count-overflow", Refused("9223372036854775807 dimensions")),
    ("dimension-id", Refused("v has dimension 7 of 1")),
    ("dimensions-absent", Refused("0x0 where a list of dimensions begins")),
    ("dimensions-many", NEEDS_MORE),
    ("dimensions-negative", Refused("the number of dimensions is negative")),
    ("dimensions-none", Read("0 records")),
    ("dimensions-overflow", Refused("4611686018427387904 dimensions")),
    ("dimensions-tag", Refused("0x1869f where a list of dimensions begins")),
    ("id-largest", Refused("v has dimension ")),
    ("id-negative", Refused("a dimension is negative")),
    ("id-next", Refused("v has dimension 2 of 2")),
    // Data is read at the place that the header gives, although CDF-2 does not allow another
    // variable behind it.
    ("large-first", Read("int a(d0)\n  int b()")),
    ("large-record", Read("int a(d0, d1)\n  int b(d0)")),
    ("length-negative", Refused("the length of a dimension is negative")),
    ("magic-255", NO_NETCDF),
    ("magic-3", NO_NETCDF),
    ("magic-4", NO_NETCDF),
    ("magic-6", NO_NETCDF),
    ("magic-only", NEEDS_MORE),
    ("magic-short", NO_NETCDF),
    ("many-dimensions", Refused("v has 2000 dimensions")),
    ("name", NEEDS_MORE),
    ("name-control", Read("dimension \\u{1b}]0;x\\u{7}\\n../\\u{0}\u{fffd}\u{fffd} = 4\n")),
    ("name-empty", Read("dimension  = 4")),
    ("name-long", NEEDS_MORE),
    ("name-longest", NEEDS_MORE),
    ("name-negative", NAME_NEGATIVE),
    ("name-twice", Read("int v()\n  int v()")),
    ("negative", Refused("the number of records is negative")),
    ("overlap", BEFORE),
    ("own-attributes-many", NEEDS_MORE),
    ("own-attributes-negative", Refused("the number of attributes is negative")),
    ("own-attributes-tag", Refused("0x1869f where a list of attributes begins")),
    // Old writers left anything there.
    ("padding", Read("dimension dim = 4\n  int v()")),
    ("product", TOO_LARGE),
    ("product-wraps", TOO_LARGE),
    ("published-abort", NEEDS_MORE),
    ("published-length", NEEDS_MORE),
    ("rank-cut", Refused("v has dimension ")),
    ("rank-largest", Refused("v has ")),
    ("rank-many", Refused("v has 1025 dimensions")),
    ("rank-negative", Refused("the number of dimensions is negative")),
    ("record-second", NOT_FIRST),
    ("record-wraps", Refused("a record is larger than any file")),
    ("records-end", Refused("2147483646 records end beyond every file")),
    ("records-many", Read("unlimited (2147483646)")),
    ("records-negative", Refused("the number of records is negative")),
    ("records-nested", NOT_FIRST),
    ("records-none", Read("int v(d0)")),
    ("records-second", NOT_FIRST),
    ("records-streaming", Read("unlimited (4)")),
    ("records-streaming-none", Read("int v(d0)")),
    ("records-streaming-short", Read("unlimited (0)")),
    // Nothing depends on the size in the header of a variable.
    ("told-largest", Read("int v(d0)")),
    ("told-small", Read("int v(d0)")),
    ("told-zero", Read("int v(d0)")),
    ("type", Refused("type 11, which CDF-1 does not have")),
    ("type-negative", Refused("type 4294967295, which CDF-")),
    ("type-unknown", Refused("type 13, which CDF-")),
    ("type-zero", Refused("type 0, which CDF-")),
    ("unlimited-twice", Refused("two dimensions without limit, d0 and d2")),
    ("values-many", NEEDS_MORE),
    ("values-negative", Refused("the number of values is negative")),
    ("values-overflow", Refused("2305843009213693952 values")),
    ("values-type-negative", Refused("type 4294967295, which CDF-")),
    ("values-type-unknown", Refused("type 13, which CDF-")),
    ("values-type-zero", Refused("type 0, which CDF-")),
    ("variable-name-long", NEEDS_MORE),
    ("variable-name-longest", NEEDS_MORE),
    ("variable-name-negative", NAME_NEGATIVE),
    ("variables-absent", Refused("0x0 where a list of variables begins")),
    ("variables-many", NEEDS_MORE),
    ("variables-negative", Refused("the number of variables is negative")),
    ("variables-none", Read("0 records")),
    ("variables-overflow", Refused("4611686018427387904 variables")),
    ("variables-tag", Refused("0x1869f where a list of variables begins")),
];

/// A first file that does not say that it belongs to a set makes none.
const NO_SET: Fate = Refused("set: No such file or directory");
const NO_LIST: Fate = Refused("canonical_layout is no list of a version, a size and begins");
const NO_ROW: Fate = Refused("lies in no row of the decomposition");
const NO_DECOMPOSITION: Fate = Refused("v: decomposition_ID is no decomposition");
const NEGATIVE_COUNT: Fate = Refused("blob 0 has a negative number of elements or requests");

const SETS: &[(&str, Fate)] = &[
    ("blobs-many", Refused("set.0000: header, byte 0: D1.blob_start begins at")),
    ("blobs-none", NO_SET),
    ("columns-few", NO_ROW),
    ("columns-many", TOO_LARGE),
    ("count-largest", Refused("has 9223372036854775807 elements, but its requests have 2")),
    ("count-negative", NEGATIVE_COUNT),
    ("cut", Refused("set.0000: truncated: 883 bytes, the data of v end at 884")),
    ("decomposed-none", Refused("a decomposition of no dimensions")),
    ("decomposed-records", Refused("a decomposition of no dimensions")),
    ("decompositions-many", Refused("2147483647 decompositions without their variables")),
    ("decompositions-negative", Refused("attribute num_decompositions is not one number")),
    ("decompositions-two", Refused("2 decompositions without their variables")),
    ("dimids-negative", Refused("v: global_dimids are no dimensions")),
    ("dimids-next", Refused("v: global_dimids are no dimensions")),
    ("dimids-none", Refused("v has not the shape of D1")),
    ("dimids-short", Refused("v has not the shape of D1")),
    ("elements-few", Refused("D1: 2 elements of 1")),
    ("elements-many", TOO_LARGE),
    ("id-negative", NO_DECOMPOSITION),
    ("id-next", NO_DECOMPOSITION),
    ("id-two", NO_DECOMPOSITION),
    ("id-zero", NO_DECOMPOSITION),
    ("length-behind", NO_ROW),
    ("length-largest", NO_ROW),
    ("length-negative", NO_ROW),
    ("many-subfiles", NO_SET),
    ("nreqs-more", Refused("blob 0 has 3 requests of at most 2")),
    ("nreqs-negative", NEGATIVE_COUNT),
    ("offset-behind", NO_ROW),
    ("offset-negative", NO_ROW),
    ("offset-of-other", Refused("set.0000: element 1 of D1 is also in ")),
    ("offset-twice", Refused("set.0000: element 0 of D1 is also in ")),
    ("places-differ", Refused("set.0001: says that the variables lie at other places")),
    ("places-empty", NO_LIST),
    ("places-far", Refused("1099511627760 does not fit in a header of CDF-1")),
    ("places-few", Refused("canonical_layout has 0 begins for 1 variables")),
    ("places-header", BEFORE),
    ("places-lacks-type", Refused("canonical_layout says CDF-1, which has not all of its types")),
    ("places-largest", Refused("v ends beyond every file")),
    ("places-many", Refused("canonical_layout has 2 begins for 1 variables")),
    ("places-negative", NO_LIST),
    ("places-short", NO_LIST),
    // A file may go on behind its last variable.
    ("places-size-largest", Read("set: set, 9223372036854775807 bytes")),
    ("places-size-negative", NO_LIST),
    ("places-size-small", Refused("canonical_layout says 8 bytes, fewer than the header has")),
    ("places-type", NO_LIST),
    ("places-version", NO_LIST),
    ("processes-many", Refused("have data of 2 processes, but 2147483647 wrote the file")),
    ("processes-negative", Refused("attribute global_nprocs is not one number")),
    ("processes-none", Refused("the number of subfiles is not one to at most 0")),
    ("records-largest", Refused("set.0000: truncated")),
    ("records-more", Refused("set.0000: truncated: 884 bytes, the data of v end at 892")),
    ("requests-many", TOO_LARGE),
    ("requests-none", NO_SET),
    ("shape-other", Refused("v has not the shape of D1")),
    ("start-negative", NEGATIVE_COUNT),
    ("start-other", Refused("blob 0 begins at element 1, not at 0")),
    ("subfiles-many", NO_SET),
    ("subfiles-negative", NO_SET),
    ("subfiles-none", NO_SET),
];

/// The hostile entries of a folder of the corpus, by class, with their content.
fn entries(folder: &str) -> Vec<(String, String, Vec<u8>)> {
    let folder = repository().join("tests/corpus").join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let hostile = named.filter_map(|(name, path)| {
        let class = name.strip_prefix("hostile-")?.trim_end_matches(['.', '1', '2', '5']);
        // Numbers at the end of a class are not versions.
        let class = if name.contains('.') { class } else { &name["hostile-".len()..] };
        Some((class.to_owned(), name.clone(), std::fs::read(path).unwrap()))
    });
    hostile.collect()
}

/// Runs `aggio` with little memory.
fn with_little_memory(command: &str, path: &Path) -> Output {
    let script = format!("ulimit -v {MOST_MEMORY}; exec \"$0\" {command} \"$1\"");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_aggio")]).arg(path).output().unwrap()
}

#[track_caller]
fn meets(fate: Fate, output: &Output, name: &str) {
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let words = match fate {
        Refused(words) => words,
        Read(words) => words,
    };
    let (code, found) = match fate {
        Refused(_) => (1, errors.contains(words)),
        Read(_) => (0, told.contains(words) && errors.is_empty()),
    };
    assert!(found && output.status.code() == Some(code), "{name}: {fate:?}: {output:?}");
    let shown = told.chars().chain(errors.chars());
    assert!(shown.into_iter().all(|one| one == '\n' || !one.is_control()), "{name}: {output:?}");
}

fn table(of: &'static [(&'static str, Fate)]) -> BTreeMap<&'static str, Fate> {
    of.iter().copied().collect()
}

/// Every entry has its line in the table, and every line an entry.
fn all_are_judged(folder: &str, fates: &BTreeMap<&str, Fate>) {
    let found: Vec<String> = entries(folder).into_iter().map(|(class, ..)| class).collect();
    let unknown = found.iter().find(|class| !fates.contains_key(class.as_str()));
    assert_eq!(unknown, None, "what becomes of it?");
    let known = fates.keys().find(|class| !found.iter().any(|found| found == *class));
    assert_eq!(known, None, "it is not there");
}

#[test]
fn hostile_files_are_refused_with_the_reason_or_read_with_little_memory() {
    let fates = table(FILES);
    all_are_judged("netcdf", &fates);
    let place = Directory::new();
    for (class, name, bytes) in entries("netcdf") {
        let path = place.path().join(&name);
        std::fs::write(&path, bytes).unwrap();
        meets(fates[class.as_str()], &with_little_memory("stat", &path), &name);
    }
}

/// Makes the files of a set `set` of an entry of the corpus.
fn unpack(bytes: &[u8], place: &Directory) {
    let (length, rest) = bytes.split_at(2);
    let (first, second) = rest.split_at(u16::from_be_bytes([length[0], length[1]]).into());
    for (number, bytes) in [first, second].iter().enumerate() {
        let path = place.path().join(format!("set.000{number}"));
        if bytes.is_empty() {
            std::fs::remove_file(path).unwrap_or(())
        } else {
            std::fs::write(path, bytes).unwrap()
        }
    }
}

#[test]
fn hostile_sets_are_refused_with_the_reason_or_read_with_little_memory() {
    let fates = table(SETS);
    all_are_judged("blobs", &fates);
    for (class, name, bytes) in entries("blobs") {
        let (fate, place) = (fates[class.as_str()], Directory::new());
        unpack(&bytes, &place);
        let path = place.path().join("set");
        meets(fate, &with_little_memory("stat", &path), &name);
        if let Refused(_) = fate {
            meets(fate, &with_little_memory("cat", &path), &name);
        }
    }
}

#[test]
fn a_set_that_tells_where_its_variables_lie_is_the_file_that_has_them_there() {
    let place = Directory::new();
    unpack(&std::fs::read(repository().join("tests/corpus/blobs/seed-places")).unwrap(), &place);
    let output = aggio(&["cat", place.path().join("set").to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let bytes = output.stdout;
    assert_eq!(&bytes[..8], b"CDF\x02\0\0\0\x01");
    let values: Vec<u8> = (10..14_u32).flat_map(u32::to_be_bytes).collect();
    assert_eq!((bytes.len(), &bytes[200..]), (216, &values[..]));
    assert!(bytes[100..200].iter().all(|byte| *byte == 0));
}

#[test]
fn the_corpus_is_what_its_generator_makes() {
    let made = Directory::new();
    let script = repository().join("tests/corpus/hostile.py");
    let status = Command::new("python3").arg(script).arg(made.path()).status().unwrap();
    assert!(status.success());
    for (name, bytes) in aggio_tests::snapshot(made.path()) {
        let path = repository().join("tests/corpus").join(&name);
        if !path.is_dir() {
            assert!(std::fs::read(&path).is_ok_and(|kept| kept == bytes), "{}", path.display());
        }
    }
}
