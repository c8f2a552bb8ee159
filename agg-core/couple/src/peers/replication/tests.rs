//! Replicas of a reader's and of a writer's node, without connections.

use super::*;
use crate::peers::differences::Differences;
use crate::peers::{Asked, Away, Held};
use crate::protocol::Request;

const OWNER: Peer = Peer(1);
const OTHER: Peer = Peer(2);
const KEY: Key = (OWNER, 10);
const SIZE: u64 = 2 * PIECE_OF_FILE;
const PIECE_OF_FILE: u64 = 1 << 20;

/// The agents of two other nodes.
struct Two;

impl Agents for Two {
    fn own(&self) -> String {
        "here 0".into()
    }

    fn words(&self, peer: Peer) -> Option<String> {
        [(OWNER, "owner 1"), (OTHER, "other 2")]
            .into_iter()
            .find(|(one, _)| *one == peer)
            .map(|(_, words)| words.to_owned())
    }

    fn known(&self, words: &str) -> Option<Peer> {
        [OWNER, OTHER].into_iter().find(|peer| self.words(*peer).as_deref() == Some(words))
    }

    fn reach(&mut self, words: &str) -> io::Result<Option<Peer>> {
        Ok(self.known(words))
    }

    fn host(&self, peer: Peer) -> String {
        format!("host{}", peer.0)
    }
}

/// A replica of `SIZE` bytes, and a handle of it.
fn replica(away: Away) -> (Replication, u64) {
    let mut all = Replication::new(0).unwrap();
    let away = Away { generation: 1, area: KEY.1, size: SIZE, mode: 0o600, ..away };
    all.replicas.make(KEY, &b"/d/f".to_vec(), &away, None).unwrap();
    let handle = all.replicas.keep(Held { theirs: 5, key: KEY, process: 7, writes: false });
    (all, handle)
}

fn asked(link: u64, request: Request) -> Asked {
    Asked { link, process: 7, request }
}

/// The owner names the nodes that have the parts.
fn hear_where(all: &mut Replication) -> Vec<Action> {
    let (pages, requests) = (&mut Pages::default(), &Requests::default());
    let body = Received::Bytes(map().encode());
    let mut host = Host { agents: &Two, pages, requests };
    all.hear(OWNER, Message::Where(KEY.1), &body, &mut host).unwrap()
}

/// The map of a file with a second piece that another node has.
fn map() -> Where {
    let node = crate::peers::Source { words: "other 2".into(), area: 10, ..Default::default() };
    let parts = vec![
        (Extent::new(0, PIECE_OF_FILE), None),
        (Extent::new(PIECE_OF_FILE, PIECE_OF_FILE), Some(0)),
    ];
    Where { announced: false, nodes: vec![node], parts }
}

#[test]
fn a_program_waits_for_the_owner_to_name_the_nodes_and_for_the_bytes_of_these() {
    let (mut all, handle) = replica(Away::default());
    let wanted = vec![Extent::new(PIECE_OF_FILE - 5, 10)];
    let actions = all.fetch_for(3, handle, wanted, 0);
    assert!(matches!(actions[..], [Action::Wait(3), Action::Fetch(KEY)]), "{actions:?}");
    let actions = all.fetch(KEY, &mut Two);
    assert!(matches!(actions[..], [Action::Say(OWNER, Message::Locate(10), _)]), "{actions:?}");
    let actions = hear_where(&mut all);
    assert!(matches!(actions[..], [Action::Request(KEY)]), "{actions:?}");
    let actions = all.request(KEY, &mut Two);
    let mut replies = Vec::new();
    for action in actions {
        let Action::Take(tag, peer, messages) = action else { panic!("{action:?}") };
        assert_eq!(messages.len(), 1);
        let (_, Body::Bytes(places)) = &messages[0] else { panic!() };
        for part in differences::extents(places).unwrap() {
            let body = Received::Bytes(vec![1; part.len as usize]);
            replies.extend(all.hear_kept(peer, (tag, part.offset), &body).unwrap());
        }
    }
    let is_reply = |one: &&Action| matches!(one, Action::Reply(3, Reply::Done | Reply::Whole));
    assert_eq!(replies.iter().filter(is_reply).count(), 1, "{replies:?}");
}

#[test]
fn programs_get_an_error_for_bytes_of_a_node_that_has_ended() {
    let (mut all, handle) = replica(Away::default());
    hear_where(&mut all);
    all.fetch_for(3, handle, vec![Extent::new(SIZE - 5, 5)], 0);
    all.fetch(KEY, &mut Two);
    let lost = all.takes.lose(OTHER, &gone(&Two.host(OTHER)));
    let [Action::Lost(tag, OTHER, text)] = &lost[..] else { panic!("{lost:?}") };
    assert!(text.contains("host2"), "{text}");
    let actions = all.hear_lost(*tag, OTHER, text.clone());
    assert!(matches!(&actions[..], [Action::Reply(3, Reply::Failed(libc::EIO, _))]));
    assert!(all.hear_lost(*tag, OTHER, String::new()).is_empty());
}

#[test]
fn a_request_goes_to_the_owner_behind_the_bytes_that_were_written_before_it() {
    let (mut all, handle) = replica(Away { shared: true, ..Away::default() });
    let replica = all.replicas.get_mut(KEY).unwrap();
    replica.is_written_by(7, false);
    all.replicas.fill(KEY, b"bytes", 100).unwrap();
    let actions = all.ask_owner(asked(3, Request::Sync(handle)));
    assert!(matches!(actions[..], [Action::Wait(3), Action::Work(KEY)]), "{actions:?}");
    let steps: Vec<Action> = std::iter::from_fn(|| all.step(KEY, true)).flatten().collect();
    let sent: Vec<&Message> = steps
        .iter()
        .filter_map(|one| if let Action::Send(KEY, all) = one { Some(all) } else { None })
        .flatten()
        .map(|(message, _)| message)
        .collect();
    assert!(matches!(sent[..], [Message::Size(10, 105, false), Message::Differ(10)]), "{sent:?}");
    let Some(Action::Ask(OWNER, Asked { link: 3, process: 7, request })) = steps.last() else {
        panic!("{steps:?}")
    };
    assert_eq!(*request, Request::Sync(5));
}

#[test]
fn the_owner_gets_bytes_that_are_as_at_the_last_sync_if_it_has_had_others_since() {
    let (mut all, handle) = replica(Away { shared: true, ..Away::default() });
    let place = Extent::new(100, 4);
    let replica = all.replicas.get_mut(KEY).unwrap();
    replica.is_written_by(7, true);
    replica.note(&Request::Wrote(handle, vec![place]));
    all.replicas.fill(KEY, b"sync", place.offset).unwrap();
    all.ask_owner(asked(3, Request::Sync(handle)));
    work(&mut all);
    // Programs tell later what they write between two synchronisations.
    all.replicas.fill(KEY, b"then", place.offset).unwrap();
    let parts = all.kept_parts(KEY, &[place], true).unwrap().unwrap();
    assert!(matches!(&parts[..], [(100, Body::Bytes(bytes))] if bytes == b"then"), "{parts:?}");
    // A program writes that does not say which bytes: all are compared.
    all.replicas.get_mut(KEY).unwrap().is_written_by(7, false);
    all.replicas.fill(KEY, b"sync", place.offset).unwrap();
    all.ask_owner(asked(3, Request::Sync(handle)));
    let said = work(&mut all);
    let bodies = said.iter().filter_map(|one| match one {
        Action::Send(KEY, all) => Some(all),
        _ => None,
    });
    let mut bodies = bodies.flatten().map(|(_, body)| body.bytes());
    assert!(bodies.any(|body| body.windows(4).any(|bytes| bytes == b"sync")), "{said:?}");
}

#[test]
fn a_generation_that_its_owner_gives_up_answers_all_programs() {
    let (mut all, handle) = replica(Away { shared: true, ..Away::default() });
    let _ = all.ask_owner(asked(3, Request::Renew(handle)));
    all.replicas.get_mut(KEY).unwrap().is_written_by(7, false);
    let _ = all.ask_owner(asked(4, Request::Resize(handle, 3)));
    let actions = all.hear_free(KEY, &Two);
    let links: Vec<u64> = actions
        .iter()
        .map(|one| match one {
            Action::Ask(OWNER, asked) => asked.link,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(links, [4, 3]);
    assert!(all.replicas.get(KEY).is_some(), "it is open");
    let (held, _) = all.close(handle, &Two).unwrap();
    assert!(held.theirs == 5 && all.replicas.get(KEY).is_none());
}

/// Another node announces the second piece, and sends it. Returns the first bytes that the replica
/// has of it then.
fn push(all: &mut Replication) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let (path, places) = (b"/d/f".to_vec(), vec![Extent::new(PIECE_OF_FILE, PIECE_OF_FILE)]);
    let route = (OTHER, OWNER, series(&path));
    let template = crate::peers::Template { path: path.clone(), size: SIZE, mode: 0o600, area: 9 };
    let (number, _) = all.subscriptions.renew(route.clone(), template, places, 2).unwrap();
    all.subscriptions.noted(&route, number, 2, 9);
    let (pages, requests) = (&mut Pages::default(), &Requests::default());
    let mut host = Host { agents: &Two, pages, requests };
    let (owner, series) = ("owner 1".into(), series(&path));
    let push = Message::Push { owner, series, number, area: KEY.1, report: 0, tag: 4 };
    all.hear(OTHER, push, &Received::None, &mut host).unwrap();
    let bytes = Received::Bytes(vec![8; PIECE_OF_FILE as usize]);
    all.hear(
        OTHER,
        Message::Part { tag: 4, pushed: true, offset: PIECE_OF_FILE },
        &bytes,
        &mut host,
    )
    .unwrap();
    let file = std::fs::File::from(all.replicas.open(KEY, (true, false, false)).unwrap());
    let mut found = vec![0; 3];
    file.read_exact_at(&mut found, PIECE_OF_FILE).unwrap();
    found
}

#[test]
fn pushed_bytes_are_for_replicas_that_no_program_of_the_node_writes() {
    let (mut all, _) = replica(Away::default());
    hear_where(&mut all);
    assert_eq!(push(&mut all), [8; 3]);
    let (mut all, _) = replica(Away::default());
    hear_where(&mut all);
    all.replicas.get_mut(KEY).unwrap().is_written_by(7, true);
    assert_eq!(push(&mut all), [0; 3]);
}

#[test]
fn bytes_that_another_node_has_than_the_owner_says_are_not_accepted() {
    let (mut all, _) = replica(Away::default());
    assert_eq!(push(&mut all), [0; 3], "the nodes are not known");
    let (mut all, _) = replica(Away::default());
    let found = Where { nodes: Vec::new(), parts: vec![(Extent::new(0, SIZE), None)], ..map() };
    all.replicas.get_mut(KEY).unwrap().hear_where(found);
    assert_eq!(push(&mut all), [0; 3], "the owner has them");
}

#[test]
fn the_memory_of_a_replica_that_no_program_can_change_keeps_its_size() {
    use std::os::fd::AsRawFd;
    let (mut all, handle) = replica(Away { shared: true, ..Away::default() });
    let file = all.replicas.open(KEY, (true, true, false)).unwrap();
    aggio_base::os::ftruncate(file.as_raw_fd(), SIZE).unwrap();
    let size = || aggio_base::os::fstat(file.as_raw_fd()).unwrap().st_size.unsigned_abs();
    let cut = |all: &mut Replication, size: u64| {
        let (pages, requests) = (&mut Pages::default(), &Requests::default());
        let mut host = Host { agents: &Two, pages, requests };
        all.hear(OWNER, Message::Cut(KEY.1, size), &Received::None, &mut host).unwrap();
    };
    cut(&mut all, 100);
    assert_eq!(size(), 100);
    let replica = all.replicas.get_mut(KEY).unwrap();
    replica.is_written_by(7, false);
    replica.is_sent();
    // A request for the owner is still to be sent, so that the replica stays.
    let _ = all.ask_owner(asked(3, Request::Sync(handle)));
    all.replicas.retire(KEY);
    all.replicas.close(KEY);
    assert!(all.replicas.get(KEY).unwrap().is_left());
    cut(&mut all, 0);
    assert_eq!(size(), 100);
}

fn hear(all: &mut Replication, message: Message, body: &Received) -> Vec<Action> {
    let (pages, requests) = (&mut Pages::default(), &Requests::default());
    all.hear(OWNER, message, body, &mut Host { agents: &Two, pages, requests }).unwrap()
}

/// All that a replica has to do now.
fn work(all: &mut Replication) -> Vec<Action> {
    std::iter::from_fn(|| all.step(KEY, true)).flatten().collect()
}

#[test]
fn the_owner_gets_written_bytes_once_and_readers_of_the_replica_go_on_to_get_those_of_others() {
    let (mut all, _) = replica(Away { shared: true, early: true, ..Away::default() });
    all.replicas.get_mut(KEY).unwrap().is_written_by(7, false);
    // The kernel tells of each description that was closed.
    for _ in 0..2 {
        all.store(KEY);
    }
    let is_stored = |action: &&Action| matches!(action, Action::Stored(KEY, 1));
    assert_eq!(work(&mut all).iter().filter(is_stored).count(), 1);
    all.stored(KEY);
    let actions = all.push_and_ask(KEY, asked(3, Request::Close(5, 0)));
    assert!(matches!(actions[..], [Action::Ask(OWNER, _)]), "{actions:?}");
    let actions = hear(&mut all, Message::Gather(KEY.1, 0, 0), &Received::None);
    assert!(
        matches!(actions[..], [Action::Say(OWNER, Message::Acknowledged(_, false), _)]),
        "{actions:?}"
    );
    hear(&mut all, Message::News(KEY.1), &Received::None);
    let actions = work(&mut all);
    let said = actions.iter().any(|action| match action {
        Action::Send(KEY, all) => matches!(all[..], [(Message::Look(_), _)]),
        _ => false,
    });
    assert!(said, "{actions:?}");
    all.replicas.close(KEY);
    assert!(all.replicas.get(KEY).is_none_or(crate::peers::Replica::is_left));
}

#[test]
fn bytes_on_their_way_do_not_undo_that_a_program_has_cut_the_file() {
    use std::os::fd::AsRawFd;
    let (mut all, handle) = replica(Away { shared: true, ..Away::default() });
    all.replicas.get_mut(KEY).unwrap().is_written_by(7, false);
    hear(&mut all, Message::News(KEY.1), &Received::None);
    work(&mut all);
    hear(&mut all, Message::Looked(KEY.1, 5), &Received::None);
    work(&mut all);
    let file = all.replicas.open(KEY, (true, true, false)).unwrap();
    let size = || aggio_base::os::fstat(file.as_raw_fd()).unwrap().st_size;
    aggio_base::os::ftruncate(file.as_raw_fd(), 2).unwrap();
    all.ask_owner(asked(3, Request::Resize(handle, 2)));
    let mut body = Differences::default();
    body.add(0, b"bytes");
    hear(&mut all, Message::Data(KEY.1, 0, 5), &Received::Bytes(body.into_body()));
    assert_eq!(size(), 5, "they have come");
    let actions = work(&mut all);
    assert!(actions.iter().any(|one| matches!(one, Action::Ask(OWNER, _))), "{actions:?}");
    assert_eq!(size(), 2);
}

#[test]
fn a_program_that_opens_a_copy_to_write_while_readers_renew_it_finds_the_size() {
    use std::os::fd::AsRawFd;
    let (mut all, _) = replica(Away { shared: true, early: true, ..Away::default() });
    hear(&mut all, Message::News(KEY.1), &Received::None);
    work(&mut all);
    hear(&mut all, Message::Looked(KEY.1, 5), &Received::None);
    let file = all.replicas.open(KEY, (true, false, false)).unwrap();
    let size = || aggio_base::os::fstat(file.as_raw_fd()).unwrap().st_size;
    assert_eq!(size(), 0, "the bytes have not come");
    all.replicas.get_mut(KEY).unwrap().is_written_by(7, false);
    all.open_shared(KEY, 8, None);
    let mut actions = Vec::new();
    for looked in [None, Some(5)] {
        looked.map(|size| hear(&mut all, Message::Looked(KEY.1, size), &Received::None));
        work(&mut all);
        // Both have zeros.
        hear(&mut all, Message::Same(KEY.1, 0), &Received::None);
        actions = work(&mut all);
    }
    assert!(actions.iter().any(|one| matches!(one, Action::HandOver(8))), "{actions:?}");
    assert_eq!(size(), 5);
}

/// The owner's file of a replica has these bytes. Returns the actions that follow.
fn renew(all: &mut Replication, bytes: &[u8]) -> Vec<Action> {
    work(all);
    hear(all, Message::Looked(KEY.1, bytes.len() as u64), &Received::None);
    work(all);
    let mut body = Differences::default();
    body.add(0, bytes);
    let data = Message::Data(KEY.1, 0, bytes.len() as u64);
    hear(all, data, &Received::Bytes(body.into_body()));
    work(all)
}

#[test]
fn a_program_waits_for_the_bytes_of_records_that_another_node_was_told_of() {
    let (mut all, handle) = replica(Away { shared: true, early: true, ..Away::default() });
    let mut file = crate::netcdf_header::tests::header(1, 1, &[2048; 2], 4096);
    file.resize(4096, 0);
    hear(&mut all, Message::News(KEY.1), &Received::None);
    renew(&mut all, &file);
    let asks = |all: &mut Replication, end| match all
        .ask_for_records(asked(3, Request::Reach(handle, end)))
    {
        Action::Ask(OWNER, asked) => Ok(asked),
        Action::Reply(3, reply) => Err(reply),
        other => panic!("{other:?}"),
    };
    let asked = asks(&mut all, 4097).unwrap();
    assert_eq!(asked.request, Request::Reach(5, 4097));
    file.resize(4096 + 8192, 7);
    all.hear_records(OWNER, asked, &Reply::Records(Some((1, 4))));
    let actions = renew(&mut all, &file);
    let end = 4096 + 8192;
    let is_it =
        |one: &Action| matches!(one, Action::Reply(3, Reply::Until(there)) if *there == end);
    assert!(actions.iter().any(is_it), "{actions:?}");
    assert_eq!(asks(&mut all, end).unwrap_err(), Reply::Until(end));
    let asked = asks(&mut all, end + 1).unwrap();
    all.hear_records(OWNER, asked, &Reply::Whole);
    renew(&mut all, &file);
    assert_eq!(asks(&mut all, u64::MAX).unwrap_err(), Reply::Until(u64::MAX));
}
