//! Containers that lose their names while they are open: as with ordinary files the name goes at
//! once, and the file lives until the last close, in any process.

use aggio_tests::{Directory, library, names_in};
use std::path::Path;
use std::process::Command;

/// Runs a Python program twice, on an ordinary file and on a container called `name`. Its output,
/// which is returned, and the names left in its directory must be the same.
fn same(program: &str, library: &Path) -> String {
    let begin = "import os, subprocess, sys, time\nname = sys.argv[1]\ndirectory = \
        os.path.dirname(name)\n\
                 def other(text, *more): return subprocess.run([sys.executable, '-c', 'import os, \
                 sys\\n' + text, name, *more]).returncode\n\
                 def make(path, data=b'bytes'):\n    with open(path, 'wb') as file: \
                 file.write(data)\n";
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
print(other('os.rename(sys.argv[1] + \"2\", sys.argv[1])'), os.pread(fd, 9, 0), open(name, \
'rb').read())
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
child = subprocess.Popen([sys.executable, '-c', text, str(fd)], stdin=subprocess.PIPE, \
close_fds=False)
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
for one in ('/temporary', '/other'):
    os.mkdir(directory + one)
make(inner)
second = os.open(inner, os.O_RDWR)
os.unlink(inner)
os.rename(directory + '/other', directory + '/temporary')
print(os.pread(second, 9, 0), sorted(os.listdir(directory)))
os.close(second)
os.rmdir(directory + '/temporary')
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
fn what_only_begins_like_a_name_of_ours_is_a_users() {
    let Some(library) = library() else { return };
    let said = same(
        "
for mine in ('.aggio-notes', '.aggio-gone-notes', '.aggio-removed-notes'):
    path = directory + '/' + mine
    make(path)
    print(os.listdir(directory) == [mine], open(path, 'rb').read(), os.stat(path).st_size)
    try:
        os.rmdir(directory)
    except OSError as error:
        print(error.errno, os.listdir(directory) == [mine])
    os.unlink(path)
    os.mkdir(path)
    make(path + '/file')
    print(os.listdir(path), open(path + '/file', 'rb').read())
    os.unlink(path + '/file')
    os.rmdir(path)
    print(os.listdir(directory))
",
        &library,
    );
    assert_eq!(said, "True b'bytes' 5\n39 True\n['file'] b'bytes'\n[]\n".repeat(3));
}

#[test]
fn locks_that_last_until_the_end_of_the_process_leave_nothing() {
    let Some(library) = library() else { return };
    same(
        "
import fcntl
make(name)
fd = os.open(name, os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
other('os.unlink(sys.argv[1])')
make(name)
again = os.open(name, os.O_RDWR)
fcntl.lockf(again, fcntl.LOCK_EX)
os.unlink(name)
print(os.pread(fd, 9, 0), os.pread(again, 9, 0), flush=True)
",
        &library,
    );
}

#[test]
fn locks_are_inherited_by_whatever_name_and_whoever_renames_the_file() {
    let Some(library) = library() else { return };
    let said = same(
        "
import fcntl
os.mkdir(directory + '/real')
os.mkdir(directory + '/elsewhere')
os.symlink('real', directory + '/link')
os.chdir(directory + '/link')
names = directory + '/link/file', 'file', '../link/file', directory + '/real/./file'
text = '''import fcntl, os, sys; fd = int(sys.argv[1])
fcntl.flock(fd, fcntl.LOCK_UN); print(os.pread(fd, 9, 0), flush=True)'''
locks = 'import fcntl; fcntl.flock(os.open(sys.argv[2], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)'
def taken(path):
    words = [sys.executable, '-c', 'import os, sys\\n' + locks, name, path]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode
for path in names:
    for moves in False, True:
        now = directory + '/real/file'
        make(now)
        fd = os.open(path, os.O_RDWR)
        os.set_inheritable(fd, True)
        fcntl.flock(fd, fcntl.LOCK_EX)
        print(taken(now), flush=True)
        if moves:
            now = directory + '/elsewhere/new'
            other('os.rename(sys.argv[2], sys.argv[3])', directory + '/real/file', now)
            again = os.open('/proc/self/fd/%d' % fd, os.O_RDONLY)
            print(os.read(again, 9), flush=True)
            os.close(again)
        child = subprocess.run([sys.executable, '-c', text, str(fd)], close_fds=False)
        print(child.returncode, taken(now), flush=True)
        os.close(fd)
        os.unlink(now)
print(os.listdir(directory + '/real'), os.listdir(directory + '/elsewhere'))
os.chdir('/')
",
        &library,
    );
    assert!(said.starts_with("1\nb'bytes'\n0 0\n1\nb'bytes'\nb'bytes'\n0 0\n"), "{said}");
}

#[test]
fn a_program_that_is_open_runs_whoever_renames_its_file() {
    let Some(library) = library() else { return };
    let said = same(
        "
make(name, b'#!/bin/sh\\necho runs\\n')
os.chmod(name, 0o755)
fd = os.open(name, os.O_RDONLY)
os.set_inheritable(fd, True)
other('os.rename(sys.argv[1], sys.argv[1] + \"2\")')
if os.fork() == 0:
    os.execve(fd, ['program'], os.environ)
os.wait()
os.close(fd)
",
        &library,
    );
    assert_eq!(said, "runs\n");
}

#[test]
fn what_a_spawned_child_has_as_a_standard_stream_lives_as_long_as_the_child() {
    let Some(library) = library() else { return };
    let said = same(
        "
text = '''import os, sys; sys.stdin.read(); os.write(1, b'child')
print(os.pread(1, 99, 0), os.fstat(1).st_nlink, file=sys.stderr)'''
words = directory + '/words'
def begin(how, fd, reading, told):
    arguments = [sys.executable, '-c', text]
    if how == 'spawn':
        pairs = (reading, 0), (fd, 1), (told, 2)
        moves = [(os.POSIX_SPAWN_DUP2, *pair) for pair in pairs]
        return os.posix_spawn(sys.executable, arguments, os.environ, file_actions=moves)
    streams = dict(stdin=reading, stdout=fd, stderr=told)
    return subprocess.Popen(arguments, close_fds=how == 'closing', **streams).pid
for how in 'spawn', 'closing', 'leaving':
    make(name)
    fd = os.open(name, os.O_RDWR | os.O_APPEND)
    os.unlink(name)
    reading, writing = os.pipe()
    told, tells = os.pipe()
    child = begin(how, fd, reading, tells)
    os.close(fd)
    for end in reading, writing, tells: os.close(end)
    status = os.waitpid(child, 0)[1]
    print(how, status, os.read(told, 999), os.listdir(directory), flush=True)
    os.close(told)
",
        &library,
    );
    assert!(said.contains("spawn 0 b\"b'byteschild' 0"), "{said}");
}

#[test]
fn close_on_exec_of_a_range_leaves_the_locks_of_what_is_inherited() {
    let Some(library) = library() else { return };
    let said = same(
        "
import ctypes, fcntl
make(name)
fd = os.open(name, os.O_RDWR)
os.dup2(fd, 0)
fcntl.flock(0, fcntl.LOCK_EX)
print(ctypes.CDLL(None).close_range(3, ctypes.c_uint(0xffffffff), 4), flush=True)
text = 'import fcntl; fcntl.flock(0, fcntl.LOCK_UN)'
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, '-c', text])
os.wait()
lock = 'fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)'
print(other('import fcntl; ' + lock))
",
        &library,
    );
    assert_eq!(said, "0\n0\n");
}

#[test]
fn what_a_child_closes_it_does_not_keep() {
    let Some(library) = library() else { return };
    same(
        "
import fcntl
make(name)
fd = os.open(name, os.O_RDWR)
os.set_inheritable(fd, True)
fcntl.flock(fd, fcntl.LOCK_EX)
words = [sys.executable, '-c', 'import sys; sys.stdin.read()']
child = subprocess.Popen(words, stdin=subprocess.PIPE, close_fds=True)
os.close(fd)
lock = 'fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)'
print(other('import fcntl; ' + lock))
child.stdin.close()
child.wait()
",
        &library,
    );
}

#[test]
fn the_next_program_of_a_process_lets_go_what_only_the_one_before_had_open() {
    let Some(library) = library() else { return };
    let said = same(
        "
make(name)
fd = os.open(name, os.O_RDWR)
os.unlink(name)
try:
    os.execv('/nonexistent', ['x'])
except FileNotFoundError:
    print(os.pread(fd, 9, 0), flush=True)
print(subprocess.run([sys.executable, '-c', 'pass']).returncode, os.pread(fd, 9, 0), flush=True)
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])
os.wait()
print(os.pread(fd, 9, 0), flush=True)
text = 'import os, sys; print(os.listdir(sys.argv[1]))'
os.execv(sys.executable, [sys.executable, '-c', text, directory])
",
        &library,
    );
    assert_eq!(said, "b'bytes'\n0 b'bytes'\n1\nb'bytes'\n[]\n");
}

#[test]
fn a_file_that_somebody_is_removing_is_not_there() {
    let Some(library) = library() else { return };
    let directory = Directory::new();
    let file = directory.path().join("file");
    let how = agg_core::blob::Create { mode: 0o644, exclusive: true, data_crc: true };
    drop(agg_core::blob::Container::create(&file, &how).expect("it is made"));
    // The process that removes the parts holds this lock.
    let program = "
import fcntl, os, struct, subprocess, sys
order = os.open(sys.argv[1] + '/order', os.O_RDWR)
fcntl.fcntl(order, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 40, 1, 0))
text = 'import os, sys; os.open(sys.argv[1], os.O_RDWR)'
for _ in range(2):
    words = [sys.executable, '-c', text, sys.argv[1]]
    served = dict(os.environ, LD_PRELOAD=sys.argv[2])
    done = subprocess.run(words, stderr=subprocess.PIPE, env=served)
    print(done.returncode, b'FileNotFoundError' in done.stderr)
    os.close(order) if _ == 0 else None
";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", program]).arg(&file).arg(library);
    command.env("AGGIO_BLOB", format!("{}/**", directory.path().display()));
    let output = command.output().expect("python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "1 True\n0 False\n", "{}", String::from_utf8_lossy(&output.stderr));
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
    let (mut word, mut said) = ([0; 5], parent.stdout.take().expect("a pipe"));
    std::io::Read::read_exact(&mut said, &mut word).expect("the child lives");
    assert!(wait_for(&mut parent));
    let done = agg_core::blob::recover(&file).expect("it is whole");
    assert!(!done.is_used && done.done == ["sealed"], "{done:?}");
    drop(parent.stdin.take());
}

/// Waits for the end of a process without closing the pipe that it reads.
fn wait_for(child: &mut std::process::Child) -> bool {
    let pause = std::time::Duration::from_millis(10);
    let has_ended = |_| child.try_wait().expect("it is ours").is_some();
    (0..3000).inspect(|_| std::thread::sleep(pause)).any(has_ended)
}
