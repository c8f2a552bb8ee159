//! Sets of netCDF files below a mount point are the one file that they stand for.

mod mounted;

use aggio_tests::netcdf_samples;
use mounted::{Mount, Random, directory};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOBS: [&str; 5] =
    ["blob1_h1.nc", "blob4_h1.nc", "blobq_h1.nc", "h5blob1_h1.h5", "h5blob4_h1.h5"];
/// Files that are what they are.
const OTHERS: [&str; 2] = ["can_h1.nc", "plain.nc"];
const SUBFILED: [&str; 4] = ["sub0.nc", "sub1.nc", "sub2.nc", "sub3.nc"];

/// A backing directory with all samples.
fn backing() -> std::sync::Arc<aggio_tests::Directory> {
    let (directory, samples) = (directory(), netcdf_samples());
    for folder in ["e3sm", "pnetcdf_subfiling"] {
        for entry in std::fs::read_dir(samples.path().join(folder)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), directory.path().join("backing").join(entry.file_name()))
                .unwrap();
        }
    }
    directory
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn sets_are_shown_as_the_files_that_they_stand_for() {
    let directory = backing();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let canonical = std::fs::read(mount.backing("can_h1.nc")).unwrap();
    for name in BLOBS {
        assert!(std::fs::read(mount.path(name)).unwrap() == canonical, "{name}");
        assert_eq!(std::fs::metadata(mount.path(name)).unwrap().len(), canonical.len() as u64);
    }
    for name in SUBFILED {
        let merged = directory.path().join("merged");
        let backing = mount.backing(name);
        assert!(
            mounted::aggio(&[
                "merge",
                "--force",
                backing.to_str().unwrap(),
                merged.to_str().unwrap()
            ])
            .status
            .success()
        );
        assert_eq!(std::fs::read(mount.path(name)).unwrap(), std::fs::read(merged).unwrap());
    }
    let mut wanted = [&BLOBS[..], &OTHERS, &SUBFILED].concat();
    wanted.sort_unstable();
    assert_eq!(names(&mount.path("")), wanted);
    // Who knows the name of a part can have it.
    let part = std::fs::read(mount.path("blob4_h1.nc.0002")).unwrap();
    assert!(part == std::fs::read(mount.backing("blob4_h1.nc.0002")).unwrap());
    mount.end();
}

#[test]
fn random_reads_give_the_bytes_of_the_canonical_file() {
    let directory = backing();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let canonical = std::fs::read(mount.backing("can_h1.nc")).unwrap();
    let mut random = Random(11);
    for name in ["blobq_h1.nc", "h5blob4_h1.h5"] {
        let file = File::open(mount.path(name)).unwrap();
        for _ in 0..300 {
            let start = random.below(canonical.len() as u64 + 5000) as usize;
            let mut bytes = vec![0; random.below(100_000) as usize];
            let count = file.read_at(&mut bytes, start as u64).unwrap();
            let wanted = canonical.get(start..).unwrap_or(&[]);
            assert!(bytes[..count] == wanted[..wanted.len().min(bytes.len())], "{name}: {start}");
        }
    }
    mount.end();
}

#[test]
fn parts_are_listed_if_that_is_asked_for() {
    let directory = backing();
    let Some(mount) = Mount::of(&directory, &["--subfiles"]) else { return };
    let found = names(&mount.path(""));
    assert_eq!(found.len(), 5 + 11 + 1 + 1 + 4 * 4);
    assert!(found.contains(&"blob4_h1.nc".into()) && found.contains(&"blob4_h1.nc.0003".into()));
    mount.end();
}

#[test]
fn a_set_that_is_not_whole_is_an_error_and_whole_again_when_it_is() {
    let directory = backing();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let canonical = std::fs::read(mount.backing("can_h1.nc")).unwrap();
    let (part, aside) = (mount.backing("blob4_h1.nc.0002"), mount.backing("aside"));
    std::fs::rename(&part, &aside).unwrap();
    let why = std::fs::read(mount.path("blob4_h1.nc")).unwrap_err();
    assert_eq!(why.raw_os_error(), Some(libc::EIO));
    assert!(names(&mount.path("")).contains(&"blob4_h1.nc".into()));
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(log.contains("blob4_h1.nc.0002: missing"), "{log}");
    std::fs::rename(&aside, &part).unwrap();
    let seen = || std::fs::read(mount.path("blob4_h1.nc")).is_ok_and(|bytes| bytes == canonical);
    mounted::wait_until("the set is whole", seen);
    mount.end();
}

#[test]
fn a_set_cannot_be_changed() {
    let directory = backing();
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    let before = aggio_tests::snapshot(&directory.path().join("backing"));
    for name in ["blob4_h1.nc", "sub1.nc"] {
        let (set, other) = (mount.path(name), mount.path("other"));
        let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
        assert_eq!(kind(std::fs::write(&set, "x")), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(
            kind(File::options().append(true).open(&set).map(|_| ())),
            ErrorKind::ReadOnlyFilesystem
        );
        assert_eq!(kind(std::fs::remove_file(&set)), ErrorKind::PermissionDenied);
        assert_eq!(kind(std::fs::rename(&set, &other)), ErrorKind::PermissionDenied);
        assert_eq!(
            kind(std::fs::rename(mount.path("can_h1.nc"), &set)),
            ErrorKind::PermissionDenied
        );
        assert_eq!(kind(std::fs::hard_link(&set, &other)), ErrorKind::PermissionDenied);
    }
    assert!(aggio_tests::snapshot(&directory.path().join("backing")) == before);
    mount.end();
}
