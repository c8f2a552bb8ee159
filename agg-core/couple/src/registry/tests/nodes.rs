//! Programs of several nodes.

use super::*;

const FILE: &[u8] = b"/d/f";

fn ask(write: bool) -> Ask {
    let path = FILE.to_vec();
    Ask { path, write, create: write, truncate: write, ..Ask::default() }
}

/// Processes 1 and 2 of one job on two nodes, and a reader 3 here.
fn registry() -> Registry {
    let mut registry = Registry::default();
    for (process, job, node) in [(1, 1, 7), (2, 1, 8), (3, 3, 0)] {
        let label = format!("process {process}");
        registry.join(process, Who { job, ranks: 1, family: job, label });
        registry.processes.lives_on(process, node);
    }
    registry
}

#[test]
fn a_generation_that_one_node_writes_is_joined_by_writers_of_another() {
    let mut registry = registry();
    let first = opened(registry.open(1, &ask(true)));
    assert_eq!(opened(registry.open(1, &ask(false))).area, first.area, "it reads back");
    assert!(!registry.files.generations.is_shared(first.area));
    let append = Ask { truncate: false, ..ask(true) };
    let second = opened(registry.open(2, &append));
    assert_eq!(second.area, first.area);
    assert!(
        registry.files.generations.is_shared(first.area)
            && registry.opens.is_open_on(first.area, 8)
    );
    assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
    registry.close(1, first.handle, 0, false);
    assert_eq!(registry.open(3, &ask(false)), Answer::Wait, "one of two has closed it");
    registry.close(2, second.handle, 0, false);
    assert_eq!(registry.open(2, &append), Answer::Wait, "its bytes are on their way");
    assert_eq!(registry.open(2, &ask(false)), Answer::Wait, "its bytes are on their way");
    registry.commit(first.area, true);
    assert_eq!(opened(registry.open(2, &ask(false))).area, first.area);
    assert_eq!(opened(registry.open(3, &ask(false))).area, first.area);
    assert_eq!(opened(registry.open(2, &ask(true))).generation, 2);
}

#[test]
fn a_generation_that_is_shown_before_it_is_complete_is_joined_by_other_nodes_as_well() {
    for (at_sync, at_step) in [(true, false), (false, true)] {
        let mut registry = registry();
        let options = Options { at_sync, at_step, ..Options::default() };
        let ask = |write| Ask { options: options.clone(), truncate: false, ..ask(write) };
        let first = opened(registry.open(1, &ask(true)));
        let second = opened(registry.open(2, &ask(true)));
        assert_eq!(second.area, first.area);
        assert_eq!(opened(registry.open(2, &ask(false))).area, first.area, "it reads back");
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
        assert!(
            registry.files.is_early(first.area) && registry.files.generations.is_shared(first.area)
        );
    }
}

#[test]
fn all_writers_of_what_could_not_be_kept_have_the_error() {
    let mut registry = registry();
    let append = Ask { truncate: false, ..ask(true) };
    let handles = [(1, ask(true)), (2, append)].map(|(process, ask)| {
        let opening = opened(registry.open(process, &ask));
        (opening.handle, opening.area)
    });
    registry.fail(handles[0].1, Some((libc::ENOSPC, "no room")));
    for (handle, _) in handles {
        let (number, text) = registry.opens.loss(handle).unwrap();
        assert!(number == libc::ENOSPC && text.contains("generation 1 is lost: no room"));
    }
    assert_eq!(registry.open(3, &ask(false)), Answer::Fail(libc::EIO));
}

#[test]
fn what_is_published_before_it_is_complete_is_for_readers_of_all_nodes() {
    let mut registry = registry();
    registry.join(4, Who { job: 4, ranks: 1, family: 4, label: "here".into() });
    let first = opened(registry.open(4, &ask(true)));
    registry.publish(4, first.handle);
    assert_eq!(opened(registry.open(3, &ask(false))).area, first.area);
    assert_eq!(opened(registry.open(1, &ask(false))).area, first.area);
    assert!(
        registry.files.is_early(first.area) && !registry.files.generations.is_shared(first.area)
    );
    assert_eq!(registry.opens.readers_away(first.area), [7].into());
    registry.close(4, first.handle, 0, false);
    registry.commit(first.area, true);
    assert!(!registry.files.is_early(first.area));
    assert_eq!(opened(registry.open(2, &ask(true))).generation, 2);
}

/// A generation that nobody has open any more; its bytes are on their way.
fn closed(registry: &mut Registry, path: &[u8]) -> Area {
    let opening = opened(registry.open(1, &Ask { path: path.to_vec(), ..ask(true) }));
    registry.close(1, opening.handle, 0, false);
    opening.area
}

#[test]
fn what_is_on_its_way_is_read_before_another_file_that_gets_its_name() {
    let mut registry = registry();
    let (first, second) = (closed(&mut registry, FILE), closed(&mut registry, b"/d/new"));
    registry.commit(second, true);
    registry.rename(1, b"/d/new", FILE, Options::default()).unwrap();
    assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
    registry.commit(first, true);
    for area in [first, second] {
        let opening = opened(registry.open(3, &ask(false)));
        assert_eq!(opening.area, area);
        registry.close(3, opening.handle, 4096, true);
    }
}

#[test]
fn what_is_on_its_way_when_its_name_is_removed_is_for_readers_and_what_is_open_is_not() {
    let mut registry = registry();
    let first = closed(&mut registry, FILE);
    registry.unlink(1, FILE, Options::default()).unwrap();
    registry.commit(first, true);
    let opening = opened(registry.open(3, &ask(false)));
    assert_eq!(opening.area, first);
    registry.close(3, opening.handle, 4096, true);
    let second = opened(registry.open(1, &ask(true)));
    registry.unlink(1, FILE, Options::default()).unwrap();
    registry.close(1, second.handle, 0, false);
    registry.commit(second.area, true);
    assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
}

#[test]
fn bytes_that_never_come_are_a_dead_writer() {
    let mut registry = registry();
    let first = opened(registry.open(1, &ask(true)));
    assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
    registry.close(1, first.handle, 0, false);
    registry.fail(first.area, None);
    let answer = registry.open(3, &ask(false));
    assert_eq!(answer, Answer::Fail(libc::EIO));
    assert_eq!(registry.files.names.dead_writer(FILE, &answer).unwrap().writer, "process 1");
}

#[test]
fn writers_whose_bytes_never_come_are_told() {
    let mut registry = registry();
    let first = opened(registry.open(1, &ask(true)));
    registry.fail(first.area, None);
    let (_, text) = registry.opens.loss(first.handle).unwrap();
    assert!(text.contains("process 1 died"), "{text}");
}

#[test]
fn readers_of_what_is_lost_although_others_follow_it_are_told_before_they_get_those() {
    for is_known in [true, false] {
        let mut registry = registry();
        let write = |registry: &mut Registry| opened(registry.open(1, &ask(true)));
        let mut before = 0;
        if is_known {
            let first = write(&mut registry);
            registry.close(1, first.handle, 0, false);
            registry.commit(first.area, true);
            let read = opened(registry.open(3, &ask(false)));
            registry.close(3, read.handle, 1 << 20, false);
            before = 1;
        }
        let lost = write(&mut registry);
        let other = opened(registry.open(2, &Ask { truncate: false, ..ask(true) }));
        registry.close(1, lost.handle, 0, false);
        registry.close(2, other.handle, 0, false);
        // Its bytes are on their way, and those of the next one come first.
        let next = write(&mut registry);
        registry.close(1, next.handle, 0, false);
        registry.commit(next.area, true);
        assert_eq!(registry.open(3, &ask(false)), Answer::Wait);
        registry.end(2, false);
        assert_eq!(registry.open(3, &ask(false)), Answer::Fail(libc::ESTALE), "known: {is_known}");
        assert_eq!(opened(registry.open(3, &ask(false))).generation, before + 2);
    }
}
