//! Two ends in one thread: links, and a raw end that can send arbitrary bytes.

use super::Make;
use crate::frame::{Header, Kind};
use crate::framed::Framed;
use crate::handshake::{Handshake, Role};
use crate::link::{Event, Frame, Limits, Link, Nowhere, Peer, Places};
use crate::token::Token;
use crate::wire::{Line, Piece, Read, Wire};
use std::time::{Duration, Instant};

/// Time limit for events that must happen.
const SOON: Duration = Duration::from_secs(20);

pub(super) fn token() -> Token {
    Token::from_bytes(b"0123456789abcdef0123456789abcdef")
}

/// A link, and its events.
pub(super) struct End<W> {
    pub(super) link: Framed<W>,
    pub(super) events: Vec<Event>,
}

impl<W: Wire> End<W> {
    pub(super) fn with(make: Make<W>, token: Token, limits: Limits) -> Self {
        let wire = make().expect("a wire that listens");
        Self { link: Framed::new(wire, token, limits), events: Vec::new() }
    }

    pub(super) fn new(make: Make<W>) -> Self {
        Self::with(make, token(), Limits::default())
    }

    pub(super) fn turn(&mut self) {
        self.turn_to(&mut Nowhere);
    }

    pub(super) fn turn_to(&mut self, places: &mut dyn Places) {
        self.link.progress(places, &mut self.events).expect("the link works");
    }

    /// The heads of all messages so far.
    pub(super) fn heads(&self) -> Vec<&[u8]> {
        let messages = self.events.iter().filter_map(|event| match event {
            Event::Message { head, .. } => Some(&head[..]),
            _ => None,
        });
        messages.collect()
    }

    /// Why connections ended or were refused, so far.
    pub(super) fn ends(&self) -> Vec<String> {
        let end = |event: &Event| match event {
            Event::Closed { why, .. } => Some(format!("closed: {why}")),
            Event::Refused { why, .. } => Some(format!("refused: {why}")),
            _ => None,
        };
        self.events.iter().filter_map(end).collect()
    }

    /// The peer that opened last.
    pub(super) fn peer(&self) -> Option<Peer> {
        let opened = self.events.iter().rev().find_map(|event| match event {
            Event::Opened { peer, .. } => Some(*peer),
            _ => None,
        });
        opened.filter(|_| !self.events.is_empty())
    }

    pub(super) fn say(&mut self, peer: Peer, head: &[u8]) {
        let frame = Frame { head: head.to_vec(), ..Frame::default() };
        self.link.send(peer, frame).expect("a frame that is sent");
    }
}

/// Repeats `turn` until `done`.
pub(super) fn until(what: &str, mut turn: impl FnMut() -> bool) {
    let start = Instant::now();
    while !turn() {
        assert!(start.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::yield_now();
    }
}

/// Two links, the first connected to the second, and the numbers of the peers.
pub(super) fn pair<W: Wire>(make: Make<W>, limits: Limits) -> (End<W>, End<W>, Peer, Peer) {
    let mut one = End::with(make, token(), limits);
    let mut two = End::with(make, token(), limits);
    let (to, from) = meet(&mut one, &mut two);
    (one, two, to, from)
}

/// Connects `one` to `two`.
pub(super) fn meet<W: Wire>(one: &mut End<W>, two: &mut End<W>) -> (Peer, Peer) {
    let to = one.link.connect(&two.link.address()).expect("a connection begins");
    two.events.clear();
    until("both sides know each other", || {
        one.turn();
        two.turn();
        one.peer() == Some(to) && two.peer().is_some()
    });
    let from = two.peer().expect("a peer");
    assert!(two.events.iter().all(|event| !matches!(event, Event::Opened { incoming: false, .. })));
    one.events.clear();
    two.events.clear();
    (to, from)
}

/// An end that sends arbitrary bytes.
pub(super) struct Raw<W> {
    wire: W,
    line: Line,
    pub(super) heard: Vec<u8>,
    pub(super) ended: bool,
}

impl<W: Wire> Raw<W> {
    pub(super) fn connect(make: Make<W>, address: &str) -> Self {
        let mut wire = make().expect("a wire that listens");
        let line = wire.connect(address).expect("a connection begins");
        Self { wire, line, heard: Vec::new(), ended: false }
    }

    pub(super) fn turn(&mut self) {
        self.wire.poll(&mut Vec::new()).expect("the wire works");
        let mut bytes = [0; 4096];
        while !self.ended {
            match self.wire.read(self.line, &mut bytes) {
                Ok(Read::Bytes(n)) => self.heard.extend_from_slice(&bytes[..n]),
                Ok(Read::Nothing) => return,
                Ok(Read::Ended) | Err(_) => self.ended = true,
            }
        }
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.wire.write(self.line, Piece::Bytes(bytes.into()));
    }

    pub(super) fn end(&mut self) {
        self.wire.close(self.line);
        self.ended = true;
    }

    /// Whether everything said is on its way.
    pub(super) fn has_said_all(&self) -> bool {
        self.wire.queued(self.line) == 0
    }

    /// Proves to `end` that it has the token.
    pub(super) fn introduce<O: Wire>(&mut self, end: &mut End<O>) {
        let (mut handshake, first) = Handshake::new(Role::Caller, &token()).expect("random bytes");
        self.say(&first);
        let mut done = false;
        until("the raw end is let in", || {
            self.turn();
            end.turn();
            while !done && self.heard.len() >= handshake.wants() {
                let rest = self.heard.split_off(handshake.wants());
                let step = handshake.take(&std::mem::replace(&mut self.heard, rest));
                let step = step.expect("the right token");
                self.say(&step.send);
                done = step.done;
            }
            done && end.peer().is_some()
        });
    }
}

/// The bytes of a frame.
pub(super) fn frame(head: &[u8], body: &[u8]) -> Vec<u8> {
    [&Header::encode(Kind::Message, head, body)[..], head, body].concat()
}

/// Both ends of a good connection still understand each other.
pub(super) fn still_talk<W: Wire>(one: &mut End<W>, two: &mut End<W>, to: Peer, from: Peer) {
    one.events.retain(|event| !matches!(event, Event::Message { .. }));
    two.events.retain(|event| !matches!(event, Event::Message { .. }));
    one.say(to, b"are you there?");
    two.say(from, b"I am.");
    until("both still talk", || {
        one.turn();
        two.turn();
        one.heads() == [b"I am."] && two.heads() == [b"are you there?"]
    });
}
