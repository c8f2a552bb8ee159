//! Commands on containers: the bytes, the exit codes, the messages for people and for programs.

use crate::mounted::{aggio, container, pattern};
use agg_core::blob::{Container, Create};
use aggio_tests::Directory;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

struct Place(Directory);

impl Place {
    fn new() -> Self {
        Place(Directory::new())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }
}

#[test]
fn a_file_becomes_a_container_and_a_file_again() {
    let place = Place::new();
    let (file, blob, again) = (place.path("file"), place.path("blob"), place.path("again"));
    let mut data = pattern(9_000_001);
    data[2_000_000..7_000_000].fill(0);
    std::fs::write(&file, &data).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let split = aggio(&["split", "--verify", &file, &blob]);
    assert!(split.status.success() && split.stdout.is_empty(), "{split:?}");
    assert!(aggio(&["merge", "--verify", &blob, &again]).status.success());
    assert!(std::fs::read(&again).unwrap() == data);
    let found = std::fs::metadata(&again).unwrap();
    assert_eq!(found.permissions().mode() & 0o7777, 0o640);
    for arguments in [["split", &file, &blob], ["merge", &blob, &again]] {
        let refused = aggio(&arguments);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("there already"), "{refused:?}");
    }
    assert!(aggio(&["merge", "--force", &blob, &again]).status.success());
}

#[test]
fn cat_writes_the_bytes_of_containers_and_files_and_stops_when_nobody_reads() {
    let place = Place::new();
    let (blob, file) = (place.path("blob"), place.path("file"));
    container(blob.as_ref(), &pattern(6_000_000), 5000);
    std::fs::write(&file, "plain").unwrap();
    let both = aggio(&["cat", &blob, &file]);
    assert!(both.status.success() && both.stdout == [&pattern(6_000_000), &b"plain"[..]].concat());
    let part = aggio(&["cat", "--offset", "5000", "--length", "7", &blob]);
    assert_eq!(part.stdout, pattern(6_000_000)[5000..5007]);
    let missing = aggio(&["cat", &place.path("missing"), &file]);
    assert_eq!((missing.status.code(), &missing.stdout[..]), (Some(1), &b"plain"[..]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_aggio"))
        .args(["cat", &blob])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn ls_and_stat_tell_containers_from_files() {
    let place = Place::new();
    container(place.path("blob").as_ref(), &pattern(5000), 100);
    std::fs::write(place.path("file"), "12345").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    let root = place.path("");
    assert_eq!(aggio(&["ls", &root]).stdout, b"blob\nfile\nfolder\n");
    let listed = json(&aggio(&["ls", "--json", &root]));
    let kinds: Vec<_> =
        listed["files"].as_array().unwrap().iter().map(|file| file["kind"].clone()).collect();
    assert_eq!(kinds, ["container", "file", "directory"]);
    let told = json(&aggio(&["stat", "--json", &place.path("blob")]));
    let blob = &told["files"][0];
    assert_eq!((&blob["size"], &blob["logs"]), (&5000.into(), &2.into()));
    assert_eq!((&blob["mode"], &blob["sealed"]), (&"0644".into(), &true.into()));
    let missing = aggio(&["stat", &place.path("missing")]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn fsck_tells_clean_repairable_and_damaged_by_its_exit_code() {
    let place = Place::new();
    let (good, bad) = (place.path("good"), place.path("bad"));
    container(good.as_ref(), &pattern(50_000), 500);
    assert_eq!(aggio(&["fsck", &place.path("")]).status.code(), Some(0));
    std::fs::write(place.path("good/order"), "").unwrap();
    std::fs::remove_file(place.path("good/aggio-manifest")).unwrap();
    let found = aggio(&["fsck", "--json", &good]);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert_eq!(json(&found)["containers"][0]["verdict"], "repairable");
    let repaired = aggio(&["fsck", "--repair", &good]);
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    assert_eq!(aggio(&["fsck", &good]).status.code(), Some(0));
    assert!(aggio(&["cat", &good]).stdout == pattern(50_000));
    container(bad.as_ref(), &pattern(50_000), 50_000);
    let log = std::fs::read_dir(&bad)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "log"))
        .unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[30_000] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let found = aggio(&["fsck", &place.path("")]);
    assert_eq!(found.status.code(), Some(4), "{found:?}");
    let told = String::from_utf8_lossy(&found.stdout);
    assert!(told.contains("bad: damaged") && told.contains("good: clean"), "{told}");
    assert_eq!(aggio(&["fsck", &place.path("missing")]).status.code(), Some(4));
}

#[test]
fn index_and_recover_seal_what_a_crash_left_and_nothing_that_is_being_written() {
    let place = Place::new();
    let path = place.path("blob");
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let writer = Container::create(path.as_ref(), &how).unwrap().writer().unwrap();
    writer.write_at(&pattern(1000), 0).unwrap();
    let told = json(&aggio(&["index", "--json", &path]));
    assert_eq!(told["containers"][0]["sealed"], false, "{told}");
    let told = aggio(&["recover", "--spool", &place.path(""), &path]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("somebody is writing"), "{told:?}");
    writer.close().unwrap();
    let told = json(&aggio(&["index", "--json", &path]));
    assert_eq!(told["containers"][0]["sealed"], true, "{told}");
    assert_eq!(told["containers"][0]["size"], 1000);
    let nothing = aggio(&["recover", "--spool", &place.path(""), &path]);
    assert!(nothing.status.success() && nothing.stdout.is_empty(), "{nothing:?}");
    let missing = aggio(&["recover", "--spool", &place.path("missing")]);
    assert_eq!(missing.status.code(), Some(1));
}

/// The name of a container that was removed.
const GONE: &str = ".aggio-gone-00112233445566778899aabbccddeeff";

#[test]
fn recover_leaves_nothing_of_a_crash_and_fsck_names_it_before() {
    let place = Place::new();
    let path = place.path("blob");
    container(path.as_ref(), &pattern(5000), 500);
    let torn = place.path("blob/00000000000000aa.log");
    std::fs::write(&torn, "agF1").unwrap();
    std::fs::write(place.path("blob/.aggio-manifest.0123456789abcdef"), "format").unwrap();
    std::fs::write(place.path("blob/index.77"), "aggioix1").unwrap();
    for name in [".aggio-0123456789abcdef", GONE, ".aggio-removed-1-0"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    std::fs::write(place.path(".aggio-removed-1-0/00000000000000aa.log"), "").unwrap();
    let aside = place.path(".aggio-aside-00112233445566778899aabbccddeeff");
    std::fs::create_dir(&aside).unwrap();
    std::fs::write(format!("{aside}/given"), "mine").unwrap();
    // A user's own directory of such a name is kept: under our names with an error, under others
    // silently.
    for name in [GONE, ".aggio-gone-mine"] {
        let folder = place.path(&format!("kept/{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(format!("{folder}/thesis"), "mine").unwrap();
    }
    let found = aggio(&["fsck", &place.path("")]);
    let told = String::from_utf8_lossy(&found.stdout);
    assert_eq!(found.status.code(), Some(1), "{told}");
    for name in [
        "00000000000000aa.log",
        ".aggio-manifest.0",
        "index.77",
        ".aggio-0",
        "-gone-",
        "-removed-",
        "gives it its own again",
    ] {
        assert!(told.contains(name), "{name}: {told}");
    }
    let done = aggio(&["recover", "--spool", &place.path(""), &place.path("")]);
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(error.contains(GONE) && error.contains("something else"), "{error}");
    assert!(!error.contains(".aggio-gone-mine"), "{error}");
    for name in [GONE, ".aggio-gone-mine"] {
        let thesis = place.path(&format!("kept/{name}/thesis"));
        assert_eq!(std::fs::read(thesis).unwrap(), b"mine");
    }
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains(&format!("{}: has its name again", place.path("given"))), "{said}");
    assert_eq!(std::fs::read(place.path("given")).unwrap(), b"mine");
    std::fs::remove_file(place.path("given")).unwrap();
    std::fs::remove_dir_all(place.path("kept")).unwrap();
    let again = aggio(&["recover", "--spool", &place.path(""), &place.path("")]);
    assert!(again.status.success() && again.stdout.is_empty(), "{again:?}");
    let clean = aggio(&["fsck", &place.path("")]);
    assert!(clean.status.success(), "{clean:?}");
    assert!(!String::from_utf8_lossy(&clean.stdout).contains("note"), "{clean:?}");
    assert!(aggio(&["cat", &path]).stdout == pattern(5000));
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 1);
}

#[test]
fn a_hole_costs_nothing_whatever_its_size() {
    let place = Place::new();
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let with_byte_at = |name: &str, at: u64| {
        let path = place.path(name);
        let writer = Container::create(path.as_ref(), &how).unwrap().writer().unwrap();
        writer.write_at(&[1], 0).unwrap();
        writer.write_at(&[7], at).unwrap();
        writer.close().unwrap();
        path
    };
    let far = with_byte_at("far", 1 << 62);
    for arguments in [&["index", "-n", "--json", &far][..], &["index", "--json", &far]] {
        let told = &json(&aggio(arguments))["containers"][0];
        assert_eq!((&told["pieces"], &told["holes"]), (&2.into(), &1.into()), "{told}");
        assert_eq!(told["bytes_in_holes"], (1_u64 << 62) - 1);
    }
    assert_eq!(aggio(&["fsck", &far]).status.code(), Some(0));
    let (wide, out, again) =
        (with_byte_at("wide", 1 << 42), place.path("out"), place.path("again"));
    let merged = aggio(&["merge", "--verify", &wide, &out]);
    if String::from_utf8_lossy(&merged.stderr).contains("File too large") {
        return aggio_tests::skip("files of this file system have less than 4 TiB");
    }
    assert!(merged.status.success(), "{merged:?}");
    let file = std::fs::File::open(&out).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (1 << 42) + 1);
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 1 << 42).unwrap();
    assert_eq!(byte, [7]);
    let split = aggio(&["split", "--verify", &out, &again]);
    assert!(split.status.success(), "{split:?}");
    let told = &json(&aggio(&["index", "--json", &again]))["containers"][0];
    assert!(told["bytes_in_holes"].as_u64().unwrap() > (1 << 42) - (64 << 20), "{told}");
}

#[test]
fn verify_passes_over_holes_and_finds_what_differs_behind_them() {
    let place = Place::new();
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let container = |name: &str, byte: u8, at: u64| {
        let path = place.path(name);
        let writer = Container::create(path.as_ref(), &how).unwrap().writer().unwrap();
        writer.write_at(&[1], 0).unwrap();
        writer.write_at(&[byte], at).unwrap();
        writer.close().unwrap();
        path
    };
    let file = |name: &str, byte: u8, at: u64| {
        let path = place.path(name);
        let file = std::fs::File::create(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1], 0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[byte], at).unwrap();
        path
    };
    let far = [7, 7, 8].iter().zip(["far", "same", "other"]);
    let far: Vec<_> = far.map(|(byte, name)| container(name, *byte, 1 << 62)).collect();
    let told = |first: &str, second: &str| {
        let verified = aggio(&["verify", "--bytes", first, second]);
        (verified.status.code(), String::from_utf8(verified.stdout).unwrap())
    };
    assert_eq!(told(&far[0], &far[1]), (Some(0), String::new()));
    assert_eq!(told(&far[0], &far[2]), (Some(1), format!("byte {}\n", 1_u64 << 62)));
    let wide = container("wide", 7, 1 << 40);
    let (same, earlier, longer) =
        (file("sparse", 7, 1 << 40), file("earlier", 7, 1 << 39), file("longer", 7, 1 << 41));
    assert_eq!(told(&wide, &same), (Some(0), String::new()));
    assert_eq!(told(&same, &earlier), (Some(1), format!("byte {}\n", 1_u64 << 39)));
    assert_eq!(told(&wide, &longer), (Some(1), format!("byte {}\n", 1_u64 << 40)));
    std::fs::File::options().write(true).open(&same).unwrap().set_len(1 << 41).unwrap();
    let goes_on = format!("{same} goes on behind byte {}\n", (1_u64 << 40) + 1);
    assert_eq!(told(&wide, &same), (Some(1), goes_on));
}

#[test]
fn run_preloads_the_library_once_and_keeps_others() {
    let place = Place::new();
    let library = place.path("libaggio.so");
    std::fs::write(&library, "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_aggio"))
        .args(["run", "--library", &library, "--dry-run", "--", "/bin/sh", "-c", "true"])
        .env("LD_PRELOAD", "/nowhere/libaggio.so")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let library = std::fs::canonicalize(&library).unwrap();
    assert_eq!(told, format!("LD_PRELOAD={} /bin/sh -c true\n", library.display()));
    let missing = aggio(&["run", "--library", library.to_str().unwrap(), "no-such-command"]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    let nowhere = aggio(&["run", "--library", &place.path("none.so"), "true"]);
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("none.so"), "{nowhere:?}");
}

#[test]
fn doctor_names_what_is_wrong_and_what_helps() {
    let place = Place::new();
    let library = place.path("libaggio.so");
    std::fs::write(&library, "no library").unwrap();
    let output = aggio(&["doctor", "--json", "--library", &library, "no-such-program"]);
    assert_eq!(output.status.code(), Some(1));
    let told = json(&output);
    let check = |name: &str| {
        let checks = told["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|check| check["check"] == name)
            .unwrap_or_else(|| panic!("no {name}"))
            .clone()
    };
    assert_eq!(check("library")["verdict"], "FAIL");
    assert_eq!(check("program")["verdict"], "FAIL");
    assert!(check("program")["fix"].is_string());
    for name in ["directory", "fuse", "descriptors", "/dev/shm", "variables"] {
        assert!(check(name)["found"].is_string());
    }
}
