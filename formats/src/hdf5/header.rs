//! Object headers of versions 1 and 2: the messages that describe a group or a dataset.

use super::reader::Reader;
use crate::error::Result;
use std::collections::HashSet;

/// Numbers of messages.
pub(super) mod kind {
    pub(in crate::hdf5) const DATASPACE: u8 = 1;
    pub(in crate::hdf5) const LINK_INFO: u8 = 2;
    pub(in crate::hdf5) const DATATYPE: u8 = 3;
    pub(in crate::hdf5) const OLD_FILL: u8 = 4;
    pub(in crate::hdf5) const FILL: u8 = 5;
    pub(in crate::hdf5) const LINK: u8 = 6;
    pub(in crate::hdf5) const EXTERNAL: u8 = 7;
    pub(in crate::hdf5) const LAYOUT: u8 = 8;
    pub(in crate::hdf5) const GROUP_INFO: u8 = 10;
    pub(in crate::hdf5) const FILTERS: u8 = 11;
    pub(in crate::hdf5) const ATTRIBUTE: u8 = 12;
    pub(in crate::hdf5) const CONTINUATION: u8 = 16;
    pub(in crate::hdf5) const SYMBOLS: u8 = 17;
    pub(in crate::hdf5) const NODE_SIZES: u8 = 19;
    pub(in crate::hdf5) const DRIVER: u8 = 20;
    pub(in crate::hdf5) const ATTRIBUTES: u8 = 21;
    /// The last one that HDF5 defines today.
    pub(super) const LAST: u8 = 24;
}

/// The message is in another place, and this is where.
const SHARED: u8 = 2;
/// A program that does not support the message must not use the object.
const MUST_BE_KNOWN: u8 = 0x80;
/// Continuations of a header.
const MOST_BLOCKS: usize = 1 << 16;
const WHAT: &str = "object header";

/// A message of an object header.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: u8,
    flags: u8,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// A message that refers to another one.
    pub(super) fn shared(kind: u8, body: &[u8]) -> Self {
        Message { kind, flags: SHARED, body: body.to_vec() }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }
}

/// All messages of the object header at an address.
pub(super) fn read(reader: &Reader<'_>, address: u64) -> Result<Vec<Message>> {
    let start = reader.up_to(WHAT, address, 40)?;
    let mut header = Header { reader, address, new: None, blocks: Vec::new(), messages: vec![] };
    match start.get(..6) {
        Some([b'O', b'H', b'D', b'R', 2, flags]) => header.read_new(&start, *flags)?,
        Some([b'O', b'H', b'D', b'R', version, _]) => {
            return Err(reader.unsupported(format!("{WHAT} of version {version} at {address}")));
        }
        Some([1, ..]) => header.read_old(&start)?,
        _ => return Err(reader.corrupt(format!("no {WHAT} at {address}"))),
    }
    header.go_on()?;
    Ok(header.messages)
}

/// A header that is being read.
struct Header<'a> {
    reader: &'a Reader<'a>,
    address: u64,
    /// In version 2: whether messages tell the order in which they were made.
    new: Option<bool>,
    /// Blocks that are left to be read: address, bytes.
    blocks: Vec<(u64, u64)>,
    messages: Vec<Message>,
}

impl Header<'_> {
    /// The first block of version 1.
    fn read_old(&mut self, start: &[u8]) -> Result<()> {
        let mut cursor = self.reader.cursor(start);
        cursor.take(8);
        let size = cursor.four().ok_or_else(|| self.ended())?;
        self.reader.note(self.address, 16);
        self.blocks.push((self.address.saturating_add(16), size.into()));
        Ok(())
    }

    /// The first block of version 2.
    fn read_new(&mut self, start: &[u8], flags: u8) -> Result<()> {
        let skipped =
            if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
        let width = 1 << (flags & 3);
        let mut cursor = self.reader.cursor(start);
        cursor.take(6 + skipped);
        let size = cursor.number(width).ok_or_else(|| self.ended())?;
        let before = 6 + skipped + width;
        let count = size.saturating_add(before as u64 + 4);
        let block = self.reader.block(WHAT, self.address, count, b"OHDR")?;
        self.new = Some(flags & 4 != 0);
        self.split(&block[before - 4..])
    }

    fn ended(&self) -> crate::Error {
        self.reader.corrupt(format!("{WHAT} at {} ends too early", self.address))
    }

    /// Reads the blocks that continue the header.
    fn go_on(&mut self) -> Result<()> {
        let mut seen = HashSet::new();
        while let Some((address, count)) = self.blocks.pop() {
            if !seen.insert(address) || seen.len() > MOST_BLOCKS {
                let what = format!("the blocks of the {WHAT} at {} are a loop", self.address);
                return Err(self.reader.corrupt(what));
            }
            let block = match self.new {
                Some(_) => self.reader.block(WHAT, address, count, b"OCHK")?,
                None => {
                    self.reader.note(address, count);
                    self.reader.bytes(WHAT, address, count)?
                }
            };
            self.split(&block)?;
        }
        Ok(())
    }

    /// Takes the messages out of a block.
    fn split(&mut self, block: &[u8]) -> Result<()> {
        let mut cursor = self.reader.cursor(block);
        let mut found = Vec::new();
        let least = self.new.map_or(8, |ordered| if ordered { 6 } else { 4 });
        while cursor.rest().len() >= least {
            self.reader.step(0)?;
            let kind = cursor.number(if self.new.is_some() { 1 } else { 2 });
            let (size, flags) = (cursor.two(), cursor.byte());
            cursor.take(self.new.map_or(3, |ordered| if ordered { 2 } else { 0 }));
            let (Some(kind), Some(size), Some(flags)) = (kind, size, flags) else { break };
            let body = cursor.take(size.into()).ok_or_else(|| self.ended())?;
            if kind > u64::from(kind::LAST) {
                if flags & MUST_BE_KNOWN != 0 {
                    return Err(self.reader.unsupported(format!("message {kind}")));
                }
                continue;
            }
            self.reader.keep(size_of::<Message>() as u64 + u64::from(size))?;
            found.push(Message { kind: kind as u8, flags, body: body.to_vec() });
        }
        for message in found {
            if message.kind == kind::CONTINUATION {
                let mut cursor = self.reader.cursor(&message.body);
                let block = cursor.address().flatten().zip(cursor.length());
                self.blocks.push(block.ok_or_else(|| self.ended())?);
            } else {
                self.messages.push(message);
            }
        }
        Ok(())
    }
}

/// The body of the message of this kind: `None` if there is none, an error if there are several.
pub(super) fn one<'m>(
    reader: &Reader<'_>,
    messages: &'m [Message],
    kind: u8,
) -> Result<Option<&'m Message>> {
    let mut found = messages.iter().filter(|message| message.kind == kind);
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        _ => Err(reader.corrupt(format!("several messages {kind}"))),
    }
}

/// The body of a message, also if it lies in the header of a named datatype.
pub(super) fn body(reader: &Reader<'_>, message: &Message) -> Result<Vec<u8>> {
    if !message.is_shared() {
        return Ok(message.body.clone());
    }
    let mut cursor = reader.cursor(&message.body);
    let (version, place) = (cursor.byte(), cursor.byte());
    cursor.take(if version == Some(1) { 6 } else { 0 });
    let address = cursor.address().flatten();
    match (version, place, address) {
        (Some(1), _, Some(address)) | (Some(2 | 3), Some(0 | 2), Some(address)) => {
            let there = read(reader, address)?;
            let found = there.into_iter().find(|other| other.kind == message.kind);
            match found.filter(|found| !found.is_shared()) {
                Some(found) => Ok(found.body),
                None => Err(reader.corrupt(format!("no message {} at {address}", message.kind))),
            }
        }
        _ => Err(reader.unsupported(format!("message {} in a table of many", message.kind))),
    }
}
