//! Files that remain when commands race for one name, find no room, or get a signal to end.

use super::place::{Place, done, names, refused};
use crate::mounted::{aggio, container, pattern, wait_until};
use aggio_tests::SmallFileSystem;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggio"));
    // Signals that are ignored at the start stay ignored: the tests may run under `nohup`.
    let listen = || {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // SAFETY: sets the default in the child.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure calls only functions that signal handlers may call.
    unsafe { command.pre_exec(listen) };
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn of_two_merges_to_one_name_one_counts_and_their_bytes_are_never_mixed() {
    let place = Place::new();
    let [one, other, out] = ["one", "other", "out"].map(|name| place.path(name));
    let bytes = [pattern(17_000_000), pattern(17_000_001)[1..].to_vec()];
    container(one.as_ref(), &bytes[0], 50_000);
    container(other.as_ref(), &bytes[1], 50_000);
    for round in 0..12 {
        let how: &[&str] =
            [&[][..], &["--force"], &["--resume"], &["--resume", "--force"]][round % 4];
        let children = [&one, &other].map(|from| start(&[&["merge"], how, &[from, &out]].concat()));
        let outputs = children.map(|child| child.wait_with_output().unwrap());
        let successes = outputs.iter().filter(|output| output.status.success()).count();
        let wanted = if how.contains(&"--force") { 2 } else { 1 };
        assert_eq!(successes, wanted, "{how:?}: {outputs:?}");
        let found = std::fs::read(&out).unwrap();
        assert!(bytes.contains(&found), "round {round}: bytes of both");
        if wanted == 1 {
            let winner = outputs.iter().position(|output| output.status.success()).unwrap();
            assert!(bytes[winner] == found, "the one that succeeded");
            let loser = &outputs[1 - winner];
            refused(loser, "there already");
        }
        std::fs::remove_file(&out).unwrap();
        for name in place.names() {
            // With --resume the loser keeps its copy for its name.
            if name.starts_with(".aggio-merge-") && how.contains(&"--resume") {
                std::fs::remove_dir_all(place.path(&name)).unwrap();
            }
        }
        assert_eq!(place.names(), ["one", "other"], "round {round}");
    }
}

/// Bytes that are free.
fn free(place: &Path) -> u64 {
    let found = rustix::fs::statvfs(place).unwrap();
    found.f_bfree * found.f_frsize
}

#[test]
fn a_command_that_finds_no_room_leaves_nothing_and_the_room_is_free_again() {
    let place = Place::new();
    let (blob, plain) = (place.path("blob"), place.path("plain"));
    let bytes = pattern(12_000_000);
    container(blob.as_ref(), &bytes, 50_000);
    std::fs::write(&plain, &bytes).unwrap();
    let commands: [&[&str]; 4] = [
        &["merge", &blob],
        &["merge", "--force", "--verify", &blob],
        &["split", &plain],
        &["split", "--verify", &plain],
    ];
    if let Some(small) = SmallFileSystem::mount_if_possible(8 << 20) {
        let folder = small.seen();
        let to = folder.join("out").to_str().unwrap().to_owned();
        let before = free(&folder);
        for arguments in commands {
            let failed = aggio(&[arguments, &[&to]].concat());
            refused(&failed, "No space left on device");
            assert_eq!(names(&folder), [] as [&str; 0], "{arguments:?}");
            assert_eq!(free(&folder), before, "{arguments:?}");
        }
    }
    let to = place.path("out");
    for arguments in commands {
        // Blocks of 512 bytes or of 1024, as the shell has it: at most 4 MB.
        let failed = Command::new("sh")
            .args(["-c", "ulimit -f 4000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_aggio")])
            .args(arguments)
            .arg(&to)
            .output()
            .unwrap();
        refused(&failed, "File too large");
        assert_eq!(place.names(), ["blob", "plain"], "{arguments:?}");
    }
}

/// Runs a command that makes `out`, and sends it a signal while it works. One that was faster than
/// the signal is run again.
fn signalled(place: &Place, arguments: &[&str], signal: i32) {
    for _ in 0..20 {
        let (status, told) = ended(place, arguments, signal);
        if !status.success() {
            assert_eq!(status.signal(), Some(signal), "{arguments:?}: {status}: {told}");
            return;
        }
        let out = place.path("out");
        std::fs::remove_dir_all(&out).or_else(|_| std::fs::remove_file(&out)).unwrap();
    }
    panic!("{arguments:?}: it ended before the signal each time");
}

/// The exit status of a command that got a signal while it worked, and its output. A copy that is
/// kept on purpose counts as soon as it has such a name.
fn ended(place: &Place, arguments: &[&str], signal: i32) -> (ExitStatus, String) {
    let mut child = start(arguments);
    let pid = child.id();
    let is_kept = arguments.contains(&"--resume");
    let prefix = if is_kept { ".aggio-merge-" } else { ".aggio-" };
    let is_at_it = || {
        let hidden = place.names().iter().any(|name| name.starts_with(prefix));
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let folder = place.0.path().to_path_buf();
        let nameless = |link: PathBuf| {
            link.starts_with(&folder) && link.to_string_lossy().ends_with(" (deleted)")
        };
        hidden || !is_kept && links.into_iter().any(nameless)
    };
    let has_ended = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        state.is_ok_and(|state| state.contains(") Z "))
    };
    wait_until("the file is being made", || is_at_it() || has_ended());
    // SAFETY: the process is a child that was not waited for.
    unsafe { libc::kill(pid as i32, signal) };
    let status = child.wait().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (status, told)
}

#[test]
fn a_command_that_is_asked_to_end_leaves_nothing() {
    let place = Place::new();
    let (blob, plain, out) = (place.path("blob"), place.path("plain"), place.path("out"));
    let bytes = pattern(200_000_000);
    std::fs::write(&plain, &bytes).unwrap();
    done(&aggio(&["split", &plain, &blob]));
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        signalled(&place, &["split", "--verify", &plain, &out], signal);
        assert_eq!(place.names(), ["blob", "plain"]);
        signalled(&place, &["merge", "--verify", "--threads", "1", &blob, &out], signal);
        assert_eq!(place.names(), ["blob", "plain"]);
    }
    // Nobody can catch this one: a file has no name before it is complete.
    signalled(&place, &["merge", "--verify", "--threads", "1", &blob, &out], libc::SIGKILL);
    assert_eq!(place.names(), ["blob", "plain"]);
    // A copy that is kept on purpose is used by the next run.
    signalled(&place, &["merge", "--resume", "--threads", "1", &blob, &out], libc::SIGTERM);
    assert_eq!(place.names().len(), 3);
    done(&aggio(&["merge", "--resume", &blob, &out]));
    assert!(std::fs::read(&out).unwrap() == bytes);
    assert_eq!(place.names(), ["blob", "out", "plain"]);
}
