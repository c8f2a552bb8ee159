//! Writers that end while they write.

use super::*;
use aggio_config::settings::couple::WriterDeath;

#[test]
fn readers_of_what_a_dead_process_was_writing_learn_it_once() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.make(1);
    let (_, joined) = (scene.write(1), scene.write(3));
    assert_eq!(scene.take(2), 1);
    scene.wait(2);
    scene.end(1, false);
    assert_eq!(scene.ready(), Some(Answer::Fail(libc::EIO)));
    let dead =
        scene.registry.files.names.dead_writer(FILE.as_bytes(), &Answer::Fail(libc::EIO)).unwrap();
    assert_eq!((dead.number, &*dead.writer), (2, "p1"));
    scene.close(3, joined, 0);
    scene.wait(2);
    scene.join(4, 4, 1, 4);
    assert_eq!(scene.make(4), 3);
    assert_eq!(opened(scene.ready().unwrap()).generation, 3);
}

#[test]
fn other_writers_of_what_died_are_told_until_they_close_it() {
    let mut scene = Scene::with(&[1, 2]);
    let (first, own) = (scene.write(1), scene.write(2));
    assert_eq!(scene.registry.opens.loss(own.handle), None);
    scene.end(1, false);
    let text = "/d/f: p1 died before generation 1 was complete";
    assert_eq!(scene.registry.opens.loss(own.handle), Some((libc::EIO, text)));
    assert_eq!(scene.registry.opens.loss(first.handle), None, "of one that is no more");
    scene.close(1, own, 0);
    assert_eq!(scene.registry.opens.loss(own.handle), Some((libc::EIO, text)), "it is another's");
    scene.close(2, own, 0);
    assert_eq!(scene.registry.opens.loss(own.handle), None);
    scene.write(2);
    scene.join(3, 3, 1, 3);
    let joined = scene.write(3);
    scene.end(2, false);
    assert!(scene.registry.opens.loss(joined.handle).is_some());
    scene.end(3, true);
    assert!(scene.registry.opens.loss(joined.handle).is_none());
}

#[test]
fn a_writer_that_had_closed_what_died_is_told_by_its_next_open_and_gets_nothing_older() {
    for write in [false, true] {
        let mut scene = Scene::with(&[1]);
        scene.join(2, 1, 2, 1);
        scene.make(1);
        let (first, own) = (scene.write(1), scene.write(2));
        assert_eq!(first.area, own.area);
        scene.close(2, own, 0);
        scene.end(1, false);
        let ask = Ask { path: FILE.into(), write, create: write, ..Ask::default() };
        assert_eq!(scene.registry.open(2, &ask), Answer::Fail(libc::EIO));
        let open = opened(scene.registry.open(2, &ask));
        assert_eq!(open.generation, if write { 3 } else { 1 }, "it knows what it gets");
    }
    let mut scene = Scene::with(&[1]);
    scene.join(2, 1, 2, 1);
    let (_, own) = (scene.write(1), scene.write(2));
    scene.close(2, own, 0);
    scene.end(1, false);
    let anew =
        Ask { path: FILE.into(), write: true, truncate: true, create: true, ..Ask::default() };
    assert_eq!(opened(scene.registry.open(2, &anew)).generation, 2, "it needs nothing older");
}

#[test]
fn writers_of_what_was_removed_or_not_changed_have_lost_nothing() {
    let mut scene = Scene::with(&[1, 2]);
    let (one, other) = (scene.write(1), scene.write(2));
    scene.registry.unlink(1, FILE.as_bytes(), Options::default()).unwrap();
    // The kernel tells that all descriptors are closed before the programs do.
    scene.registry.commit(one.area, true);
    assert_eq!(scene.freed.len() + scene.registry.effects().len(), 2);
    assert_eq!(scene.registry.opens.loss(other.handle), None);
    assert!(scene.registry.opens.contains_key(&other.handle));
}

#[test]
fn a_rule_says_what_a_death_means() {
    for (death, wanted) in [(WriterDeath::Wait, None), (WriterDeath::File, Some(Answer::OnDisk))] {
        let mut scene = Scene::with(&[1, 2]);
        scene.options.death = death;
        scene.wait(2);
        scene.write(1);
        scene.end(1, false);
        assert_eq!(scene.ready(), wanted);
    }
}

#[test]
fn an_orderly_end_completes_what_is_open() {
    let mut scene = Scene::with(&[1, 2]);
    scene.wait(2);
    scene.write(1);
    scene.end(1, true);
    assert_eq!(opened(scene.ready().unwrap()).generation, 1);
}

#[test]
fn what_a_process_closed_before_it_ends_is_looked_at_when_it_has_ended() {
    let mut scene = Scene::with(&[1, 2]);
    let opening = scene.write(1);
    scene.registry.close(1, opening.handle, 0, false);
    // The agent sees that the process is ending, and waits for how.
    scene.registry.effects();
    scene.end(1, true);
    assert_eq!(scene.take(2), 1);
}

#[test]
fn a_writer_that_cannot_reach_the_others_spoils_what_it_has_open_and_nothing_else() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.wait(2);
    let (one, other) = (scene.write(1), scene.write(3));
    assert!(!scene.registry.spoil(2, one.handle), "it is another's");
    assert!(scene.registry.spoil(1, one.handle));
    let name = scene.registry.files.names.get(b"/d/f".as_slice());
    let dead = name.and_then(|name| name.dead.as_ref());
    assert!(dead.is_some_and(|dead| dead.writers.is_empty()), "it knows");
    assert_eq!(scene.ready(), Some(Answer::Fail(libc::EIO)));
    assert!(scene.registry.opens.loss(other.handle).is_some(), "who writes it as well is told");
    assert!(!scene.registry.spoil(1, one.handle), "it is closed");
    scene.close(3, other, 0);
    assert_eq!(scene.make(1), 2, "the writer lives on");
    assert_eq!(scene.take(2), 2);
}

#[test]
fn what_a_child_inherited_that_ended_before_it_was_known_is_dead() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.wait(2);
    let (one, other) = (scene.write(1), scene.write(3));
    assert!(!scene.registry.lose_child(2, one.handle), "it is another's");
    assert!(scene.registry.lose_child(1, one.handle));
    assert_eq!(scene.ready(), Some(Answer::Fail(libc::EIO)));
    let text = "/d/f: a child of p1 died before generation 1 was complete";
    for opening in [one, other] {
        assert_eq!(scene.registry.opens.loss(opening.handle), Some((libc::EIO, text)));
    }
    assert!(!scene.registry.lose_child(1, one.handle), "it is lost");
    let read = scene.make(1);
    assert_eq!((read, scene.take(2)), (2, 2));
}

#[test]
fn what_was_complete_before_a_child_was_lost_stays_so() {
    let mut scene = Scene::with(&[1, 2]);
    let opening = scene.write(1);
    scene.registry.commit(opening.area, true);
    assert!(scene.registry.lose_child(1, opening.handle));
    assert_eq!(scene.take(2), 1);
}

/// An agent has died while process 1 was writing generation 2, after process 2 had read the first.
fn aborted() -> Scene {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    assert_eq!(scene.take(2), 1);
    let job = scene.registry.processes[&1].job;
    let name = scene.registry.files.names.get_mut(FILE.as_bytes()).unwrap();
    name.last = 2;
    name.aborted.insert(job, Aborted { number: 2, opens: [(7, 70)].into(), ..Aborted::default() });
    scene
}

#[test]
fn readers_learn_what_was_lost_if_its_writer_goes_on_without_knowing() {
    let mut scene = aborted();
    assert_eq!(scene.make(1), 3);
    assert_eq!(scene.read(2), Answer::Fail(libc::ESTALE));
    assert_eq!(scene.take(2), 3, "once");
}

#[test]
fn nothing_was_lost_by_an_open_that_was_not_answered_and_is_asked_for_again() {
    let mut scene = aborted();
    let ask = Ask { key: 70, ..scene.ask(true) };
    let opening = opened(scene.open(1, &ask));
    scene.close(1, opening, 0);
    assert_eq!(scene.take(2), 3);
}

#[test]
fn what_was_lost_is_written_again_by_a_writer_that_knows() {
    let mut scene = aborted();
    scene.registry.report_aborted(1, 7);
    assert_eq!(scene.make(1), 3);
    assert_eq!(scene.take(2), 3);
}
