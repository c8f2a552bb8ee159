//! Merges into streams, which take the bytes one after the other, and commands that ignore signals.

use crate::mounted::{aggio, container, pattern};
use aggio_tests::Directory;
use aggio_tests::hosts::is_root;
use std::io::Read;
use std::os::unix::fs::{FileExt, symlink};
use std::process::{Command, Stdio};

/// The second user.
const OTHER: u32 = 65_534;

#[test]
fn no_byte_whose_checksum_is_wrong_goes_to_a_pipe() {
    let place = Directory::new();
    let blob = place.path().join("blob");
    // The last of three frames has a wrong byte; each is longer than one read.
    let bytes = pattern(27_000_000);
    container(&blob, &bytes, 9_000_000);
    let names = std::fs::read_dir(&blob).unwrap().map(|entry| entry.unwrap().path());
    let log = names.into_iter().find(|path| path.extension().is_some_and(|end| end == "log"));
    let log = std::fs::File::options().read(true).write(true).open(log.unwrap()).unwrap();
    let size = log.metadata().unwrap().len();
    let mut byte = [0];
    log.read_exact_at(&mut byte, size - 8_000_000).unwrap();
    log.write_all_at(&[byte[0] ^ 1], size - 8_000_000).unwrap();
    let blob = blob.to_str().unwrap();
    for arguments in [&["merge", blob, "-"][..], &["cat", blob]] {
        let output = aggio(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains("checksum"), "{arguments:?}: {told}");
        assert!(bytes.starts_with(&output.stdout), "{arguments:?} wrote a wrong byte");
    }
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    if !is_root() {
        aggio_tests::skip("only root can be another user");
        return;
    }
    let place = Directory::new();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (blob, link) = (path("blob"), path("link"));
    container(blob.as_ref(), &pattern(1000), 500);
    symlink("/dev/full", &link).unwrap();
    for (owner, words) in [(0, "No space left"), (OTHER, "a symbolic link of another user")] {
        std::os::unix::fs::lchown(&link, Some(owner), Some(owner)).unwrap();
        let output = aggio(&["merge", "--force", &blob, &link]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(words), "{owner}: {told}");
    }
}

#[test]
fn a_signal_that_the_command_was_started_to_ignore_does_not_end_it() {
    let place = Directory::new();
    let path = |name: &str| place.path().join(name);
    let bytes = pattern(9_000_000);
    container(&path("blob"), &bytes, 50_000);
    for (name, signal) in [("HUP", libc::SIGHUP), ("INT", libc::SIGINT), ("TERM", libc::SIGTERM)] {
        // Nobody reads: the command waits until somebody does.
        let mut child = Command::new("sh")
            .args(["-c", &format!("trap '' {name}; exec \"$@\""), "sh"])
            .arg(env!("CARGO_BIN_EXE_aggio"))
            .args(["merge", "--force"])
            .arg(path("blob"))
            .arg("-")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0];
        let mut output = child.stdout.take().unwrap();
        // The first byte comes after all signals have been looked at.
        output.read_exact(&mut first).unwrap();
        // SAFETY: the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let mut found = first.to_vec();
        output.read_to_end(&mut found).unwrap();
        let said = child.wait_with_output().unwrap();
        assert!(said.status.success() && found == bytes, "{name}: {said:?}");
    }
}
