//! Hostile messages about bytes that are sent without a request, and late ones.

use super::tests::Scene;
use crate::peers::Message;
use crate::peers::differences::places;
use aggio_base::Extent;
use aggio_link::{Peer, Received};

const PEER: Peer = Peer(9);

fn names() -> (String, Vec<u8>) {
    ("node2 00ff".into(), b"/d/f".to_vec())
}

fn subscribe(credit: u32) -> Message {
    let (owner, series) = names();
    Message::Subscribe { owner, series, number: 1, credit }
}

#[test]
fn hostile_subscriptions_end_the_connection_and_nothing_else() {
    let mut scene = Scene::with(&[1]);
    let many: Vec<Extent> = (0..200_000).map(|at| Extent::new(10 * at, 1)).collect();
    for body in [b"cut short".to_vec(), b"\x05\x00".to_vec(), places(&many)] {
        let body = Received::Bytes(body);
        assert!(scene.agent.hear_peer(PEER, subscribe(2), body).is_err());
    }
}

#[test]
fn what_was_announced_for_nobody_is_dropped() {
    let mut scene = Scene::with(&[1]);
    let ((owner, series), number) = (names(), 1);
    let noted = Message::Subscribed { owner, series, number, credit: u32::MAX, after: 0 };
    let (owner, series) = names();
    let push = Message::Push { owner, series, number, area: 3, report: 1, tag: 4 };
    for message in [noted, push] {
        scene.agent.hear_peer(PEER, message, Received::None).unwrap();
    }
    for offset in [0, u64::MAX] {
        let body = Received::Bytes(b"bytes".to_vec());
        scene.agent.hear_peer(PEER, Message::Part { tag: 4, pushed: true, offset }, body).unwrap();
    }
    assert!(scene.agent.peers.as_ref().unwrap().replication.replicas.are_idle());
}
