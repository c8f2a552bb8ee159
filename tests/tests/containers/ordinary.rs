//! Programs without MPI on blob containers: they behave as with ordinary files.

use agg_core::blob::is_container;
use aggio_tests::{
    Directory, bytes_of_container, compile_plain, factor, first_difference, library, repository,
    skip,
};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// The text after the pattern of `AGGIO_BLOB`: it sets when writes reach their log.
const MODES: [&str; 3] = ["", ":close", ":causal"];

/// The library, and the mode that it serves containers in.
type Served<'a> = (&'a Path, &'a str);

/// `command` with every new file below `data` a container, if it is served; its spool is beside
/// `data`.
fn run(mut command: Command, data: &Path, served: Option<Served<'_>>) -> Output {
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX", "AGGIO_BLOB"] {
        command.env_remove(name);
    }
    if let Some((library, mode)) = served {
        command.env("LD_PRELOAD", library).env("AGGIO_SPOOL", data.with_file_name("spool"));
        command.env("AGGIO_BLOB", format!("{}/**{mode}", data.display()));
    }
    let output = command.current_dir(data).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The output of a run, and the content of the files that it left, by name.
#[derive(Debug, PartialEq)]
struct Left {
    printed: String,
    complained: String,
    files: BTreeMap<String, Vec<u8>>,
}

fn left(command: Command, served: Option<Served<'_>>) -> Left {
    let directory = Directory::new();
    let (data, spool) = (directory.path().join("data"), directory.path().join("spool"));
    for place in [&data, &spool] {
        std::fs::create_dir(place).expect("a directory");
    }
    let output = run(command, &data, served);
    assert_eq!(std::fs::read_dir(spool).expect("a directory").count(), 0, "a spool is left");
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&data.display().to_string(), "DATA");
    let mut files = BTreeMap::new();
    collect(&data, &data, served.is_some(), &mut files);
    Left { printed: text(&output.stdout), complained: text(&output.stderr), files }
}

/// All files below a directory. With the library there must not be an ordinary one among them.
fn collect(root: &Path, place: &Path, containers: bool, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(place).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("below it").display().to_string();
        if is_container(&path) {
            files.insert(name, bytes_of_container(&path));
        } else if path.is_dir() {
            collect(root, &path, containers, files);
        } else {
            assert!(!containers, "{name} is no container");
            files.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/bash");
    command.args(["-c", script]);
    command
}

#[test]
fn random_operations_give_what_they_give_on_files() {
    let Some(library) = library() else { return };
    for seed in 0..10 * factor() {
        let command = || {
            let mut command = Command::new("python3");
            command.arg(repository().join("tests/programs/operations.py"));
            command.args([&seed.to_string(), "400", "."]);
            command
        };
        let mode = MODES[seed % MODES.len()];
        let (native, served) = (left(command(), None), left(command(), Some((&library, mode))));
        let (one, other) = (native.printed.lines(), served.printed.lines());
        let difference = one.zip(other).position(|(one, other)| one != other);
        assert_eq!(difference, None, "seed {seed}, {mode}: {}", served.complained);
        assert!(native == served, "seed {seed}, {mode}: {}", served.complained);
    }
}

/// The results of random operations on descriptors, in an empty directory.
fn account(seed: usize, cases: usize, served: Option<Served<'_>>) -> String {
    let mut command = Command::new(compile_plain("descriptors.c", &[]));
    let kind = if served.is_some() { "container" } else { "file" };
    command.args([&seed.to_string(), &cases.to_string(), "50", ".", kind]);
    let left = left(command, served);
    assert_eq!(left.complained, "", "seed {seed}");
    left.printed
}

#[test]
fn random_operations_on_descriptors_give_what_they_give_on_files() {
    let Some(library) = library() else { return };
    // Cases of 50 operations; a million operations and more where there is time.
    let (parts, cases) = if factor() == 1 { (1, 200) } else { (4 * factor(), 500) };
    for part in 0..parts {
        let seed = 1 + part * cases;
        let native = account(seed, cases, None);
        for mode in MODES {
            let served = account(seed, cases, Some((&library, mode)));
            if let Some(difference) = first_difference(&native, &served) {
                panic!("mode {mode}: {difference}");
            }
        }
    }
}

/// The results of each way of `container_leaks.c`: the right bytes, or an error that
/// docs/containers.md names.
const WAYS: &[(&str, &str)] = &[
    ("EBADF", "splice_from vmsplice_to ring_read queue_read ask_read"),
    ("EBADF", "raw_read raw_pread static_reads"),
    ("EPERM", "splice_to ring_write queue_write ask_write links"),
    ("ok", "sendfile_from sendfile_to prints prints_v locks locks_a_range locks_further"),
    ("EPERM", "raw_write raw_pwrite raw_truncate raw_fallocate raw_child static_writes passes"),
    ("ok", "number_write number_pwrite number_writev number_read number_seek number_stat"),
    (
        "ok",
        "number_truncate number_dup number_close number_open map_to_read map_shared map_privately \
            map_and_protect",
    ),
    ("ok", "map_by_number reopen_to_read reopen_to_write reopen_to_cut reopen_stream"),
    ("ok", "reopen_removed reopen_replaced unread durably dates"),
    ("EXDEV", "copy_from copy_to"),
    ("EACCES", "raw_map may_execute executes"),
    ("EINVAL", "tee_to"),
    ("ENOTTY", "clones"),
    ("EOPNOTSUPP", "appends"),
    ("EFAULT", "bad_memory"),
];

#[test]
fn no_way_around_read_and_write_gives_wrong_bytes_or_touches_others() {
    let Some(library) = library() else { return };
    let each = |(error, names): &(&str, &'static str)| -> Vec<(&str, String)> {
        names.split_whitespace().map(|name| (name, (*error).to_owned())).collect()
    };
    let expected: BTreeMap<_, _> = WAYS.iter().flat_map(each).collect();
    for mode in MODES {
        let mut command = Command::new(compile_plain("container_leaks.c", &[]));
        command.arg("file").arg(compile_plain("helper.c", &["-static"]));
        let served = left(command, Some((&library, mode)));
        assert_eq!(served.complained, "");
        assert!(served.files.is_empty(), "{:?} is left", served.files.keys());
        let lines = served.printed.lines().filter_map(|line| line.split_once(' '));
        let printed: BTreeMap<&str, String> =
            lines.map(|(name, result)| (name, result.to_owned())).collect();
        assert_eq!(printed, expected, "mode {mode}");
    }
}

#[test]
fn a_program_that_may_have_few_descriptors_gets_the_lowest_ones() {
    let Some(library) = library() else { return };
    let script = "ulimit -n 64; echo content > f; exec 9> lock; flock 9; flock -n lock true; echo \
        $?; python3 -c \"
files = [open(f'x{index}', 'w') for index in range(9)]
print([file.fileno() for file in files])
for file in files: file.close()
\"; cat f";
    let native = left(shell(script), None);
    for mode in MODES {
        let served = left(shell(script), Some((&library, mode)));
        assert_eq!(served, native, "mode {mode}");
    }
}

/// A list that files of a directory inherit: user 1234 may do everything, others nothing. Then a
/// file that root has written is used by 1234 and by 4321, which print their results.
const LISTED: &str = r#"
chmod 755 . ..
python3 -c "
import os, struct
nobody = 0xffffffff
entries = [(1, 7, nobody), (2, 7, 1234), (4, 0, nobody), (16, 7, nobody), (32, 0, nobody)]
packed = b''.join(struct.pack('<HHI', *entry) for entry in entries)
os.setxattr('.', 'system.posix_acl_default', struct.pack('<I', 2) + packed)
" 2> /dev/null || { echo unsupported; exit; }
umask 022
echo root > f
for user in 1234 4321; do
    setpriv --reuid=$user --regid=$user --clear-groups /bin/bash -c '
        cat f; echo $?; echo more >> f; echo $?
        test -r f; echo $?; test -w f; echo $?; test -x f; echo $?
    ' 2> /dev/null
done
stat -c '%a %u %g %s' f
cat f
"#;

#[test]
fn access_lists_that_a_directory_passes_on_hold_for_containers() {
    let Some(library) = library() else { return };
    // Users who may not search the directory of the library must be able to load it, too.
    let open = Directory::new();
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(open.path(), everybody.clone()).expect("a mode");
    let copy = open.path().join("libaggio.so");
    std::fs::copy(library, &copy).expect("a copy");
    std::fs::set_permissions(&copy, everybody).expect("a mode");
    let mut other = Command::new("setpriv");
    other.args(["--reuid=1234", "--regid=1234", "--clear-groups", "test", "-r"]).arg(&copy);
    let can_load = other.status().is_ok_and(|status| status.success());
    let native = left(shell(LISTED), None);
    if !can_load || native.printed == "unsupported\n" {
        skip("only root can be others, and there must be access lists");
        return;
    }
    assert!(native.printed.contains("660 0 0 10"), "{}", native.printed);
    for mode in MODES {
        assert_eq!(left(shell(LISTED), Some((&copy, mode))), native, "mode {mode}");
    }
}

/// Threads, and then processes, that write to one descriptor and read from one, at the same time:
/// how many bytes there are, and how many different lines were written and read.
const AT_ONE_POSITION: &str = r#"
import os, threading
def writes(fd, who):
    for number in range(300): os.write(fd, b'%03d %07d\n' % (who, number))
def reads(fd, to):
    while line := os.read(fd, 12): to.append(line)
def run(act, arguments, processes):
    if not processes:
        all = [threading.Thread(target=act, args=one) for one in arguments]
        for one in all: one.start()
        for one in all: one.join()
        return
    for one in arguments:
        if os.fork() == 0: act(*one); os._exit(0)
    for one in arguments: os.wait()
for processes in False, True:
    fd = os.open('f', os.O_CREAT | os.O_WRONLY)
    run(writes, [(fd, who) for who in range(4)], processes)
    os.close(fd)
    lines = open('f', 'rb').read().splitlines()
    print(processes, os.path.getsize('f'), len(set(lines)))
    fd = os.open('f', os.O_RDONLY)
    if not processes:
        read = [[] for _ in range(4)]
        run(reads, [(fd, to) for to in read], False)
        print(len(set(sum(read, []))), len(sum(read, [])))
    os.close(fd); os.remove('f')
"#;

#[test]
fn what_threads_and_processes_move_at_one_position_is_all_there_once() {
    let Some(library) = library() else { return };
    let command = || {
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", AT_ONE_POSITION]);
        python
    };
    let native = left(command(), None);
    assert_eq!(native.printed, "False 14400 1200\n1200 1200\nTrue 14400 1200\n");
    for mode in MODES {
        assert_eq!(left(command(), Some((&library, mode))), native, "mode {mode}");
    }
}

#[test]
fn processes_share_the_memory_that_they_map_and_what_a_killed_one_stored_is_there() {
    let Some(library) = library() else { return };
    let program = compile_plain("mappers.c", &[]);
    // The next program recovers the bytes that the killed one has left.
    let command = || shell(&format!("{} f; sum f", program.display()));
    let native = left(command(), None);
    assert!(native.printed.contains("one at 4093: written"), "{}", native.printed);
    for mode in MODES {
        assert_eq!(left(command(), Some((&library, mode))), native, "mode {mode}");
    }
}

#[test]
fn a_rule_holds_in_a_directory_whose_name_only_begins_like_ours() {
    let Some(library) = library() else { return };
    let directory = Directory::new();
    let folder = directory.path().join(".aggio-notes");
    std::fs::create_dir(&folder).expect("a directory");
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", "import sys; open(sys.argv[1], 'wb').write(b'bytes')"]);
    command.arg(folder.join("file")).env("LD_PRELOAD", library).env_remove("AGGIO_POSIX");
    command.env("AGGIO_BLOB", format!("{}/**", directory.path().display()));
    assert!(command.status().expect("python starts").success());
    assert!(is_container(&folder.join("file")));
}
