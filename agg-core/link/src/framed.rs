//! Frames and authentication over any wire.

use crate::frame::{Header, Kind};
use crate::handshake::{Handshake, Role};
use crate::inbox::Inbox;
use crate::link::{Body, Event, Frame, Limits, Link, Peer, Places};
use crate::token::Token;
use crate::wire::{Line, Piece, Read, Ready, Wire};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Bytes that one peer may receive before it is the turn of the others.
const TURN: usize = 4 << 20;

/// The state of the other side.
enum State {
    /// It has not yet proved that it has the token. Frames for it wait.
    Stranger { handshake: Handshake, heard: Vec<u8>, later: Vec<Piece>, later_bytes: usize },
    /// It has.
    Peer(Inbox),
}

struct Connection {
    state: State,
    incoming: bool,
    from: String,
    /// When it began.
    since: Instant,
    /// For how long nothing came, of the time in which we listened.
    silence: Duration,
    /// When something was last sent.
    sent: Instant,
    /// Whether a `Drained` event is due.
    busy: bool,
}

impl Connection {
    fn new(handshake: Handshake, incoming: bool, from: String) -> Self {
        let (heard, later, now) = (Vec::new(), Vec::new(), Instant::now());
        let state = State::Stranger { handshake, heard, later, later_bytes: 0 };
        Self { state, incoming, from, since: now, silence: Duration::ZERO, sent: now, busy: false }
    }

    fn is_stranger(&self) -> bool {
        matches!(self.state, State::Stranger { .. })
    }
}

/// A [`Link`] over a [`Wire`].
pub struct Framed<W> {
    wire: W,
    token: Token,
    limits: Limits,
    connections: BTreeMap<Line, Connection>,
    /// Connections that may have more to read, even if the wire reports none.
    unfinished: BTreeSet<Line>,
    /// When time was last looked at.
    tick: Instant,
}

fn error(kind: io::ErrorKind, why: impl Into<String>) -> io::Error {
    io::Error::new(kind, why.into())
}

/// The pieces of a frame.
fn pieces(kind: Kind, frame: Frame) -> impl Iterator<Item = Piece> {
    let header = Header::encode(kind, &frame.head, frame.body.bytes());
    let first = Piece::Bytes([&header[..], &frame.head].concat().into());
    let body = match frame.body {
        Body::None => None,
        Body::Bytes(bytes) => Some(Piece::Bytes(bytes.into())),
        Body::Mapped(span) => Some(Piece::Mapped(span)),
    };
    [Some(first), body.filter(|body| !body.bytes().is_empty())].into_iter().flatten()
}

impl<W: Wire> Framed<W> {
    /// A link over `wire` for agents with `token`.
    pub fn new(wire: W, token: Token, limits: Limits) -> Self {
        let (connections, unfinished) = (BTreeMap::new(), BTreeSet::new());
        Self { wire, token, limits, connections, unfinished, tick: Instant::now() }
    }

    fn forget(&mut self, line: Line) -> Option<Connection> {
        self.unfinished.remove(&line);
        self.wire.close(line);
        self.connections.remove(&line)
    }

    /// Ends a connection, and adds the event for it.
    fn fail(&mut self, line: Line, why: io::Error, events: &mut Vec<Event>) {
        let Some(connection) = self.forget(line) else { return };
        if connection.incoming && connection.is_stranger() {
            events.push(Event::Refused { from: connection.from, why: why.to_string() });
        } else {
            events.push(Event::Closed { peer: Peer(line), why });
        }
    }

    fn accept(&mut self, line: Line, from: String, events: &mut Vec<Event>) {
        let strangers = self.connections.iter().filter(|(_, c)| c.incoming && c.is_stranger());
        let strangers: Vec<Line> = strangers.map(|(line, _)| *line).collect();
        if strangers.len() >= self.limits.strangers {
            let why = error(io::ErrorKind::TimedOut, "too many strangers, this one waits longest");
            self.fail(strangers[0], why, events);
        }
        match Handshake::new(Role::Listener, &self.token) {
            Ok((handshake, _)) => {
                self.connections.insert(line, Connection::new(handshake, true, from));
                self.unfinished.insert(line);
            }
            Err(why) => {
                self.wire.close(line);
                events.push(Event::Refused { from, why: why.to_string() });
            }
        }
    }

    /// Receives the bytes that are available on one connection, a turn at most.
    fn receive(&mut self, line: Line, places: &mut dyn Places, events: &mut Vec<Event>) {
        let mut turn = TURN;
        loop {
            let Some(connection) = self.connections.get_mut(&line) else { return };
            let n = match connection.read(line, &mut self.wire) {
                Ok(Read::Bytes(n)) => n,
                Ok(Read::Nothing) => {
                    self.unfinished.remove(&line);
                    return;
                }
                Ok(Read::Ended) => {
                    let why = connection.end();
                    return self.fail(line, why, events);
                }
                Err(why) => return self.fail(line, why, events),
            };
            connection.silence = Duration::ZERO;
            let result = connection.take(line, n, &mut self.wire, &self.limits, places, events);
            if let Err(why) = result {
                return self.fail(line, why, events);
            }
            turn = turn.saturating_sub(n);
            if turn == 0 {
                self.unfinished.insert(line);
                return;
            }
        }
    }

    /// Looks after those that are silent, and says that this side lives.
    fn keep_time(&mut self, events: &mut Vec<Event>) {
        let now = Instant::now();
        let often = self.limits.patience / 4;
        // Time in which this end did not poll does not count as silence of the others.
        let passed = now.duration_since(self.tick).min(often);
        self.tick = now;
        let mut late = Vec::new();
        for (line, connection) in &mut self.connections {
            let introduced = !connection.is_stranger();
            let introduction = match connection.incoming {
                true => self.limits.introduction,
                false => self.limits.patience,
            };
            connection.silence += passed;
            if introduced && connection.silence > self.limits.patience {
                late.push((*line, format!("silent for {:?}", self.limits.patience)));
            } else if !introduced && now.duration_since(connection.since) > introduction {
                late.push((*line, format!("it did not introduce itself within {introduction:?}")));
            } else if introduced && now.duration_since(connection.sent) >= often {
                connection.sent = now;
                if self.wire.queued(*line) == 0 {
                    pieces(Kind::SignOfLife, Frame::default())
                        .for_each(|piece| self.wire.write(*line, piece));
                }
            }
        }
        for (line, why) in late {
            self.fail(line, error(io::ErrorKind::TimedOut, why), events);
        }
    }

    fn tell_drained(&mut self, events: &mut Vec<Event>) {
        for (line, connection) in &mut self.connections {
            if connection.busy && !connection.is_stranger() && self.wire.queued(*line) == 0 {
                connection.busy = false;
                events.push(Event::Drained(Peer(*line)));
            }
        }
    }
}

impl Connection {
    /// Reads into the place of the next bytes; how many of them there are now is for `take`.
    fn read<W: Wire>(&mut self, line: Line, wire: &mut W) -> io::Result<Read> {
        match &mut self.state {
            State::Stranger { handshake, heard, .. } => {
                let (at, most) = (heard.len(), handshake.wants());
                heard.resize(most, 0);
                let result = wire.read(line, &mut heard[at..]);
                heard.truncate(match result {
                    Ok(Read::Bytes(n)) => at + n,
                    _ => at,
                });
                result
            }
            State::Peer(inbox) => wire.read(line, inbox.space()),
        }
    }

    fn take<W: Wire>(
        &mut self,
        line: Line,
        n: usize,
        wire: &mut W,
        limits: &Limits,
        places: &mut dyn Places,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let peer = Peer(line);
        match &mut self.state {
            State::Peer(inbox) => {
                let mut place = |head: &[u8], len| places.place(peer, head, len);
                if let Some((head, body)) = inbox.advance(n, limits, &mut place)? {
                    events.push(Event::Message { peer, head, body });
                }
            }
            State::Stranger { handshake, heard, later, .. } => {
                if heard.len() < handshake.wants() {
                    return Ok(());
                }
                let step = handshake.take(heard).inspect_err(|why| {
                    if why.kind() == io::ErrorKind::Unsupported && !handshake.parting().is_empty() {
                        wire.write(line, Piece::Bytes(handshake.parting().into()));
                    }
                })?;
                heard.clear();
                if !step.send.is_empty() {
                    wire.write(line, Piece::Bytes(step.send.into()));
                }
                if step.done {
                    std::mem::take(later).into_iter().for_each(|piece| wire.write(line, piece));
                    self.state = State::Peer(Inbox::new());
                    events.push(Event::Opened { peer, incoming: self.incoming });
                }
            }
        }
        Ok(())
    }

    /// Why it ended.
    fn end(&self) -> io::Error {
        let why = match &self.state {
            State::Stranger { .. } if self.incoming => "it ended before it proved who it is",
            State::Stranger { .. } => {
                "the other side ended the introduction; it may have another token"
            }
            State::Peer(inbox) if inbox.is_inside() => "the connection ended inside a frame",
            State::Peer(_) => "the other side ended the connection",
        };
        match &self.state {
            State::Stranger { .. } => error(io::ErrorKind::PermissionDenied, why),
            State::Peer(_) => error(io::ErrorKind::ConnectionReset, why),
        }
    }
}

impl<W: Wire> Link for Framed<W> {
    fn address(&self) -> String {
        self.wire.address()
    }

    fn descriptor(&self) -> RawFd {
        self.wire.descriptor()
    }

    fn timeout(&self) -> Option<Duration> {
        let some = !self.connections.is_empty();
        some.then(|| (self.limits.patience / 4).min(self.limits.introduction / 2))
    }

    fn connect(&mut self, address: &str) -> io::Result<Peer> {
        let (handshake, first) = Handshake::new(Role::Caller, &self.token)?;
        let line = self.wire.connect(address)?;
        self.wire.write(line, Piece::Bytes(first.into()));
        self.connections.insert(line, Connection::new(handshake, false, address.into()));
        Ok(Peer(line))
    }

    fn send(&mut self, peer: Peer, frame: Frame) -> io::Result<()> {
        let Peer(line) = peer;
        let (head, body) = (frame.head.len(), frame.body.bytes().len());
        if head > self.limits.head || body > self.limits.body {
            let (most_head, most_body) = (self.limits.head, self.limits.body);
            let why =
                format!("a frame of {head} + {body} bytes, at most {most_head} + {most_body}");
            return Err(error(io::ErrorKind::InvalidInput, why));
        }
        let unknown = || error(io::ErrorKind::NotConnected, "no such peer");
        let connection = self.connections.get_mut(&line).ok_or_else(unknown)?;
        let waiting = match &connection.state {
            State::Stranger { later_bytes, .. } => *later_bytes,
            State::Peer(_) => self.wire.queued(line),
        };
        if waiting >= self.limits.queue {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        connection.busy = true;
        connection.sent = Instant::now();
        let frame = pieces(Kind::Message, frame);
        match &mut connection.state {
            State::Stranger { later, later_bytes, .. } => {
                later.extend(frame);
                *later_bytes += head + body;
            }
            State::Peer(_) => frame.for_each(|piece| self.wire.write(line, piece)),
        }
        Ok(())
    }

    fn queued(&self, Peer(line): Peer) -> usize {
        match self.connections.get(&line).map(|connection| &connection.state) {
            Some(State::Stranger { later_bytes, .. }) => *later_bytes,
            _ => self.wire.queued(line),
        }
    }

    fn progress(&mut self, places: &mut dyn Places, events: &mut Vec<Event>) -> io::Result<bool> {
        let mut ready = Vec::new();
        let mut more = self.wire.poll(&mut ready)?;
        for ready in ready {
            match ready {
                Ready::Accepted(line, from) => self.accept(line, from, events),
                Ready::Active(line) => drop(self.unfinished.insert(line)),
                Ready::Failed(why) => {
                    let from = String::from("somebody");
                    events.push(Event::Refused { from, why: why.to_string() });
                }
            }
        }
        for line in self.unfinished.clone() {
            self.receive(line, places, events);
        }
        self.keep_time(events);
        self.tell_drained(events);
        more |= !self.unfinished.is_empty();
        Ok(more)
    }

    fn close(&mut self, Peer(line): Peer) {
        self.forget(line);
    }
}
