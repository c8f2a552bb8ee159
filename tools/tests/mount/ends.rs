//! How mounts begin and end: exit codes, signals, dead mounts, mounts in use.

use crate::mounted::{Mount, aggio, container, directory, is_mounted, pattern};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn signal(process: u32, signal: i32) {
    // SAFETY: only signals a process that this test has started and not yet waited for.
    assert_eq!(unsafe { libc::kill(process.cast_signed(), signal) }, 0);
}

/// Unmounts the mount that a test started in the background, even if the test fails.
struct Background<'a>(&'a Path);

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if is_mounted(self.0) {
            aggio(&["umount", "-z", self.0.to_str().unwrap()]);
        }
    }
}

/// Unmounts an unused mount. A process that another test starts has a copy of every descriptor
/// until it becomes another program, so the mount may be in use for a moment.
fn unmount(point: &Path) {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        let output = aggio(&["umount", point.to_str().unwrap()]);
        let is_used = String::from_utf8_lossy(&output.stderr).contains("in use");
        if !is_used || Instant::now() > end {
            assert!(output.status.success(), "{output:?}");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_mount_in_the_background_works_when_the_command_returns_and_ends_with_umount() {
    let Some(probe) = Mount::start(&[]) else { return };
    probe.end();
    let directory = directory();
    let (backing, point) = (directory.path().join("backing"), directory.path().join("mount"));
    container(&backing.join("a"), &pattern(1000), 10);
    let (b, p) = (backing.to_str().unwrap(), point.to_str().unwrap());
    let started = aggio(&["mount", "--rw", "--new-files=container", b, p]);
    let guard = Background(&point);
    assert!(started.status.success(), "{started:?}");
    assert!(started.stdout.is_empty() && started.stderr.is_empty(), "{started:?}");
    assert_eq!(std::fs::read(point.join("a")).unwrap(), pattern(1000));
    let again = aggio(&["mount", b, p]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("mounted there already"));
    std::fs::write(point.join("new"), "kept").unwrap();
    unmount(&point);
    assert!(!is_mounted(&point));
    // Written files are sealed when the command returns.
    let sealed = agg_core::blob::Container::open(&backing.join("new")).unwrap();
    assert!(sealed.attributes().unwrap().sealed);
    drop(guard);
}

#[test]
fn what_cannot_be_mounted_is_told_with_the_exit_code() {
    let directory = directory();
    let root = directory.path();
    container(&root.join("backing/a"), b"x", 1);
    std::fs::write(root.join("file"), "").unwrap();
    let cases = [
        ("missing", "mount", "No such file"),
        ("backing", "missing", "No such file"),
        ("backing", "file", "only a directory"),
        ("backing/a", "mount", "a container"),
        ("backing", "backing", "lies in the directory"),
    ];
    for (backing, point, words) in cases {
        let (backing, point) = (root.join(backing), root.join(point));
        let output = aggio(&["mount", backing.to_str().unwrap(), point.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(words) && told.starts_with("aggio: mount: "), "{told}");
    }
    let point = root.join("mount");
    let output = aggio(&["mount", "-o", "wrong", "/tmp", point.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown option"));
    let output = aggio(&["umount", point.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no mount of aggio"), "{output:?}");
}

#[test]
fn signals_unmount() {
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let Some(mut mount) = Mount::start(&[]) else { return };
        signal(mount.child.id(), number);
        assert!(mount.has_ended());
    }
}

#[test]
fn a_dead_mount_is_replaced_by_a_new_one_and_removed_by_umount() {
    let directory = directory();
    container(&directory.path().join("backing/a"), b"abc", 1);
    let point = directory.path().join("mount");
    let Some(mut mount) = Mount::of(&directory, &[]) else { return };
    let guard = Background(&point);
    signal(mount.child.id(), libc::SIGKILL);
    mount.child.wait().unwrap();
    let dead = std::fs::read(point.join("a")).unwrap_err();
    assert_eq!(dead.raw_os_error(), Some(libc::ENOTCONN));
    let doctor = aggio(&["doctor"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("process of this mount is gone"));
    let mut again = Mount::of(&directory, &[]).unwrap();
    assert_eq!(std::fs::read(point.join("a")).unwrap(), b"abc");
    signal(again.child.id(), libc::SIGKILL);
    again.child.wait().unwrap();
    assert!(is_mounted(&point));
    let output = aggio(&["umount", point.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(!is_mounted(&point));
    drop(guard);
}

#[test]
fn a_mount_in_use_is_not_taken_away_unless_lazily() {
    let directory = directory();
    container(&directory.path().join("backing/a"), &pattern(100_000), 1000);
    let Some(mut mount) = Mount::of(&directory, &[]) else { return };
    let file = File::open(mount.path("a")).unwrap();
    let point = mount.path("");
    let output = aggio(&["umount", point.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("in use"), "{output:?}");
    let output = aggio(&["umount", "-z", point.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(!is_mounted(&point));
    let mut bytes = vec![0; 1000];
    file.read_exact_at(&mut bytes, 50_000).unwrap();
    assert_eq!(bytes, pattern(100_000)[50_000..51_000]);
    assert!(mount.child.try_wait().unwrap().is_none(), "it serves its last user");
    drop(file);
    assert!(mount.has_ended());
}

#[test]
fn writers_killed_with_the_mount_lose_nothing_that_was_acknowledged() {
    let directory = directory();
    let Some(mut mount) = Mount::of(&directory, &["--rw", "--new-files=container"]) else { return };
    let point = mount.path("");
    let guard = Background(&point);
    let file = File::create(point.join("a")).unwrap();
    for index in 0..100 {
        file.write_all_at(&pattern(1000), index * 1000).unwrap();
    }
    signal(mount.child.id(), libc::SIGKILL);
    mount.child.wait().unwrap();
    drop(file);
    unmount(&point);
    drop(guard);
    let path = directory.path().join("backing/a");
    let bytes = Command::new(env!("CARGO_BIN_EXE_aggio")).arg("cat").arg(&path).output().unwrap();
    assert!(bytes.stdout == pattern(1000).repeat(100));
    let checked = aggio(&["fsck", path.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(told.contains("repairable"), "{told}");
    let recovered = aggio(&["recover", path.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&recovered.stdout).contains("sealed"), "{recovered:?}");
    assert_eq!(aggio(&["fsck", path.to_str().unwrap()]).status.code(), Some(0));
}

#[test]
fn umount_waits_for_what_is_still_being_finished() {
    let directory = directory();
    let Some(mut mount) = Mount::of(&directory, &["--rw", "--new-files=container"]) else { return };
    let point = mount.path("");
    std::fs::write(point.join("a"), pattern(4 << 20)).unwrap();
    let begin = Instant::now();
    unmount(&point);
    assert!(begin.elapsed() < Duration::from_secs(30));
    let path = directory.path().join("backing/a");
    assert!(agg_core::blob::Container::open(&path).unwrap().attributes().unwrap().sealed);
    assert!(mount.has_ended());
}
