//! Readers of generations that are not complete.

use super::tests::{opened, scene};
use super::*;

/// A program that writes a file with three records for readers, and a reader: 1 and 10.
fn scene_of_a_writer() -> (super::tests::Scene, Opening) {
    let mut scene = scene();
    scene.options.at_step = true;
    scene.join(1, 1, 1, 1);
    scene.join(10, 2, 2, 1);
    let written = scene.write(1);
    scene.registry.files.generations.show_records(written.area, Some(3));
    (scene, written)
}

#[test]
fn ranks_that_open_a_part_together_open_it_again_together_for_the_rest() {
    let mut scene = scene();
    scene.options.at_step = true;
    scene.join(1, 1, 1, 1);
    (10..12).for_each(|rank| scene.join(rank, 2, 2, 2));
    let written = scene.write(1);
    scene.registry.files.generations.show_records(written.area, Some(3));
    let root = opened(scene.read(10));
    scene.close(1, written, 0);
    let other = scene.registry.adopt(11, root.area, [false; 2], 0).unwrap();
    scene.close(10, root, 1 << 20);
    scene.close(11, other, 1 << 20);
    // Both have seen a part.
    let root = opened(scene.read(10));
    let other = scene.registry.adopt(11, root.area, [false; 2], 0).unwrap();
    assert_eq!((root.generation, other.generation), (1, 1));
    scene.close(10, root, 1 << 20);
    scene.close(11, other, 1 << 20);
    assert_eq!(scene.read(10), Answer::Wait);
}

#[test]
fn who_has_read_a_part_of_a_generation_whose_writer_died_is_told_by_its_next_open_once() {
    for closes in [true, false] {
        let (mut scene, _) = scene_of_a_writer();
        let part = opened(scene.read(10));
        if closes {
            scene.close(10, part, 0);
        }
        scene.registry.end(1, false);
        assert_eq!(scene.read(10), Answer::Fail(libc::EIO), "closed before: {closes}");
        assert_eq!(scene.read(10), Answer::Wait, "another writer may come");
    }
}

#[test]
fn who_was_told_by_the_open_file_that_its_writer_died_waits_for_another_one() {
    let (mut scene, written) = scene_of_a_writer();
    opened(scene.read(10));
    scene.registry.end(1, false);
    scene.registry.files.names.has_told_of_death(10, written.area);
    assert_eq!(scene.read(10), Answer::Wait);
}
