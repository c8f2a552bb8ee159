//! Owners of names, and agents that come and go.

use super::*;
use std::os::fd::AsRawFd;

fn on(place: &Place, host: &str) -> Directory {
    let mut directory = Directory::new(place).unwrap();
    directory.own.host = host.into();
    directory
}

fn place() -> (tempfile::TempDir, Place) {
    let scratch = tempfile::tempdir().unwrap();
    let place = Place::open(scratch.path().join("p").to_str().unwrap()).unwrap();
    Token::of(place.path()).unwrap();
    (scratch, place)
}

/// Lets an agent live until the file is dropped.
fn live(directory: &Directory) -> File {
    directory.publish("10.0.0.2:5").unwrap();
    let lock = File::create(directory.path.join(format!("{}.lock", directory.own.host))).unwrap();
    lock.try_lock().unwrap();
    lock
}

#[test]
fn the_first_agent_that_wants_a_name_owns_it_until_it_ends() {
    let (_scratch, place) = place();
    let (mut one, mut two) = (on(&place, "a"), on(&place, "b"));
    one.publish("10.0.0.1:5").unwrap();
    assert_eq!(two.owner(b"/f").unwrap(), None);
    assert_eq!(one.claim(b"/f").unwrap(), Owner::Here);
    let owner = Owner::There(one.own.clone());
    assert_eq!(two.claim(b"/f").unwrap(), owner);
    assert_eq!(two.address(&one.own).unwrap().as_deref(), Some("10.0.0.1:5"));
    assert!(one.owns(b"/f") && !two.owns(b"/f"));
    one.withdraw();
    assert_eq!(two.address(&one.own).unwrap(), None);
    assert_eq!(two.claim(b"/f").unwrap(), Owner::Here);
    two.withdraw();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "only the token is left");
}

#[test]
fn a_name_that_its_owner_hands_over_is_the_other_agents_and_goes_with_that() {
    let (_scratch, place) = place();
    let (mut one, mut two) = (on(&place, "a"), on(&place, "b"));
    let _alive = live(&two);
    assert_eq!(one.claim(b"/f").unwrap(), Owner::Here);
    let other = Instance::of_words(&two.own().words()).unwrap();
    assert_eq!(other, two.own);
    two.hand_over(b"/f", &other).unwrap_err();
    one.hand_over(b"/f", &other).unwrap();
    assert!(!one.owns(b"/f"));
    assert_eq!(one.claim(b"/f").unwrap(), Owner::There(two.own.clone()));
    assert_eq!(two.claim(b"/f").unwrap(), Owner::Here);
    one.withdraw();
    assert_eq!(two.owner(b"/f").unwrap(), Some(Owner::Here));
    two.withdraw();
    assert_eq!(one.owner(b"/f").unwrap(), None);
}

#[test]
fn words_that_name_no_agent_are_refused() {
    for words in ["", "node", "node x", " 1", "a/b 1", "a\nb 1", "node 1x"] {
        assert_eq!(Instance::of_words(words), None, "{words:?}");
    }
}

#[test]
fn what_a_killed_agent_of_this_node_left_is_removed() {
    let (_scratch, place) = place();
    let other = on(&place, "another").hidden(&[]).unwrap();
    Directory::new(&place).unwrap().hidden(&[]).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    Directory::new(&place).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    assert!(other.exists(), "another node's agent may be about to name it");
}

#[test]
fn a_name_is_taken_from_the_dead_once() {
    let (_scratch, place) = place();
    let (mut dead, mut two, mut three) = (on(&place, "a"), on(&place, "b"), on(&place, "c"));
    dead.claim(b"/f").unwrap();
    two.bequeath(b"/f", &dead.own).unwrap();
    assert_eq!(two.claim(b"/f").unwrap(), Owner::Here);
    three.bequeath(b"/f", &dead.own).unwrap();
    assert_eq!(three.claim(b"/f").unwrap(), Owner::There(two.own.clone()));
    assert_eq!(dead.owner(b"/g").unwrap(), None);
    dead.claim(b"/g").unwrap();
    let _alive = live(&two);
    three.sweep().unwrap();
    assert_eq!(three.owner(b"/g").unwrap(), None, "its owner is dead");
    dead.withdraw();
    assert_eq!(three.owner(b"/f").unwrap(), Some(Owner::There(two.own.clone())));
}

#[test]
fn an_agent_that_ends_removes_names_of_which_a_dead_one_and_it_do_not_know() {
    let (_scratch, place) = place();
    let (mut one, two, three) = (on(&place, "a"), on(&place, "b"), on(&place, "c"));
    let _alive = live(&one);
    drop(live(&two));
    for (name, to) in [(b"/f", &two.own), (b"/g", &three.own)] {
        one.claim(name).unwrap();
        one.hand_over(name, to).unwrap();
    }
    three.withdraw();
    assert_eq!([b"/f", b"/g"].map(|name| one.owner(name).unwrap()), [None, None]);
}

#[test]
fn the_lock_is_one_that_network_file_systems_have() {
    let (_scratch, place) = place();
    let lock = on(&place, "a").lock().unwrap();
    let mode = aggio_base::os::access_mode(lock.as_raw_fd()).unwrap();
    assert_eq!(mode, libc::O_RDWR);
}

#[test]
fn files_that_no_agent_made_are_refused_by_name() {
    let (_scratch, place) = place();
    let mut one = on(&place, "a");
    for contents in ["", "aggio 1", "aggio 1\nhost\nnumber\n/f", "aggio 1\nh\n7\n/other"] {
        fs::write(one.name_file(b"/f"), contents).unwrap();
        let error = one.claim(b"/f").unwrap_err().to_string();
        assert!(error.contains(".name"), "{error}");
    }
}
