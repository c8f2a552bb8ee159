//! Looks at a file that nobody waits for.

use super::*;

impl Scene {
    fn view(&mut self, process: Process) -> Answer {
        let ask = Ask { view: true, ..self.ask(false) };
        self.open(process, &ask)
    }
}

#[test]
fn a_view_has_the_newest_generation_that_is_complete() {
    let mut scene = Scene::with(&[1, 2, 3]);
    assert_eq!(scene.view(3), Answer::Fail(libc::ENOENT));
    assert!(scene.registry.list(3, b"/d", true).is_empty());
    scene.make_many(1, 2);
    let third = scene.write(1);
    assert_eq!(opened(scene.view(3)).generation, 2);
    scene.close(1, third, 0);
    assert_eq!(opened(scene.view(3)).generation, 3);
    assert_eq!(scene.registry.list(3, b"/d", true), [b"f".to_vec()]);
}

#[test]
fn a_view_takes_nothing_from_readers() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.make_many(1, 3);
    for _ in 0..2 {
        let viewed = opened(scene.view(3));
        scene.close(3, viewed, 1 << 20);
    }
    assert!(scene.freed.is_empty());
    let parts = [1, 2, 3].map(|process| !scene.registry.has_no_part(process));
    assert_eq!(parts, [true, false, false]);
    assert_eq!([scene.take(2), scene.take(2), scene.take(2)], [1, 2, 3]);
    assert!(scene.registry.has_no_part(3) && !scene.registry.has_no_part(2));
}

#[test]
fn what_is_viewed_stays_until_it_is_closed_and_no_longer() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.make(1);
    let viewed = opened(scene.view(3));
    scene.take(2);
    scene.make_many(1, 3);
    scene.take_many(2, 3);
    assert!(!scene.freed.contains(&viewed.area));
    scene.close(3, viewed, 0);
    assert!(scene.freed.contains(&viewed.area));
}

#[test]
fn a_view_of_what_is_written_needs_that_it_was_synchronised() {
    let mut scene = Scene::with(&[1, 3]);
    scene.options.at_sync = true;
    let written = scene.write(1);
    assert_eq!(scene.view(3), Answer::Fail(libc::ENOENT));
    scene.registry.publish(1, written.handle);
    assert_eq!(opened(scene.view(3)).area, written.area);
}
