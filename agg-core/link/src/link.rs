//! The interface for agents: the trait of links, frames and events.

use aggio_base::Extent;
use aggio_base::os::Mapping;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// One connection with another agent. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// File bytes in mapped memory, which are sent from there or stored there.
#[derive(Clone)]
pub struct Span {
    map: Arc<Mapping>,
    extent: Extent,
}

impl Span {
    /// The bytes `extent` of the file that `map` has in memory.
    ///
    /// # Errors
    /// `InvalidInput` if they are not all mapped.
    pub fn new(map: Arc<Mapping>, extent: Extent) -> io::Result<Self> {
        let start = map.place(extent.offset) as usize;
        let end = start.checked_add(usize::try_from(extent.len).unwrap_or(usize::MAX));
        let mapped = map.addresses();
        match end {
            Some(end) if mapped.start <= start && end <= mapped.end => Ok(Self { map, extent }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("bytes {extent} are not mapped"),
            )),
        }
    }

    /// Which bytes of the file.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.extent.len as usize
    }

    /// Where the bytes are.
    pub(crate) fn address(&self) -> *mut u8 {
        self.map.place(self.extent.offset)
    }

    /// The bytes, of a generation that is no longer written.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `new` checked that the bytes are mapped, and the mapping lives as long as `self`.
        // The owner sends committed bytes only, which never change; if they did, the receiver's
        // checksum would show it.
        unsafe { std::slice::from_raw_parts(self.address(), self.len()) }
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({})", self.extent)
    }
}

/// The part of a frame behind its head.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// Bytes of the sender.
    Bytes(Vec<u8>),
    /// Bytes of a file; they must stay as they are until the receiver has said that it has them.
    Mapped(Span),
}

impl Body {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::None => &[],
            Body::Bytes(bytes) => bytes,
            Body::Mapped(span) => span.bytes(),
        }
    }
}

/// One message.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Bytes for the parser of the agents' protocol.
    pub head: Vec<u8>,
    /// File bytes.
    pub body: Body,
}

/// The body of a message that arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// There was none.
    None,
    /// In memory of its own.
    Bytes(Vec<u8>),
    /// The place chosen by [`Places`].
    Placed(Extent),
}

/// Says where bodies go before they are received.
pub trait Places {
    /// Where the `len` bytes go that follow `head`; `None` for memory of their own. A span of
    /// another length counts as `None`.
    ///
    /// The bytes may be changed in part even if the message never arrives whole: the connection may
    /// break, or the checksum be wrong.
    fn place(&mut self, peer: Peer, head: &[u8], len: u64) -> Option<Span>;
}

/// Gives every body memory of its own.
pub struct Nowhere;

impl Places for Nowhere {
    fn place(&mut self, _: Peer, _: &[u8], _: u64) -> Option<Span> {
        None
    }
}

/// An event on a link.
#[derive(Debug)]
pub enum Event {
    /// Both sides have proved that they have the token. Messages may come.
    Opened {
        /// The new peer.
        peer: Peer,
        /// Whether it connected to us.
        incoming: bool,
    },
    /// A connection from a process that is no agent of this user, or one of another version.
    Refused {
        /// Its address.
        from: String,
        /// Why, in a sentence.
        why: String,
    },
    /// A whole message with the right checksums.
    Message {
        /// The peer that sent it.
        peer: Peer,
        /// Its head.
        head: Vec<u8>,
        /// Its body.
        body: Received,
    },
    /// All that was sent to the peer has been given to the network.
    Drained(Peer),
    /// The connection ended, or could not be made: nothing comes from this peer any more.
    Closed {
        /// The peer; also one that never opened, if it is ours.
        peer: Peer,
        /// Why.
        why: io::Error,
    },
}

/// Bounds of a link.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest head in bytes.
    pub head: usize,
    /// Longest body in bytes.
    pub body: usize,
    /// Bytes that may wait for one peer before [`Link::send`] refuses more.
    pub queue: usize,
    /// Connections that have not authenticated yet, at most; a further one ends the oldest.
    pub strangers: usize,
    /// How long a stranger may take that has connected to this side. Another side that this one
    /// connects to may take as long as a peer may be silent: its network may be down.
    pub introduction: Duration,
    /// A peer that is silent for so long is dead; a living one sends a sign of life at least four
    /// times as often.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: 1 << 20,
            body: 4 << 20,
            queue: 64 << 20,
            strangers: 64,
            introduction: Duration::from_secs(5),
            // TCP repeats lost packets after 13 s at the latest if a link is down for 10 s.
            patience: Duration::from_secs(20),
        }
    }
}

/// Connections with other agents. Nothing blocks.
pub trait Link {
    /// Where other nodes reach this one, for their [`Link::connect`].
    fn address(&self) -> String;

    /// A descriptor that is readable when [`Link::progress`] has something to do.
    fn descriptor(&self) -> RawFd;

    /// How soon `progress` must be called though the descriptor is not readable; `None`: never.
    fn timeout(&self) -> Option<Duration>;

    /// Begins to connect: `Opened` or `Closed` follows. Frames may be sent at once, and wait.
    ///
    /// # Errors
    /// If `address` is none, or the system has no more connections.
    fn connect(&mut self, address: &str) -> io::Result<Peer>;

    /// Sends a frame after all earlier ones.
    ///
    /// # Errors
    /// `WouldBlock` if too much is queued for this peer already: go on after `Drained`.
    /// `InvalidInput` if the frame is too long, `NotConnected` if there is no such peer.
    fn send(&mut self, peer: Peer, frame: Frame) -> io::Result<()>;

    /// Bytes that wait for the peer.
    fn queued(&self, peer: Peer) -> usize;

    /// Sends and receives without waiting. Returns whether there is more to do at once.
    ///
    /// # Errors
    /// If the link as a whole does not work any more. An error of one peer is an event.
    fn progress(&mut self, places: &mut dyn Places, events: &mut Vec<Event>) -> io::Result<bool>;

    /// Ends the connection and drops frames that are not sent yet. No event follows.
    fn close(&mut self, peer: Peer);
}
