//! Messages arrive: order, bodies, numbers, back-pressure.

use super::Make;
use super::ends::{End, meet, pair, token, until};
use crate::link::{Body, Event, Frame, Limits, Link, Peer, Places, Received, Span};
use crate::wire::Wire;
use aggio_base::Extent;
use aggio_base::os::{Mapping, memory_file};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

pub(super) fn order<W: Wire>(make: Make<W>) {
    let (mut one, mut two, to, from) = pair(make, Limits::default());
    let word = |at: u32| at.to_le_bytes().repeat(1 + at as usize % 50);
    let words: Vec<Vec<u8>> = (0..1000).map(word).collect();
    for word in &words {
        one.say(to, word);
        two.say(from, &[&b"answer "[..], word].concat());
    }
    until("all messages arrive", || {
        one.turn();
        two.turn();
        two.heads().len() >= 1000 && one.heads().len() >= 1000
    });
    assert!(two.heads().iter().zip(&words).all(|(head, word)| head == word));
    assert!(one.heads().iter().zip(&words).all(|(head, word)| head.ends_with(word)));
    assert!(one.ends().is_empty() && two.ends().is_empty());
}

/// A file in memory of `len` bytes that have `value`.
fn memory(len: usize, value: impl Fn(usize) -> u8) -> File {
    let fd = memory_file(c"aggio-link-test").expect("a file in memory");
    // SAFETY: the descriptor is new.
    let file = unsafe { File::from_raw_fd(fd) };
    let bytes: Vec<u8> = (0..len).map(value).collect();
    file.write_all_at(&bytes, 0).expect("bytes in memory");
    file
}

/// Puts bodies where their heads say.
struct Into {
    map: Arc<Mapping>,
}

impl Places for Into {
    fn place(&mut self, _: Peer, head: &[u8], len: u64) -> Option<Span> {
        let offset = u64::from_le_bytes(*head.first_chunk::<8>().expect("an offset"));
        Span::new(Arc::clone(&self.map), Extent::new(offset, len)).ok()
    }
}

pub(super) fn bodies<W: Wire>(make: Make<W>) {
    const LEN: usize = 40 << 20;
    let value = |at: usize| (at * 7 + at / 4093) as u8;
    let (source, target) = (memory(LEN, value), memory(LEN, |_| 0xee));
    let whole = Extent::new(0, LEN as u64);
    let from = Arc::new(Mapping::new(source.as_raw_fd(), whole, false).expect("a mapping"));
    let to = Mapping::new(target.as_raw_fd(), whole, true).expect("a mapping");
    let mut places = Into { map: Arc::new(to) };
    let (mut one, mut two, peer, _) = pair(make, Limits::default());
    let mut extents = Vec::new();
    let mut offset = 11;
    for len in [1, 4095, 4096, 4097, 65_536, 1 << 20, (4 << 20) - 1, 4 << 20].repeat(2) {
        extents.push(Extent::new(offset, len));
        offset += len + 1 + len % 3000;
    }
    for extent in &extents {
        let span = Span::new(Arc::clone(&from), *extent).expect("mapped bytes");
        let head = extent.offset.to_le_bytes().to_vec();
        one.link.send(peer, Frame { head, body: Body::Mapped(span) }).expect("a frame");
    }
    until("all bodies arrive", || {
        one.turn();
        two.turn_to(&mut places);
        two.heads().len() == extents.len()
    });
    let placed = two.events.iter().filter_map(|event| match event {
        Event::Message { body: Received::Placed(extent), .. } => Some(*extent),
        _ => None,
    });
    assert_eq!(placed.collect::<Vec<_>>(), extents, "each where it was wanted");
    let mut bytes = vec![0; LEN];
    target.read_exact_at(&mut bytes, 0).expect("bytes in memory");
    let mut expected = vec![0xee; LEN];
    for extent in &extents {
        let range = extent.offset as usize..extent.end() as usize;
        range.for_each(|at| expected[at] = value(at));
    }
    let wrong = (0..LEN).find(|at| bytes[*at] != expected[*at]);
    assert_eq!(wrong, None, "the first byte that is not what was sent");
}

pub(super) fn many<W: Wire>(make: Make<W>) {
    const COUNT: u32 = 20_000;
    let (mut one, mut two, to, _) = pair(make, Limits::default());
    for at in 0..COUNT {
        let body = Body::Bytes(at.to_be_bytes().to_vec());
        let frame = Frame { head: at.to_le_bytes().to_vec(), body };
        one.link.send(to, frame).expect("a frame that is sent");
    }
    let mut next = 0;
    until("all frames arrive", || {
        one.turn();
        two.turn();
        for event in two.events.drain(..) {
            if let Event::Message { head, body, .. } = event {
                assert_eq!(head, u32::to_le_bytes(next));
                assert_eq!(body, Received::Bytes(next.to_be_bytes().to_vec()));
                next += 1;
            }
        }
        next == COUNT
    });
}

pub(super) fn slow_reader<W: Wire>(make: Make<W>) {
    const BODY: usize = 256 << 10;
    let limits = Limits { queue: 4 << 20, body: BODY, ..Limits::default() };
    let (mut one, mut two, to, _) = pair(make, limits);
    // The reader does nothing; the bytes in the network itself are bounded as well.
    let mut sent = 0_u64;
    let refused = loop {
        let body = Body::Bytes(vec![sent as u8; BODY]);
        match one.link.send(to, Frame { head: sent.to_le_bytes().to_vec(), body }) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        one.turn();
        assert!(one.link.queued(to) <= limits.queue + 2 * BODY, "the queue is bounded");
        assert!(sent < 4096, "somebody takes 1 GiB that nobody reads");
    };
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    one.events.clear();
    let mut next = 0_u64;
    until("the slow reader gets all", || {
        one.turn();
        two.turn();
        for event in two.events.drain(..) {
            if let Event::Message { head, body, .. } = event {
                assert_eq!(head, next.to_le_bytes());
                assert_eq!(body, Received::Bytes(vec![next as u8; BODY]));
                next += 1;
            }
        }
        next == sent
    });
    until("the sender is told that there is room", || {
        one.turn();
        two.turn();
        one.events.iter().any(|event| matches!(event, Event::Drained(peer) if *peer == to))
    });
    assert_eq!(one.link.queued(to), 0);
}

pub(super) fn too_long<W: Wire>(make: Make<W>) {
    let limits = Limits { head: 100, body: 1000, ..Limits::default() };
    let (mut one, mut two, to, from) = pair(make, limits);
    let long =
        |head: usize, body: usize| Frame { head: vec![1; head], body: Body::Bytes(vec![2; body]) };
    for frame in [long(101, 0), long(0, 1001)] {
        let error = one.link.send(to, frame).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("at most 100 + 1000"), "{error}");
    }
    one.link.send(to, long(100, 1000)).expect("as long as it may be");
    until("the frame arrives", || {
        one.turn();
        two.turn();
        two.heads().len() == 1
    });
    super::ends::still_talk(&mut one, &mut two, to, from);
    let error = one.link.send(Peer(99), Frame::default()).expect_err("nobody");
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
}

pub(super) fn early<W: Wire>(make: Make<W>) {
    let mut two = End::new(make);
    let mut one = End::with(make, token(), Limits::default());
    let to = one.link.connect(&two.link.address()).expect("a connection begins");
    for at in 0..100_u8 {
        one.say(to, &[at]);
    }
    until("what was sent early arrives", || {
        one.turn();
        two.turn();
        two.heads().len() == 100
    });
    assert!(two.heads().iter().zip(0..).all(|(head, at)| *head == [at]));
    // And a second connection of the same two is one of its own.
    let (again, from) = meet(&mut one, &mut two);
    assert_ne!(again, to);
    super::ends::still_talk(&mut one, &mut two, again, from);
}
