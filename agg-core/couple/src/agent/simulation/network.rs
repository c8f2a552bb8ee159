//! A network between the agents of one process: bytes arrive in order on each connection, and
//! connections overtake each other as chance has it.

use super::chance::Chance;
use aggio_link::{Line, Piece, Read, Ready, Wire};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;

/// One end of a connection.
#[derive(Default)]
struct End {
    node: usize,
    other: Line,
    /// Pieces that the other end has sent, and how many bytes of the first were taken.
    coming: VecDeque<Piece>,
    taken: usize,
    /// Bytes that may be taken now.
    released: usize,
    /// The other end is closed.
    ended: bool,
}

impl End {
    /// Bytes that were sent to this end and not taken.
    fn waiting(&self) -> usize {
        self.coming.iter().map(|piece| piece.bytes().len()).sum::<usize>() - self.taken
    }
}

/// All connections.
pub(super) struct Network {
    chance: Chance,
    ends: BTreeMap<Line, End>,
    /// Ends of connections that nodes have not accepted yet.
    calling: BTreeMap<usize, Vec<Line>>,
    last: Line,
    /// Bytes that have arrived.
    pub(super) arrived: u64,
    /// All bytes arrive at once.
    pub(super) is_fast: bool,
}

impl Network {
    pub(super) fn new(seed: u64) -> Rc<RefCell<Self>> {
        let (ends, calling) = (BTreeMap::new(), BTreeMap::new());
        let (chance, last, arrived, is_fast) = (Chance::new(seed), 0, 0, false);
        Rc::new(RefCell::new(Self { chance, ends, calling, last, arrived, is_fast }))
    }

    fn add(&mut self, end: End) -> Line {
        self.last += 1;
        self.ends.insert(self.last, end);
        self.last
    }

    /// Lets some bytes for a node arrive.
    fn release(&mut self, node: usize) -> Vec<Line> {
        let mut active = Vec::new();
        for (line, end) in self.ends.iter_mut().filter(|(_, end)| end.node == node) {
            let waiting = end.waiting();
            if waiting == 0 && !end.ended {
                continue;
            }
            end.released = match self.chance.of(0..4) {
                _ if self.is_fast => waiting,
                0 => continue,
                1 => (end.released + self.chance.of(0..200)).min(waiting),
                _ => waiting,
            };
            active.push(*line);
        }
        active
    }
}

/// The end of the network at one node.
pub(super) struct InMemory {
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) node: usize,
}

impl Wire for InMemory {
    fn address(&self) -> String {
        format!("node{}", self.node)
    }

    /// The simulation calls all agents in turn; none waits.
    fn descriptor(&self) -> RawFd {
        -1
    }

    fn connect(&mut self, address: &str) -> io::Result<Line> {
        let node = address.strip_prefix("node").and_then(|node| node.parse().ok());
        let node: usize = node.ok_or(io::ErrorKind::InvalidInput)?;
        let mut network = self.network.borrow_mut();
        let own = network.add(End { node: self.node, ..End::default() });
        let other = network.add(End { node, other: own, ..End::default() });
        network.ends.entry(own).and_modify(|end| end.other = other);
        network.calling.entry(node).or_default().push(other);
        Ok(own)
    }

    fn poll(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let mut network = self.network.borrow_mut();
        let calling = network.calling.remove(&self.node).unwrap_or_default();
        ready.extend(calling.into_iter().map(|line| Ready::Accepted(line, "a node".into())));
        ready.extend(network.release(self.node).into_iter().map(Ready::Active));
        Ok(false)
    }

    fn read(&mut self, line: Line, into: &mut [u8]) -> io::Result<Read> {
        let mut network = self.network.borrow_mut();
        let Some(end) = network.ends.get_mut(&line) else { return Ok(Read::Ended) };
        let Some(piece) = end.coming.front().filter(|_| end.released > 0) else {
            let is_over = end.ended && end.coming.is_empty();
            return Ok(if is_over { Read::Ended } else { Read::Nothing });
        };
        let bytes = &piece.bytes()[end.taken..];
        let len = into.len().min(bytes.len()).min(end.released);
        into[..len].copy_from_slice(&bytes[..len]);
        (end.taken, end.released) = (end.taken + len, end.released - len);
        if end.taken == piece.bytes().len() {
            end.coming.pop_front();
            end.taken = 0;
        }
        network.arrived += len as u64;
        Ok(Read::Bytes(len))
    }

    fn write(&mut self, line: Line, piece: Piece) {
        let mut network = self.network.borrow_mut();
        let other = network.ends.get(&line).map_or(0, |end| end.other);
        if let Some(end) = network.ends.get_mut(&other).filter(|_| !piece.bytes().is_empty()) {
            end.coming.push_back(piece);
        }
    }

    fn queued(&self, line: Line) -> usize {
        let network = self.network.borrow();
        let other = network.ends.get(&line).and_then(|end| network.ends.get(&end.other));
        other.map_or(0, End::waiting)
    }

    fn close(&mut self, line: Line) {
        let mut network = self.network.borrow_mut();
        let other = network.ends.remove(&line).map_or(0, |end| end.other);
        network.ends.entry(other).and_modify(|end| end.ended = true);
    }
}
