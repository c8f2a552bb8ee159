//! Writers that die between two generations.

use super::*;

#[test]
fn readers_do_not_wait_for_what_a_killed_program_would_have_made_next() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    assert_eq!(scene.take(2), 1);
    scene.wait(2);
    scene.end(1, false);
    assert_eq!(scene.ready(), Some(Answer::Fail(libc::EIO)));
    scene.wait(2);
    scene.join(4, 4, 1, 4);
    assert_eq!(scene.make(4), 3, "a program that is started again makes the one after it");
    assert_eq!(opened(scene.ready().unwrap()).generation, 3);
}

#[test]
fn a_child_that_had_the_descriptor_is_not_who_would_have_made_the_next_one() {
    let mut scene = Scene::with(&[1, 2, 3]);
    let opening = scene.write(1);
    let copy = scene.registry.adopt(3, opening.area, [true; 2], 0).unwrap();
    scene.close(3, copy, 0);
    scene.end(3, true);
    scene.close(1, opening, 0);
    assert_eq!(scene.take(2), 1);
    scene.wait(2);
    scene.end(1, false);
    assert_eq!(scene.ready(), Some(Answer::Fail(libc::EIO)));
}

#[test]
fn what_a_killed_program_has_completed_is_read_first() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make_many(1, 2);
    scene.end(1, false);
    scene.take_many(2, 2);
    assert_eq!(scene.read(2), Answer::Fail(libc::EIO));
}

#[test]
fn readers_wait_while_another_rank_of_the_program_lives() {
    let mut scene = Scene::with(&[2]);
    scene.join(10, 7, 2, 7);
    scene.join(11, 7, 2, 7);
    scene.make(10);
    assert_eq!(scene.take(2), 1);
    scene.wait(2);
    scene.end(11, false);
    assert_eq!(scene.ready(), None);
    scene.end(10, false);
    assert_eq!(scene.ready(), Some(Answer::Fail(libc::EIO)));
}

#[test]
fn readers_wait_on_for_a_program_that_ended_in_order() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    assert_eq!(scene.take(2), 1);
    scene.wait(2);
    scene.end(1, true);
    assert_eq!(scene.ready(), None);
}
