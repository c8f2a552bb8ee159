//! Strangers, other versions, and bytes that no agent sends.

use super::Make;
use super::ends::{End, Raw, frame, meet, pair, still_talk, token, until};
use crate::frame::{HEADER, VERSION};
use crate::handshake::{Handshake, INTRODUCTION, Role};
use crate::link::{Event, Limits, Link};
use crate::token::Token;
use crate::wire::Wire;
use std::time::Duration;

pub(super) fn other_token<W: Wire>(make: Make<W>) {
    let mut one = End::with(make, Token::from_bytes(&[9; 32]), Limits::default());
    let mut two = End::new(make);
    let to = one.link.connect(&two.link.address()).expect("a connection begins");
    one.say(to, b"a secret");
    until("both refuse", || {
        one.turn();
        two.turn();
        !one.ends().is_empty() && !two.ends().is_empty()
    });
    for end in [&one, &two] {
        assert_eq!(end.events.len(), 1, "one line, and nothing else: {:?}", end.events);
    }
    assert!(matches!(one.events[0], Event::Closed { peer, .. } if peer == to));
    assert!(one.ends()[0].contains("token"), "{:?}", one.ends());
    assert!(matches!(two.events[0], Event::Refused { .. }));
}

pub(super) fn old_caller<W: Wire>(make: Make<W>) {
    let mut one = End::new(make);
    let mut raw = Raw::connect(make, &one.link.address());
    let (_, mut first) = Handshake::new(Role::Caller, &token()).expect("random bytes");
    first[8] = 77;
    raw.say(&first);
    until("the version is refused, and the caller can see why", || {
        raw.turn();
        one.turn();
        !one.ends().is_empty() && (raw.ended || raw.heard.len() == INTRODUCTION)
    });
    let refused = format!("refused: its version is 77, this one is {VERSION}");
    assert_eq!(one.ends(), [refused]);
    assert!(raw.heard.is_empty() || raw.heard.len() == INTRODUCTION, "and no proof");
}

fn refuses<W: Wire>(make: Make<W>, bytes: &[u8], why: &str) {
    let (mut one, mut two, to, from) = pair(make, Limits::default());
    let mut raw = Raw::connect(make, &two.link.address());
    raw.introduce(&mut two);
    raw.say(&frame(b"good", b"morning"));
    raw.say(bytes);
    until("the connection is closed", || {
        raw.turn();
        two.turn();
        !two.ends().is_empty()
    });
    assert!(two.ends().len() == 1 && two.ends()[0].contains(why), "{:?}", two.ends());
    assert_eq!(two.heads(), [b"good"], "what was right before has arrived");
    still_talk(&mut one, &mut two, to, from);
}

pub(super) fn old_frame<W: Wire>(make: Make<W>) {
    let mut bytes = frame(b"head", b"body");
    bytes[0] += 1;
    refuses(make, &bytes, &format!("a frame of version {}, not {VERSION}", VERSION + 1));
    let mut bytes = frame(b"head", b"body");
    bytes[HEADER] ^= 1;
    refuses(make, &bytes, "head has a wrong checksum");
    let mut bytes = frame(b"head", b"body");
    *bytes.last_mut().expect("a byte") ^= 1;
    refuses(make, &bytes, "body has a wrong checksum");
}

pub(super) fn oversized<W: Wire>(make: Make<W>) {
    for (at, name) in [(4, "4294967295 + "), (8, " + 4294967295")] {
        let mut bytes = frame(b"head", b"body");
        bytes[at..at + 4].fill(0xff);
        refuses(make, &bytes, name);
    }
}

pub(super) fn strangers<W: Wire>(make: Make<W>) {
    let limits =
        Limits { strangers: 4, introduction: Duration::from_millis(700), ..Limits::default() };
    let mut two = End::with(make, token(), limits);
    let address = two.link.address();
    let mut raws: Vec<Raw<W>> = (0..7).map(|_| Raw::connect(make, &address)).collect();
    raws.iter_mut().for_each(|raw| raw.say(b"hello"));
    until("the oldest strangers are sent away", || {
        raws.iter_mut().for_each(Raw::turn);
        two.turn();
        two.ends().len() >= 3
    });
    let mut one = End::new(make);
    let (to, from) = meet(&mut one, &mut two);
    until("those that say no more are sent away in time", || {
        raws.iter_mut().for_each(Raw::turn);
        two.turn();
        one.turn();
        raws.iter().all(|raw| raw.ended)
    });
    still_talk(&mut one, &mut two, to, from);
    assert!(two.ends().iter().all(|end| end.starts_with("refused")), "{:?}", two.ends());
}

/// Numbers that look random and are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// `bytes`, changed, cut, doubled or mixed with others.
    fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => bytes.truncate(at + 1),
                3 => bytes.splice(at..at, [0xff; 8].into_iter().take(1 + at % 8)).for_each(drop),
                _ => bytes.rotate_left(at),
            }
        }
        bytes
    }
}

pub(super) fn mutants<W: Wire>(make: Make<W>) {
    let (mut one, mut two, to, from) = pair(make, Limits::default());
    let address = two.link.address();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let good = [frame(b"head", b"body"), frame(&[1; 300], &[]), frame(b"", &[2; 3000])].concat();
    for round in 0..60 {
        let mut raw = Raw::connect(make, &address);
        if round % 3 == 0 {
            let (_, first) = Handshake::new(Role::Caller, &token()).expect("random");
            raw.say(&random.mutate(&[&first[..], &good].concat()));
        } else {
            raw.introduce(&mut two);
            raw.say(&random.mutate(&good));
        }
        for _ in 0..20 {
            raw.turn();
            two.turn();
        }
        raw.end();
        raw.turn();
        two.turn();
        let right = |head: &&[u8]| [&b"head"[..], &[1; 300], b""].contains(head);
        assert!(two.heads().iter().all(right), "round {round}: only what was sent arrives");
        if round % 10 == 9 {
            still_talk(&mut one, &mut two, to, from);
        }
        two.events.clear();
    }
    assert!(one.ends().is_empty(), "{:?}", one.ends());
}
