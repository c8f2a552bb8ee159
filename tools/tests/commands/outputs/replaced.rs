//! Which files a command replaces, writes to or refuses: pipes, devices, links, directories.

use super::place::{Place, done, fifo, refused};
use crate::mounted::{aggio, container, pattern};
use aggio_tests::hosts::is_root;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::{Command, Stdio};

#[test]
fn what_takes_bytes_in_order_is_written_to_and_stays_what_it_is() {
    let place = Place::new();
    let (blob, pipe) = (place.path("blob"), place.path("pipe"));
    let bytes = pattern(9_000_000);
    container(blob.as_ref(), &bytes, 5000);
    for to in ["-", "/dev/stdout"] {
        let output = aggio(&["merge", &blob, to]);
        assert!(output.status.success() && output.stdout == bytes, "{to}");
    }
    // Standard output that is a file.
    let file = place.path("file");
    let status = Command::new(env!("CARGO_BIN_EXE_aggio"))
        .args(["merge", "--force", &blob, "/dev/stdout"])
        .stdout(File::create(&file).unwrap())
        .status();
    assert!(status.unwrap().success() && std::fs::read(&file).unwrap() == bytes);
    fifo(&pipe);
    for force in [&[][..], &["--force"]] {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        done(&aggio(&[&["merge"], force, &[&blob, &pipe]].concat()));
        assert!(reader.join().unwrap() == bytes);
        assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    }
    done(&aggio(&["merge", "--force", &blob, "/dev/null"]));
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    // A device that is full, and a reader that goes away.
    refused(&aggio(&["merge", &blob, "/dev/full"]), "/dev/full");
    let mut child = Command::new(env!("CARGO_BIN_EXE_aggio"))
        .args(["merge", &blob, "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    refused(&child.wait_with_output().unwrap(), "nobody reads any more");
    for how in [&["--verify"][..], &["--resume"]] {
        refused(&aggio(&[&["merge"], how, &[&blob, "-"]].concat()), "needs an ordinary file");
    }
    refused(&aggio(&["merge", "--to", "e3sm", &blob, "-"]), "a set needs an ordinary file");
    assert_eq!(place.names(), ["blob", "file", "pipe"]);
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let place = Place::new();
    let path = |name: &str| place.path(name);
    container(path("blob").as_ref(), &pattern(100_000), 5000);
    std::fs::write(path("file"), "kept").unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    symlink("file", path("link")).unwrap();
    symlink("absent", path("dangling")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let before = place.names();
    for (name, words) in [
        ("link", "a symbolic link to file"),
        ("dangling", "a symbolic link to absent"),
        ("folder", "a directory"),
        ("socket", "a socket"),
    ] {
        for force in [&[][..], &["--force"]] {
            let (blob, to) = (path("blob"), path(name));
            refused(&aggio(&[&["merge"], force, &[&*blob, &*to]].concat()), words);
        }
    }
    if is_root() {
        let device = CString::new(path("device")).unwrap();
        let number = libc::makedev(7, 65_535);
        // SAFETY: the path ends with a zero byte.
        let made = unsafe { libc::mknod(device.as_ptr(), libc::S_IFBLK | 0o600, number) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        refused(&aggio(&["merge", &path("blob"), &path("device")]), "stores data");
        std::fs::remove_file(path("device")).unwrap();
    }
    drop(socket);
    assert_eq!(place.names(), before);
    assert_eq!(std::fs::read(path("file")).unwrap(), b"kept");
}

#[test]
fn a_fifo_that_is_named_as_input_makes_nobody_wait() {
    let place = Place::new();
    let path = |name: &str| place.path(name);
    fifo(&path("pipe"));
    // One in the place of a file of a set, too.
    fifo(&path("a.nc.0000"));
    std::fs::write(path("file"), "x").unwrap();
    let (pipe, file, set, out) = (path("pipe"), path("file"), path("a.nc"), path("out"));
    let commands: [&[&str]; 12] = [
        &["cat", &pipe],
        &["cat", "--offset", "1", &pipe],
        &["verify", "--bytes", &pipe, &file],
        &["verify", "--bytes", &file, &pipe],
        &["verify", &pipe, &file],
        &["split", &pipe, &out],
        &["merge", &pipe, &out],
        &["merge", &set, &out],
        &["cat", &set],
        &["stat", &set],
        &["fsck", &pipe],
        &["index", &pipe],
    ];
    for arguments in commands {
        let mut command = Command::new("timeout");
        let output = command.args(["20", env!("CARGO_BIN_EXE_aggio")]).args(arguments).output();
        let output = output.unwrap();
        assert_ne!(output.status.code(), Some(124), "{arguments:?} waits");
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        if arguments[0] == "cat" && arguments.contains(&&*pipe) {
            refused(&output, "a FIFO");
        }
    }
    // These commands describe any object.
    for command in ["ls", "stat"] {
        let output = Command::new("timeout")
            .args(["20", env!("CARGO_BIN_EXE_aggio"), command, &pipe])
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(124), "{command} waits");
    }
    assert_eq!(place.names(), ["a.nc.0000", "file", "pipe"]);
}
