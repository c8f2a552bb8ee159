//! Programs with containers for which the system refuses something: the error is returned, and
//! nothing else changes.

use aggio_tests::{Directory, compile_shim, library};
use std::process::Command;

#[test]
fn a_directory_that_cannot_be_looked_into_is_not_removed_and_the_error_is_told() {
    let Some(library) = library() else { return };
    let directory = Directory::new();
    // The kernel refuses to list directories; `inner` has nothing but a file that lost its name.
    let program = "
import ctypes, os, platform, struct, sys
inner = sys.argv[1] + '/inner'
os.mkdir(inner)
fd = os.open(inner + '/file', os.O_CREAT | os.O_RDWR, 0o644)
os.pwrite(fd, b'bytes', 0)
os.unlink(inner + '/file')
getdents64 = {'x86_64': 217, 'aarch64': 61}[platform.machine()]
lines = (0x20, 0, 0, 0), (0x15, 0, 1, getdents64), (6, 0, 0, 0x50000 | 5), (6, 0, 0, 0x7fff0000)
text = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
filter = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(lines), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(filter)), 0, 0) == 0
os.mkdir(sys.argv[1] + '/other')
def rename(): os.rename(sys.argv[1] + '/other', inner)
for act in (lambda: os.rmdir(inner), rename):
    try:
        act()
    except OSError as error:
        print(error.errno, os.path.isdir(inner), flush=True)
";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", program]).arg(directory.path()).env("LD_PRELOAD", library);
    command.env_remove("AGGIO_POSIX");
    command.env("AGGIO_BLOB", format!("{}/**", directory.path().display()));
    let output = command.output().expect("python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "5 True\n".repeat(2), "{error}");
}

#[test]
fn an_action_that_cannot_be_added_for_a_child_is_told_and_changes_nothing() {
    let Some(library) = library() else { return };
    let shim = compile_shim("spawn_shim.c");
    let directory = Directory::new();
    // For a container two actions are added: for the descriptor that keeps it, and the program's
    // own.
    let program = "
import os, sys
name = sys.argv[1]
fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o644)
os.pwrite(fd, b'bytes', 0)
text = 'import os; os.pwrite(1, b\"child\", 5)'
def spawn():
    arguments = [sys.executable, '-c', text]
    moves = [(os.POSIX_SPAWN_DUP2, fd, 1)]
    return os.posix_spawn(sys.executable, arguments, os.environ, file_actions=moves)
try:
    spawn()
except OSError as error:
    print(error.errno, os.pread(fd, 99, 0), flush=True)
print(os.waitpid(spawn(), 0)[1], os.pread(fd, 99, 0), flush=True)
os.unlink(name)
os.close(fd)
print(os.listdir(os.path.dirname(name)))
";
    for nth in ["1", "2"] {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", program]).arg(directory.path().join("file"));
        command.env("LD_PRELOAD", format!("{}:{}", library.display(), shim.display()));
        command.env_remove("AGGIO_POSIX").env("SPAWN_SHIM", nth);
        command.env("AGGIO_BLOB", format!("{}/**", directory.path().display()));
        let output = command.output().expect("python starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "12 b'bytes'\n0 b'byteschild'\n[]\n", "call {nth}: {error}");
    }
}
