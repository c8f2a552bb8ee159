//! Files that are made: names, rights and remains.

use super::*;
use std::io::Write;
use std::os::unix::fs::symlink;

static NONE: Unfinished = Unfinished::new();

type Make<'a> = fn(&Path, u32, &'a Unfinished) -> Result<Output<'a>>;

fn names(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_when_it_is_published_and_never_otherwise() {
    for make in [Output::create as Make<'_>, Output::create_hidden] {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("out");
        let output = make(&to, 0o600, &NONE).unwrap();
        output.file().write_all(b"one").unwrap();
        assert!(!to.exists());
        output.publish(false).unwrap();
        assert_eq!(
            (std::fs::read(&to).unwrap(), names(place.path())),
            (b"one".into(), vec!["out".into()])
        );
        // Another one does not replace it unless it is told to, and leaves nothing.
        let output = make(&to, 0o600, &NONE).unwrap();
        assert_eq!(output.publish(false).unwrap_err().errno(), libc::EEXIST);
        let output = make(&to, 0o600, &NONE).unwrap();
        output.file().write_all(b"two").unwrap();
        output.publish(true).unwrap();
        assert_eq!(
            (std::fs::read(&to).unwrap(), names(place.path())),
            (b"two".into(), vec!["out".into()])
        );
        drop(make(&to, 0o600, &NONE).unwrap());
        assert_eq!(names(place.path()), ["out"]);
    }
}

#[test]
fn only_ordinary_files_are_replaced() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("file"), b"x").unwrap();
    symlink("file", path("link")).unwrap();
    symlink("absent", path("dangling")).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    let fifo = c_path(&path("fifo")).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let before = names(place.path());
    for (name, words) in [
        ("link", "a symbolic link to file"),
        ("dangling", "a symbolic link to absent"),
        ("folder", "a directory"),
        ("fifo", "a FIFO"),
        ("/dev/null", "a device"),
    ] {
        for replace in [false, true] {
            let error = require_vacant(&path(name), replace).unwrap_err();
            let told = error.to_string();
            assert!(error.errno() == libc::EEXIST && told.contains(words), "{told}");
        }
    }
    // Also if it comes at the last moment.
    let output = Output::create(&path("late"), 0o600, &NONE).unwrap();
    symlink("file", path("late")).unwrap();
    assert_eq!(output.publish(true).unwrap_err().errno(), libc::EEXIST);
    std::fs::remove_file(path("late")).unwrap();
    assert_eq!(names(place.path()), before);
    assert_eq!(std::fs::read(path("file")).unwrap(), b"x");
    for name in ["/", "x/", ".."] {
        assert!(Output::create(&path(name), 0o600, &NONE).is_err(), "{name}");
    }
}

#[test]
fn what_is_unfinished_is_removed_when_the_process_is_asked_to_end() {
    let place = tempfile::tempdir().unwrap();
    let unfinished = Unfinished::new();
    let output = Output::create_hidden(&place.path().join("out"), 0o600, &unfinished).unwrap();
    assert_eq!(names(place.path()).len(), 1);
    let tree = fresh_beside(&place.path().join("tree")).unwrap();
    unfinished.add(&tree, || std::fs::create_dir(&tree)).unwrap();
    std::fs::write(tree.join("part"), b"x").unwrap();
    unfinished.remove_all();
    assert_eq!(names(place.path()), [] as [&str; 0]);
    // Nothing is published any more: the process ends, and with it the lock, which is never
    // released.
    std::mem::forget(output);
}

#[test]
fn a_name_is_never_made_twice() {
    let names: std::collections::HashSet<String> =
        (0..1000).map(|_| fresh_name().unwrap()).collect();
    assert!(names.len() == 1000 && names.iter().all(|name| name.len() == 39));
}

#[test]
fn set_id_bits_stay_with_the_owner_and_with_the_group() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let own = file.as_file().metadata().unwrap();
    let source = Source::of(&own);
    let other = |uid, gid| Source { uid: own.uid() + uid, gid: own.gid() + gid };
    for (mode, source, wanted) in [
        (0o107_755, source, 0o7755),
        (0o4755, other(1, 0), 0o755),
        (0o6755, other(0, 1), 0o4755),
        (0o7777, other(1, 1), 0o1777),
        (0o640, other(1, 1), 0o640),
    ] {
        assert_eq!(kept_mode(mode, source, &own), wanted, "{mode:o} of {source:?}");
    }
}

#[test]
fn two_do_not_name_the_files_of_a_set_at_the_same_time_and_nobody_waits_for_ever() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("set");
    let first = SetTurn::take(&to).unwrap();
    let error = SetTurn::take(&to).unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY);
    assert!(error.to_string().contains("lock on the directory"), "{error}");
    drop(first);
    SetTurn::take(&to).unwrap();
}

#[test]
fn a_file_that_nobody_makes_any_more_is_cleared_and_no_other() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(fresh_name().unwrap());
    std::fs::write(&path, "half").unwrap();
    let maker = File::open(&path).unwrap();
    assert!(lock(&maker));
    assert!(!clear_unfinished(&path).unwrap(), "somebody is making it");
    drop(maker);
    assert!(clear_unfinished(&path).unwrap() && !path.exists());
    std::fs::write(&path, "").unwrap();
    assert!(!clear_unfinished(&path).unwrap(), "its maker may be about to lock it");
    std::fs::remove_file(&path).unwrap();
    let other = place.path().join("other");
    std::fs::write(&other, "of a user").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(clear_unfinished(&path).is_err());
    assert_eq!(std::fs::read(&other).unwrap(), b"of a user");
}

#[test]
fn a_file_that_cannot_get_its_mode_is_an_error_and_leaves_nothing() {
    use crate::refused::{Refusal, refusing};
    for make in [Output::create as Make<'_>, Output::create_hidden] {
        let place = tempfile::tempdir().unwrap();
        let error = refusing(&Refusal::of_modes(libc::EIO), || {
            let output = make(&place.path().join("out"), 0o600, &NONE).unwrap();
            let source = Source::of(&output.file().metadata().unwrap());
            output.set_mode(0o640, source).unwrap_err()
        });
        assert!(error.errno() == libc::EIO && error.to_string().contains("fchmod"), "{error}");
        assert_eq!(names(place.path()), [] as [&str; 0]);
    }
}
