//! Generations that are stored on disk as well, and those for which there is no memory.

use super::*;
use aggio_config::settings::couple::{Full, Persist};

#[test]
fn generations_are_stored_before_they_are_given_up() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.persist = Persist::After;
    scene.make_many(1, 2);
    assert!(scene.stored.is_empty());
    scene.take(2);
    assert_eq!((scene.stored.len(), scene.freed.len()), (1, 0));
    let area = scene.stored[0];
    scene.registry.stored(area, false);
    scene.settle();
    assert_eq!((scene.stored.len(), scene.freed.len()), (1, 0), "it is kept in memory");
    scene.registry.store_again(area);
    scene.settle();
    scene.registry.stored(area, true);
    scene.settle();
    assert_eq!((&*scene.stored, &*scene.freed), (&[area, area][..], &[area][..]));
    scene.options.persist = Persist::Yes;
    scene.make(1);
    assert_eq!(scene.stored.len(), 3, "as soon as it is complete");
}

#[test]
fn an_older_generation_never_replaces_a_newer_one_on_disk() {
    let mut scene = Scene::with(&[1, 2]);
    (scene.options.persist, scene.options.keep) = (Persist::After, 9);
    scene.make_many(1, 3);
    scene.take_many(2, 3);
    assert!(scene.stored.is_empty());
    scene.end(2, true);
    scene.end(1, true);
    assert!(scene.stored.is_sorted() && scene.stored.len() == 3, "{:?}", scene.stored);
    // The first one could not be stored before the others were.
    let all = scene.stored.clone();
    for (area, done) in [(all[0], false), (all[1], true), (all[2], true)] {
        scene.registry.stored(area, done);
    }
    scene.registry.store_again(all[0]);
    scene.settle();
    assert_eq!(scene.stored, all);
}

#[test]
fn what_was_removed_is_not_replaced_by_an_older_generation() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.persist = Persist::After;
    scene.make_many(1, 2);
    scene.take_many(2, 2);
    assert_eq!(scene.stored.len(), 1, "the first is being stored");
    scene.registry.unlink(1, FILE.as_bytes(), scene.options).unwrap();
    scene.settle();
    let appends = Ask { truncate: false, ..scene.ask(true) };
    let opening = opened(scene.open(1, &appends));
    let generation = &scene.registry.generations[&opening.area];
    assert_eq!((generation.number, generation.copy_of), (3, None));
    let plain = Ask { create: false, ..appends };
    scene.close(1, opening, 0);
    scene.registry.unlink(1, FILE.as_bytes(), scene.options).unwrap();
    scene.settle();
    assert_eq!(scene.open(1, &plain), Answer::Fail(libc::ENOENT));
}

#[test]
fn a_writer_waits_for_memory_that_readers_give_back() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.budget = 10;
    scene.make_many(1, 2);
    scene.registry.measure(10, 0);
    let ask = scene.ask(true);
    assert_eq!(scene.open(1, &ask), Answer::Wait);
    scene.registry.wait(5, 1, ask);
    scene.take_many(2, 2);
    scene.registry.measure(5, 0);
    assert_eq!(opened(scene.ready().unwrap()).generation, 3);
}

#[test]
fn the_oldest_is_given_up_if_the_rule_says_so() {
    let mut scene = Scene::with(&[1, 2]);
    (scene.options.budget, scene.options.full) = (10, Full::Drop);
    scene.make_many(1, 2);
    scene.registry.measure(10, 0);
    assert_eq!((scene.make(1), scene.freed.len()), (3, 1));
    scene.registry.measure(0, 0);
    assert_eq!((scene.take(2), scene.take(2)), (2, 3));
}
