//! Finding, removing and renaming files of each kind.

use super::*;
use crate::testing::{container, set};
use crate::tree::ROOT;
use std::ffi::OsStr;
use std::path::Path;
use tempfile::TempDir;

fn at(name: &str) -> Place<'_> {
    Place { parent: ROOT, name: OsStr::new(name) }
}

/// A namespace with a file, a folder, a container and a set.
fn namespace(write: bool) -> (TempDir, Namespace) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"bytes").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    container(&folder.path().join("container"), b"more");
    set(folder.path());
    let tree = Tree::new(folder.path(), 64).unwrap();
    let names = Namespace::new(tree, Resolver::new(None, false), write);
    (folder, names)
}

/// Finds a file, as the kernel does when it looks a name up.
fn look_up(names: &Namespace, name: &str) -> u64 {
    let seen = names.find(at(name)).unwrap();
    names.tree.remember(ROOT, OsStr::new(name), &seen, names.tree.wanted(&seen))
}

fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().as_ref().and_then(Errno::from_io_error)
}

fn kind(folder: &Path, name: &str) -> Option<Kind> {
    let directory = crate::testing::held(folder);
    Resolver::new(None, false).find(&directory, OsStr::new(name)).ok().map(|seen| seen.kind)
}

#[test]
fn nothing_is_changed_where_that_is_not_allowed() {
    let (_folder, names) = namespace(false);
    let id = look_up(&names, "file");
    assert_eq!(errno(names.changeable(id)), Some(Errno::ROFS));
    assert_eq!(errno(names.changeable_name(at("new"))), Some(Errno::ROFS));
    assert_eq!(errno(names.remove(at("file"), false)), Some(Errno::ROFS));
    let (_folder, names) = namespace(true);
    assert_eq!(names.changeable(look_up(&names, "file")).unwrap().kind, Kind::Plain);
    assert_eq!(names.changeable(look_up(&names, "container")).unwrap().kind, Kind::Container);
    assert_eq!(errno(names.changeable(look_up(&names, "x.h5"))), Some(Errno::ROFS));
    assert_eq!(errno(names.changeable(77)), Some(Errno::STALE));
    let hidden = names.changeable_name(at(".aggio-0123456789abcdef"));
    assert_eq!(errno(hidden), Some(Errno::PERM));
    assert_eq!(errno(names.changeable_name(at(".."))), Some(Errno::INVAL));
}

#[test]
fn files_and_containers_are_removed_as_files_and_directories_as_directories() {
    let (folder, names) = namespace(true);
    assert_eq!(errno(names.remove(at("container"), true)), Some(Errno::NOTDIR));
    assert_eq!(errno(names.remove(at("file"), true)), Some(Errno::NOTDIR));
    assert_eq!(errno(names.remove(at("folder"), false)), Some(Errno::ISDIR));
    assert_eq!(errno(names.remove(at("x.h5"), false)), Some(Errno::PERM));
    let id = look_up(&names, "file");
    for (name, is_directory) in [("container", false), ("file", false), ("folder", true)] {
        names.remove(at(name), is_directory).unwrap();
        assert_eq!(kind(folder.path(), name), None, "{name}");
    }
    let held = held::path(&names.tree.get(id).unwrap().fd);
    assert_eq!(std::fs::read(held).unwrap(), b"bytes", "the file stays known");
}

#[test]
fn a_directory_that_has_a_file_is_not_removed() {
    let (folder, names) = namespace(true);
    std::fs::write(folder.path().join("folder/file"), b"").unwrap();
    assert_eq!(errno(names.remove(at("folder"), true)), Some(Errno::NOTEMPTY));
}

#[test]
fn only_plain_files_get_another_name() {
    let (folder, names) = namespace(true);
    names.link(look_up(&names, "file"), at("other")).unwrap();
    assert_eq!(std::fs::read(folder.path().join("other")).unwrap(), b"bytes");
    assert_eq!(errno(names.link(look_up(&names, "container"), at("new"))), Some(Errno::PERM));
    assert_eq!(errno(names.link(look_up(&names, "x.h5"), at("new"))), Some(Errno::PERM));
}

#[test]
fn a_file_is_renamed_over_a_container_and_a_container_over_a_file() {
    let none = RenameFlags::empty();
    for (from, to, left) in
        [("file", "container", Kind::Plain), ("container", "file", Kind::Container)]
    {
        let (folder, names) = namespace(true);
        let (moved, replaced) = (look_up(&names, from), look_up(&names, to));
        names.rename(at(from), at(to), none).unwrap();
        assert_eq!(kind(folder.path(), to), Some(left));
        assert_eq!(kind(folder.path(), from), None);
        assert_eq!(look_up(&names, to), moved);
        assert!(names.tree.get(replaced).is_ok(), "the replaced file stays known");
        let left = std::fs::read_dir(folder.path()).unwrap().flatten();
        assert!(left.into_iter().all(|entry| !is_hidden(&entry.file_name())));
    }
}

#[test]
fn no_file_is_renamed_over_a_folder_or_a_set() {
    let (_folder, names) = namespace(true);
    let rename = |from, to| errno(names.rename(at(from), at(to), RenameFlags::empty()));
    for name in ["file", "container"] {
        assert_eq!(rename(name, "folder"), Some(Errno::ISDIR), "{name}");
        assert_eq!(rename("folder", name), Some(Errno::NOTDIR), "{name}");
        assert_eq!(rename(name, "x.h5"), Some(Errno::PERM), "{name}");
        assert_eq!(rename("x.h5", name), Some(Errno::PERM), "{name}");
    }
    assert_eq!(rename("nothing", "file"), Some(Errno::NOENT));
    let whiteout = RenameFlags::RENAME_WHITEOUT;
    assert_eq!(errno(names.rename(at("file"), at("new"), whiteout)), Some(Errno::INVAL));
    let kept = RenameFlags::RENAME_NOREPLACE;
    assert_eq!(errno(names.rename(at("file"), at("container"), kept)), Some(Errno::EXIST));
}

#[test]
fn files_are_exchanged_and_both_stay_known_by_their_new_names() {
    let (folder, names) = namespace(true);
    let (file, other) = (look_up(&names, "file"), look_up(&names, "container"));
    names.rename(at("file"), at("container"), RenameFlags::RENAME_EXCHANGE).unwrap();
    assert_eq!(kind(folder.path(), "file"), Some(Kind::Container));
    assert_eq!((look_up(&names, "container"), look_up(&names, "file")), (file, other));
    assert_eq!(names.tree.place(file).unwrap().1, "container");
    assert_eq!(names.tree.place(other).unwrap().1, "file");
}

#[test]
fn a_rename_to_another_name_of_the_same_file_does_nothing() {
    let (folder, names) = namespace(true);
    std::fs::hard_link(folder.path().join("file"), folder.path().join("other")).unwrap();
    names.rename(at("file"), at("other"), RenameFlags::empty()).unwrap();
    assert_eq!(kind(folder.path(), "file"), Some(Kind::Plain));
}

#[test]
fn a_number_leads_to_no_generation_without_coupled_files() {
    let (_folder, names) = namespace(true);
    let id = look_up(&names, "file");
    assert_eq!(errno(names.generation(id)), Some(Errno::STALE));
}
