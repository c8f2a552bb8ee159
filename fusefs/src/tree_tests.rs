//! Numbers of files, and descriptors that are closed and found again.

use super::*;
use std::path::PathBuf;
use tempfile::TempDir;

fn tree(files: usize, most_held: usize) -> (TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    for index in 0..files {
        std::fs::write(folder.path().join(format!("d/{index}")), index.to_string()).unwrap();
    }
    let tree = Tree::new(folder.path(), most_held).unwrap();
    (folder, tree)
}

fn look_up(tree: &Tree, parent: u64, name: &str) -> Result<u64> {
    let directory = tree.get(parent)?;
    let fd = Arc::new(open_name(&directory.fd, OsStr::new(name))?);
    let stat = rustix::fs::fstat(&*fd)?;
    let seen = Seen { fd, stat, kind: Kind::Plain, first: None };
    Ok(tree.remember(parent, OsStr::new(name), &seen, tree.wanted(&seen)))
}

fn content(tree: &Tree, id: u64) -> Result<String> {
    std::fs::read_to_string(crate::held::path(&tree.get(id)?.fd))
}

#[test]
fn a_file_keeps_its_number_until_every_look_up_is_forgotten() {
    let (_folder, tree) = tree(1, 100);
    let parent = look_up(&tree, ROOT, "d").unwrap();
    let id = look_up(&tree, parent, "0").unwrap();
    assert_eq!(look_up(&tree, parent, "0").unwrap(), id);
    assert!(!tree.forget(id, 1));
    assert!(tree.forget(id, 1));
    assert!(tree.get(id).is_err());
    assert!(!tree.forget(ROOT, 100));
}

#[test]
fn descriptors_of_files_that_nobody_uses_are_closed_and_opened_again() {
    let (_folder, tree) = tree(200, 20);
    let parent = look_up(&tree, ROOT, "d").unwrap();
    let ids: Vec<u64> =
        (0..200).map(|index| look_up(&tree, parent, &index.to_string()).unwrap()).collect();
    assert!(tree.nodes.lock().held <= 21, "{}", tree.nodes.lock().held);
    for (index, id) in ids.iter().enumerate() {
        assert_eq!(content(&tree, *id).unwrap(), index.to_string());
        assert!(tree.nodes.lock().held <= 22);
    }
}

#[test]
fn a_closed_descriptor_leads_to_the_same_file_or_to_none() {
    let (folder, tree) = tree(100, 10);
    let parent = look_up(&tree, ROOT, "d").unwrap();
    let id = look_up(&tree, parent, "0").unwrap();
    for index in 1..100 {
        look_up(&tree, parent, &index.to_string()).unwrap();
    }
    let other = folder.path().join("other");
    std::fs::write(&other, "another file").unwrap();
    std::fs::rename(&other, folder.path().join("d/0")).unwrap();
    match content(&tree, id) {
        Ok(text) => assert_eq!(text, "0", "its descriptor was still open"),
        Err(why) => assert_eq!(why.raw_os_error(), Some(libc_errno::ESTALE)),
    }
}

#[test]
fn a_file_whose_name_is_taken_away_is_held() {
    let (folder, tree) = tree(100, 10);
    let parent = look_up(&tree, ROOT, "d").unwrap();
    let id = look_up(&tree, parent, "0").unwrap();
    tree.pin(&tree.get(parent).unwrap().fd, OsStr::new("0"));
    std::fs::remove_file(folder.path().join("d/0")).unwrap();
    for index in 1..100 {
        look_up(&tree, parent, &index.to_string()).unwrap();
    }
    assert_eq!(content(&tree, id).unwrap(), "0");
}

#[test]
fn a_renamed_file_is_found_by_its_new_name() {
    let (folder, tree) = tree(100, 10);
    let parent = look_up(&tree, ROOT, "d").unwrap();
    let id = look_up(&tree, parent, "0").unwrap();
    let known = tree.get(id).unwrap();
    let identity = Identity::new(&rustix::fs::fstat(&*known.fd).unwrap(), Kind::Plain);
    drop(known);
    std::fs::rename(folder.path().join("d/0"), folder.path().join("new")).unwrap();
    tree.renamed(identity, ROOT, OsStr::new("new"));
    for index in 1..100 {
        look_up(&tree, parent, &index.to_string()).unwrap();
    }
    assert_eq!(content(&tree, id).unwrap(), "0");
}

#[test]
fn a_number_that_is_taken_goes_to_nobody_else() {
    let (folder, tree) = tree(2, 100);
    let parent = look_up(&tree, ROOT, "d").unwrap();
    let directory = tree.get(parent).unwrap();
    let mut ids = Vec::new();
    for name in ["0", "1"] {
        let fd = Arc::new(open_name(&directory.fd, OsStr::new(name)).unwrap());
        let stat = rustix::fs::fstat(&*fd).unwrap();
        ids.push(tree.remember(
            parent,
            OsStr::new(name),
            &Seen { fd, stat, kind: Kind::Plain, first: None },
            77,
        ));
    }
    assert_eq!(ids[0], 77);
    assert!(ids[1] != 77 && ids[1] > ROOT);
    drop(folder);
}

#[test]
fn a_name_never_leads_out_of_its_directory() {
    let (folder, tree) = tree(1, 100);
    let root = tree.get(ROOT).unwrap();
    for name in ["", ".", "..", "d/0", "../x", "/etc"] {
        assert!(open_name(&root.fd, OsStr::new(name)).is_err(), "{name:?}");
    }
    std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
    let link = open_name(&root.fd, OsStr::new("link")).unwrap();
    let target = rustix::fs::readlinkat(&link, "", Vec::new()).unwrap();
    assert_eq!(PathBuf::from(target.to_str().unwrap()), Path::new("/etc"));
}
