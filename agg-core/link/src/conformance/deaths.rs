//! Connections end: by death, by silence, in the middle of a frame.

use super::Make;
use super::ends::{End, Raw, frame, meet, pair, still_talk, until};
use crate::link::{Body, Event, Frame, Limits, Link};
use crate::wire::Wire;
use std::io;
use std::time::{Duration, Instant};

/// Limits of those that wait for a silent peer in a test.
fn impatient() -> Limits {
    Limits { patience: Duration::from_millis(600), ..Limits::default() }
}

pub(super) fn dies<W: Wire>(make: Make<W>) {
    let (mut one, mut two, to, from) = pair(make, Limits::default());
    let mut three = End::new(make);
    let (to_three, _) = meet(&mut one, &mut three);
    // It dies while large frames are on their way.
    for at in 0..8 {
        let body = Body::Bytes(vec![at; 2 << 20]);
        one.link.send(to_three, Frame { head: vec![at], body }).expect("a frame");
    }
    one.turn();
    three.turn();
    drop(three);
    until("the death is told", || {
        one.turn();
        two.turn();
        !one.ends().is_empty()
    });
    still_talk(&mut one, &mut two, to, from);
    assert_eq!(one.ends().len(), 1, "told once: {:?}", one.ends());
    assert!(
        one.events.iter().any(|e| matches!(e, Event::Closed { peer, .. } if *peer == to_three))
    );
    assert_eq!(one.link.queued(to_three), 0, "nothing waits for the dead");
    one.link.send(to_three, Frame::default()).expect_err("the dead get nothing");
}

pub(super) fn silent<W: Wire>(make: Make<W>) {
    let (mut one, two, to, _) = pair(make, impatient());
    let start = Instant::now();
    // The other side is there, but does nothing: as a host that was switched off.
    until("the silence is noticed", || {
        one.turn();
        std::thread::sleep(Duration::from_millis(5));
        !one.ends().is_empty()
    });
    let passed = start.elapsed();
    assert!(passed >= Duration::from_millis(500), "not before it is due: {passed:?}");
    assert!(passed < Duration::from_secs(5), "soon: {passed:?}");
    assert!(one.ends()[0].contains("silent"), "{:?}", one.ends());
    assert_eq!(one.link.queued(to), 0);
    drop(two);
}

pub(super) fn idle<W: Wire>(make: Make<W>) {
    let (mut one, mut two, to, from) = pair(make, impatient());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        one.turn();
        two.turn();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(one.ends().is_empty() && two.ends().is_empty());
    // An end that was busy elsewhere for a while must not take that for the silence of others.
    std::thread::sleep(Duration::from_millis(900));
    one.turn();
    two.turn();
    still_talk(&mut one, &mut two, to, from);
    assert!(one.link.timeout().expect("an interval") < Duration::from_millis(600));
}

pub(super) fn nobody<W: Wire>(make: Make<W>) {
    let gone = End::new(make);
    let address = gone.link.address();
    drop(gone);
    let mut one = End::with(make, super::ends::token(), impatient());
    let to = one.link.connect(&address).expect("a connection begins");
    one.say(to, b"is anybody there?");
    until("nobody is there", || {
        one.turn();
        !one.ends().is_empty()
    });
    let refused = one.events.iter().any(|event| match event {
        Event::Closed { peer, why } => *peer == to && why.kind() != io::ErrorKind::PermissionDenied,
        _ => false,
    });
    assert!(refused, "{:?}", one.events);
    let error = one.link.connect("nowhere").expect_err("no address");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

pub(super) fn cut<W: Wire>(make: Make<W>) {
    let whole = frame(b"a head", &[5; 1000]);
    for len in [1, 19, 20, 23, 26, 27, 1025] {
        let mut one = End::new(make);
        let mut raw = Raw::connect(make, &one.link.address());
        raw.introduce(&mut one);
        raw.say(&whole);
        raw.say(&whole[..len]);
        until("the whole frame arrives", || {
            raw.turn();
            one.turn();
            one.heads().len() == 1 && raw.has_said_all()
        });
        raw.end();
        until("the end is noticed", || {
            raw.turn();
            one.turn();
            !one.ends().is_empty()
        });
        assert_eq!(one.heads().len(), 1, "a part of {len} bytes is no message");
        assert!(one.ends().len() == 1 && one.ends()[0].starts_with("closed"), "{:?}", one.ends());
    }
}
