//! Another user of the machine, with write access to a directory that root works in.

use super::scene::{content, finish, store};
use aggio_tests::{Directory, copy_program, factor, library, names_in, tool};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The other user, in no group of root's.
const OTHER: u32 = 4321;
/// The content of a file that only root may read.
const SECRET: &[u8] = b"only root may read this, and nobody may change it";

/// A directory that the other user may write to, the library and the tool where he can load them,
/// and root's `secret`.
struct Place {
    directory: Directory,
    open: PathBuf,
    tool: PathBuf,
    library: PathBuf,
}

impl Place {
    /// `None`, aloud, where nobody can be another user or nothing has been built.
    fn new() -> Option<Self> {
        let (library, tool) = (library()?, tool()?);
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { Directory::below(memory) } else { Directory::new() };
        let root = directory.path().to_owned();
        set_mode(&root, 0o755);
        let copies = ["libaggio.so", "aggio"].map(|name| root.join(name));
        for (from, to) in [(library, &copies[0]), (tool, &copies[1])] {
            copy_program(from.as_ref(), to);
        }
        fs::write(root.join("secret"), SECRET).expect("a file");
        set_mode(&root.join("secret"), 0o600);
        fs::create_dir(root.join("open")).expect("a directory");
        set_mode(&root.join("open"), 0o777);
        let [library, tool] = copies;
        let place = Place { open: root.join("open"), directory, tool, library };
        let reads = place.other("cat secret 2> /dev/null").status();
        let can_be_other = place.other("test -x aggio").status().is_ok_and(|it| it.success());
        if can_be_other && reads.is_ok_and(|it| !it.success()) {
            return Some(place);
        }
        aggio_tests::skip("only root can be others (setpriv, of util-linux)");
        None
    }

    /// A script of the other user in the directory of all files.
    fn other(&self, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        let (uid, gid) = (format!("--reuid={OTHER}"), format!("--regid={OTHER}"));
        command.args([&uid, &gid, "--clear-groups", "/bin/sh", "-c", script]);
        command.current_dir(self.directory.path()).stdin(Stdio::null()).env_remove("LD_PRELOAD");
        command
    }

    /// The other user does something that must work.
    fn other_does(&self, script: &str) {
        let output = self.other(script).output().expect("it starts");
        assert!(output.status.success(), "{script}: {output:?}");
    }

    /// Root's command; it may not take longer than half a minute.
    fn root(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.tool);
        command.args(arguments).current_dir(&self.open).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        finish(child.expect("it starts"), &format!("{arguments:?}"))
    }

    fn is_secret_kept(&self, output: &Output, what: &str) {
        let path = self.directory.path().join("secret");
        assert_eq!(fs::read(&path).expect("it is there"), SECRET, "{what}: it was changed");
        let facts = fs::metadata(&path).expect("it is there");
        assert_eq!((facts.uid(), facts.mode() & 0o7777), (0, 0o600), "{what}");
        for bytes in [&output.stdout, &output.stderr] {
            let is_told = bytes.windows(SECRET.len()).any(|window| window == SECRET);
            assert!(!is_told, "{what}: it was told");
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// A process that ends with the value.
struct Attack(Child);

impl Drop for Attack {
    fn drop(&mut self) {
        // It has ended by itself otherwise.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn parts_that_are_links_fifos_or_others_files_give_nothing_away() {
    let Some(place) = Place::new() else { return };
    fs::write(place.open.join("file"), content("file")).expect("a file");
    let plants = [
        ("a symbolic link", "ln -s ../../secret \"$log\""),
        ("a link by its whole path", "ln -s \"$PWD/secret\" \"$log\""),
        ("a FIFO", "mkfifo \"$log\""),
        ("a directory", "mkdir \"$log\""),
        (
            "a socket",
            "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' \
                \"$log\"",
        ),
    ];
    for (kind, plant) in plants {
        for part in ["open/blob/*.log", "open/blob/aggio-manifest", "open/blob/order"] {
            place.other_does(&format!(
                "rm -rf open/blob; ./aggio split open/file open/blob; \
                 for log in {part}; do test -f \"$log\" || exit 1; rm \"$log\"; {plant}; done"
            ));
            for arguments in [
                &["cat", "blob"][..],
                &["merge", "--force", "blob", "out"],
                &["verify", "blob", "file"],
                &["stat", "blob"],
                &["index", "-n", "blob"],
                &["fsck", "blob"],
                &["recover", "blob"],
                &["fsck", "--repair", "blob"],
            ] {
                let output = place.root(arguments);
                let what = format!("{kind} for {part}: {arguments:?}: {output:?}");
                assert!(output.status.code().is_some_and(|code| code < 100), "{what}");
                place.is_secret_kept(&output, &what);
                let right = output.stdout == content("file");
                let reads = arguments[0] == "cat" && output.status.success();
                assert!(!reads || right, "{what}: wrong bytes with success");
            }
        }
    }
}

#[test]
fn names_that_another_user_has_taken_are_neither_used_nor_changed() {
    let Some(place) = Place::new() else { return };
    store(&place.open.join("blob"), &content("one"));
    let planted = [
        ".out.aggio-merging",
        ".out.aggio-merged",
        ".aggio-out",
        ".out.part",
        ".out.part.0000",
        ".out.aggio-part",
        ".aggio-gone-out",
        ".aggio-unfolding-out",
    ];
    for kind in ["echo mine > \"$name\"; chmod 666 \"$name\"", "ln -s ../secret \"$name\""] {
        let names = planted.join(" ");
        place.other_does(&format!("cd open; rm -f {names}; for name in {names}; do {kind}; done"));
        let output = place.root(&["merge", "--force", "blob", "out"]);
        let what = format!("{kind}: {output:?}");
        place.is_secret_kept(&output, &what);
        assert!(output.status.success(), "{what}");
        let facts = fs::metadata(place.open.join("out")).expect("a file");
        assert_eq!((facts.uid(), facts.nlink()), (0, 1), "{what}");
        assert!(fs::read(place.open.join("out")).is_ok_and(|b| b == content("one")), "{what}");
        for name in planted {
            let path = place.open.join(name);
            let facts = fs::symlink_metadata(&path).unwrap_or_else(|_| panic!("{what}: {name}"));
            assert_eq!(facts.uid(), OTHER, "{what}: {name}");
            let is_his =
                facts.is_symlink() || fs::read(&path).is_ok_and(|bytes| bytes == b"mine\n");
            assert!(is_his, "{what}: {name} was changed");
        }
    }
}

#[test]
fn a_link_that_is_swapped_in_is_never_written_through() {
    let Some(place) = Place::new() else { return };
    store(&place.open.join("blob"), &content("one"));
    fs::write(place.open.join("file"), content("file")).expect("a file");
    let swap = "cd open; while :; do ln -sn ../secret out; mv -T out other; rm -f other; \
        ln ../secret out; rm -f out; done 2> /dev/null";
    let _attack = Attack(place.other(swap).spawn().expect("it starts"));
    let commands = [
        &["merge", "--force", "blob", "out"][..],
        &["merge", "blob", "out"],
        &["split", "file", "out"],
        &["merge", "--force", "--verify", "blob", "out"],
    ];
    for round in 0..if factor() > 1 { 500 } else { 15 } {
        let arguments = commands[round % commands.len()];
        let output = place.root(arguments);
        place.is_secret_kept(&output, &format!("{arguments:?}: {output:?}"));
        // Remove its result, which must not be in the attacker's way.
        let path = place.open.join("out");
        let is_ours = fs::symlink_metadata(&path).is_ok_and(|facts| facts.uid() == 0);
        if is_ours && path.is_dir() {
            let _ = fs::remove_dir_all(&path);
        } else if is_ours {
            let _ = fs::remove_file(&path);
        }
    }
}

#[test]
fn what_waits_in_a_spool_is_for_its_user_alone_and_written_to_his_file_alone() {
    let Some(place) = Place::new() else { return };
    let writer = "import os, sys, time\n\
        file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
        for n in range(50): os.pwrite(file, b'%09d\\n' % n, 10 * n)\n\
        os.kill(os.getpid(), 9)\n";
    fs::create_dir(place.directory.path().join("spool")).expect("a directory");
    set_mode(&place.directory.path().join("spool"), 0o777);
    let run = |path: &str| {
        format!(
            "AGGIO_SPOOL=$PWD/spool AGGIO_POSIX='{path}:close' LD_PRELOAD=$PWD/libaggio.so \
             python3 -c \"$WRITER\" {path}"
        )
    };
    let target = place.open.join("target");
    let target = target.to_str().expect("a short path");
    // Another's spool is nothing to root, and his own writes to no other file than the one he
    // meant.
    for who in ["root", "other"] {
        let mut killed = place.other(&run(target));
        killed.env("WRITER", writer).output().expect("it starts");
        let spool = place.directory.path().join("spool");
        let left = names_in(&spool);
        assert_eq!(left.len(), 1, "no spool was left: {left:?}");
        let facts = fs::metadata(spool.join(&left[0])).expect("it is there");
        assert_eq!((facts.uid(), facts.mode() & 0o777), (OTHER, 0o600));
        fs::remove_file(target).expect("the file");
        symlink("../secret", target).expect("a link");
        let output = match who {
            "root" => place.root(&["recover", "--spool", spool.to_str().expect("a path")]),
            _ => place.other("./aggio recover --spool spool").output().expect("it starts"),
        };
        place.is_secret_kept(&output, &format!("{who}: {output:?}"));
        fs::remove_file(target).expect("the link");
        fs::remove_file(spool.join(&left[0])).ok();
    }
}

#[test]
fn messages_are_not_written_through_links() {
    let Some(place) = Place::new() else { return };
    place.other_does("cd open; ln -s ../secret log; ln -s ../secret log.0");
    for name in ["log", "log.0"] {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo something > file; cat file"]).current_dir(&place.open);
        command.env("LD_PRELOAD", &place.library).env("AGGIO_LOG", "trace");
        command.env("AGGIO_LOG_FILE", place.open.join(name)).env("AGGIO_REPORT", "1");
        let output = command.env("AGGIO_POSIX", "*/file:close").output().expect("it starts");
        place.is_secret_kept(&output, &format!("{output:?}"));
        assert!(output.stdout == b"something\n", "{output:?}");
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_is_not_served() {
    let Some(place) = Place::new() else { return };
    let program = place.directory.path().join("touch");
    copy_program(Path::new("/bin/touch"), &program);
    set_mode(&program, 0o4755);
    let script = "LD_PRELOAD=$PWD/libaggio.so AGGIO_BLOB='**' ./touch open/made";
    place.other(script).output().expect("it starts");
    let facts = fs::metadata(place.open.join("made")).expect("it is made");
    assert!(facts.is_file() && facts.uid() == 0, "the library served it");
}

#[test]
fn words_in_variables_that_are_long_or_hostile_do_no_harm() {
    let Some(place) = Place::new() else { return };
    let words = ["%n%s%s%n", "../../../../", "\u{fffd}\u{1}\n", "[[[[[[{{{{", "*:*:*:*:"];
    for name in ["BLOB", "POSIX", "HINTS", "DEFER", "SPOOL", "LOG", "REPORT", "INCLUDE", "STRICT"] {
        // The first word once more where bad values end the program.
        let strict = words[..1].iter().map(|word| (*word, "1"));
        for (word, strict) in words.map(|word| (word, "0")).into_iter().chain(strict) {
            let mut command = Command::new("/bin/true");
            command.env("LD_PRELOAD", &place.library).current_dir(&place.open);
            command.env("AGGIO_STRICT", strict);
            let output = command.env(format!("AGGIO_{name}"), word.repeat(120_000 / word.len()));
            let output = output.output().expect("it starts");
            let what = format!("AGGIO_{name}={word}..., strict {strict}: {output:?}");
            assert!(output.status.code().is_some(), "{what}");
            let is_bad = ["HINTS", "REPORT"].contains(&name);
            assert!(!is_bad || output.status.success() == (strict == "0"), "{what}");
            assert!(output.stderr.len() < 1 << 20, "AGGIO_{name}={word}...: too many words");
        }
    }
    assert_eq!(names_in(&place.open), [""; 0]);
}

/// Makes files in each way that they can be made, and prints their attributes: 4 masks, 8 modes, 3
/// directories.
const MODES: &str = r#"
import os, stat
for mask in (0o000, 0o022, 0o027, 0o077):
    for kind, bits in (("plain", 0o777), ("setgid", 0o2777), ("sticky", 0o1777)):
        folder = "%s-%o" % (kind, mask)
        os.umask(0); os.mkdir(folder); os.chown(folder, -1, int(os.environ["GROUP"]))
        os.chmod(folder, bits)
        os.umask(mask)
        for mode in (0o600, 0o644, 0o666, 0o777, 0o400, 0o755, 0o640, 0o444):
            path = "%s/%o" % (folder, mode)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            os.write(file, b"content"); os.close(file)
            facts = os.stat(path)
            print(path, oct(facts.st_mode), facts.st_uid, facts.st_gid, facts.st_size)
            for bits in (0o4755, 0o2755, 0o640):
                try: os.chmod(path, bits); print(oct(os.stat(path).st_mode))
                except OSError as error: print(error.errno)
                try: os.write(os.open(path, os.O_WRONLY), b"C"); print(oct(os.stat(path).st_mode))
                except OSError as error: print(error.errno)
"#;

#[test]
fn modes_owners_and_groups_are_those_of_ordinary_files() {
    let Some(place) = Place::new() else { return };
    for (user, group) in [(0, 0), (0, 1234), (OTHER, OTHER)] {
        let made = |variable: Option<(&str, &str)>| {
            let folder = place.open.join("modes");
            fs::create_dir(&folder).expect("a directory");
            set_mode(&folder, 0o777);
            let mut command = Command::new("setpriv");
            let ids = [format!("--reuid={user}"), format!("--regid={user}")];
            command.args(ids).args(["--clear-groups", "/usr/bin/env"]);
            if let Some((name, mode)) = variable {
                let library = place.library.display();
                command.arg(format!("LD_PRELOAD={library}"));
                command.arg(format!("{name}={}/**{mode}", folder.display()));
                command.arg(format!("AGGIO_SPOOL={}", folder.display()));
            }
            command.args(["python3", "-c", MODES]).env("GROUP", group.to_string());
            let output = command.current_dir(&folder).output().expect("it starts");
            assert!(output.status.success(), "{output:?}");
            fs::remove_dir_all(&folder).expect("it can be removed");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let native = made(None);
        let lines = |told: &str| told.lines().map(str::to_owned).collect::<Vec<_>>();
        for variable in [("AGGIO_BLOB", ""), ("AGGIO_BLOB", ":close"), ("AGGIO_POSIX", ":close")] {
            let served = lines(&made(Some(variable)));
            for (line, (found, wanted)) in served.iter().zip(lines(&native)).enumerate() {
                assert_eq!(*found, wanted, "{variable:?}, user {user}, line {line}");
            }
            assert_eq!(served.len(), native.lines().count());
        }
    }
}
