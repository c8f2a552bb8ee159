//! Containers whose names go while somebody has them open: as with ordinary files the name goes at once, and the file
//! lives until the last close, in whatever process.

use aggio_tests::{Directory, library, names_in};
use std::path::Path;
use std::process::Command;

/// Runs a Python program twice, on an ordinary file and on a container called `name`: what it prints, which must be the
/// same, and what is left in its directory.
fn same(program: &str, library: &Path) -> String {
    let begin = "import os, subprocess, sys, time\nname = sys.argv[1]\ndirectory = os.path.dirname(name)\n\
                 def other(text, *more): return subprocess.run([sys.executable, '-c', 'import os, sys\\n' + text, name, *more]).returncode\n\
                 def make(path, data=b'bytes'):\n    with open(path, 'wb') as file: file.write(data)\n";
    let run = |blob: bool| {
        let directory = Directory::new();
        let mut command = Command::new("/usr/bin/python3");
        command.arg("-c").arg(format!("{begin}{program}")).arg(directory.path().join("file"));
        command.env_remove("AGGIO_POSIX").env("LD_PRELOAD", library);
        if blob {
            command.env("AGGIO_BLOB", format!("{}/**", directory.path().display()));
        }
        let output = command.output().expect("python starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{blob}: {said}{error}");
        (said, names_in(directory.path()))
    };
    let (native, served) = (run(false), run(true));
    assert_eq!(native, served);
    served.0
}

#[test]
fn a_file_that_another_process_unlinks_lives_until_it_is_closed() {
    let Some(library) = library() else { return };
    let said = same(
        "
make(name)
fd = os.open(name, os.O_RDWR)
print(other('os.unlink(sys.argv[1])'), os.path.exists(name), os.listdir(directory), flush=True)
print(os.pread(fd, 9, 0), os.pwrite(fd, b'more', 5), os.pread(fd, 9, 0), os.fstat(fd).st_nlink)
make(name, b'new')
print(os.pread(fd, 9, 0), open(name, 'rb').read(), other('os.unlink(sys.argv[1])'))
again = os.open('/proc/self/fd/%d' % fd, os.O_RDONLY)
os.close(fd)
print(os.read(again, 99), os.fstat(again).st_size)
os.close(again)
print(os.listdir(directory))
",
        &library,
    );
    assert!(said.starts_with("0 False []\nb'bytes' 4 b'bytesmore' 0\n"), "{said}");
}

#[test]
fn a_file_that_another_one_replaces_lives_until_it_is_closed() {
    let Some(library) = library() else { return };
    same(
        "
make(name)
make(name + '2', b'second')
fd = os.open(name, os.O_RDWR)
print(other('os.rename(sys.argv[1] + \"2\", sys.argv[1])'), os.pread(fd, 9, 0), open(name, 'rb').read())
os.pwrite(fd, b'B', 0)
print(os.pread(fd, 9, 0), open(name, 'rb').read(), os.fstat(fd).st_nlink)
os.close(fd)
print(os.listdir(directory))
",
        &library,
    );
}

#[test]
fn what_a_child_inherits_lives_as_long_as_the_child() {
    let Some(library) = library() else { return };
    same(
        "
make(name)
fd = os.open(name, os.O_RDWR)
os.unlink(name)
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.close(writing)
    os.read(reading, 1)
    os.pwrite(fd, b'child', 5)
    print(os.pread(fd, 99, 0), os.listdir(directory), flush=True)
    os._exit(0)
os.close(fd)
os.close(writing)
os.waitpid(child, 0)
print(os.listdir(directory))
# The same across exec: whoever runs last has it.
make(name)
fd = os.open(name, os.O_RDWR)
os.set_inheritable(fd, True)
os.unlink(name)
text = 'import os, sys; sys.stdin.read(); print(os.pread(int(sys.argv[1]), 99, 0), flush=True)'
child = subprocess.Popen([sys.executable, '-c', text, str(fd)], stdin=subprocess.PIPE, close_fds=False)
os.close(fd)
time.sleep(0.5)
child.stdin.close()
print(child.wait(), os.listdir(directory))
",
        &library,
    );
}

#[test]
fn the_directory_of_a_file_that_is_open_still_can_be_removed() {
    let Some(library) = library() else { return };
    same(
        "
os.mkdir(directory + '/temporary')
inner = directory + '/temporary/file'
make(inner)
fd = os.open(inner, os.O_RDWR)
os.unlink(inner)
os.rmdir(directory + '/temporary')
os.pwrite(fd, b'B', 0)
print(os.pread(fd, 9, 0), os.listdir(directory))
os.close(fd)
os.mkdir(directory + '/temporary')
make(inner)
fd = os.open(inner, os.O_RDWR)
os.unlink(inner)
make(inner + '2')
try:
    os.rmdir(directory + '/temporary')
except OSError as error:
    print(error.errno)
os.unlink(inner + '2')
print(other('os.rmdir(os.path.dirname(sys.argv[1]) + \"/temporary\")'), os.pread(fd, 9, 0))
os.close(fd)
print(os.listdir(directory))
",
        &library,
    );
}

#[test]
fn what_a_user_calls_like_a_removed_file_is_shown_and_kept() {
    let Some(library) = library() else { return };
    same(
        "
outer = directory + '/outer'
inner = outer + '/.aggio-gone-mine'
os.makedirs(inner)
for target in (None, 'nowhere'):
    if target:
        os.symlink(target, inner + '/thesis')
    print(os.listdir(outer))
    try:
        os.rmdir(outer)
    except OSError as error:
        print(error.errno, os.listdir(inner))
",
        &library,
    );
}

#[test]
fn a_killed_writer_whose_child_lives_on_writes_no_more() {
    let Some(library) = library() else { return };
    let directory = Directory::new();
    let file = directory.path().join("file");
    let program = "
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o644)
os.pwrite(fd, b'bytes', 0)
if os.fork() == 0:
    print('ready', flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), 9)
";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", program]).arg(&file).env("LD_PRELOAD", library);
    command.env("AGGIO_BLOB", format!("{}/**", directory.path().display()));
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut parent = command.spawn().expect("python starts");
    let mut word = [0; 5];
    let mut said = parent.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut said, &mut word).expect("the child lives");
    let gone = wait_for(&mut parent);
    let done = agg_core::blob::recover(&file).expect("it is whole");
    assert!(gone && !done.is_used && done.done == ["sealed"], "{done:?}");
    drop(parent.stdin.take());
}

/// Waits for the end of a process without closing what it reads.
fn wait_for(child: &mut std::process::Child) -> bool {
    (0..3000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        child.try_wait().expect("it is ours").is_some()
    })
}
