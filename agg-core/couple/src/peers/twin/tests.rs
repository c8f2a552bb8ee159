//! Nodes that write one file at the same time, against an oracle that knows who wrote each byte
//! last; and what hostile messages cannot do.

use super::super::Message;
use super::super::shared::{Asked, Shared, Step, Then, Wants};
use super::*;
use crate::hosted::Writers;
use crate::peers::differences::parts;
use crate::protocol::Request;
use aggio_link::{Body, Peer};
use proptest::prelude::*;
use std::collections::VecDeque;

const SIZE: u64 = 64;
const NODES: usize = 3;

fn file() -> OwnedFd {
    owned(os::memory_file(c"test").unwrap())
}

fn contents(file: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; os::fstat(file.as_raw_fd()).unwrap().st_size as usize];
    read_all(file.as_raw_fd(), &mut bytes, 0).unwrap();
    bytes
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A program of a node writes some bytes that no other node writes at the time.
    Write(usize, u64, u64),
    /// It closes or synchronises the file.
    Release(usize),
    /// It opens the file, or looks again.
    Acquire(usize),
    /// It lets the file have so many bytes.
    Resize(usize, u64),
    /// Messages arrive: so many of a node's at the owner, and of the owner's at the node.
    Deliver(usize, usize, usize),
}

fn act() -> impl Strategy<Value = Act> {
    let node = 0..NODES;
    prop_oneof![
        6 => (node.clone(), 0..SIZE, 1..20_u64)
            .prop_map(|(node, at, len)| Act::Write(node, at, len)),
        3 => node.clone().prop_map(Act::Release),
        3 => node.clone().prop_map(Act::Acquire),
        1 => (node.clone(), 0..SIZE).prop_map(|(node, size)| Act::Resize(node, size)),
        5 => (node, 0..4_usize, 0..4_usize)
            .prop_map(|(node, up, down)| Act::Deliver(node, up, down)),
    ]
}

/// A node, and the messages that are under way.
struct Node {
    copy: OwnedFd,
    shared: Shared,
    up: VecDeque<(Message, Vec<u8>)>,
    down: VecDeque<(Message, Vec<u8>)>,
    /// The bytes that it may write: it has seen the last write of each.
    sees: Vec<bool>,
}

/// The owner, which writes too (node 0), and two others.
struct Model {
    owner: OwnedFd,
    hosted: Writers,
    nodes: Vec<Node>,
    /// The last value of each byte, and how many bytes there are.
    bytes: Vec<u8>,
    next: u8,
}

const AREA: u64 = 7;

impl Model {
    fn new() -> Self {
        let (owner, mut hosted) = (file(), Writers::default());
        for node in 1..NODES {
            hosted.lend(Peer(node as u64), owner.try_clone().unwrap());
        }
        let node = || Node {
            copy: file(),
            shared: Shared::default(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            sees: vec![true; 2 * SIZE as usize],
        };
        let nodes = (0..NODES).map(|_| node()).collect();
        Model { owner, hosted, nodes, bytes: Vec::new(), next: 0 }
    }

    fn fd(&self, node: usize) -> RawFd {
        if node == 0 { self.owner.as_raw_fd() } else { self.nodes[node].copy.as_raw_fd() }
    }

    /// The messages of a node's agent until it has to wait.
    fn run(&mut self, node: usize) {
        let key = (Peer(0), AREA);
        loop {
            let fd = self.fd(node);
            let one = &mut self.nodes[node];
            match one.shared.step(key, fd, true).unwrap() {
                Step::Nothing => return,
                Step::Say(all) => one.up.extend(all.into_iter().map(|(message, body)| {
                    let body = if let Body::Bytes(bytes) = body { bytes } else { Vec::new() };
                    (message, body)
                })),
                Step::Sent(_) | Step::Renewed(_) => {}
                // Its owner answers at once: the body is the question.
                Step::Ask(asked) => {
                    let Request::Resize(_, size) = asked.request else { panic!() };
                    let message = Message::Acknowledged(AREA, true);
                    one.up.push_back((message, size.to_le_bytes().to_vec()));
                }
            }
        }
    }

    fn owner_hears(&mut self, node: usize) {
        let Some((message, body)) = self.nodes[node].up.pop_front() else { return };
        let (peer, owner) = (Peer(node as u64), self.owner.as_raw_fd());
        let reply = match message {
            Message::Size(_, size, cut) => {
                self.hosted.set_size(peer, size, cut).unwrap();
                return;
            }
            Message::Differ(_) => return self.hosted.differ(peer, &body).unwrap(),
            Message::Look(area) => {
                let size = os::fstat(owner).unwrap().st_size as u64;
                (Message::Looked(area, size), Vec::new())
            }
            Message::Renew(area, offset, len, wanted) => {
                let mut bytes = vec![0; len as usize];
                read_all(owner, &mut bytes, offset).unwrap();
                match mark(&bytes) == wanted {
                    true => (Message::Same(area, offset), Vec::new()),
                    false => (Message::Data(area, offset, len), bytes),
                }
            }
            Message::Acknowledged(..) if body.is_empty() => return self.hosted.is_cut(peer),
            Message::Acknowledged(..) => {
                let size = u64::from_le_bytes(body.try_into().unwrap());
                return self.owner_cuts(node, size);
            }
            other => panic!("{other:?}"),
        };
        self.nodes[node].down.push_back(reply);
    }

    fn owner_cuts(&mut self, by: usize, size: u64) {
        os::ftruncate(self.owner.as_raw_fd(), size).unwrap();
        for node in (1..NODES).filter(|node| *node != by) {
            self.hosted.cut(Peer(node as u64), size);
            self.nodes[node].down.push_back((Message::Cut(AREA, size), Vec::new()));
        }
    }

    fn node_hears(&mut self, node: usize) {
        let copy = self.fd(node);
        let one = &mut self.nodes[node];
        let Some((message, body)) = one.down.pop_front() else { return };
        let open = || one.copy.try_clone();
        match message {
            Message::Looked(_, size) => {
                if one.shared.looked(size).unwrap() {
                    grow(one.copy.as_raw_fd(), size).unwrap();
                }
            }
            Message::Same(_, offset) => one.shared.renewed((offset, None), &[], open).unwrap(),
            Message::Data(_, offset, _) => {
                one.shared.renewed((offset, Some(&body)), &[], open).unwrap()
            }
            Message::Cut(_, size) => {
                os::ftruncate(copy, size).unwrap();
                one.shared.cut(size).unwrap();
                one.up.push_back((Message::Acknowledged(AREA, true), Vec::new()));
            }
            other => panic!("{other:?}"),
        }
        self.run(node);
    }

    /// Lets all messages of a node arrive, and all that follow.
    fn drain(&mut self, node: usize) {
        self.run(node);
        while !self.nodes.iter().all(|one| one.up.is_empty() && one.down.is_empty()) {
            for node in 1..NODES {
                self.owner_hears(node);
                self.node_hears(node);
            }
        }
        assert!(self.nodes[node].shared.is_idle());
    }

    fn apply(&mut self, act: Act) {
        match act {
            Act::Write(node, at, len) => {
                let is_free = |at: u64| self.nodes[node].sees[at as usize];
                // Programs that write over bytes of others look at these first.
                let len = (at..at + len).take_while(|at| is_free(*at)).count() as u64;
                self.next = self.next.wrapping_add(1);
                // Zeros are bytes as others are.
                let bytes = vec![self.next / 2 * (self.next % 2); len as usize];
                write_all(self.fd(node), &bytes, at).unwrap();
                let (at, end) = (at as usize, (at + len) as usize);
                if len == 0 {
                    return;
                }
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
                self.bytes[at..end].copy_from_slice(&bytes);
                for other in (0..NODES).filter(|other| *other != node) {
                    self.nodes[other].sees[at..end].fill(false);
                }
            }
            Act::Release(node) => self.release(node),
            Act::Acquire(node) => {
                // Bytes of others are to be seen if they have said so before.
                (0..NODES).filter(|other| *other != node).for_each(|other| self.release(other));
                if node > 0 {
                    let request = Request::Check(1, 0);
                    let asked = Asked { link: 0, process: 0, request };
                    self.nodes[node].shared.renew(Wants::Again(asked));
                    self.drain(node);
                }
                let now = contents_of(self.fd(node));
                assert_eq!(now, self.bytes, "node {node}");
                self.nodes[node].sees.fill(true);
            }
            Act::Resize(node, size) => {
                // As all do that change a size together.
                (0..NODES).for_each(|other| self.release(other));
                os::ftruncate(self.fd(node), size).unwrap();
                self.bytes.resize(size as usize, 0);
                if node == 0 {
                    self.owner_cuts(0, size);
                    (1..NODES).for_each(|node| self.drain(node));
                } else {
                    let request = Request::Resize(1, size);
                    let asked = Asked { link: 0, process: 0, request };
                    self.nodes[node].shared.resize(size, asked);
                    self.drain(node);
                }
            }
            Act::Deliver(node, up, down) if node > 0 => {
                self.run(node);
                (0..up).for_each(|_| self.owner_hears(node));
                (0..down).for_each(|_| self.node_hears(node));
            }
            Act::Deliver(..) => {}
        }
    }

    fn release(&mut self, node: usize) {
        if node > 0 {
            let asked = Asked { link: 0, process: 0, request: Request::Sync(1) };
            self.nodes[node].shared.push(Then::Ask(asked));
            // It is answered when the owner has all.
            self.drain(node);
        }
    }
}

fn contents_of(fd: RawFd) -> Vec<u8> {
    let mut bytes = vec![0; os::fstat(fd).unwrap().st_size as usize];
    read_all(fd, &mut bytes, 0).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn nodes_that_write_one_file_see_what_each_has_written_last(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut model = Model::new();
        acts.into_iter().for_each(|act| model.apply(act));
        (0..NODES).for_each(|node| model.release(node));
        prop_assert_eq!(contents(&model.owner), model.bytes);
    }

    #[test]
    fn ranges_that_differ_are_found_exactly(
        bytes in prop::collection::vec(0..3_u8, 1..300),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..20),
    ) {
        let mut other = bytes.clone();
        changes.iter().for_each(|(at, value)| other[at % bytes.len()] = *value);
        let mut wanted: Vec<bool> = bytes.iter().zip(&other).map(|(a, b)| a != b).collect();
        for range in differences(&bytes, &other) {
            prop_assert!(wanted[range.clone()].iter().all(|differs| *differs));
            wanted[range].fill(false);
        }
        prop_assert!(!wanted.contains(&true));
    }
}

#[test]
fn what_a_node_sent_before_its_copy_was_cut_is_not_written_behind_the_cut() {
    let mut model = Model::new();
    model.apply(Act::Write(1, 0, 20));
    let asked = Asked { link: 0, process: 0, request: Request::Sync(1) };
    model.nodes[1].shared.push(Then::Ask(asked));
    model.run(1);
    model.owner_cuts(0, 5);
    while !model.nodes[1].up.is_empty() {
        model.owner_hears(1);
    }
    assert_eq!(os::fstat(model.owner.as_raw_fd()).unwrap().st_size, 5);
    model.drain(1);
    assert_eq!(contents(&model.owner).len(), 5);
}

#[test]
fn answers_that_nobody_asked_for_and_writes_of_others_are_refused() {
    let (mut shared, open) = (Shared::default(), || Ok(file()));
    shared.looked(5).unwrap_err();
    shared.renewed((0, None), &[], open).unwrap_err();
    shared.renewed((0, Some(b"x")), &[], open).unwrap_err();
    let mut model = Model::new();
    let remote = Peer(99);
    model.hosted.differ(remote, &[]).unwrap_err();
    model.hosted.set_size(remote, 1 << 40, false).unwrap_err();
    model.hosted.end(Peer(1), 2).unwrap_err();
}

#[test]
fn what_a_node_has_not_sent_yet_is_not_replaced_by_what_the_owner_has() {
    let (copy, mut twin) = (file(), Twin::default());
    write_all(copy.as_raw_fd(), b"..own.....", 0).unwrap();
    twin.set_size(10).unwrap();
    twin.write(b"..........", 0).unwrap();
    twin.merge(copy.as_raw_fd(), (0, b"theirs...."), &Overlay::default(), &[]).unwrap();
    assert_eq!(contents(&copy), b"thowns....");
    let bodies = twin.take(copy.as_raw_fd(), 0, 10, &Overlay::default()).unwrap();
    assert_eq!(parts(&bodies.bodies.concat()).unwrap(), [(2, &b"own"[..])]);
}

#[test]
fn what_was_written_over_bytes_that_the_owner_has_fetched_is_not_taken_for_theirs() {
    let (mut twin, copy) = (Twin::default(), file());
    twin.has(0, b"old").unwrap();
    os::pwrite(copy.as_raw_fd(), b"new", 0).unwrap();
    // The owner has what it fetched; what the program wrote is kept, but not yet told.
    twin.merge(copy.as_raw_fd(), (0, b"old"), &Overlay::default(), &[]).unwrap();
    twin.merge(copy.as_raw_fd(), (0, b"new"), &Overlay::default(), &[Extent::new(0, 3)]).unwrap();
    let taken = twin.take(copy.as_raw_fd(), 0, 3, &Overlay::default()).unwrap();
    assert_eq!(taken.bodies.len(), 1, "it is still to be sent");
    assert_eq!(contents(&copy), b"new");
}
