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
    scene.registry.files.store_again(area);
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
    scene.registry.files.store_again(all[0]);
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
    scene.registry.unlink(1, FILE.as_bytes(), scene.options.clone()).unwrap();
    scene.settle();
    let appends = Ask { truncate: false, ..scene.ask(true) };
    let opening = opened(scene.open(1, &appends));
    let generation = &scene.registry.files.generations[&opening.area];
    assert_eq!((generation.number, generation.copy_of), (3, None));
    let plain = Ask { create: false, ..appends };
    scene.close(1, opening, 0);
    scene.registry.unlink(1, FILE.as_bytes(), scene.options.clone()).unwrap();
    scene.settle();
    assert_eq!(scene.open(1, &plain), Answer::Fail(libc::ENOENT));
}

#[test]
fn a_writer_waits_for_memory_that_readers_give_back() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.budget = 10;
    scene.make_many(1, 2);
    let areas: Vec<Area> = scene.registry.files.generations.keys().copied().collect();
    areas.into_iter().for_each(|area| scene.registry.files.weigh(area, 5));
    scene.registry.files.room.measure(10, 0, 0);
    let ask = scene.ask(true);
    assert_eq!(scene.open(1, &ask), Answer::Wait);
    scene.registry.waits.add(5, 1, ask);
    scene.take_many(2, 2);
    scene.registry.files.room.measure(5, 0, 0);
    assert_eq!(opened(scene.ready().unwrap()).generation, 3);
}

#[test]
fn the_oldest_is_given_up_if_the_rule_says_so() {
    let mut scene = Scene::with(&[1, 2]);
    (scene.options.budget, scene.options.full) = (10, Full::Drop);
    scene.make_many(1, 2);
    scene.registry.files.room.measure(10, 0, 0);
    assert_eq!((scene.make(1), scene.freed.len()), (3, 1));
    scene.registry.files.room.measure(0, 0, 0);
    assert_eq!((scene.take(2), scene.take(2)), (2, 3));
}

/// Makes files of 10 bytes each, as programs do that write one for each step.
struct Steps {
    scene: Scene,
    areas: Vec<Area>,
}

impl Steps {
    fn with(budget: u64, full: Full) -> Self {
        let mut scene = Scene::with(&[1, 2]);
        (scene.options.budget, scene.options.full) = (budget, full);
        Self { scene, areas: Vec::new() }
    }

    fn ask(&self, step: usize, write: bool) -> Ask {
        Ask { path: format!("/d/step.{step}").into(), ..self.scene.ask(write) }
    }

    fn measure(&mut self) {
        let left = self.areas.iter().filter(|area| !self.scene.freed.contains(area)).count();
        self.scene.registry.files.room.measure(10 * left as u64, 0, 0);
    }

    /// Whether there was room for the next one.
    fn make(&mut self) -> bool {
        self.measure();
        let ask = self.ask(self.areas.len(), true);
        let mut answer = self.scene.open(1, &ask);
        if answer == Answer::Wait {
            // The generation that was given up is free now.
            self.measure();
            answer = self.scene.open(1, &ask);
        }
        let Answer::Opened(opening) = answer else { return false };
        self.scene.close(1, opening, 0);
        self.scene.registry.files.weigh(opening.area, 10);
        self.areas.push(opening.area);
        true
    }

    fn open(&mut self, process: Process, step: usize) -> Answer {
        let ask = self.ask(step, false);
        self.scene.open(process, &ask)
    }

    fn take(&mut self, step: usize) {
        let opening = opened(self.open(2, step));
        self.scene.close(2, opening, 1 << 20);
    }

    /// The steps that were dropped.
    fn freed(&self) -> Vec<usize> {
        let place = |area: &Area| self.areas.iter().position(|one| one == area).unwrap();
        self.scene.freed.iter().map(place).collect()
    }
}

#[test]
fn of_one_file_for_each_step_those_that_were_read_go_first_if_memory_is_short() {
    let mut steps = Steps::with(30, Full::Wait);
    (0..3).for_each(|_| assert!(steps.make()));
    let reading = opened(steps.open(2, 1));
    [0, 2].into_iter().for_each(|step| steps.take(step));
    assert_eq!(steps.freed(), [], "their writer may open them again");
    assert!(steps.make());
    assert_eq!(steps.freed(), [0], "as many as need be");
    let answer = steps.open(1, 0);
    assert_eq!(answer, Answer::Fail(libc::ESTALE), "its writer does not wait for what it wrote");
    let update = Ask { truncate: false, ..steps.ask(0, true) };
    assert_eq!(steps.scene.open(1, &update), Answer::Fail(libc::ESTALE));
    assert!(steps.make());
    assert_eq!(steps.freed(), [0, 2], "not the one that is open");
    steps.scene.close(2, reading, 1 << 20);
    assert!(steps.make());
    assert_eq!(steps.freed(), [0, 2, 1]);
    assert!(!steps.make(), "nobody has read the others");
}

#[test]
fn what_is_to_be_on_disk_is_stored_before_its_memory_is_used() {
    let mut steps = Steps::with(20, Full::Wait);
    steps.scene.options.persist = Persist::After;
    for step in 0..2 {
        assert!(steps.make());
        steps.take(step);
    }
    assert!(!steps.make());
    assert_eq!(steps.scene.stored, steps.areas, "both are being stored");
    let first = steps.areas[0];
    steps.scene.registry.stored(first, true);
    steps.scene.settle();
    assert!(steps.make());
    assert_eq!(steps.freed(), [0]);
}

#[test]
fn of_one_file_for_each_step_the_oldest_goes_if_the_rule_says_so() {
    let mut steps = Steps::with(20, Full::Drop);
    (0..4).for_each(|_| assert!(steps.make()));
    assert_eq!(steps.freed(), [0, 1]);
    assert_eq!(steps.open(1, 0), Answer::Fail(libc::ESTALE));
}
