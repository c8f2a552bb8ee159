//! Containers below a mount point are ordinary files for every program.

use crate::mounted::{Mount, Random, container, directory, output, pattern};
use agg_core::blob::{Container, Create};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// A plain directory with files, and a backing directory in which the same files are containers or
/// plain.
fn twin(oracle: &Path, backing: &Path) {
    let files: [(&str, usize, usize); 5] = [
        ("empty", 0, 1),
        ("one", 1, 1),
        ("text", 70_001, 997),
        ("big", 5 << 20, 64 << 10),
        ("sub/deep", 300_000, 4096),
    ];
    for folder in [oracle, backing] {
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(folder.join("plain"), pattern(123_456)).unwrap();
        std::os::unix::fs::symlink("sub/deep", folder.join("link")).unwrap();
    }
    for (name, len, piece) in files {
        let data = pattern(len);
        std::fs::write(oracle.join(name), &data).unwrap();
        container(&backing.join(name), &data, piece);
    }
}

#[test]
fn programs_see_the_same_bytes_as_in_a_plain_directory() {
    let directory = directory();
    let oracle = directory.path().join("oracle");
    twin(&oracle, &directory.path().join("backing"));
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let view = mount.path("");
    let commands: [(&str, &[&str]); 6] = [
        ("md5sum", &["empty", "one", "text", "big", "sub/deep", "plain", "link"]),
        ("tar", &["cf", "-", "--sort=name", "--mtime=2001-01-01", "--mode=644", "--owner=a", "."]),
        ("dd", &["if=big", "bs=4097", "skip=77", "count=500", "status=none"]),
        ("find", &["empty", "one", "text", "big", "sub", "link", "-type", "f", "-size", "+0"]),
        ("wc", &["-c", "empty", "one", "text", "big", "sub/deep"]),
        (
            "python3",
            &[
                "-c",
                "import mmap;f=open('big','rb');m=mmap.mmap(f.fileno(),0,prot=1);print(hash(m[:]) \
                    and sum(m[::4099]))",
            ],
        ),
    ];
    for (program, arguments) in commands {
        let (wanted, seen) =
            (output(program, arguments, &oracle), output(program, arguments, &view));
        if program == "python3" {
            assert_eq!(String::from_utf8_lossy(&wanted), String::from_utf8_lossy(&seen));
        }
        assert!(wanted == seen, "{program} {arguments:?} sees something else");
    }
    let copy = directory.path().join("copy");
    output("cp", &["-r", ".", copy.to_str().unwrap()], &view);
    assert_eq!(aggio_tests::difference(&oracle, &copy), None);
    mount.end();
}

#[test]
fn random_reads_give_the_bytes_of_the_oracle() {
    let directory = directory();
    let mut random = Random(7);
    let data = random.bytes(3_000_017);
    container(&directory.path().join("backing/a"), &data, 1000);
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let file = File::open(mount.path("a")).unwrap();
    for _ in 0..500 {
        let start = random.below(data.len() as u64 + 10_000);
        let mut bytes = vec![0; random.below(200_000) as usize];
        let count = file.read_at(&mut bytes, start).unwrap();
        let from = (start as usize).min(data.len());
        let wanted = &data[from..data.len().min(from + bytes.len())];
        assert_eq!(count, wanted.len());
        assert!(bytes[..count] == *wanted, "at {start}");
    }
}

#[test]
fn a_container_has_the_attributes_of_a_file_and_a_number_that_stays() {
    let directory = directory();
    container(&directory.path().join("backing/a"), &pattern(5000), 100);
    output("cp", &["-r", "a", "copy"], &directory.path().join("backing"));
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let found = mount.path("a").metadata().unwrap();
    assert!(found.is_file());
    assert_eq!((found.len(), found.mode() & 0o7777, found.nlink()), (5000, 0o644, 1));
    assert_eq!(found.blksize(), 1 << 20);
    assert_ne!(found.ino(), mount.path("copy").metadata().unwrap().ino());
    assert_eq!(std::fs::read(mount.path("copy")).unwrap(), pattern(5000));
    mount.end();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    assert_eq!(mount.path("a").metadata().unwrap().ino(), found.ino());
}

#[test]
fn nothing_can_be_changed_unless_the_mount_allows_it() {
    let directory = directory();
    container(&directory.path().join("backing/a"), b"abc", 1);
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let refused = |result: std::io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    };
    refused(std::fs::write(mount.path("new"), "x"));
    refused(std::fs::write(mount.path("a"), "x"));
    refused(std::fs::remove_file(mount.path("a")));
    refused(std::fs::rename(mount.path("a"), mount.path("b")));
    refused(std::fs::create_dir(mount.path("d")));
    refused(std::fs::set_permissions(mount.path("a"), PermissionsExt::from_mode(0o600)));
}

#[test]
fn a_listing_of_many_files_shows_each_once() {
    let directory = directory();
    let backing = directory.path().join("backing");
    for index in 0..3000 {
        std::fs::write(backing.join(format!("plain-{index:04}")), "").unwrap();
    }
    for index in 0..50 {
        container(&backing.join(format!("blob-{index:04}")), b"12", 1);
    }
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    for _ in 0..2 {
        let mut names: Vec<_> = std::fs::read_dir(mount.path(""))
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                assert!(entry.file_type().unwrap().is_file(), "{entry:?}");
                entry.file_name()
            })
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3050);
    }
    let listing = output("ls", &["-l"], &mount.path(""));
    assert_eq!(String::from_utf8(listing).unwrap().lines().count(), 3051);
}

#[test]
fn what_a_writer_adds_and_seals_while_it_is_mounted_is_seen() {
    let directory = directory();
    let path = directory.path().join("backing/a");
    let how = Create { mode: 0o644, exclusive: true, data_crc: false };
    let writer = Container::create(&path, &how).unwrap().writer().unwrap();
    writer.write_at(&pattern(10_000), 0).unwrap();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let view = mount.path("a");
    assert_eq!(std::fs::read(&view).unwrap(), pattern(10_000));
    let open = File::open(&view).unwrap();
    writer.write_at(b"changed", 0).unwrap();
    writer.write_at(b"end", 20_000).unwrap();
    assert_eq!(view.metadata().unwrap().len(), 20_003);
    let mut bytes = [0; 7];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"changed");
    writer.close().unwrap();
    let sealed = std::fs::read(&view).unwrap();
    assert_eq!((sealed.len(), &sealed[20_000..]), (20_003, &b"end"[..]));
    // Bytes of a later writer are visible to readers that open the file after it.
    let writer = Container::open(&path).unwrap().writer().unwrap();
    writer.write_at(b"again", 0).unwrap();
    writer.close().unwrap();
    assert_eq!(&std::fs::read(&view).unwrap()[..7], b"agained");
}

#[test]
fn two_mounts_of_one_directory_show_the_same() {
    let directory = directory();
    container(&directory.path().join("backing/a"), &pattern(100_000), 333);
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let Some(one) = Mount::of(&directory, &[]) else { return };
    let Some(two) = Mount::at(&directory, &other, &["--rw"]) else { return };
    assert_eq!(std::fs::read(one.path("a")).unwrap(), std::fs::read(two.path("a")).unwrap());
    std::fs::write(two.path("a"), "short").unwrap();
    assert_eq!(std::fs::read(one.path("a")).unwrap(), b"short");
    two.end();
    assert_eq!(std::fs::read(one.path("a")).unwrap(), b"short");
}

#[test]
fn extended_attributes_tell_what_is_behind_a_file() {
    let directory = directory();
    container(&directory.path().join("backing/a"), b"abc", 1);
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    let words = "import os,sys;n='user.aggio.';print({n+k:os.getxattr(sys.argv[1],n+k) for k in \
        ('kind','sealed')})";
    let told = output("python3", &["-c", words, "a"], &mount.path(""));
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("'user.aggio.kind': b'blob'"), "{told}");
    assert!(told.contains("'user.aggio.sealed': b'1'"), "{told}");
}

#[test]
fn the_space_of_the_backing_file_system_is_told() {
    let Some(mount) = Mount::start(&[]) else { return };
    let told = |path: &Path| {
        let folder = path.to_str().unwrap().to_string();
        output("stat", &["-f", "-c", "%b %S %c", &folder], Path::new("/"))
    };
    assert_eq!(told(&mount.path("")), told(&mount.backing("")));
}
