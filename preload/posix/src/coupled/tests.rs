//! Names and descriptors, without an agent.

use super::{names, table};
use crate::descriptors;
use crate::tests::calls;
use std::os::unix::fs::symlink;

#[test]
fn coupled_names_are_told_without_links_and_others_are_none() {
    let _served = calls::served();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().canonicalize().unwrap();
    std::fs::create_dir(dir.join("real")).unwrap();
    symlink("real", dir.join("link")).unwrap();
    symlink("link/coupled.1", dir.join("newest")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    let wanted = dir.join("real/coupled.1");
    for name in ["real/coupled.1", "link/coupled.1", "link/../real/./coupled.1"] {
        for follow in [true, false] {
            assert_eq!(names::of(dir.join(name), follow).as_ref(), Some(&wanted), "{name}");
        }
    }
    assert_eq!(names::of(dir.join("newest"), true), Some(wanted));
    assert_eq!(names::of(dir.join("newest"), false), None, "the link itself");
    for other in ["real/other", "absent/coupled.1", "loop", "real", "/", ".."] {
        assert_eq!(names::of(dir.join(other), true), None, "{other}");
    }
}

#[test]
fn an_open_ends_with_the_last_of_its_descriptors() {
    let (first, second, third) = (60_001, 60_002, 60_003);
    let open = table::add(first, 7, true).unwrap();
    assert!(descriptors::put(second, open));
    table::get(second).unwrap().add(500);
    table::get(first).unwrap().raise(100);
    assert!(table::get(first).unwrap().writes());
    assert!(table::take(first).is_none() && table::get(first).is_none());
    assert!(descriptors::put(third, open) && table::take(second).is_none());
    let ended = table::take(third).unwrap();
    assert_eq!((ended.handle, ended.moved), (7, 500));
    assert!(table::take(third).is_none());
    assert!(!table::add(first, 8, false).unwrap().writes());
    assert_eq!(table::take(first).map(|ended| (ended.handle, ended.moved)), Some((8, 0)));
}

#[test]
fn numbers_that_are_no_descriptors_are_not_followed() {
    assert!(table::get(-1).is_none() && table::take(-1).is_none());
    assert!(table::add(70_000, 1, false).is_none());
    assert!(table::add(60_004, 2, false).is_some_and(|open| open.handle() == 2));
    assert!(table::take(60_004).is_some());
}
