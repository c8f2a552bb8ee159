//! `aggio merge --to`: sets and containers become sets of another kind, and files of CDF-5.

use crate::mounted::{aggio, container, pattern};
use agg_core::blob::{Container, Create};
use aggio_formats::files::Folder;
use aggio_formats::{Options, Set};
use aggio_tests::{Directory, netcdf_samples, repository};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

struct Samples(Directory);

impl Samples {
    fn new() -> Self {
        Samples(netcdf_samples())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }

    fn canonical(&self) -> Vec<u8> {
        std::fs::read(self.path("e3sm/can_h1.nc")).unwrap()
    }

    /// A container with the canonical file, written as the 16 processes of a set did.
    fn container(&self) -> String {
        let (folder, name) = Folder::of(self.path("e3sm/blob4_h1.nc").as_ref()).unwrap();
        let set = Set::find(&folder, &name).unwrap().unwrap().open(&Options::default()).unwrap();
        let (told, bytes, path) = (set.written().unwrap(), self.canonical(), self.path("blob"));
        let how = Create { mode: 0o640, exclusive: true, data_crc: true };
        let blob = Container::create(path.as_ref(), &how).unwrap();
        let count = told.groups().concat().len();
        let writers: Vec<_> = (0..count).map(|_| blob.writer().unwrap()).collect();
        for owned in told.owned() {
            let part = &bytes[owned.range.start as usize..owned.range.end as usize];
            writers[owned.writer as usize].write_at(part, owned.range.start).unwrap();
        }
        writers.into_iter().for_each(|writer| writer.close().unwrap());
        path
    }

    /// The names in a folder that contain `out`, to check that no others than the wanted ones are
    /// left.
    fn left(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.contains("out")).collect();
        names.sort();
        names
    }
}

fn done(arguments: &[&str]) {
    let output = aggio(arguments);
    assert!(output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

fn refused(output: &Output, words: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(words), "{words}: {told}");
}

fn python(arguments: &[&str]) -> Vec<u8> {
    let script = repository().join("tests/netcdf_reader.py");
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The files, and the processes of each, of a set that covers everything.
fn described(set: &str) -> Vec<u64> {
    let told = aggio(&["stat", "--json", set]).stdout;
    let told: Value = serde_json::from_slice(&told).unwrap();
    let netcdf = &told["files"][0]["netcdf"];
    assert_eq!(netcdf["processes"], 16);
    for one in netcdf["decompositions"].as_array().unwrap() {
        assert_eq!(one["written"], one["elements"]);
    }
    let files = netcdf["files"].as_array().unwrap();
    files.iter().map(|file| file["processes"].as_u64().unwrap()).collect()
}

#[test]
fn a_set_becomes_one_of_the_other_kind_with_the_same_processes_in_each_file() {
    let samples = Samples::new();
    let canonical = samples.canonical();
    let reference = samples.path("e3sm/can_h1.nc");
    for (name, kind) in [
        ("blob4_h1.nc", "hdf5-blob"),
        ("h5blob4_h1.h5", "e3sm"),
        ("blobq_h1.nc", "e3sm"),
        ("h5blob1_h1.h5", "hdf5-blob"),
    ] {
        let (from, out) = (samples.path(&format!("e3sm/{name}")), samples.path("e3sm/out"));
        done(&["merge", "--to", kind, "--verify", "--threads", "3", &from, &out]);
        assert_eq!(described(&out), described(&from), "{name}");
        assert!(aggio(&["cat", &out]).stdout == canonical, "{name}");
        assert!(python(&["canonical", &out, &reference]) == canonical, "{name}");
        let files = described(&out).len();
        let names: Vec<String> = (0..files).map(|number| format!("out.{number:04}")).collect();
        assert_eq!(samples.left("e3sm"), names);
        names.iter().for_each(|name| {
            std::fs::remove_file(samples.path("e3sm").clone() + "/" + name).unwrap()
        });
    }
}

#[test]
fn processes_are_grouped_as_wanted() {
    let samples = Samples::new();
    let (from, out) = (samples.path("e3sm/blob4_h1.nc"), samples.path("e3sm/out"));
    done(&["merge", "--to", "e3sm", "--subfiles", "3", &from, &out]);
    assert_eq!(described(&out), [5, 5, 6]);
    assert!(aggio(&["cat", &out]).stdout == samples.canonical());
    let most = aggio(&["merge", "--to", "e3sm", "--subfiles", "17", "--force", &from, &out]);
    refused(&most, "17 files cannot have the data of 16 writers");
    let none = aggio(&["merge", "--to", "e3sm", "--subfiles", "0", "--force", &from, &out]);
    let words = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(2), "{words}");
    assert!(words.contains("0 is not in 1.."), "{words}");
}

#[test]
fn a_container_becomes_a_set_whose_processes_are_its_logs() {
    let samples = Samples::new();
    let canonical = samples.canonical();
    let (blob, reference) = (samples.container(), samples.path("e3sm/can_h1.nc"));
    for (kind, subfiles, groups) in [
        ("e3sm", None, vec![16]),
        ("e3sm", Some("4"), vec![4; 4]),
        ("hdf5-blob", Some("2"), vec![8; 2]),
    ] {
        let out = samples.path(&format!("out-{kind}-{}", groups.len()));
        let wanted = subfiles.map_or(vec![], |count| vec!["--subfiles", count]);
        let verify = if subfiles == Some("4") { "--verify" } else { "--threads=1" };
        done(&[&["merge", verify, "--to", kind], &wanted[..], &[&blob, &out]].concat());
        assert_eq!(described(&out), groups);
        assert!(aggio(&["cat", &out]).stdout == canonical);
        assert!(python(&["canonical", &out, &reference]) == canonical);
        let mode = std::fs::metadata(format!("{out}.0000")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}

#[test]
fn netcdf_files_become_cdf5_with_the_same_values() {
    let samples = Samples::new();
    let plain = samples.path("pnetcdf_subfiling/plain.nc");
    let blob = samples.path("pnetcdf_subfiling/blob");
    done(&["split", &plain, &blob]);
    let sets = ["pnetcdf_subfiling/sub0.nc", "e3sm/blob4_h1.nc", "e3sm/h5blob4_h1.h5"];
    let out = samples.path("out");
    for from in sets.iter().map(|name| samples.path(name)).chain([blob]) {
        done(&["merge", "--to", "cdf5", "--verify", "--force", &from, &out]);
        assert_eq!(std::fs::read(&out).unwrap()[..4], *b"CDF\x05");
        assert_eq!(aggio(&["verify", &from, &out]).status.code(), Some(0), "{from}");
    }
    let values = |path: &str| python(&["values", path]);
    assert!(values(&out) == values(&plain));
    done(&["merge", "--to", "cdf5", "--force", &samples.path("e3sm/h5blob4_h1.h5"), &out]);
    assert!(std::fs::read(&out).unwrap() == samples.canonical(), "it was of CDF-5 before");
}

#[test]
fn a_set_appears_when_it_is_complete_and_replaces_nothing_unasked() {
    let samples = Samples::new();
    let (from, out) = (samples.path("e3sm/blob4_h1.nc"), samples.path("out"));
    let merge = |more: &[&str]| aggio(&[&["merge", "--to", "e3sm"], more, &[&from, &out]].concat());
    std::fs::write(format!("{out}.0002"), "mine").unwrap();
    refused(&merge(&[]), "out.0002: there already (--force replaces it)");
    assert_eq!(samples.left(""), ["out.0002"]);
    assert_eq!(std::fs::read(format!("{out}.0002")).unwrap(), b"mine");
    assert!(merge(&["--force"]).status.success());
    assert!(aggio(&["cat", &out]).stdout == samples.canonical());
    std::fs::write(&out, "mine").unwrap();
    refused(
        &merge(&["--force"]),
        "out: there already: a set is not seen where a file has its name",
    );
    // A set may be replaced by another kind of itself.
    done(&["merge", "--to", "hdf5-blob", "--force", &from, &from]);
    assert!(aggio(&["cat", &from]).stdout == samples.canonical());
    assert!(std::fs::read(format!("{from}.0003")).unwrap().starts_with(b"\x89HDF"));
}

#[test]
fn what_cannot_become_a_set_is_told() {
    let samples = Samples::new();
    let out = samples.path("out");
    let merge = |more: &[&str]| aggio(&[&["merge"], more, &[&out]].concat());
    let (set, blob) = (samples.path("e3sm/blob4_h1.nc"), samples.path("blob"));
    refused(&merge(&["--subfiles", "2", &set]), "--subfiles is for --to e3sm and --to hdf5-blob");
    let holes = merge(&["--to", "e3sm", "--holes", "fill", &set]);
    refused(&holes, "--holes is for --to plain and --to cdf5");
    let subfiling = samples.path("pnetcdf_subfiling/sub0.nc");
    refused(&merge(&["--to", "e3sm", &subfiling]), "its files do not tell who wrote what");

    container(blob.as_ref(), &pattern(100_000), 500);
    let words = "no set can be made of it: not a netCDF classic file: header, byte 0";
    refused(&merge(&["--to", "e3sm", &blob]), words);
    refused(&merge(&["--to", "cdf5", &blob]), "blob: not a netCDF classic file");
    std::fs::remove_dir_all(&blob).unwrap();

    // Two writers in turn: somewhere each has a part of an element.
    container(blob.as_ref(), &samples.canonical(), 1001);
    refused(&merge(&["--to", "hdf5-blob", &blob]), "wrote parts of element");
    assert!(merge(&["--to", "plain", &blob]).status.success());
    assert_eq!(samples.left(""), ["out"]);
}
