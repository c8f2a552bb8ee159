//! Programs without MPI on files of `AGGIO_POSIX`: they behave as they do without the library.

use aggio_tests::{
    Directory, compile_plain, factor, first_difference, kill_when_written, library, records, skip,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

const MODES: [&str; 3] = ["close", "causal", "posix"];

/// `command` with the library and a rule for everything below `directory`; spool files are there,
/// too.
fn served(command: &mut Command, mode: &str, directory: &Path, library: &Path) {
    let spool = directory.join("spool");
    std::fs::create_dir_all(&spool).expect("the spool directory can be made");
    command.env("LD_PRELOAD", library).env("AGGIO_SPOOL", spool);
    command.env("AGGIO_POSIX", format!("{}/:{mode}", directory.display()));
}

fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX"] {
        command.env_remove(name);
    }
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Spool files that are left.
fn spools(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("spool")).expect("the spool directory").count()
}

/// The account of random operations in an empty directory.
fn account(mode: Option<(&str, &Path)>, seed: usize, cases: usize) -> String {
    let directory = Directory::new();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut command = plain(&compile_plain("descriptors.c", &[]));
    command.args([seed.to_string(), cases.to_string(), "50".into()]).arg(&data);
    if let Some((mode, library)) = mode {
        served(&mut command, mode, directory.path(), library);
    }
    let run = output(&mut command);
    assert!(run.status.success(), "{} {}", run.status, String::from_utf8_lossy(&run.stderr));
    if mode.is_some() {
        assert_eq!(spools(directory.path()), 0, "a spool file is left");
    }
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn random_operations_on_descriptors_give_what_they_give_without_the_library() {
    let Some(library) = library() else { return };
    // 50 operations a case, two of three modes each: more than 100,000 operations are compared.
    for part in 0..4 * factor() {
        let (seed, cases) = (1 + part * 500, 500);
        let native = account(None, seed, cases);
        for mode in MODES {
            let served = account(Some((mode, &library)), seed, cases);
            if let Some(difference) = first_difference(&native, &served) {
                panic!("mode {mode}: {difference}");
            }
        }
    }
}

#[test]
fn whatever_way_a_program_ends_its_acknowledged_bytes_are_in_the_file() {
    let Some(library) = library() else { return };
    let writer = compile_plain("ends_of_writers.c", &[]);
    let ends = [
        "return",
        "exit",
        "_exit",
        "_Exit",
        "quick_exit",
        "abort",
        "close",
        "fsync",
        "execl",
        "execv",
    ];
    for mode in MODES {
        for end in ends {
            let directory = Directory::new();
            let file = directory.path().join("file");
            let mut command = plain(&writer);
            served(command.arg(&file).args([end, "1000"]), mode, directory.path(), &library);
            output(&mut command);
            assert_eq!(std::fs::read(&file).unwrap(), records(1000), "{mode} {end}");
        }
    }
}

/// Writes records in `mode`, and is killed without warning; returns the directory and the file.
fn killed(mode: &str, count: usize, library: &Path) -> (Directory, std::path::PathBuf) {
    let directory = Directory::new();
    let file = directory.path().join("file");
    let mut command = plain(&compile_plain("ends_of_writers.c", &[]));
    served(command.arg(&file), mode, directory.path(), library);
    kill_when_written(&mut command, count);
    (directory, file)
}

#[test]
fn bytes_of_a_killed_writer_are_recovered() {
    let Some(library) = library() else { return };
    for mode in MODES {
        for count in [1, 2, 100, 20_000] {
            let (directory, file) = killed(mode, count, &library);
            let done = agg_core::spool::recover(&directory.path().join("spool")).unwrap();
            assert!(done.iter().all(|one| one.error.is_none()), "{done:?}");
            assert_eq!(std::fs::read(&file).unwrap(), records(count), "{mode} {count}");
            assert_eq!(spools(directory.path()), 0, "{mode} {count}");
        }
    }
}

#[test]
fn the_next_program_that_opens_a_file_finds_the_bytes_of_a_killed_writer() {
    let Some(library) = library() else { return };
    let (directory, file) = killed("close", 100, &library);
    let mut reader = plain(Path::new("/bin/cat"));
    served(reader.arg(&file), "close", directory.path(), &library);
    assert_eq!(output(&mut reader).stdout, records(100));
    // A file that is cut when it is opened is not filled again afterwards.
    let (directory, file) = killed("close", 100, &library);
    let mut writer = plain(&compile_plain("ends_of_writers.c", &[]));
    served(writer.arg(&file).args(["exit", "3"]), "close", directory.path(), &library);
    assert!(output(&mut writer).status.success());
    assert_eq!(std::fs::read(&file).unwrap(), records(3));
    assert_eq!(spools(directory.path()), 0);
}

#[test]
fn what_cannot_be_recovered_stays_in_the_spool_and_is_told() {
    let Some(library) = library() else { return };
    let (directory, file) = killed("close", 100, &library);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "another file").unwrap();
    let done = agg_core::spool::recover(&directory.path().join("spool")).unwrap();
    let error = done[0].error.as_ref().expect("an error").to_string();
    assert!(error.contains("another file has the name") && error.contains("file"), "{error}");
    assert_eq!(
        (spools(directory.path()), std::fs::read(&file).unwrap()),
        (1, b"another file".to_vec())
    );
}

#[test]
fn records_of_a_signal_handler_are_stored_once_and_whole() {
    let Some(library) = library() else { return };
    for mode in MODES {
        let directory = Directory::new();
        let file = directory.path().join("file");
        let mut command = plain(&compile_plain("interrupted.c", &[]));
        served(command.arg(&file), mode, directory.path(), &library);
        assert!(output(&mut command).status.success(), "{mode}");
        let text = std::fs::read_to_string(&file).unwrap();
        for who in ["h", "p"] {
            let numbers = text.lines().filter_map(|line| line.strip_prefix(who));
            let wrong =
                numbers.enumerate().find(|(index, n)| n.len() != 14 || n.parse() != Ok(*index));
            assert_eq!(wrong, None, "{mode} {who}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with('h')).count(), 3000, "{mode}");
        assert_eq!(text.len() % 16, 0, "{mode}");
    }
}

#[test]
fn no_way_around_write_sees_or_leaves_anything_else_than_without_the_library() {
    let Some(library) = library() else { return };
    let (leaks, helper) = (compile_plain("leaks.c", &[]), compile_plain("helper.c", &["-static"]));
    for mode in MODES {
        let directory = Directory::new();
        let mut command = plain(&leaks);
        command.arg(directory.path().join("file")).arg(&helper);
        served(&mut command, mode, directory.path(), &library);
        let run = output(&mut command);
        assert_eq!(String::from_utf8_lossy(&run.stdout), "ok\n", "{mode}");
    }
}

#[test]
fn a_file_that_is_mapped_and_opened_again_is_one_file() {
    let Some(library) = library() else { return };
    let program = compile_plain("mapped_again.c", &[]);
    for mode in MODES {
        let directory = Directory::new();
        let mut command = plain(&program);
        command.arg(directory.path().join("file"));
        served(&mut command, mode, directory.path(), &library);
        let run = output(&mut command);
        assert_eq!(String::from_utf8_lossy(&run.stdout), "", "{mode}");
        assert!(run.status.success(), "{mode}: {}", run.status);
    }
}

#[test]
fn what_does_not_fit_is_an_error_of_the_program_and_everything_else_is_stored() {
    let Some(library) = library() else { return };
    for mode in MODES {
        let directory = Directory::new();
        let small = directory.path().join("small");
        std::fs::create_dir(&small).unwrap();
        let file = small.join("file");
        let mut command = plain(Path::new("/usr/bin/unshare"));
        let script = "mount -t tmpfs -o size=1m none \"$1\" || exit 77; \"$2\" \"$3\" close \
            100000; \
                      code=$?; cat \"$3\" > \"$4\"; exit $code";
        command.args(["-m", "/bin/sh", "-c", script, "sh"]).arg(&small);
        command.arg(compile_plain("ends_of_writers.c", &[])).arg(&file);
        command.arg(directory.path().join("copy"));
        served(&mut command, mode, directory.path(), &library);
        let run = output(&mut command);
        if run.status.code() == Some(77) || run.status.code() == Some(1) {
            skip("no file system can be mounted here");
            return;
        }
        // A write or the close failed; natively it is the write.
        assert!(matches!(run.status.code(), Some(4 | 5)), "{mode} {run:?}");
        let stored = std::fs::read(directory.path().join("copy")).unwrap();
        assert_eq!(stored.len(), 1 << 20, "{mode}");
        assert!(records(100_000).starts_with(&stored), "{mode}");
    }
}

/// Functions of the C library that take a descriptor, a name or a stream of a file and must be in
/// the table.
const CONCERNED: &str = "\
    open open64 openat openat64 creat creat64 __open_2 __open64_2 __openat_2 __openat64_2 \
    open_by_handle_at mkstemp mkstemp64 mkostemp mkostemp64 mkstemps mkstemps64 mkostemps \
    mkostemps64 close __close close_range closefrom dup dup2 __dup2 dup3 fcntl fcntl64 __fcntl \
    read __read __read_chk readv pread pread64 __pread64 __pread_chk __pread64_chk preadv \
    preadv64 preadv2 preadv64v2 write __write writev pwrite pwrite64 __pwrite64 pwritev \
    pwritev64 pwritev2 pwritev64v2 dprintf __dprintf_chk vdprintf __vdprintf_chk lseek lseek64 \
    __lseek fstat fstat64 __fxstat __fxstat64 stat stat64 __xstat __xstat64 lstat lstat64 \
    __lxstat __lxstat64 fstatat fstatat64 __fxstatat __fxstatat64 statx truncate truncate64 \
    ftruncate ftruncate64 fallocate fallocate64 posix_fallocate posix_fallocate64 \
    posix_fadvise posix_fadvise64 readahead fsync fdatasync sync syncfs sync_file_range flock \
    lockf lockf64 ioctl mmap mmap64 sendfile sendfile64 copy_file_range splice vmsplice \
    aio_read aio_read64 aio_write aio_write64 aio_fsync aio_fsync64 lio_listio lio_listio64 \
    syscall rename renameat renameat2 link linkat unlink unlinkat remove fork vfork _Fork \
    clone execve execv execvp execvpe execl execlp execle fexecve execveat posix_spawn \
    posix_spawnp posix_spawn_file_actions_adddup2 system popen _exit _Exit quick_exit abort \
    access eaccess euidaccess faccessat readdir readdir64 opendir chdir rmdir utime utimes \
    lutimes futimes fwprintf __fwprintf_chk vfwprintf __vfwprintf_chk fwscanf vfwscanf fputwc \
    putwc fputws fgetwc getwc fgetws ungetwc fwide fopen fopen64 freopen freopen64 fdopen \
    sendmsg sendmmsg utimensat futimens fchmod fchown fchownat";

#[test]
fn every_function_on_files_that_common_programs_use_is_in_the_table() {
    let Some(library) = library() else { return };
    let names = |file: &Path, which: &str| -> BTreeSet<String> {
        let run = Command::new("nm").args(["-D", which]).arg(file).output().expect("nm (binutils)");
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let name = |line: &str| {
            line.split_whitespace()
                .last()
                .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        };
        text.lines().filter_map(name).collect()
    };
    let exported = names(&library, "--defined-only");
    let concerned: BTreeSet<&str> = CONCERNED.split_whitespace().collect();
    for name in &concerned {
        assert!(exported.contains(*name), "{name} is not in the table");
    }
    let (mut binaries, mut unknown) = (0, BTreeSet::new());
    for entry in std::fs::read_dir("/usr/bin").expect("programs").flatten().take(400) {
        let used = names(&entry.path(), "--undefined-only");
        binaries += usize::from(!used.is_empty());
        // Spellings of the functions above that the list does not have.
        let aliases = used.into_iter().filter(|name| {
            let stem = name.trim_start_matches('_').trim_end_matches("_chk").trim_end_matches("_2");
            let stem = stem.trim_end_matches("64");
            concerned.contains(stem) && !exported.contains(name)
        });
        unknown.extend(aliases);
    }
    assert!(binaries >= 60, "only {binaries} programs were looked at");
    assert!(unknown.is_empty(), "not in the table: {unknown:?}");
}

#[test]
fn small_reads_see_the_same_bytes_in_fewer_requests() {
    let Some(library) = library() else { return };
    let program = compile_plain("small_reads.c", &[]);
    let run = |mode: Option<&str>| {
        let directory = Directory::new();
        let file = directory.path().join("file");
        std::fs::write(&file, records(40_000)).unwrap();
        let mut command = plain(&program);
        command.arg(&file).env("AGGIO_REPORT", "json");
        if let Some(mode) = mode {
            served(&mut command, mode, directory.path(), &library);
        }
        let run = output(&mut command);
        assert!(run.status.success(), "{mode:?}: {run:?}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&run.stdout), std::fs::read(&file).unwrap(), text(&run.stderr))
    };
    let (printed, content, _) = run(None);
    for mode in MODES {
        let (served, bytes, report) = run(Some(mode));
        assert_eq!((&served, &bytes), (&printed, &content), "mode {mode}");
        let number = |name: &str| -> u64 {
            let rest = report.split(&format!("\"{name}\":")).nth(1).expect("a report");
            rest.split([',', '}']).next().and_then(|n| n.parse().ok()).expect("a number")
        };
        let (reads, requests) = (number("reads_ahead"), number("read_requests"));
        // 640,000 bytes twice, in windows of 64 KiB, and a few after each change.
        let right = if mode == "close" { reads > 14_000 && requests < 40 } else { reads == 0 };
        assert!(right, "mode {mode}: {report}");
    }
}

/// Objects of `AGGIO_REPORT=json` of a script that writes seven times ten bytes and goes on so.
fn reports_of(mode: &str, directory: &Path, library: &Path, rest: &str) -> Vec<String> {
    let file = directory.join("file");
    let script = format!(
        "import os, subprocess, sys
f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for _ in range(7): os.write(f, b'0123456789')
{rest}"
    );
    let mut command = plain(Path::new("/usr/bin/python3"));
    command.args(["-c", &script]).arg(&file).env("AGGIO_REPORT", "json");
    served(&mut command, mode, directory, library);
    let run = output(&mut command);
    assert!(run.status.success(), "{mode}: {run:?}");
    assert_eq!(std::fs::read(&file).unwrap()[..70], b"0123456789".repeat(7), "{mode}");
    assert_eq!(spools(directory), 0, "{mode}");
    let told = String::from_utf8_lossy(&run.stderr);
    let objects = told.lines().filter(|line| line.contains("aggio_report"));
    objects.map(str::to_owned).collect()
}

#[test]
fn what_a_process_did_is_reported_once_whatever_its_children_do() {
    let Some(library) = library() else { return };
    let children = [
        "subprocess.run(['true'])",
        "subprocess.run(['true'], preexec_fn=lambda: None)",
        "os.fork() or os.execv('/bin/true', ['true'])\nos.wait()",
        "os.fork() or sys.exit(0)\nos.wait()",
        "os.system('true')",
        "try: os.execv('/no/such', ['none'])\nexcept OSError: pass",
    ];
    for (mode, child) in MODES.iter().flat_map(|mode| children.map(|child| (mode, child))) {
        let directory = Directory::new();
        let told = reports_of(mode, directory.path(), &library, &format!("{child}\nos.close(f)"));
        assert_eq!(told.len(), 1, "{mode}: {child}: {told:?}");
        let kept = *mode != "close" || !told[0].contains("\"kept_bytes\":0");
        assert!(kept, "{child}: {told:?}");
    }
}

#[test]
fn a_child_reports_what_it_did_itself() {
    let Some(library) = library() else { return };
    let directory = Directory::new();
    let child = "if os.fork() == 0:
    g = os.open(sys.argv[1] + '2', os.O_CREAT | os.O_WRONLY)
    os.write(g, b'x'); os.write(g, b'y'); os.close(g); sys.exit(0)
os.wait(); os.close(f)";
    let told = reports_of("close", directory.path(), &library, child);
    let of_child = |line: &&String| line.contains("/file2\"");
    assert_eq!((told.len(), told.iter().filter(of_child).count()), (2, 1), "{told:?}");
}

#[test]
fn a_program_that_becomes_another_one_reports_its_files_before() {
    let Some(library) = library() else { return };
    for mode in MODES {
        let directory = Directory::new();
        let rest = "os.execv('/bin/true', ['true'])";
        let told = reports_of(mode, directory.path(), &library, rest);
        assert_eq!(told.len(), 1, "{mode}: {told:?}");
        assert!(told[0].contains("\"open across exec\":1"), "{mode}: {told:?}");
        let kept = mode != "close" || told[0].contains("\"kept_bytes\":60,\"requests\":1");
        assert!(kept, "{mode}: {told:?}");
    }
}
