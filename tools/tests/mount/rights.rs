//! Rights, names and devices below a mount point are the same as in a plain directory.

use crate::mounted::{Mount, container, directory, output};
use agg_core::blob::{Container, Create, MANIFEST};
use aggio_tests::Directory;
use aggio_tests::waiting::until;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const PLAIN: &[&str] = &["--rw", "--allow-other"];
const ASKING: &[&str] = &["--rw", "--allow-other", "--no-passthrough"];
const CONTAINERS: &[&str] = &["--rw", "--allow-other", "--new-files=container"];

/// Everything that takes set-id bits away or leaves them, done by another user and by the owner.
/// Each line gives the operation and the mode afterwards.
const SET_IDS: &str = r#"
import os, stat, sys

def asuser(uid, act):
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
            act()
            os._exit(0)
        except OSError as why:
            print(why.errno, end=' ', flush=True)
            os._exit(1)
    os.waitpid(child, 0)

def write(name):
    fd = os.open(name, os.O_WRONLY); os.write(fd, b'x'); os.close(fd)

def fallocate(name):
    fd = os.open(name, os.O_WRONLY); os.posix_fallocate(fd, 0, 100); os.close(fd)

def ftruncate(name):
    fd = os.open(name, os.O_WRONLY); os.ftruncate(fd, 5); os.close(fd)

def cut_open(name):
    os.close(os.open(name, os.O_WRONLY | os.O_TRUNC))

acts = dict(write=write, fallocate=fallocate, ftruncate=ftruncate, cut_open=cut_open,
            truncate=lambda name: os.truncate(name, 1),
            read=lambda name: os.close(os.open(name, os.O_RDONLY)),
            chown=lambda name: os.chown(name, -1, os.getgid()),
            chmod=lambda name: os.chmod(name, 0o4711))
umask = os.umask(0)
os.chmod('.', 0o777)
for what, act in acts.items():
    for owner in [0, 65534]:
        for mode in [0o4777, 0o6777, 0o6755, 0o4755]:
            name = f'{what}-{owner}-{mode:o}'
            with open(name, 'wb') as file: file.write(b'0123456789')
            os.chown(name, owner, owner)
            os.chmod(name, mode)
            asuser(65534, lambda: act(name))
            print(name, oct(stat.S_IMODE(os.stat(name).st_mode)), flush=True)

# A descriptor that is older than the bits.
def late(name):
    fd = os.open(name, os.O_WRONLY)
    os.write(wake, b'x'); os.read(go, 1)
    os.write(fd, b'x'); os.close(fd)
open('late', 'wb').close()
os.chmod('late', 0o666)
(a, b), (c, d) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(a); os.close(d)
    wake, go = b, c
    asuser(65534, lambda: late('late'))
    os._exit(0)
os.close(b); os.close(c)
os.read(a, 1)
os.chmod('late', 0o4755)
os.write(d, b'\n'); os.close(d)
os.waitpid(child, 0)
print('late', oct(stat.S_IMODE(os.stat('late').st_mode)))

# What a user makes has the bits that he asked for and is his.
def make():
    os.close(os.open('made', os.O_CREAT | os.O_WRONLY, 0o6755))
    os.mknod('node', 0o100000 | 0o4711)
    os.mkdir('folder', 0o3755)
asuser(65534, make)
for name in ['made', 'node', 'folder']:
    facts = os.stat(name)
    print(name, oct(facts.st_mode), facts.st_uid, facts.st_gid)
"#;

/// The output of the script in a directory.
fn in_directory(script: &str, folder: &Path) -> Vec<String> {
    let printed = String::from_utf8(output("python3", &["-c", script], folder)).unwrap();
    printed.lines().map(str::to_owned).collect()
}

/// A mount that other users may use; only root can be other users.
fn for_others(options: &[&str]) -> Option<(Mount, Directory)> {
    if !rustix::process::geteuid().is_root() {
        aggio_tests::skip("only root can be other users");
        return None;
    }
    let directory = directory();
    let mount = Mount::of(&directory, options)?;
    for path in [directory.path(), &mount.backing(""), &mount.path("")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some((mount, Directory::new()))
}

#[test]
fn set_id_bits_of_plain_files_go_when_they_go_in_a_plain_directory() {
    for options in [PLAIN, ASKING] {
        let Some((mount, plain)) = for_others(options) else { return };
        std::fs::set_permissions(plain.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let expected = in_directory(SET_IDS, plain.path());
        assert!(expected.contains(&"write-0-4777 0o777".to_owned()), "{expected:?}");
        assert_eq!(in_directory(SET_IDS, &mount.path("")), expected, "{options:?}");
        mount.end();
    }
}

#[test]
fn a_container_has_set_id_bits_only_if_its_owner_alone_can_write_and_no_other_has() {
    let Some((mount, plain)) = for_others(CONTAINERS) else { return };
    std::fs::set_permissions(plain.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let expected = in_directory(SET_IDS, plain.path());
    let found = in_directory(SET_IDS, &mount.path(""));
    for (expected, found) in expected.iter().zip(&found) {
        // Where others may write, a container has no such bits from the beginning.
        let shared = expected.contains("777 ") && !expected.starts_with("chmod-65534");
        match expected.rsplit_once(' ') {
            Some((what, _)) if shared => assert_eq!(*found, format!("{what} 0o777")),
            _ => assert_eq!(found, expected),
        }
    }
    assert_eq!(expected.len(), found.len());
    mount.end();
}

#[test]
fn a_container_whose_manifest_is_of_another_user_gives_no_rights_of_its_owner() {
    let Some((mount, _)) = for_others(PLAIN) else { return };
    let path = mount.backing("blob");
    let how = Create { mode: 0o755, exclusive: true, data_crc: true };
    let blob = Container::create(&path, &how).unwrap();
    blob.set_mode(0o4755).unwrap();
    let mode = |name: &str| std::fs::metadata(mount.path(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("blob"), 0o4755);
    std::os::unix::fs::chown(path.join(MANIFEST), Some(65534), None).unwrap();
    assert_eq!(blob.attributes().unwrap().mode, 0o755);
    // The kernel keeps the mode for a second.
    until(|| mode("blob") == 0o755);
}

/// The rights that lists give to users: one that a list names, one of the file's group, and
/// another: with files that have a list of their own, and with some that have it from their
/// directory.
const LISTS: &str = r#"
import os, struct
def rights(user, group, mask, other):
    entries = (1, 6, -1), (2, user, 1001), (4, group, -1), (16, mask, -1), (32, other, -1)
    return struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *entry) for entry in entries)

def tries(name, uid, gid):
    child = os.fork()
    if child == 0:
        os.setgroups([]); os.setresgid(gid, gid, gid); os.setresuid(uid, uid, uid)
        for how in os.O_RDONLY, os.O_WRONLY:
            try: os.close(os.open(name, how)); print(name, uid, how, 'may', flush=True)
            except OSError as why: print(name, uid, how, why.errno, flush=True)
        os._exit(0)
    os.waitpid(child, 0)

os.umask(0)
lists = dict(denied=rights(0, 6, 6, 6), alone=rights(6, 0, 6, 0), masked=rights(6, 6, 4, 0))
for what, rows in lists.items():
    os.mkdir(what)
    os.setxattr(what, 'system.posix_acl_default', rows)
    os.chmod(what, 0o777)
    for name in ([what + '-own'] if OWN else []) + [what + '/made']:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o666))
        os.chown(name, 0, 2000)
        if '/' not in name: os.setxattr(name, 'system.posix_acl_access', rows)
        for uid, gid in (1001, 1001), (1002, 2000), (1003, 1003): tries(name, uid, gid)
"#;

#[test]
fn access_lists_let_the_same_users_in_as_in_a_plain_directory() {
    for (options, own) in [(PLAIN, "True"), (ASKING, "True"), (CONTAINERS, "False")] {
        let Some((mount, plain)) = for_others(options) else { return };
        std::fs::set_permissions(plain.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let script = format!("OWN = {own}\n{LISTS}");
        let expected = in_directory(&script, plain.path());
        let refused = ["alone/made 1002 0 13", "denied/made 1001 0 13", "masked/made 1002 1 13"];
        assert!(refused.iter().all(|line| expected.contains(&(*line).to_owned())), "{expected:?}");
        assert_eq!(in_directory(&script, &mount.path("")), expected, "{options:?}");
        mount.end();
    }
}

#[test]
fn no_list_of_attributes_has_those_of_aggio_and_a_copy_of_all_goes_back() {
    let directory = directory();
    container(&directory.path().join("backing/blob"), b"abc", 1);
    let Some(mount) = Mount::of(&directory, &["--rw"]) else { return };
    let words = "
import os
os.setxattr('blob', 'user.mine', b'1')
print(os.listxattr('blob'), os.listxattr('.'))
print(os.getxattr('blob', 'user.aggio.kind'), os.getxattr('.', 'user.aggio.version') != b'')
";
    let told = in_directory(words, &mount.path(""));
    assert_eq!(told, ["['user.mine'] []", "b'blob' True"]);
    let outside = Directory::below(directory.path());
    let rsync = |from: &Path, to: &Path| {
        let run = Command::new("rsync").arg("-aX").args([from, to]).output();
        let run = run.expect("rsync (tests/setup.sh)");
        let words = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && words.is_empty(), "{words}");
    };
    if Command::new("rsync").arg("--version").output().is_err() {
        aggio_tests::skip("rsync is missing (tests/setup.sh)");
        return;
    }
    rsync(&mount.path("blob"), &outside.path().join("copy"));
    rsync(&outside.path().join("copy"), &mount.path("back"));
    assert_eq!(std::fs::read(mount.path("back")).unwrap(), b"abc");
    mount.end();
}

#[test]
fn an_open_file_without_a_name_has_no_links() {
    let words = "
import os
for how in 'remove', 'replace':
    for name in 'a', 'b':
        with open(name, 'w') as file: file.write(name)
    fd = os.open('a', os.O_RDWR)
    print(os.fstat(fd).st_nlink)
    os.remove('a') if how == 'remove' else os.rename('b', 'a')
    print(os.fstat(fd).st_nlink, os.read(fd, 9))
    os.close(fd)
";
    let expected = in_directory(words, Directory::new().path());
    assert_eq!(expected, ["1", "0 b'a'", "1", "0 b'a'"]);
    for options in [PLAIN, ASKING, CONTAINERS] {
        let Some(mount) = Mount::start(&[&["--rw"], &options[2..]].concat()) else { return };
        assert_eq!(in_directory(words, &mount.path("")), expected, "{options:?}");
        mount.end();
    }
}

#[test]
fn root_makes_devices_where_the_source_allows_it_and_nobody_else_does() {
    let Some((mount, plain)) = for_others(PLAIN) else { return };
    let words = "
import os, stat
for name, kind, device in ('c', stat.S_IFCHR, os.makedev(1, 3)), ('b', stat.S_IFBLK, \
os.makedev(259, 70000)):
    try:
        os.mknod(name, kind | 0o640, device)
        facts = os.stat(name)
        print(name, oct(facts.st_mode), os.major(facts.st_rdev), os.minor(facts.st_rdev))
    except OSError as why:
        print(name, why.errno)
os.chmod('.', 0o777)
if os.fork() == 0:
    os.setgroups([]); os.setresuid(65534, 65534, 65534)
    try:
        os.mknod('x', stat.S_IFCHR | 0o666, os.makedev(1, 3))
        print('made')
    except OSError as why:
        print(why.errno, flush=True)
    os._exit(0)
os.wait()
";
    let below = Directory::below(&mount.backing(""));
    let expected = in_directory(words, below.path());
    assert_eq!(expected.last().unwrap(), "1", "EPERM for others");
    assert_eq!(in_directory(words, &mount.path("")), expected);
    drop((below, plain));
    mount.end();
}

#[test]
fn files_without_a_name_are_refused_as_the_manual_says() {
    for options in [PLAIN, CONTAINERS] {
        let Some(mount) = Mount::start(&[&["--rw"], &options[2..]].concat()) else { return };
        let words = "
import errno, os, tempfile
for _ in range(2):
    try: os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as why: print(errno.errorcode[why.errno])
with tempfile.TemporaryFile(dir='.') as file:
    file.write(b'data'); file.seek(0); print(file.read())
print(os.listdir('.'))
";
        let told = in_directory(words, &mount.path(""));
        assert_eq!(told, ["ENOTSUP", "ENOTSUP", "b'data'", "[]"], "{options:?}");
        mount.end();
    }
}
