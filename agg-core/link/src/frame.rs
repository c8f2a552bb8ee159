//! How frames look on the wire: a header of fixed length, the head, the body.
//!
//! | bytes | field |
//! |---|---|
//! | 2 | version |
//! | 1 | kind: 0 a message, 1 a sign of life |
//! | 1 | zero |
//! | 4 | bytes of the head |
//! | 4 | bytes of the body |
//! | 4 | CRC-32C of the body |
//! | 4 | CRC-32C of the 16 bytes before, followed by the head |
//!
//! Numbers are little-endian.

use crate::link::Limits;
use aggio_base::checksum::{crc32c, crc32c_append};
use std::io;

/// The version of frames, introductions, and of the messages that agents send in them.
pub const VERSION: u16 = 13;

/// Bytes of a header.
pub const HEADER: usize = 20;

/// Bytes of a header that its checksum is of.
const CHECKED: usize = 16;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    SignOfLife,
}

/// A header that was received; the checksum of the head is still to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) head: usize,
    pub(crate) body: usize,
    pub(crate) body_crc: u32,
    head_crc: u32,
    /// Of the bytes that `head_crc` begins with.
    begun: u32,
}

/// An error of the other side.
pub(crate) fn wrong(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn word(bytes: &[u8; HEADER], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Header {
    /// The header of a frame.
    pub(crate) fn encode(kind: Kind, head: &[u8], body: &[u8]) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2] = u8::from(kind == Kind::SignOfLife);
        bytes[4..8].copy_from_slice(&(head.len() as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&crc32c(body).to_le_bytes());
        let crc = crc32c_append(crc32c(&bytes[..CHECKED]), head);
        bytes[16..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header that is `bytes`.
    ///
    /// # Errors
    /// `InvalidData`, with a description of the error.
    pub(crate) fn decode(bytes: &[u8; HEADER], limits: &Limits) -> io::Result<Self> {
        let version = u16::from_le_bytes([bytes[0], bytes[1]]);
        if version != VERSION {
            return Err(wrong(format!("a frame of version {version}, not {VERSION}")));
        }
        let kind = match (bytes[2], bytes[3]) {
            (0, 0) => Kind::Message,
            (1, 0) => Kind::SignOfLife,
            (kind, _) => return Err(wrong(format!("a frame of unknown kind {kind}"))),
        };
        let (head, body) = (word(bytes, 4) as usize, word(bytes, 8) as usize);
        if head > limits.head || body > limits.body {
            let (most_head, most_body) = (limits.head, limits.body);
            return Err(wrong(format!(
                "a frame of {head} + {body} bytes, at most {most_head} + {most_body}"
            )));
        }
        if kind == Kind::SignOfLife && head + body > 0 {
            return Err(wrong("a sign of life with contents"));
        }
        let begun = crc32c(&bytes[..CHECKED]);
        let (body_crc, head_crc) = (word(bytes, 12), word(bytes, 16));
        Ok(Self { kind, head, body, body_crc, head_crc, begun })
    }

    /// Compares the checksum of header and head.
    pub(crate) fn check(&self, head: &[u8]) -> io::Result<()> {
        match crc32c_append(self.begun, head) == self.head_crc {
            true => Ok(()),
            false => Err(wrong("a frame whose head has a wrong checksum")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_the_frame_holds() {
        let bytes = Header::encode(Kind::Message, b"head", b"the body");
        let header = Header::decode(&bytes, &Limits::default()).unwrap();
        assert_eq!((header.kind, header.head, header.body), (Kind::Message, 4, 8));
        assert_eq!(header.body_crc, crc32c(b"the body"));
        header.check(b"head").unwrap();
        header.check(b"heaD").unwrap_err();
    }

    #[test]
    fn every_changed_bit_of_a_header_is_noticed() {
        let bytes = Header::encode(Kind::Message, b"head", b"the body");
        for bit in 0..8 * HEADER {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = Header::decode(&changed, &Limits::default());
            assert!(found.and_then(|header| header.check(b"head")).is_err(), "bit {bit}");
        }
    }
}
