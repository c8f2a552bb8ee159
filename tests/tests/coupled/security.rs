//! Access control where programs exchange files in memory: only the user takes part, and a hostile
//! program of the user can do little damage.

use aggio_tests::coupling::{Coupling, Ended};
use aggio_tests::{Directory, skip};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

/// A user without files or rights.
const NOBODY: u32 = 65_534;

/// Whether this process can run programs as another user.
fn is_root() -> bool {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skip("only root can run a program as another user");
    }
    root
}

/// Runs a script as another user.
fn as_nobody(coupling: &Coupling, script: &str) -> Ended {
    let became = format!("exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups sh -c");
    coupling.start(&format!("{became} '{script}'")).ends_within(Duration::from_secs(20))
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn another_user_can_neither_enter_the_directory_nor_take_part() {
    let Some(coupling) = Coupling::of("ck.*").filter(|_| is_root()) else { return };
    set_mode(coupling.path(), 0o777);
    coupling.run("echo secret > ck.1");
    for script in ["cat ck.1", "echo theirs > ck.1", "echo theirs > ck.2; test -e ck.2"] {
        let ended = as_nobody(&coupling, script);
        assert!(!ended.status.success() && !ended.stdout.contains("secret"), "{ended:?}");
        assert!(ended.stderr.contains("it belongs to user 0"), "{ended:?}");
    }
    let listed = as_nobody(&coupling, "env -u LD_PRELOAD ls $AGGIO_COUPLE_DIR");
    assert!(!listed.status.success() && listed.stdout.is_empty(), "{listed:?}");
    assert_eq!(coupling.run("cat ck.1"), "secret\n");
    assert_eq!(coupling.on_disk(), [] as [&str; 0]);
}

#[test]
fn a_socket_that_another_user_reaches_all_the_same_is_closed() {
    let Some(coupling) = Coupling::of("ck.*").filter(|_| is_root()) else { return };
    coupling.run("echo secret > ck.1");
    // As if the directory had been opened to all users.
    set_mode(coupling.meeting(), 0o777);
    for entry in std::fs::read_dir(coupling.meeting()).expect("a directory").flatten() {
        set_mode(&entry.path(), 0o777);
    }
    let script = "/usr/bin/python3 $PROGRAMS/coupled_hostile.py $AGGIO_COUPLE_DIR hello";
    let ended = as_nobody(&coupling, script);
    assert_eq!(ended.stdout, "closed\n", "{ended:?}");
    set_mode(coupling.meeting(), 0o700);
    assert_eq!(coupling.run("cat ck.1"), "secret\n");
}

#[test]
fn a_directory_that_another_user_made_is_refused_and_so_is_one_open_to_others() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    set_mode(coupling.meeting(), 0o755);
    let ended = coupling.start("echo text > ck.1").ends();
    assert!(!ended.status.success() && ended.stderr.contains("others may enter it"), "{ended:?}");
    set_mode(coupling.meeting(), 0o700);
    if is_root() {
        chown(coupling.meeting(), Some(NOBODY), Some(NOBODY)).expect("root may");
        let ended = coupling.start("echo text > ck.1").ends();
        assert!(!ended.status.success(), "{ended:?}");
        assert!(ended.stderr.contains(&format!("it belongs to user {NOBODY}")), "{ended:?}");
        chown(coupling.meeting(), Some(0), Some(0)).expect("root may");
    }
    assert_eq!(coupling.on_disk(), [] as [&str; 0], "nothing came onto the disk instead");
    coupling.run("echo text > ck.1; cat ck.1");
}

#[test]
fn hostile_messages_end_a_connection_and_nothing_else() {
    // Some of the rules have a directory for generations that survive the agent.
    let place = Directory::new();
    let rules = format!("ck.1,ck.*:level=process:spill={}", place.path().display());
    let Some(coupling) = Coupling::of(&rules) else { return };
    coupling.run("echo before > ck.1");
    let mut reader = coupling.start("cat ck.2");
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let count: u64 = number("AGGIO_TEST_MESSAGES").unwrap_or(4000);
    let (seed, spool) = (number("AGGIO_TEST_SEED").unwrap_or(7), place.path().display());
    let hostile = "/usr/bin/python3 $PROGRAMS/coupled_hostile.py $AGGIO_COUPLE_DIR";
    assert_eq!(coupling.run(&format!("LD_PRELOAD= {hostile} good")), "[]\n");
    let printed = coupling.run(&format!("LD_PRELOAD= {hostile} messages {count} {seed} {spool}"));
    assert_eq!(printed, format!("{count} sent\n"));
    assert!(reader.runs());
    coupling.run("echo after > ck.2");
    assert_eq!(reader.succeeds(), "after\n");
    assert_eq!(coupling.run("cat ck.1"), "before\n");
}
