//! Commands on sets of netCDF files that E3SM-IO and PnetCDF wrote (`tests/golden/netcdf.tar.xz`),
//! beside an independent reader (`tests/netcdf_reader.py`).

use crate::mounted::aggio;
use aggio_tests::{Directory, netcdf_samples, repository};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Sets of E3SM-IO, and how many files they have.
const BLOBS: [(&str, usize); 5] = [
    ("blob1_h1.nc", 1),
    ("blob4_h1.nc", 4),
    ("blobq_h1.nc", 1),
    ("h5blob1_h1.h5", 1),
    ("h5blob4_h1.h5", 4),
];

struct Samples(Directory);

impl Samples {
    fn new() -> Self {
        Samples(netcdf_samples())
    }

    fn e3sm(&self, name: &str) -> String {
        self.path("e3sm", name)
    }

    fn subfiling(&self, name: &str) -> String {
        self.path("pnetcdf_subfiling", name)
    }

    fn path(&self, folder: &str, name: &str) -> String {
        self.0.path().join(folder).join(name).to_str().unwrap().into()
    }

    fn canonical(&self) -> Vec<u8> {
        std::fs::read(self.e3sm("can_h1.nc")).unwrap()
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

fn python(arguments: &[&str]) -> Vec<u8> {
    let script = repository().join("tests/netcdf_reader.py");
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn refused(output: &Output, words: &[&str]) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
}

#[test]
fn sets_of_e3sm_io_become_the_canonical_file() {
    let samples = Samples::new();
    let canonical = samples.canonical();
    for (name, _) in BLOBS {
        let (set, merged) = (samples.e3sm(name), samples.e3sm("merged"));
        let done = aggio(&["merge", "--verify", "--threads", "3", &set, &merged]);
        assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
        assert!(std::fs::read(&merged).unwrap() == canonical, "{name}");
        std::fs::remove_file(merged).unwrap();
        assert!(aggio(&["cat", &set]).stdout == canonical, "{name}");
        assert!(python(&["canonical", &set, &samples.e3sm("can_h1.nc")]) == canonical, "{name}");
    }
    let part =
        aggio(&["cat", "--offset", "29428", "--length", "320", &samples.e3sm("blob4_h1.nc")]);
    assert!(part.stdout == canonical[29428..29748]);
    let left = std::fs::read_dir(samples.0.path().join("e3sm")).unwrap().flatten();
    assert!(
        left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().contains("aggio"))
    );
}

#[test]
fn subfiles_of_pnetcdf_have_the_values_that_an_independent_reader_finds() {
    let samples = Samples::new();
    let plain: Value =
        serde_json::from_slice(&python(&["values", &samples.subfiling("plain.nc")])).unwrap();
    for name in ["sub0.nc", "sub1.nc", "sub2.nc", "sub3.nc"] {
        let (master, merged) = (samples.subfiling(name), samples.subfiling("merged"));
        assert!(aggio(&["merge", "--verify", "--force", &master, &merged]).status.success());
        let values = python(&["values", &merged]);
        assert_eq!(values, python(&["subfiles", &master]), "{name}");
        // PnetCDF lost the second record of each variable: the values that it stored are those of
        // the plain file.
        let values: Value = serde_json::from_slice(&values).unwrap();
        for (variable, found) in values.as_object().unwrap() {
            let wanted = plain[if variable == "R2" { "R1" } else { variable }].as_array().unwrap();
            assert_eq!(found.as_array().unwrap()[..], wanted[..found.as_array().unwrap().len()]);
        }
    }
}

#[test]
fn a_merged_file_gets_its_name_when_it_is_complete_and_replaces_nothing_unasked() {
    let samples = Samples::new();
    let (set, merged) = (samples.e3sm("blob1_h1.nc"), samples.e3sm("merged"));
    let first = samples.e3sm("blob1_h1.nc.0000");
    std::fs::set_permissions(first, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&merged, "mine").unwrap();
    refused(&aggio(&["merge", &set, &merged]), &["there already (--force replaces it)"]);
    assert_eq!(std::fs::read(&merged).unwrap(), b"mine");
    assert!(aggio(&["merge", "--force", &set, &merged]).status.success());
    assert_eq!(std::fs::metadata(&merged).unwrap().permissions().mode() & 0o777, 0o600);
    let neither = aggio(&["merge", &samples.e3sm("can_h1.nc"), &samples.e3sm("other")]);
    refused(&neither, &["neither a container nor a set of netCDF files"]);
}

#[test]
fn sets_that_are_not_whole_are_refused_by_the_name_of_the_file() {
    for (name, victim) in
        [("blob4_h1.nc", 2), ("h5blob4_h1.h5", 1), ("blob4_h1.nc", 0), ("h5blob4_h1.h5", 3)]
    {
        let samples = Samples::new();
        let (set, merged) = (samples.e3sm(name), samples.e3sm("merged"));
        let broken = format!("{name}.{victim:04}");
        let bytes = std::fs::read(samples.e3sm(&broken)).unwrap();
        let all = |words: &[&str]| {
            for command in
                [&["merge", &set, &merged][..], &["cat", &set], &["stat", &set], &["ls", &set]]
            {
                refused(&aggio(command), words);
            }
            assert!(!std::fs::exists(&merged).unwrap());
            let told = aggio(&["verify", &set, &samples.e3sm("can_h1.nc")]);
            assert_eq!(told.status.code(), Some(2));
        };
        std::fs::write(samples.e3sm(&broken), &bytes[..bytes.len() - 8]).unwrap();
        let words = if name.ends_with("h5") { "data_blob" } else { "truncated: " };
        all(&[&broken, words]);
        std::fs::write(samples.e3sm(&broken), &bytes[..100]).unwrap();
        all(&[&broken]);
        std::fs::remove_file(samples.e3sm(&broken)).unwrap();
        all(&[&broken, "missing"]);

        let partial = aggio(&["merge", "--partial", &set, &merged]);
        assert!(partial.status.success(), "{partial:?}");
        assert!(String::from_utf8_lossy(&partial.stderr).contains(&broken));
        let part = std::fs::read(&merged).unwrap();
        assert!(part.len() == 1_948_008 && part != samples.canonical());
        let filled = aggio(&["cat", "--partial", "--holes", "fill", &set]).stdout;
        let differing: Vec<(&u8, &u8)> =
            part.iter().zip(&filled).filter(|(zero, fill)| zero != fill).collect();
        assert!(filled.len() == part.len() && !differing.is_empty());
        assert!(differing.iter().all(|(zero, _)| **zero == 0), "only holes are filled");
    }
}

#[test]
fn files_of_different_sets_are_not_mixed() {
    let samples = Samples::new();
    std::fs::copy(samples.e3sm("blob1_h1.nc.0000"), samples.e3sm("blob4_h1.nc.0001")).unwrap();
    let told = aggio(&["cat", &samples.e3sm("blob4_h1.nc")]);
    refused(&told, &["blob4_h1.nc.0001: is of 16 processes and 1 subfiles", "another run"]);
    assert!(told.stdout.is_empty());
    std::fs::copy(samples.e3sm("blob4_h1.nc.0000"), samples.e3sm("blob4_h1.nc.0001")).unwrap();
    refused(&aggio(&["cat", &samples.e3sm("blob4_h1.nc")]), &["is also in", "different runs"]);
}

#[test]
fn a_listing_has_sets_in_the_place_of_their_files() {
    let samples = Samples::new();
    let root = samples.e3sm("");
    let names = "blob1_h1.nc\nblob4_h1.nc\nblobq_h1.nc\ncan_h1.nc\nh5blob1_h1.h5\nh5blob4_h1.h5\n";
    assert_eq!(String::from_utf8_lossy(&aggio(&["ls", &root]).stdout), names);
    let all = aggio(&["ls", "--subfiles", &root]);
    assert_eq!(String::from_utf8_lossy(&all.stdout).lines().count(), 6 + 11);
    let long = String::from_utf8_lossy(&aggio(&["ls", "-l", &root]).stdout).into_owned();
    let line = long.lines().find(|line| line.ends_with(" blob4_h1.nc")).unwrap();
    assert!(
        line.starts_with("-rw") && line.contains(" 1948008 ") && line.contains("set of 4 files"),
        "{line}"
    );
    // A file of the name is that file, and its parts are files again.
    std::fs::write(samples.e3sm("blob4_h1.nc"), "ordinary").unwrap();
    let listed = aggio(&["ls", &root]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 6 + 4);
    assert_eq!(aggio(&["cat", &samples.e3sm("blob4_h1.nc")]).stdout, b"ordinary");
}

#[test]
fn stat_tells_what_a_set_consists_of() {
    let samples = Samples::new();
    let told = json(&aggio(&["stat", "--json", &samples.e3sm("blob4_h1.nc")]));
    let file = &told["files"][0];
    assert_eq!((&file["kind"], &file["size"]), (&"set".into(), &1_948_008.into()));
    let netcdf = &file["netcdf"];
    assert_eq!((&netcdf["processes"], &netcdf["records"]), (&16.into(), &3.into()));
    assert_eq!(netcdf["files"].as_array().unwrap().len(), 4);
    let variables = netcdf["variables"].as_array().unwrap();
    let u = variables.iter().find(|one| one["name"] == "U").unwrap();
    assert_eq!((&u["type"], &u["decomposition"]), (&"double".into(), &"D3".into()));
    assert_eq!(u["begin"], 125_728);
    let d3 = &netcdf["decompositions"][2];
    assert_eq!(
        (&d3["elements"], &d3["written"], &d3["gaps"]),
        (&62352.into(), &62352.into(), &0.into())
    );

    std::fs::remove_file(samples.e3sm("blob4_h1.nc.0002")).unwrap();
    let text = aggio(&["stat", "--partial", &samples.e3sm("blob4_h1.nc")]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("D1(ncol): 657 of 866 elements written"), "{text}");
    assert!(text.contains("nobody wrote 4 ranges: 481-641, 657-674, 690-707, 723-734"), "{text}");

    let plain =
        String::from_utf8_lossy(&aggio(&["stat", &samples.e3sm("can_h1.nc")]).stdout).into_owned();
    assert!(
        plain.contains("dimension time = unlimited (3)")
            && plain.contains("double U(time, lev, ncol)")
    );
}

#[test]
fn verify_compares_what_files_hold() {
    let samples = Samples::new();
    let canonical = samples.e3sm("can_h1.nc");
    let verify = |first: &str, second: &str| aggio(&["verify", first, second]);
    for (name, _) in BLOBS {
        assert_eq!(verify(&samples.e3sm(name), &canonical).status.code(), Some(0), "{name}");
    }
    let blob = samples.e3sm("container");
    assert!(aggio(&["split", &canonical, &blob]).status.success());
    assert_eq!(verify(&blob, &samples.e3sm("h5blob4_h1.h5")).status.code(), Some(0));
    let mut bytes = samples.canonical();
    let other = samples.e3sm("other.nc");
    bytes[125_728 + 637_484 + 8 * 77] ^= 1;
    std::fs::write(&other, &bytes).unwrap();
    let differs = verify(&samples.e3sm("blobq_h1.nc"), &other);
    assert_eq!(differs.status.code(), Some(1));
    assert_eq!(differs.stdout, b"variable U: differs at record 1, element 77\n");
    let records = json(&aggio(&[
        "verify",
        "--json",
        &samples.subfiling("sub1.nc"),
        &samples.subfiling("plain.nc"),
    ]));
    assert_eq!(records["differences"], serde_json::json!(["1 records, 2 records"]));
    let bytes = aggio(&["verify", "--bytes", &canonical, &other]);
    assert_eq!((bytes.status.code(), &bytes.stdout[..]), (Some(1), &b"byte 763828\n"[..]));
}
