//! Sets of netCDF files below a mount point are the one file that they stand for.

use crate::mounted::{Mount, Random, directory};
use aggio_tests::netcdf_samples;
use aggio_tests::waiting::until;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOBS: [&str; 5] =
    ["blob1_h1.nc", "blob4_h1.nc", "blobq_h1.nc", "h5blob1_h1.h5", "h5blob4_h1.h5"];
/// Files that are no sets.
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

/// A set of HDF5's subfiling with 3 subfiles and stripes of 100 bytes, as a copy of one: the inode
/// in the names is not the stub's.
fn stripes(folder: &Path, bytes: &[u8]) {
    std::fs::write(folder.join("x.h5"), b"\x89HDF\r\n\x1a\n...").unwrap();
    let names: Vec<String> = (1..=3).map(|part| format!("x.h5.subfile_7_{part}_of_3")).collect();
    for (number, name) in names.iter().enumerate() {
        let own = bytes.chunks(100).skip(number).step_by(3).flatten().copied();
        std::fs::write(folder.join(name), own.collect::<Vec<u8>>()).unwrap();
    }
    let text = format!(
        "stripe_size=100\naggregator_count=3\nsubfile_count=3\nhdf5_file=/x.h5\n\
         subfile_dir=/\n{}\n",
        names.join("\n")
    );
    std::fs::write(folder.join("x.h5.subfile_7.config"), text).unwrap();
}

#[test]
fn a_set_of_hdf5_subfiles_is_shown_as_one_file() {
    let directory = directory();
    let bytes: Vec<u8> = (0..12_345_u32).map(|at| (at * 7 / 3) as u8).collect();
    stripes(&directory.path().join("backing"), &bytes);
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    assert_eq!(names(&mount.path("")), ["x.h5"]);
    assert!(std::fs::read(mount.path("x.h5")).unwrap() == bytes);
    let mut part = vec![0; 777];
    File::open(mount.path("x.h5")).unwrap().read_exact_at(&mut part, 5_050).unwrap();
    assert!(part == bytes[5_050..5_827]);
    mount.end();
}

/// Whether user 65534 may read a file; only root can ask.
fn another_may_read(path: &Path) -> bool {
    let script = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); \
                  open(sys.argv[1], 'rb').read()";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", script]).arg(path).stderr(std::process::Stdio::null());
    command.status().unwrap().success()
}

#[test]
fn a_set_gives_nobody_what_one_of_its_files_does_not() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    if !rustix::process::geteuid().is_root() {
        aggio_tests::skip("only root can be another user");
        return;
    }
    let directory = directory();
    let (backing, secret) = (directory.path().join("backing"), directory.path().join("secret"));
    let open = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    stripes(&backing, &[7; 1000]);
    open(directory.path(), 0o755);
    std::fs::write(&secret, b"nobody else's business").unwrap();
    open(&secret, 0o600);
    let Some(mount) = Mount::of(&directory, &["--allow-other"]) else { return };
    let (set, part) = (mount.path("x.h5"), backing.join("x.h5.subfile_7_2_of_3"));
    let mode = || set.metadata().unwrap().mode() & 0o777;
    assert!(another_may_read(&set));
    // Part of it is closed to others while it is known, and opened again.
    open(&part, 0o600);
    until(|| mode() == 0o600);
    assert!(!another_may_read(&set) && std::fs::read(&set).unwrap() == [7; 1000]);
    open(&part, 0o644);
    until(|| another_may_read(&set));
    // The owner of the directory cannot put a link in place of a missing part.
    std::fs::remove_file(&part).unwrap();
    symlink(&secret, &part).unwrap();
    until(|| std::fs::read(&set).is_err());
    assert!(!another_may_read(&set));
    mount.end();
}

#[test]
fn a_configuration_that_is_a_pipe_makes_nobody_wait() {
    let directory = directory();
    let backing = directory.path().join("backing");
    stripes(&backing, &[7; 1000]);
    let configuration = backing.join("x.h5.subfile_7.config");
    std::fs::remove_file(&configuration).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&configuration).status().unwrap();
    assert!(made.success());
    std::fs::write(backing.join("other"), b"").unwrap();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    assert!(std::fs::read(mount.path("x.h5")).is_err());
    assert!(names(&mount.path("")).contains(&"other".to_owned()));
    mount.end();
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
            crate::mounted::aggio(&[
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
    // A part can be opened by its name.
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
    crate::mounted::wait_until("the set is whole", seen);
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
