//! Names that programs remove and change which only read.

use super::*;
use aggio_config::settings::couple::Persist;

const OTHER: &str = "/d/g";

impl Scene {
    fn rename(&mut self, process: Process) -> Result<(), i32> {
        let (from, to) = (FILE.as_bytes(), OTHER.as_bytes());
        let renamed = self.registry.rename(process, from, to, Options::default());
        self.settle();
        renamed
    }

    fn unlink(&mut self, process: Process) -> Result<(), i32> {
        let removed = self.registry.unlink(process, FILE.as_bytes(), Options::default());
        self.settle();
        removed
    }

    /// The memory that a process finds under the other name.
    fn other(&self, process: Process) -> Option<Area> {
        self.registry.look(process, OTHER.as_bytes(), Options::default()).flatten()
    }
}

#[test]
fn a_reader_renames_the_generation_that_it_would_read() {
    let mut scene = Scene::with(&[1, 2, 3]);
    assert_eq!(scene.rename(2), Err(libc::ENOENT));
    scene.make_many(1, 2);
    let first = scene.registry.files.names[FILE.as_bytes()].generations[&1];
    scene.rename(2).unwrap();
    assert_eq!(scene.other(3), Some(first));
    scene.write(1);
    assert_eq!(scene.rename(3), Ok(()), "the second one");
    assert_eq!(scene.rename(3), Err(libc::ENOENT), "the third is being written by another");
}

#[test]
fn a_program_renames_what_another_has_just_closed() {
    let mut scene = Scene::with(&[1, 2, 3]);
    let opening = scene.write(1);
    scene.registry.close(1, opening.handle, 0, false);
    scene.rename(2).unwrap();
    assert_eq!(scene.other(3), Some(opening.area));
}

#[test]
fn who_reads_what_gets_another_name_is_done_with_it() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    let reading = opened(scene.read(2));
    scene.rename(1).unwrap();
    scene.close(2, reading, 4096);
    scene.make(1);
    assert_eq!(scene.take(2), 2);
    scene.make(1);
    assert_eq!(scene.take(2), 3);
    let left = |path: &str| scene.registry.files.names[path.as_bytes()].generations.len();
    assert_eq!((left(FILE), left(OTHER)), (1, 1), "the second one was given up");
}

#[test]
fn a_reader_that_removes_what_it_has_read_gets_what_came_meanwhile() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make_many(1, 3);
    for number in 1..=3 {
        assert_eq!(scene.take(2), number);
        scene.unlink(2).unwrap();
    }
    assert_eq!(scene.unlink(2), Err(libc::ENOENT));
}

#[test]
fn processes_that_follow_each_other_remove_what_the_one_before_has_read() {
    let mut scene = Scene::with(&[1]);
    scene.make_many(1, 3);
    for (process, number) in [(10, 1), (20, 2), (30, 3)] {
        scene.join(process, process, 1, 5);
        assert_eq!(scene.take(process), number);
        scene.end(process, true);
        scene.join(process + 1, process + 1, 1, 5);
        scene.unlink(process + 1).unwrap();
        scene.end(process + 1, true);
    }
}

#[test]
fn a_reader_that_removes_what_it_has_not_read_goes_on_behind_it() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.make_many(1, 3);
    scene.unlink(2).unwrap();
    assert_eq!(scene.take(3), 1, "others read it");
    assert_eq!(scene.take(2), 2);
}

#[test]
fn a_name_is_unwritten_until_its_first_generation_begins_whoever_waits_for_it() {
    let mut scene = Scene::with(&[1, 2]);
    let is_unwritten = |scene: &Scene| scene.registry.files.names[FILE.as_bytes()].is_unwritten();
    scene.wait(2);
    assert!(is_unwritten(&scene), "a reader waits");
    scene.make(1);
    assert!(!is_unwritten(&scene));
    scene.end(1, true);
    assert!(!is_unwritten(&scene), "its generation is kept");
    assert!(scene.registry.waits.take(1).is_some() || scene.ready().is_some());
}

#[test]
fn a_removed_generation_has_the_name_that_a_reader_gives_it() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    scene.registry.unlink(1, FILE.as_bytes(), Options::default()).unwrap();
    scene.settle();
    scene.rename(2).unwrap();
    assert!(scene.other(2).is_some(), "it has given it this name");
}

#[test]
fn a_stored_generation_with_another_name_leaves_the_disk_under_the_old_one() {
    let mut scene = Scene::with(&[1]);
    scene.options.persist = Persist::Yes;
    scene.make(1);
    let area = scene.stored[0];
    assert!(scene.registry.files.is_storing(area, FILE.as_bytes()));
    scene.rename(1).unwrap();
    assert_eq!(scene.removed, [FILE.as_bytes()]);
    assert!(!scene.registry.files.is_storing(area, FILE.as_bytes()));
}

#[test]
fn a_reader_that_renames_an_old_generation_leaves_a_newer_one_on_disk() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.persist = Persist::Yes;
    scene.make_many(1, 2);
    assert_eq!(scene.stored.len(), 2);
    scene.rename(2).unwrap();
    assert_eq!(scene.other(1), Some(scene.stored[0]), "it is the first one");
    assert_eq!(scene.removed, [] as [&[u8]; 0]);
}

#[test]
fn a_generation_that_was_not_stored_yet_removes_nothing_from_the_disk_with_its_name() {
    let mut scene = Scene::with(&[1]);
    scene.options.persist = Persist::After;
    scene.make(1);
    scene.rename(1).unwrap();
    assert_eq!(scene.removed, [] as [&[u8]; 0]);
}
