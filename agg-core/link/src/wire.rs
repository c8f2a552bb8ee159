//! Connections that carry bytes in order: the common interface of TCP and UCX.

use crate::link::Span;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// One connection of a wire. Numbers are never used again.
pub type Line = u64;

/// Bytes to send, which stay where they are until the wire has sent them.
#[derive(Clone)]
pub enum Piece {
    /// Memory of their own.
    Bytes(Arc<[u8]>),
    /// Memory of a file.
    Mapped(Span),
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Mapped(span) => span.bytes(),
        }
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// This number of bytes, at least one.
    Bytes(usize),
    /// Nothing is there yet.
    Nothing,
    /// The other side sends no more.
    Ended,
}

/// An event of a wire.
#[derive(Debug)]
pub enum Ready {
    /// A new connection from this address.
    Accepted(Line, String),
    /// The connection stands, has bytes or an error to read, or took bytes.
    Active(Line),
    /// A new connection could not be accepted.
    Failed(io::Error),
}

/// A way for bytes. Nothing blocks.
pub trait Wire {
    /// Where others reach this wire.
    fn address(&self) -> String;

    /// A descriptor that is readable when [`Wire::poll`] has events.
    fn descriptor(&self) -> RawFd;

    /// Begins to connect. A failure is found by [`Wire::read`].
    ///
    /// # Errors
    /// If `address` is none, or the system has no more connections.
    fn connect(&mut self, address: &str) -> io::Result<Line>;

    /// Moves bytes without waiting, and adds events to `ready`. Returns whether there is more to
    /// do.
    ///
    /// # Errors
    /// If the wire as a whole does not work any more.
    fn poll(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool>;

    /// Takes bytes that have arrived.
    ///
    /// # Errors
    /// If the connection is broken, or could not be made.
    fn read(&mut self, line: Line, into: &mut [u8]) -> io::Result<Read>;

    /// Sends `piece` after all earlier ones; failures are found by [`Wire::read`].
    fn write(&mut self, line: Line, piece: Piece);

    /// Bytes that have not been given to the network yet.
    fn queued(&self, line: Line) -> usize;

    /// Ends the connection at once.
    fn close(&mut self, line: Line);
}
