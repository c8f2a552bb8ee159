//! The slow file system, really mounted: bytes, counts, locks, and the end of it.

use crate::mounted::{Mount, is_mounted, pattern};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn bytes_pass_through_in_both_directions() {
    let Some(mount) = Mount::start(&[]) else { return };
    let data = pattern(3 << 20);
    let file =
        File::options().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    file.write_all_at(&data[..5000], 100_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 105_000);
    let mut expected = vec![0; 105_000];
    expected[100_000..].copy_from_slice(&data[..5000]);
    assert_eq!(std::fs::read(mount.backing("a")).unwrap(), expected);
    assert_eq!(std::fs::read(mount.path("a")).unwrap(), expected);
    file.write_all_at(&data, 1).unwrap();
    assert_eq!(std::fs::read(mount.backing("a")).unwrap()[1..], data);
    let mut middle = vec![0; 2 << 20];
    file.read_exact_at(&mut middle, 777).unwrap();
    assert_eq!(middle, data[776..776 + middle.len()]);
    std::fs::write(mount.backing("b"), &data).unwrap();
    assert_eq!(std::fs::read(mount.path("b")).unwrap(), data);
    file.sync_all().unwrap();
}

#[test]
fn names_and_sizes_change_as_in_any_file_system() {
    let Some(mount) = Mount::start(&[]) else { return };
    std::fs::create_dir(mount.path("d")).unwrap();
    std::fs::write(mount.path("d/one"), "12345").unwrap();
    std::fs::rename(mount.path("d/one"), mount.path("two")).unwrap();
    assert!(std::fs::remove_dir(mount.path("two")).is_err());
    let file = File::options().read(true).write(true).open(mount.path("two")).unwrap();
    file.set_len(3).unwrap();
    assert_eq!(std::fs::read(mount.backing("two")).unwrap(), b"123");
    std::fs::remove_file(mount.path("two")).unwrap();
    assert!(!mount.backing("two").exists() && !mount.path("two").exists());
    // Removed, but still open.
    file.write_all_at(b"x", 1).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes, file.metadata().unwrap().len()), (b"1x3", 3));
    std::fs::write(mount.path("d/three"), "").unwrap();
    let names: Vec<_> = std::fs::read_dir(mount.path("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["three"]);
    std::fs::write(mount.path("d/three"), "abc").unwrap();
    std::fs::write(mount.path("d/three"), "z").unwrap();
    assert_eq!(std::fs::read(mount.backing("d/three")).unwrap(), b"z");
    let missing = File::open(mount.path("none")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn every_call_of_a_program_is_a_request_and_large_ones_are_cut() {
    let Some(mount) = Mount::start(&[]) else { return };
    let file =
        File::options().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    let data = pattern((3 << 20) + 4096);
    let (reads, writes) = (mount.count("read"), mount.count("write"));
    for index in 0..20 {
        file.write_all_at(&data[..10], index * 4096).unwrap();
    }
    assert_eq!(mount.count("write") - writes, 20);
    // Memory that begins within a page would need one page more than fit into three requests.
    let aligned = data.as_ptr().align_offset(4096);
    file.write_all_at(&data[aligned..aligned + (3 << 20)], 0).unwrap();
    assert_eq!(mount.count("write") - writes, 20 + 3);
    for _ in 0..2 {
        // Nothing is remembered: a second read is a request as well.
        file.read_exact_at(&mut [0; 10], 5).unwrap();
    }
    assert_eq!(mount.count("read") - reads, 2);
    assert_eq!(mount.count("bytes_written"), 200 + (3 << 20));
    assert_eq!(mount.count("bytes_read"), 20);
    let opens = mount.count("open");
    drop(File::open(mount.path("a")).unwrap());
    assert_eq!(mount.count("open") - opens, 1);
}

/// Writes a byte at `offset` in a process of its own, which is a client of its own.
fn write_as_another_client(path: &Path, offset: u64) {
    let status = Command::new("dd")
        .args(["if=/dev/zero", "bs=1", "count=1", "conv=notrunc", "status=none"])
        .arg(format!("seek={offset}"))
        .arg(format!("of={}", path.display()))
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_lock_unit_moves_between_processes_but_not_between_threads() {
    let Some(mount) = Mount::start(&["--lock-unit", "64K", "--lock-latency-us", "100"]) else {
        return;
    };
    let file = File::options().write(true).create_new(true).open(mount.path("a")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let file = &file;
            scope.spawn(move || file.write_all_at(&[1; 100], thread * 100).unwrap());
        }
    });
    assert_eq!(mount.count("lock_moves"), 0);
    write_as_another_client(&mount.path("a"), 50);
    assert_eq!(mount.count("lock_moves"), 1);
    write_as_another_client(&mount.path("a"), 1 << 20);
    assert_eq!(mount.count("lock_moves"), 1);
    file.write_all_at(&[2; 10], 65_530).unwrap();
    assert_eq!(mount.count("lock_moves"), 2);
}

#[test]
fn a_signal_unmounts() {
    let Some(mut mount) = Mount::start(&[]) else { return };
    assert!(is_mounted(&mount.path("")));
    let process = i32::try_from(mount.child.id()).unwrap();
    // SAFETY: only signals a process that this test has started and not yet waited for.
    assert_eq!(unsafe { libc::kill(process, libc::SIGTERM) }, 0);
    assert!(mount.has_ended());
}

#[test]
fn the_end_of_its_input_unmounts() {
    let Some(mut mount) = Mount::start(&[]) else { return };
    std::fs::write(mount.path("a"), "kept").unwrap();
    drop(mount.child.stdin.take());
    assert!(mount.has_ended());
    assert_eq!(std::fs::read(mount.backing("a")).unwrap(), b"kept");
}

#[test]
fn it_ends_while_another_mount_namespace_has_a_copy() {
    let Some(mut mount) = Mount::start(&[]) else { return };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", "echo copied && cat"]);
    let mut other = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(mount.child.stdin.take());
    let has_ended = mount.has_ended();
    drop(other.stdin.take());
    other.wait().unwrap();
    assert!(has_ended);
    if line != "copied\n" {
        aggio_tests::skip("this user may not make a mount namespace");
    }
}
