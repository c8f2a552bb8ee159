//! Generations that opens get: one story a test.

mod between;
mod deaths;
mod names;
mod nodes;
mod room;
mod stored;
mod view;

use super::*;
use aggio_config::settings::couple::Pick;

const FILE: &str = "/d/f";

/// A registry; its memory is quiet as soon as nobody has it open for writing.
pub(super) struct Scene {
    pub(super) registry: Registry,
    pub(super) freed: Vec<Area>,
    pub(super) stored: Vec<Area>,
    /// Names that are removed from the disk.
    pub(super) removed: Vec<Path>,
    pub(super) unchanged: Vec<Area>,
    pub(super) options: Options,
    pub(super) waits: u64,
}

pub(super) fn scene() -> Scene {
    let (registry, options) = (Registry::default(), Options::default());
    let (freed, stored, unchanged) = (Vec::new(), Vec::new(), Vec::new());
    Scene { registry, freed, stored, removed: Vec::new(), unchanged, options, waits: 0 }
}

impl Scene {
    pub(super) fn join(&mut self, process: Process, job: Job, ranks: u32, family: Family) {
        let label = format!("p{process}");
        self.registry.join(process, Who { job, ranks, family, label });
    }

    fn with(processes: &[Process]) -> Self {
        let mut scene = scene();
        processes.iter().for_each(|one| scene.join(*one, *one, 1, *one));
        scene
    }

    fn settle(&mut self) {
        loop {
            let effects = self.registry.effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Free(area) => self.freed.push(area),
                    Effect::Store(area, _) => self.stored.push(area),
                    Effect::Remove(path) => self.removed.push(path),
                    Effect::Look(area) => {
                        let busy = |o: &Open| o.area == area && o.write;
                        if !self.registry.opens.values().any(busy) {
                            let changed = !self.unchanged.contains(&area);
                            self.registry.commit(area, changed);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn ask(&self, write: bool) -> Ask {
        let path = FILE.into();
        Ask {
            path,
            write,
            create: write,
            truncate: write,
            options: self.options.clone(),
            ..Ask::default()
        }
    }

    fn open(&mut self, process: Process, ask: &Ask) -> Answer {
        let answer = self.registry.open(process, ask);
        self.settle();
        answer
    }

    pub(super) fn write(&mut self, process: Process) -> Opening {
        let ask = self.ask(true);
        opened(self.open(process, &ask))
    }

    pub(super) fn read(&mut self, process: Process) -> Answer {
        let ask = self.ask(false);
        self.open(process, &ask)
    }

    pub(super) fn close(&mut self, process: Process, opening: Opening, moved: u64) {
        self.registry.close(process, opening.handle, moved, false);
        self.settle();
    }

    /// Writes and completes a generation.
    fn make(&mut self, process: Process) -> u64 {
        let opening = self.write(process);
        self.close(process, opening, 0);
        opening.generation
    }

    /// Reads a generation wholly; which one.
    pub(super) fn take(&mut self, process: Process) -> u64 {
        let opening = opened(self.read(process));
        self.close(process, opening, 1 << 20);
        opening.generation
    }

    fn make_many(&mut self, process: Process, count: u64) {
        for _ in 0..count {
            self.make(process);
        }
    }

    fn take_many(&mut self, process: Process, count: u64) {
        for _ in 0..count {
            self.take(process);
        }
    }

    fn end(&mut self, process: Process, orderly: bool) {
        self.registry.end(process, orderly);
        self.settle();
    }

    fn wait(&mut self, process: Process) {
        self.waits += 1;
        let ask = self.ask(false);
        assert_eq!(self.open(process, &ask), Answer::Wait);
        self.registry.waits.add(self.waits, process, ask);
    }

    fn cycle(&self) -> Option<Vec<Job>> {
        self.registry.waits.cycle(&self.registry.processes, &self.registry.files.names)
    }

    fn ready(&mut self) -> Option<Answer> {
        let found = self.registry.ready().map(|(_, answer)| answer);
        self.settle();
        found
    }
}

pub(super) fn opened(answer: Answer) -> Opening {
    match answer {
        Answer::Opened(opening) => opening,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_nth_open_of_a_reader_gets_the_nth_generation_and_waits_for_it() {
    let mut scene = Scene::with(&[1, 2]);
    scene.wait(2);
    let first = scene.write(1);
    assert_eq!(scene.ready(), None, "it is not complete");
    scene.close(1, first, 0);
    let opening = opened(scene.ready().unwrap());
    assert_eq!(opening.generation, 1);
    assert_eq!((scene.make(1), scene.make(1)), (2, 3));
    assert_eq!(opened(scene.read(2)).generation, 1, "it still has it open");
    scene.close(2, opening, 4096);
    scene.close(2, Opening { handle: opening.handle + 3, ..opening }, 0);
    let open: Vec<Handle> = scene.registry.opens.keys().copied().collect();
    open.iter().for_each(|handle| scene.registry.close(2, *handle, 0, false));
    assert_eq!((scene.take(2), scene.take(2)), (2, 3));
    scene.wait(2);
}

#[test]
fn a_look_at_the_first_bytes_is_no_reading() {
    let mut scene = Scene::with(&[1, 2]);
    (1..=2).for_each(|number| assert_eq!(scene.make(1), number));
    let probe = opened(scene.read(2));
    scene.close(2, probe, 8);
    assert_eq!((scene.take(2), scene.take(2)), (1, 2));
    assert_eq!(scene.make(1), 3);
    let whole = opened(scene.read(2));
    scene.registry.close(2, whole.handle, 8, true);
    assert_eq!(scene.read(2), Answer::Wait, "eight bytes were the whole file");
}

#[test]
fn a_rank_that_moved_nothing_has_read_what_another_rank_read() {
    let mut scene = scene();
    scene.join(1, 1, 1, 1);
    (10..12).for_each(|rank| scene.join(rank, 2, 2, 2));
    scene.make_many(1, 2);
    let root = opened(scene.read(10));
    let other = scene.registry.adopt(11, root.area, [false; 2], 0).unwrap();
    assert_eq!(other.generation, 1);
    scene.close(10, root, 0);
    scene.close(11, other, 1 << 20);
    assert_eq!(scene.take(10), 2);
}

#[test]
fn opens_for_writing_join_a_generation_until_it_is_complete() {
    let mut scene = Scene::with(&[1, 2, 3]);
    let first = scene.write(1);
    let joined = scene.write(2);
    assert_eq!((joined.area, joined.generation), (first.area, 1));
    let own = opened(scene.read(1));
    assert_eq!(own.area, first.area, "a writer sees what it writes");
    scene.close(1, first, 0);
    assert_eq!(scene.read(3), Answer::Wait);
    scene.close(2, joined, 0);
    assert_eq!(opened(scene.read(3)).generation, 1);
    assert_eq!(opened(scene.read(1)).area, first.area, "and what it wrote");
    assert_ne!(scene.write(1).area, first.area);
}

#[test]
fn a_change_of_a_complete_generation_begins_as_a_copy_and_is_none_if_nothing_changed() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    let ask = Ask { truncate: false, create: false, ..scene.ask(true) };
    let copy = scene.registry.open(1, &ask);
    let made = scene.registry.effects();
    assert!(matches!(made[..], [Effect::Make(_, Some(_))]), "{made:?}");
    let copy = opened(copy);
    scene.unchanged.push(copy.area);
    scene.close(1, copy, 0);
    assert_eq!(scene.freed, [copy.area]);
    assert_eq!(scene.take(2), 1);
    assert_eq!(scene.read(2), Answer::Wait, "an open without a change is no generation");
}

#[test]
fn names_are_there_for_writers_as_on_disk() {
    let mut scene = Scene::with(&[1, 2]);
    let update = Ask { create: false, truncate: false, ..scene.ask(true) };
    assert_eq!(scene.open(1, &update), Answer::Fail(libc::ENOENT));
    scene.make(1);
    let exclusive = Ask { exclusive: true, ..scene.ask(true) };
    assert_eq!(scene.open(1, &exclusive), Answer::Fail(libc::EEXIST));
    let options = Options::default();
    assert_eq!(scene.registry.unlink(1, FILE.as_bytes(), options.clone()), Ok(()));
    assert_eq!(scene.registry.unlink(1, FILE.as_bytes(), options.clone()), Err(libc::ENOENT));
    assert_eq!(scene.registry.look(1, FILE.as_bytes(), options.clone()), None);
    let second = opened(scene.open(1, &exclusive));
    assert_eq!(second.generation, 2);
    scene.close(1, second, 0);
    assert_eq!((scene.take(2), scene.take(2)), (1, 2), "readers have what was removed");
}

#[test]
fn what_is_removed_while_it_is_written_is_never_seen() {
    let mut scene = Scene::with(&[1, 2]);
    let opening = scene.write(1);
    scene.registry.unlink(1, FILE.as_bytes(), Options::default()).unwrap();
    let again = scene.write(1);
    assert_ne!(again.area, opening.area);
    scene.close(1, opening, 0);
    assert_eq!(scene.read(2), Answer::Wait);
    scene.close(1, again, 0);
    assert_eq!(opened(scene.read(2)).area, again.area);
}

#[test]
fn a_file_that_is_cut_by_name_is_empty_until_it_is_opened() {
    let mut scene = Scene::with(&[1, 2]);
    assert_eq!(scene.registry.empty(1, FILE.as_bytes()), Err(libc::ENOENT));
    scene.make(1);
    scene.registry.empty(1, FILE.as_bytes()).unwrap();
    let options = Options::default();
    assert_eq!(scene.registry.look(1, FILE.as_bytes(), options.clone()), Some(None));
    let ask = Ask { create: false, truncate: false, ..scene.ask(true) };
    let opening = scene.registry.open(1, &ask);
    assert!(matches!(scene.registry.effects()[..], [Effect::Make(_, None)]));
    scene.close(1, opened(opening), 0);
    assert_eq!((scene.take(2), scene.take(2)), (1, 2));
}

#[test]
fn a_renamed_file_is_the_newest_generation_of_its_new_name() {
    let mut scene = Scene::with(&[1, 2]);
    let from = Ask { path: b"/d/f.tmp".to_vec(), ..scene.ask(true) };
    for number in 1..=2 {
        let opening = opened(scene.open(1, &from));
        scene.close(1, opening, 0);
        scene.registry.rename(1, b"/d/f.tmp", FILE.as_bytes(), Options::default()).unwrap();
        assert_eq!(scene.take(2), number);
    }
    let missing = scene.registry.rename(1, b"/d/f.tmp", FILE.as_bytes(), Options::default());
    assert_eq!(missing, Err(libc::ENOENT));
}

#[test]
fn directories_show_each_program_what_it_can_open() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.make(1);
    let opening = opened(scene.open(1, &Ask { path: b"/d/g".to_vec(), ..scene.ask(true) }));
    assert_eq!(scene.registry.list(2, b"/d", false), [b"f".to_vec()]);
    assert_eq!(scene.registry.list(1, b"/d/", false), [b"f".to_vec(), b"g".to_vec()]);
    assert!(scene.registry.list(2, b"/", false).is_empty());
    scene.close(1, opening, 0);
    scene.take(2);
    assert_eq!(scene.registry.list(2, b"/d", false), [b"g".to_vec()], "the next of f is not there");
}

#[test]
fn memory_is_given_up_when_every_reader_is_done_with_it() {
    let mut scene = Scene::with(&[1, 2, 3]);
    scene.make_many(1, 3);
    assert!(scene.freed.is_empty(), "nobody has read");
    assert_eq!((scene.take(2), scene.freed.len()), (1, 1), "the only reader is done with it");
    let slow = opened(scene.read(3));
    assert_eq!(slow.generation, 2);
    assert_eq!((scene.take(2), scene.take(2), scene.freed.len()), (2, 3, 1));
    scene.close(3, slow, 1 << 20);
    assert_eq!(scene.freed.len(), 2);
    scene.end(3, true);
    assert_eq!(scene.freed.len(), 2, "the writer may open the newest again");
    scene.end(1, true);
    assert_eq!(scene.freed.len(), 3);
}

#[test]
fn ranks_that_have_not_come_yet_find_the_last_two() {
    let mut scene = scene();
    scene.join(1, 1, 1, 1);
    (10..12).for_each(|rank| scene.join(rank, 2, 2, 2));
    scene.make_many(1, 4);
    scene.take_many(10, 4);
    assert_eq!(scene.freed.len(), 2);
}

#[test]
fn a_rank_that_read_nothing_goes_on_if_another_one_read_and_has_not_closed_yet() {
    let mut scene = scene();
    scene.join(1, 1, 1, 1);
    (10..12).for_each(|rank| scene.join(rank, 2, 2, 2));
    scene.make_many(1, 2);
    let first = opened(scene.read(10));
    let other = scene.registry.adopt(11, first.area, [false; 2], 0).unwrap();
    scene.close(10, first, 0);
    scene.registry.see(11, other.handle, 2047, false);
    scene.registry.see(10, other.handle, 5000, false);
    let looked = opened(scene.read(10));
    assert_eq!(looked.generation, 1, "as long as it was only looked at");
    scene.close(10, looked, 0);
    scene.registry.see(11, other.handle, 2048, false);
    assert_eq!(opened(scene.read(10)).generation, 2);
}

#[test]
fn the_newest_are_kept_and_a_reader_that_is_late_gets_an_error_once() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.keep = 2;
    scene.make(1);
    assert_eq!(scene.take(2), 1);
    scene.make_many(1, 4);
    assert_eq!(scene.freed.len(), 3);
    assert_eq!(scene.read(2), Answer::Fail(libc::ESTALE));
    assert_eq!((scene.take(2), scene.take(2)), (4, 5));
}

#[test]
fn the_latest_generation_may_be_read_again_and_older_ones_are_given_up() {
    let mut scene = Scene::with(&[1, 2]);
    scene.options.pick = Pick::Latest;
    scene.wait(2);
    scene.make_many(1, 3);
    let opening = opened(scene.ready().unwrap());
    assert_eq!((opening.generation, scene.freed.len()), (3, 2));
    scene.close(2, opening, 1 << 20);
    assert_eq!((scene.take(2), scene.make(1), scene.take(2)), (3, 4, 4));
}

#[test]
fn programs_that_follow_each_other_read_on() {
    let mut scene = Scene::with(&[1]);
    scene.make_many(1, 4);
    for (process, wanted) in [(10, 1), (11, 2)] {
        scene.join(process, process, 1, 77);
        assert_eq!(scene.take(process), wanted);
        scene.end(process, true);
    }
    scene.join(12, 12, 1, 77);
    let killed = opened(scene.read(12));
    assert_eq!(killed.generation, 3);
    scene.end(12, false);
    scene.join(13, 13, 1, 77);
    assert_eq!(scene.take(13), 3, "it was not read by the one that was killed");
}

#[test]
fn what_was_synchronised_may_be_read_if_the_rule_says_so() {
    let mut scene = Scene::with(&[1, 2]);
    scene.wait(2);
    let opening = scene.write(1);
    scene.registry.publish(1, opening.handle);
    assert_eq!(opened(scene.ready().unwrap()).area, opening.area);
}

#[test]
fn programs_that_wait_for_each_other_are_found() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make(1);
    let other = Ask { path: b"/d/g".to_vec(), ..scene.ask(true) };
    let opening = opened(scene.open(2, &other));
    scene.close(2, opening, 0);
    scene.take(2);
    scene.wait(2);
    assert_eq!(scene.cycle(), None);
    let back = Ask { path: b"/d/g".to_vec(), ..scene.ask(false) };
    let opening = opened(scene.open(1, &back));
    scene.close(1, opening, 1 << 20);
    assert_eq!(scene.open(1, &back), Answer::Wait);
    scene.registry.waits.add(99, 1, back);
    assert_eq!(scene.cycle(), Some(vec![1, 2]));
    scene.registry.waits.take(99);
    assert_eq!(scene.cycle(), None);
}

#[test]
fn nothing_is_left_when_all_was_read_and_everybody_has_ended() {
    let mut scene = Scene::with(&[1, 2]);
    scene.make_many(1, 2);
    scene.take_many(2, 2);
    scene.end(1, true);
    assert!(!scene.registry.is_empty());
    scene.end(2, true);
    assert!(scene.registry.is_empty() && scene.registry.files.names.is_empty());
}
