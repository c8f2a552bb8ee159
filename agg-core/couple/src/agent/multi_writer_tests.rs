//! Generations that programs of several nodes write, where one of them cannot be served.

use super::tests::{FILE, Scene, open};
use crate::peers::differences::{Differences, places};
use crate::peers::{Action, Asked, Away, Instance, Message, Ticket};
use crate::protocol::{Reply, Request};
use crate::registry::{Answer, Ask, Process, Who};
use aggio_base::Extent;
use aggio_link::{Peer, Received};

/// A process of another node.
const REMOTE: Process = 77;
const PEER: Peer = Peer(9);

fn ask(write: bool) -> Ask {
    Ask { path: FILE.to_vec(), write, create: write, ..Ask::default() }
}

/// A program of this node, and one of another, that write one generation; what the other one
/// sends goes to a file with this name.
fn shared(scene: &mut Scene, target: &std::ffi::CStr) -> (u64, u64, u64) {
    let (handle, file) = scene.open(1, true);
    drop(file);
    let agent = &mut scene.agent;
    let label = "process on node2".to_owned();
    agent
        .owner
        .life
        .own
        .registry
        .join(REMOTE, Who { job: REMOTE, ranks: 1, family: REMOTE, label });
    agent.owner.life.own.registry.processes.lives_on(REMOTE, PEER.0);
    let Answer::Opened(opening) = agent.owner.life.own.registry.open(REMOTE, &ask(true)) else {
        panic!()
    };
    let fd = aggio_base::os::open(target, libc::O_RDWR | libc::O_CLOEXEC, 0).unwrap();
    // SAFETY: the descriptor is new and belongs to nobody else.
    let fd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
    agent.owner.life.own.hosted.host(opening.area).writers.lend(PEER, fd);
    (handle, opening.handle, opening.area)
}

/// The body of a message with one part.
fn body(offset: u64, bytes: &[u8]) -> Received {
    let mut differences = Differences::default();
    differences.add(offset, bytes);
    Received::Bytes(differences.into_body())
}

#[test]
fn where_there_is_no_room_for_what_another_node_wrote_all_writers_are_told_and_readers_get_nothing()
{
    let mut scene = Scene::with(&[1, 2]);
    let (own, theirs, area) = shared(&mut scene, c"/dev/full");
    scene.agent.hear_peer(PEER, Message::Differ(area), body(5, b"bytes")).unwrap();
    assert_eq!(scene.agent.owner.life.own.registry.opens.loss(theirs).unwrap().0, libc::ENOSPC);
    let (Reply::Failed(number, text), _) = scene.call(1, Request::Close(own, 0)) else { panic!() };
    assert!(number == libc::ENOSPC && text.contains("generation 1 is lost"), "{text}");
    assert_eq!(scene.agent.owner.life.own.registry.open(2, &ask(false)), Answer::Fail(libc::EIO));
    // Messages under way are for nobody.
    scene.agent.hear_peer(PEER, Message::Differ(area), body(0, b"more")).unwrap();
    scene.agent.hear_peer(PEER, Message::Stored(area, 1, Vec::new()), Received::None).unwrap();
}

#[test]
fn a_generation_is_complete_when_the_last_node_has_sent_all_that_it_was_let_write() {
    let mut scene = Scene::with(&[1, 2]);
    let (own, theirs, area) = shared(&mut scene, c"/dev/null");
    assert_eq!(scene.call(1, Request::Close(own, 0)).0, Reply::Done);
    assert_eq!(scene.agent.owner.life.own.registry.open(2, &ask(false)), Answer::Wait);
    scene.agent.hear_peer(PEER, Message::Stored(area, 0, Vec::new()), Received::None).unwrap();
    scene.agent.owner.life.own.registry.close(REMOTE, theirs, 0, false);
    scene.agent.settle();
    assert_eq!(
        scene.agent.owner.life.own.registry.open(2, &ask(false)),
        Answer::Wait,
        "an open is not counted"
    );
    scene.agent.hear_peer(PEER, Message::Stored(area, 1, Vec::new()), Received::None).unwrap();
    assert!(matches!(scene.agent.owner.life.own.registry.open(2, &ask(false)), Answer::Opened(_)));
}

#[test]
fn hostile_messages_about_what_several_nodes_write_end_the_connection_and_nothing_else() {
    let mut scene = Scene::with(&[1]);
    let (own, _, area) = shared(&mut scene, c"/dev/null");
    let hostile = [
        (Peer(8), Message::Differ(area), body(0, b"x")),
        (Peer(8), Message::Size(area, 1 << 50, false), Received::None),
        (PEER, Message::Differ(area), Received::Bytes(b"cut short".to_vec())),
        (PEER, Message::Differ(area), body(u64::MAX, b"x")),
        (PEER, Message::Stored(area, 2, Vec::new()), Received::None),
        (PEER, Message::Renew(area, 0, u64::MAX, [0; 2]), Received::None),
        (PEER, Message::Renew(area, u64::MAX, 1, [0; 2]), Received::None),
        (Peer(8), Message::Keeps(area, 1), Received::Bytes(places(&[Extent::new(0, 1)]))),
        (PEER, Message::Keeps(area, 1), Received::Bytes(b"\x05\x00".to_vec())),
        (PEER, Message::Where(area), Received::Bytes(b"cut short".to_vec())),
        (PEER, Message::Locate(area), Received::Bytes(b"\x05\x00".to_vec())),
        (PEER, take(), Received::Bytes(Vec::new())),
        (PEER, take(), Received::Bytes(places(&[Extent::new(0, 1 << 62)]))),
        (PEER, take(), Received::Bytes(b"\x05\x00".to_vec())),
    ];
    for (peer, message, body) in hostile {
        let what = format!("{message:?}");
        assert!(scene.agent.hear_peer(peer, message, body).is_err(), "{what}");
    }
    // Nobody has asked for these, and their memory is unknown.
    for message in [
        Message::Looked(1, 2),
        Message::Same(1, 2),
        Message::Acknowledged(5, true),
        Message::News(area),
    ] {
        scene.agent.hear_peer(PEER, message, Received::None).unwrap();
    }
    // Bytes that nobody has requested, or nobody keeps.
    for (message, body) in [
        (Message::Part { tag: 7, pushed: false, offset: 0 }, Received::Bytes(b"x".to_vec())),
        (Message::NotKept(7), Received::None),
        (Message::Released(7), Received::None),
    ] {
        scene.agent.hear_peer(PEER, message, body).unwrap();
    }
    assert_eq!(scene.call(1, Request::Check(own, 0)).0, Reply::Done);
}

fn take() -> Message {
    Message::Take { tag: 1, owner: "node2 00ff".into(), area: 1 }
}

/// Lets a node that is gone have the first bytes of a generation.
fn lose(scene: &mut Scene, area: u64) {
    let gone = Instance::of_words("node3 00ff").unwrap();
    scene.agent.owner.life.own.hosted.note((area, 1), Peer(3), &gone, &[Extent::new(0, 10)]);
}

#[test]
fn when_a_node_that_writes_needs_lost_bytes_the_generation_is_lost() {
    let mut scene = Scene::with(&[1, 2]);
    let (own, _, area) = shared(&mut scene, c"/dev/null");
    lose(&mut scene, area);
    scene.agent.hear_peer(PEER, Message::Renew(area, 0, 10, [0; 2]), Received::None).unwrap();
    let (Reply::Failed(number, _), _) = scene.call(1, Request::Close(own, 0)) else { panic!() };
    assert_eq!(number, libc::EIO);
    assert_eq!(scene.agent.owner.life.own.registry.open(2, &ask(false)), Answer::Fail(libc::EIO));
}

#[test]
fn a_program_that_needs_all_of_a_file_with_lost_bytes_is_told_and_can_go_on() {
    let mut scene = Scene::with(&[1, 2]);
    let (handle, file) = scene.open(1, true);
    drop(file);
    let area = scene.agent.owner.life.own.registry.opens[&handle].area;
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    lose(&mut scene, area);
    for _ in 0..2 {
        let (ask, read) = (ask(false), true);
        let (append, blocking, parts, mode) = (false, false, false, 0);
        let open = Request::Open { ask, read, append, blocking, parts, mode };
        let (Reply::Failed(number, text), _) = scene.call(2, open) else { panic!() };
        assert!(number == libc::EIO && text.contains("node3"), "{text}");
    }
}

#[test]
fn an_open_of_another_node_that_gets_no_memory_is_taken_back_and_its_bytes_are_not_awaited() {
    let mut scene = Scene::with(&[1]);
    let area = 40;
    // No address space has room for so many bytes.
    let away = Away { handle: 8, area, size: i64::MAX as u64 / 2, ..Away::default() };
    for write in [true, false] {
        let asked = Asked { link: 1, process: 1, request: open(write, true) };
        let (path, access, opened) = (FILE.to_vec(), (true, write, false), None);
        let kept = Ticket { peer: PEER, asked, path, access, parts: false, opened };
        let (peers, pages) = (scene.agent.peers.as_mut().unwrap(), &mut Default::default());
        let ticket = peers.requests.add(kept);
        let opened = Message::Opened(ticket, away);
        let mut actions = peers.hear(PEER, opened, &Received::None, pages).unwrap();
        let withdraw = actions.pop();
        let Some(Action::Withdraw(of, Reply::Failed(number, _))) = withdraw else { panic!() };
        assert_eq!((of, number), (ticket, libc::ENOMEM));
        let none = matches!(actions[..], [Action::Say(PEER, Message::Stored(40, 1, _), _)]);
        assert!(if write { none } else { actions.is_empty() }, "{actions:?}");
        let peers = scene.agent.peers.as_mut().unwrap();
        let actions = peers.withdraw(ticket, Reply::Done);
        let asked = |action: &Action| match action {
            Action::Ask(PEER, asked) => Some(asked.request.clone()),
            _ => None,
        };
        assert_eq!(actions.last().and_then(asked), Some(Request::Withdraw(8)));
        assert!(peers.requests.are_none());
    }
}

#[test]
fn opens_of_a_node_are_counted_one_by_one_whatever_it_still_has_of_them() {
    let mut scene = Scene::with(&[1, 2]);
    let (own, theirs, area) = shared(&mut scene, c"/dev/null");
    assert_eq!(scene.call(1, Request::Close(own, 0)).0, Reply::Done);
    scene.agent.hear_peer(PEER, Message::Stored(area, 1, Vec::new()), Received::None).unwrap();
    // The next one gets no memory there.
    let Answer::Opened(second) = scene.agent.owner.life.own.registry.open(REMOTE, &ask(true))
    else {
        panic!()
    };
    let fd = aggio_base::os::open(c"/dev/null", libc::O_RDWR | libc::O_CLOEXEC, 0).unwrap();
    scene.agent.owner.life.own.hosted.host(area).writers.lend(PEER, crate::fd::owned(fd));
    scene.agent.owner.life.own.registry.close(REMOTE, theirs, 0, false);
    scene.agent.settle();
    assert_eq!(scene.agent.owner.life.own.registry.open(2, &ask(false)), Answer::Wait);
    scene.agent.owner.life.own.registry.withdraw(REMOTE, second.handle);
    scene.agent.hear_peer(PEER, Message::Stored(area, 1, Vec::new()), Received::None).unwrap();
    assert!(matches!(scene.agent.owner.life.own.registry.open(2, &ask(false)), Answer::Opened(_)));
}

#[test]
fn a_node_has_one_kind_of_copy_as_long_as_it_writes_whether_or_not_programs_name_their_bytes() {
    for first in [true, false] {
        let mut scene = Scene::with(&[]);
        let own = &mut scene.agent.owner.life.own;
        own.registry.join(REMOTE, Who { job: 1, ranks: 2, family: 1, label: String::new() });
        own.registry.processes.lives_on(REMOTE, PEER.0);
        let mut lend = |tells| {
            let ask = Ask { tells, ..ask(true) };
            let Answer::Opened(opening) = scene.agent.owner.life.own.registry.open(REMOTE, &ask)
            else {
                panic!()
            };
            scene.agent.settle();
            let own = &mut scene.agent.owner.life.own;
            let fd = own.memory.areas.open(opening.area, true, true, false).unwrap();
            own.lend(PEER, opening.handle, 1, std::os::fd::AsRawFd::as_raw_fd(&fd)).unwrap()
        };
        let both = [first, !first].map(&mut lend);
        assert_eq!(both.map(|away| away.shared), [first; 2]);
        assert_eq!(both.map(|away| away.keeps), [first, false]);
    }
}

#[test]
fn a_copy_is_a_generation_if_another_node_keeps_its_bytes_whatever_the_memory_here_shows() {
    let mut scene = Scene::with(&[1]);
    let (handle, file) = scene.open(1, true);
    std::fs::File::from(file).set_len(5).unwrap();
    assert_eq!(scene.call(1, Request::Close(handle, 0)).0, Reply::Done);
    scene.agent.settle();
    let own = &mut scene.agent.owner.life.own;
    own.registry.join(REMOTE, Who { job: 1, ranks: 1, family: 1, label: String::new() });
    own.registry.processes.lives_on(REMOTE, PEER.0);
    let Answer::Opened(opening) = own.registry.open(REMOTE, &ask(true)) else { panic!() };
    scene.agent.settle();
    let (area, own) = (opening.area, &mut scene.agent.owner.life.own);
    let fd = own.memory.areas.open(area, true, true, false).unwrap();
    own.lend(PEER, opening.handle, 2, std::os::fd::AsRawFd::as_raw_fd(&fd)).unwrap();
    let facts = aggio_base::os::fstat(std::os::fd::AsRawFd::as_raw_fd(&fd)).unwrap();
    let place = Received::Bytes(places(&[aggio_base::Extent::new(0, 1)]));
    for (message, body) in [
        (Message::Caller("node2 00ff".into()), Received::None),
        (Message::Size(area, 0, true), Received::None),
        (Message::Size(area, 5, true), Received::None),
        (Message::Keeps(area, 1), place),
    ] {
        scene.agent.hear_peer(PEER, message, body).unwrap();
    }
    // As if all this happened within one tick of the clock.
    let modified = (facts.st_mtime, facts.st_mtime_nsec);
    crate::areas::set_time(std::os::fd::AsRawFd::as_raw_fd(&fd), modified).unwrap();
    drop(fd);
    scene.agent.owner.life.own.registry.close(REMOTE, opening.handle, 0, false);
    scene.agent.settle();
    scene.agent.hear_peer(PEER, Message::Stored(area, 1, Vec::new()), Received::None).unwrap();
    scene.agent.owner.life.look_again(area, 0);
    scene.agent.settle();
    let generation = &scene.agent.owner.life.own.registry.files.generations[&area];
    assert_eq!(generation.state, crate::registry::State::Complete);
}
