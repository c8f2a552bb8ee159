//! What this crate reads, under arbitrary bytes: for tests of parsers.

use crate::peers::differences::{self, Differences, extents, parts};
use crate::peers::{Message, Where};
use crate::protocol::{Reply, Request};
use crate::spool::Record;
use aggio_base::checksum::crc32c;
use std::io;

/// A message of a program to its agent, as it is written.
///
/// # Errors
/// It is none.
pub fn request(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Request::decode(bytes).map(|request| request.encode())
}

/// An answer of an agent to a program, as it is written.
///
/// # Errors
/// It is none.
pub fn reply(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Reply::decode(bytes).map(|reply| reply.encode())
}

/// A message between agents of two nodes, as it is written.
///
/// # Errors
/// It is none.
pub fn message(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Message::decode(bytes).map(|message| message.encode())
}

/// What a node sends of a file that several nodes write: the parts, as they are written.
///
/// # Errors
/// It is none.
pub fn differences(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Differences::default();
    parts(bytes)?.into_iter().for_each(|(offset, part)| body.add(offset, part));
    Ok(body.into_body())
}

/// The places of what a node keeps, as they are written.
///
/// # Errors
/// They are none.
pub fn places(bytes: &[u8]) -> io::Result<Vec<u8>> {
    extents(bytes).map(|extents| differences::places(&extents))
}

/// The nodes that have parts of a generation, as it is written.
///
/// # Errors
/// It is none.
pub fn locations(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Where::decode(bytes).map(|found| found.encode())
}

/// A record of generations that survive an agent, as it is written.
///
/// # Errors
/// It is none.
pub fn record(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Record::decode(bytes).map(|record| record.encode())
}

/// These bytes, of which the last four become the checksum of those before.
pub fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut all = bytes[..bytes.len().saturating_sub(4)].to_vec();
    let sum = crc32c(&all);
    all.extend(sum.to_le_bytes());
    all
}
