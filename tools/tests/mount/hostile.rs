//! A backing directory that is not to be trusted: nothing leads out of it, and a damaged object is
//! an error of one file.

use crate::mounted::{Mount, Random, container, directory, pattern};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[track_caller]
fn is_broken(path: &Path) {
    let why = File::open(path).map(|file| file.read_at(&mut [0; 10], 0));
    let errno = match why {
        Err(why) | Ok(Err(why)) => why.raw_os_error(),
        Ok(Ok(_)) => None,
    };
    assert_eq!(errno, Some(libc::EIO), "{}", path.display());
}

#[test]
fn broken_containers_give_an_error_and_a_line_in_the_log_and_others_go_on() {
    let directory = directory();
    let backing = directory.path().join("backing");
    for name in ["good", "cut", "no-number", "not-text"] {
        container(&backing.join(name), &pattern(10_000), 100);
    }
    let manifest = |name: &str| backing.join(name).join("aggio-manifest");
    let text = std::fs::read_to_string(manifest("cut")).unwrap();
    std::fs::write(manifest("cut"), &text[..text.len() / 2]).unwrap();
    std::fs::write(manifest("no-number"), text.replace("size ", "size x")).unwrap();
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(&[0xff; 5000]);
    std::fs::write(manifest("not-text"), bytes).unwrap();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    for name in ["cut", "no-number", "not-text"] {
        is_broken(&mount.path(name));
        assert!(mount.log().contains(name), "{}", mount.log());
    }
    let names = std::fs::read_dir(mount.path("")).unwrap().count();
    assert_eq!(names, 4, "a listing shows them all");
    assert_eq!(std::fs::read(mount.path("good")).unwrap(), pattern(10_000));
}

#[test]
fn containers_with_random_damage_never_end_the_file_system() {
    let directory = directory();
    let backing = directory.path().join("backing");
    let mut random = Random(5);
    for index in 0..60 {
        let path = backing.join(format!("c{index}"));
        container(&path, &pattern(20_000), 300);
        let parts: Vec<_> =
            std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        let part = &parts[random.below(parts.len() as u64) as usize];
        let mut bytes = std::fs::read(part).unwrap();
        match random.below(3) {
            0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
            1 => bytes.extend(random.bytes(500)),
            _ => {
                for _ in 0..4 {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            }
        }
        std::fs::write(part, bytes).unwrap();
    }
    container(&backing.join("good"), &pattern(5000), 50);
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    for index in 0..60 {
        let path = mount.path(&format!("c{index}"));
        // Any result is allowed, if there is one.
        let _ = std::fs::read(&path);
        let _ = std::fs::metadata(&path);
        let _ = File::options().write(true).open(&path).map(|file| file.write_all_at(b"x", 7));
    }
    assert_eq!(std::fs::read(mount.path("good")).unwrap(), pattern(5000));
}

#[test]
fn parts_that_are_links_to_somewhere_else_are_not_read() {
    let directory = directory();
    let backing = directory.path().join("backing");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, pattern(10_000)).unwrap();
    container(&backing.join("a"), &pattern(10_000), 10_000);
    let log = std::fs::read_dir(backing.join("a"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "log"))
        .unwrap();
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(&secret, &log).unwrap();
    std::fs::create_dir(backing.join("b")).unwrap();
    std::os::unix::fs::symlink(backing.join("a/aggio-manifest"), backing.join("b/aggio-manifest"))
        .unwrap();
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    assert!(std::fs::read(mount.path("a")).is_err());
    assert!(mount.path("b").metadata().unwrap().is_dir(), "a link is no manifest");
}

#[test]
fn a_link_is_followed_by_the_program_and_never_by_the_file_system() {
    let directory = directory();
    let backing = directory.path().join("backing");
    std::os::unix::fs::symlink("/etc/hostname", backing.join("out")).unwrap();
    std::os::unix::fs::symlink("loop", backing.join("loop")).unwrap();
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    assert_eq!(std::fs::read_link(mount.path("out")).unwrap(), Path::new("/etc/hostname"));
    let looped = std::fs::read(mount.path("loop")).unwrap_err();
    assert_eq!(looped.raw_os_error(), Some(libc::ELOOP));
    std::fs::remove_file(mount.path("out")).unwrap();
    assert!(Path::new("/etc/hostname").exists());
}
