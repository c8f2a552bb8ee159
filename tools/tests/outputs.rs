//! Files that commands make: whose they are, with which rights, what they replace, and what stays of
//! them when a command fails or is killed. Some need a second user, so root runs them.

mod mounted;

use aggio_tests::hosts::is_root;
use aggio_tests::{Directory, SmallFileSystem};
use mounted::{aggio, container, pattern, wait_until};
use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// The second user.
const OTHER: u32 = 65_534;

struct Place(Directory);

impl Place {
    fn new() -> Self {
        Place(Directory::new())
    }

    /// A directory in which everybody may make files, and a copy of the command that everybody may run;
    /// `None` where there is no second user.
    fn for_two() -> Option<Self> {
        if !is_root() {
            aggio_tests::skip("only root can be another user");
            return None;
        }
        let place = Self::new();
        std::fs::copy(env!("CARGO_BIN_EXE_aggio"), place.path("aggio")).unwrap();
        let mode = |mode| Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("aggio"), mode(0o755)).unwrap();
        std::fs::set_permissions(place.0.path(), mode(0o1777)).unwrap();
        Some(place)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }

    /// Runs the command as the second user.
    fn by_other(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.path("aggio"));
        let output = command.args(arguments).current_dir("/").uid(OTHER).gid(OTHER).output();
        output.unwrap()
    }

    /// Gives a file to the second user, with a mode.
    fn give(&self, name: &str, mode: u32) {
        let path = self.path(name);
        std::os::unix::fs::chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

fn names(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn done(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

fn refused(output: &Output, words: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains(words), "{words}: {output:?}");
}

/// Owner and mode.
fn rights(path: &str) -> (u32, u32) {
    let found = std::fs::symlink_metadata(path).unwrap();
    (found.uid(), found.mode() & 0o7777)
}

fn fifo(path: &str) {
    let path = CString::new(path).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// The permissions that a container says its file has.
fn told_mode(container: &str) -> u32 {
    agg_core::blob::Container::open(container.as_ref()).unwrap().attributes().unwrap().mode
}

#[test]
fn no_file_runs_with_rights_that_its_owner_did_not_give_it() {
    let Some(place) = Place::for_two() else { return };
    let path = |name: &str| place.path(name);
    std::fs::write(path("tool"), pattern(100_000)).unwrap();
    place.give("tool", 0o6755);
    // His own copies keep the bits.
    done(&place.by_other(&["split", &path("tool"), &path("his")]));
    assert_eq!(told_mode(&path("his")), 0o6755);
    done(&place.by_other(&["merge", &path("his"), &path("his.out")]));
    assert_eq!(rights(&path("his.out")), (OTHER, 0o6755));
    // Those of another user, root above all, lose them.
    done(&aggio(&["merge", &path("his"), &path("roots")]));
    assert_eq!(rights(&path("roots")), (0, 0o755));
    done(&aggio(&["merge", "--resume", &path("his"), &path("roots2")]));
    assert_eq!(rights(&path("roots2")), (0, 0o755));
    done(&aggio(&["merge", "--force", &path("his"), &path("his.out")]));
    assert_eq!(rights(&path("his.out")), (0, 0o755));
    done(&aggio(&["split", &path("tool"), &path("split")]));
    assert_eq!(told_mode(&path("split")), 0o755);
    // Nobody but the owner can have written what runs with his rights.
    done(&aggio(&["split", &path("roots"), &path("open")]));
    let open = agg_core::blob::Container::open(path("open").as_ref()).unwrap();
    open.set_mode(0o4775).unwrap();
    done(&aggio(&["merge", &path("open"), &path("open.out")]));
    assert_eq!(rights(&path("open.out")), (0, 0o775));
}

#[test]
fn nothing_that_another_user_put_under_a_name_is_used() {
    let Some(place) = Place::for_two() else { return };
    let path = |name: &str| place.path(name);
    let bytes = pattern(3_000_000);
    container(path("blob").as_ref(), &bytes, 5000);
    std::fs::write(path("plain"), &bytes).unwrap();
    // Names that older versions used, and one like ours.
    for name in [".out.aggio-merging", ".out.aggio-merged"] {
        std::fs::write(path(name), vec![9; bytes.len()]).unwrap();
        place.give(name, 0o666);
    }
    let forged = ".aggio-merge-0123456789abcdef0123456789abcdef";
    std::fs::create_dir(path(forged)).unwrap();
    std::fs::write(path(&format!("{forged}/data")), vec![9; bytes.len()]).unwrap();
    std::fs::write(path(&format!("{forged}/journal")), vec![b'x'; 4096]).unwrap();
    let parts = [format!("{forged}/data"), format!("{forged}/journal")];
    parts.iter().for_each(|part| place.give(part, 0o600));
    place.give(forged, 0o700);
    let before = place.names();
    for (number, how) in [&["--threads", "2"][..], &["--resume"]].into_iter().enumerate() {
        let out = path(&format!("out{number}"));
        std::fs::rename(path(".out.aggio-merging"), path(&format!(".out{number}.aggio-merging")))
            .unwrap();
        done(&aggio(&[&["merge"], how, &[&path("blob"), &out]].concat()));
        assert!(std::fs::read(&out).unwrap() == bytes, "{how:?}");
        assert_eq!(rights(&out).0, 0);
        std::fs::rename(path(&format!(".out{number}.aggio-merging")), path(".out.aggio-merging"))
            .unwrap();
        std::fs::remove_file(&out).unwrap();
        assert_eq!(place.names(), before, "{how:?}");
    }
    done(&aggio(&["split", &path("plain"), &path("split")]));
    assert_eq!(rights(&path("split")).0, 0);
    std::fs::remove_dir_all(path("split")).unwrap();
    assert_eq!(place.names(), before, "split");
}

#[test]
fn a_link_to_somebody_elses_file_is_no_part_of_a_container() {
    let Some(place) = Place::for_two() else { return };
    let path = |name: &str| place.path(name);
    std::fs::write(path("plain"), pattern(100_000)).unwrap();
    place.give("plain", 0o644);
    let log = |blob: &str| {
        let names = names(path(blob).as_ref());
        names.into_iter().find(|name| name.ends_with(".log")).unwrap()
    };
    for part in ["order", "log", "aggio-manifest"] {
        let blob = path(part);
        done(&place.by_other(&["split", &path("plain"), &blob]));
        let part = if part == "log" { log(part) } else { part.into() };
        let linked = format!("{blob}/{part}");
        // The bytes of the part itself are the best bait.
        let bytes = std::fs::read(&linked).unwrap();
        std::fs::remove_file(&linked).unwrap();
        std::fs::write(path("roots"), &bytes).unwrap();
        std::fs::set_permissions(path("roots"), Permissions::from_mode(0o600)).unwrap();
        std::fs::hard_link(path("roots"), &linked).unwrap();
        for command in [&["fsck", "--repair"][..], &["index"], &["recover"]] {
            let _ = aggio(&[command, &[&blob]].concat());
            assert!(std::fs::read(path("roots")).unwrap() == bytes, "{part}: {command:?}");
            assert_eq!(rights(&path("roots")), (0, 0o600), "{part}: {command:?}");
        }
        let container = agg_core::blob::Container::open(blob.as_ref());
        if let Ok(container) = container {
            let _ = container.set_mode(0o666);
            let _ = container.set_owner(Some(OTHER), None);
            let _ = container.writer().map(|writer| writer.write_at(b"x", 5));
        }
        assert!(std::fs::read(path("roots")).unwrap() == bytes, "{part}");
        assert_eq!(rights(&path("roots")), (0, 0o600), "{part}");
    }
}

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
    // A device that is full, and a reader who goes away.
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
    // These tell what there is.
    for command in ["ls", "stat"] {
        let output = Command::new("timeout")
            .args(["20", env!("CARGO_BIN_EXE_aggio"), command, &pipe])
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(124), "{command} waits");
    }
    assert_eq!(place.names(), ["a.nc.0000", "file", "pipe"]);
}

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
    // SAFETY: the closure calls what signal handlers may call.
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
            // What the loser with --resume has copied stays for its name.
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

/// Runs a command that makes `out`, and sends it a signal when it is at it. One that was faster than
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

/// How a command ended that got a signal when it was at it, and what it told.
fn ended(place: &Place, arguments: &[&str], signal: i32) -> (ExitStatus, String) {
    let mut child = start(arguments);
    let pid = child.id();
    let is_at_it = || {
        let hidden = place.names().iter().any(|name| name.starts_with(".aggio-"));
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let folder = place.0.path().to_path_buf();
        let nameless = |link: PathBuf| {
            link.starts_with(&folder) && link.to_string_lossy().ends_with(" (deleted)")
        };
        hidden || links.into_iter().any(nameless)
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
    // What is kept on purpose is of use.
    signalled(&place, &["merge", "--resume", "--threads", "1", &blob, &out], libc::SIGTERM);
    assert_eq!(place.names().len(), 3);
    done(&aggio(&["merge", "--resume", &blob, &out]));
    assert!(std::fs::read(&out).unwrap() == bytes);
    assert_eq!(place.names(), ["blob", "out", "plain"]);
}
