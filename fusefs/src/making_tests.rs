//! New files while somebody else exchanges their names.

use super::*;
use crate::files::Opened;
use crate::open_file::OpenFile;
use crate::options::{NewFiles, Options};
use crate::request::Place;
use crate::shown::Shown;
use crate::testing::options;
use crate::tree::ROOT;
use crate::view::View;
use aggio_container::refused::{Refusal, refusing};
use rustix::fs::{CWD, RenameFlags};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const ANOTHER: Caller = Caller { uid: 65534, gid: 65534, umask: 0 };

fn view(new_files: NewFiles) -> (TempDir, View) {
    let folder = tempfile::tempdir().unwrap();
    let view = View::new(Options { new_files, ..options(folder.path()) }, 64).unwrap();
    (folder, view)
}

/// Lets `act` run while the names of two files are exchanged as soon as both are there.
fn exchanging<T>(one: &Path, other: &Path, act: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    let exchange = || {
        while !ended.load(Ordering::Relaxed) {
            let _ = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(exchange);
        let done = act();
        ended.store(true, Ordering::Relaxed);
        done
    })
}

fn open_here(shown: &Shown, view: &View, opened: &Opened) {
    let open = view.files.handles.get(opened.handle).unwrap();
    let number = match &*open {
        OpenFile::Plain { file, .. } => file.metadata().unwrap().ino(),
        OpenFile::Blob { blob, .. } => blob.attributes().unwrap().inode >> 2 | 1 << 62,
        _ => 0,
    };
    assert_eq!(shown.id(), number, "the kernel is told of the file that is open");
    drop(open);
    view.files.close(opened.handle);
}

type Make = fn(&View, Place<'_>);

#[test]
fn a_name_that_is_exchanged_gives_nobody_elses_file_away() {
    let made = [
        (
            "file",
            NewFiles::Plain,
            (|view, place| {
                let register = |_: &File| Err(Errno::OPNOTSUPP.into());
                let (shown, opened) = view.create(place, 0o666, 2, ANOTHER, register).unwrap();
                open_here(&shown, view, &opened);
            }) as Make,
        ),
        ("container", NewFiles::Container, |view, place| {
            let register = |_: &File| Err(Errno::OPNOTSUPP.into());
            let (shown, opened) = view.create(place, 0o666, 2, ANOTHER, register).unwrap();
            open_here(&shown, view, &opened);
        }),
        ("node", NewFiles::Plain, |view, place| {
            let mode = FileType::RegularFile.as_raw_mode() | 0o4777;
            view.make_node(place, NewNode { mode, device: 0 }, ANOTHER).map(drop).unwrap();
        }),
        ("pipe", NewFiles::Plain, |view, place| {
            let mode = FileType::Fifo.as_raw_mode() | 0o666;
            view.make_node(place, NewNode { mode, device: 0 }, ANOTHER).map(drop).unwrap();
        }),
        ("folder", NewFiles::Plain, |view, place| {
            view.make_directory(place, 0o777, ANOTHER).map(drop).unwrap();
        }),
        ("link", NewFiles::Plain, |view, place| {
            view.make_symlink(place, Path::new("/etc"), ANOTHER).map(drop).unwrap();
        }),
    ];
    for (name, new_files, make) in made {
        let (folder, view) = view(new_files);
        for round in 0..100 {
            let name = format!("{name}{round}");
            let path = folder.path().join(&name);
            let victim = folder.path().join(format!("victim{round}"));
            std::fs::write(&victim, b"secret").unwrap();
            std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o600)).unwrap();
            let mine = File::open(&victim).unwrap();
            let before = mine.metadata().unwrap();
            let place = Place { parent: ROOT, name: OsStr::new(&name) };
            exchanging(&path, &victim, || make(&view, place));
            let after = mine.metadata().unwrap();
            let facts = |of: &std::fs::Metadata| (of.uid(), of.gid(), of.mode());
            assert_eq!(facts(&after), facts(&before), "{name}");
            let hidden = |name: &OsStr| agg_core::blob::is_hidden(name);
            let left = std::fs::read_dir(folder.path()).unwrap();
            assert!(left.flatten().all(|entry| !hidden(&entry.file_name())), "{name}");
        }
    }
}

#[test]
fn a_directory_in_which_others_can_make_names_is_not_private() {
    let folder = tempfile::tempdir().unwrap();
    let is_private_with = |mode| {
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        is_private(&rustix::fs::open(folder.path(), flags, Mode::empty()).unwrap()).unwrap()
    };
    assert!(is_private_with(0o700) && is_private_with(0o2700));
    for mode in [0o701, 0o710, 0o1777] {
        assert!(!is_private_with(mode), "{mode:o}");
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(ANOTHER.uid), None).unwrap();
        assert!(!is_private_with(0o700));
    }
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let (folder, view) = view(NewFiles::Plain);
    std::fs::write(folder.path().join("here"), b"mine").unwrap();
    let place = Place { parent: ROOT, name: OsStr::new("here") };
    let made = view.make_directory(place, 0o755, ANOTHER);
    assert_eq!(made.err().unwrap().kind(), std::io::ErrorKind::AlreadyExists);
    let long = "x".repeat(300);
    let place = Place { parent: ROOT, name: OsStr::new(&long) };
    let made = view.make_symlink(place, Path::new("target"), ANOTHER);
    assert_eq!(made.err().unwrap().raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
    assert_eq!(std::fs::read(folder.path().join("here")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_get_its_owner_or_its_mode_is_told_and_leaves_nothing() {
    type Make = fn(&View, Place<'_>) -> Result<()>;
    let create: Make = |view, place| {
        let register = |_: &File| Err(Errno::OPNOTSUPP.into());
        view.create(place, 0o666, 2, ANOTHER, register).map(drop)
    };
    let mut cases = vec![("file", NewFiles::Plain, create), ("blob", NewFiles::Container, create)];
    cases.push(("node", NewFiles::Plain, |view, place| {
        let mode = FileType::RegularFile.as_raw_mode() | 0o666;
        view.make_node(place, NewNode { mode, device: 0 }, ANOTHER).map(drop)
    }));
    cases.push(("folder", NewFiles::Plain, |view, place| {
        view.make_directory(place, 0o777, ANOTHER).map(drop)
    }));
    let errno = Errno::DQUOT.raw_os_error();
    // Only root makes files for others.
    let owners = rustix::process::geteuid().is_root().then(|| Refusal::of_owners(errno));
    for refusals in owners.into_iter().chain([Refusal::of_modes(errno)]) {
        for (name, new_files, make) in &cases {
            let (folder, view) = view(*new_files);
            let place = Place { parent: ROOT, name: OsStr::new(name) };
            let made = refusing(&refusals, || make(&view, place));
            assert_eq!(made.unwrap_err().raw_os_error(), Some(errno), "{name}");
            let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
            assert!(left.is_empty(), "{name}: {left:?}");
            // The next attempt is not in the way of the first.
            make(&view, place).unwrap();
        }
    }
}

#[test]
fn a_file_that_got_the_name_meanwhile_is_not_removed_with_one_that_is_not_complete() {
    let (folder, view) = view(NewFiles::Plain);
    let directory = view.names.tree.get(ROOT).unwrap().fd;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("made"), b"made").unwrap();
    let made = File::open(path("made")).unwrap();
    std::fs::write(path("other"), b"others").unwrap();
    std::fs::rename(path("other"), path("made")).unwrap();
    remove(&Dentry { directory, name: OsStr::new("made") }, &made).unwrap();
    assert_eq!(std::fs::read(path("made")).unwrap(), b"others");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
