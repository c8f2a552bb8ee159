//! Parses the frames that arrive on one connection: bytes in, checked messages out, without I/O.

use crate::frame::{HEADER, Header, Kind, wrong};
use crate::link::{Limits, Received, Span};
use aggio_base::checksum::crc32c_append;
use std::io;

/// Bytes of a body that are received, and added to its checksum, at a time.
const AT_ONCE: usize = 512 << 10;

/// Where a body goes.
enum Target {
    Own(Vec<u8>),
    Place(Span),
}

impl Target {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Target::Own(bytes) => bytes,
            // SAFETY: the span is mapped for writing as long as it lives, and its owner gave it to
            // the link until the message has arrived.
            Target::Place(span) => unsafe {
                std::slice::from_raw_parts_mut(span.address(), span.len())
            },
        }
    }
}

enum Stage {
    Header([u8; HEADER]),
    Head(Header, Vec<u8>),
    Body { header: Header, head: Vec<u8>, target: Target, crc: u32 },
}

/// The frame that arrives on one connection.
pub(crate) struct Inbox {
    stage: Stage,
    /// Bytes of the stage that are there.
    filled: usize,
}

/// A message, or nothing to report.
pub(crate) type Message = Option<(Vec<u8>, Received)>;

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Header([0; HEADER]), filled: 0 }
    }

    /// Whether a frame has begun.
    pub(crate) fn is_inside(&self) -> bool {
        self.filled > 0 || !matches!(self.stage, Stage::Header(_))
    }

    /// Where the next bytes go; never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let all = match &mut self.stage {
            Stage::Header(bytes) => &mut bytes[..],
            Stage::Head(_, head) => head,
            Stage::Body { target, .. } => target.bytes(),
        };
        let end = all.len().min(self.filled + AT_ONCE);
        &mut all[self.filled..end]
    }

    /// Takes over `n` bytes that were put into the space. `place` says where the body goes that
    /// follows a head.
    ///
    /// # Errors
    /// `InvalidData` if this is no frame: nothing more is to be taken from this connection.
    pub(crate) fn advance(
        &mut self,
        n: usize,
        limits: &Limits,
        place: &mut dyn FnMut(&[u8], u64) -> Option<Span>,
    ) -> io::Result<Message> {
        let before = self.filled;
        self.filled += n;
        if let Stage::Body { target, crc, .. } = &mut self.stage {
            *crc = crc32c_append(*crc, &target.bytes()[before..before + n]);
        }
        let whole = match &mut self.stage {
            Stage::Header(bytes) => bytes.len(),
            Stage::Head(_, head) => head.len(),
            Stage::Body { target, .. } => target.bytes().len(),
        };
        if self.filled < whole {
            return Ok(None);
        }
        self.filled = 0;
        match std::mem::replace(&mut self.stage, Stage::Header([0; HEADER])) {
            Stage::Header(bytes) => {
                let header = Header::decode(&bytes, limits)?;
                match header.head {
                    0 => self.begin_body(header, Vec::new(), place),
                    n => {
                        self.stage = Stage::Head(header, vec![0; n]);
                        Ok(None)
                    }
                }
            }
            Stage::Head(header, head) => self.begin_body(header, head, place),
            Stage::Body { header, head, target, crc } => {
                if crc != header.body_crc {
                    return Err(wrong("a frame whose body has a wrong checksum"));
                }
                let body = match target {
                    Target::Own(bytes) => Received::Bytes(bytes),
                    Target::Place(span) => Received::Placed(span.extent()),
                };
                Ok(Some((head, body)))
            }
        }
    }

    fn begin_body(
        &mut self,
        header: Header,
        head: Vec<u8>,
        place: &mut dyn FnMut(&[u8], u64) -> Option<Span>,
    ) -> io::Result<Message> {
        header.check(&head)?;
        if header.kind == Kind::SignOfLife {
            return Ok(None);
        }
        if header.body == 0 {
            return match header.body_crc {
                0 => Ok(Some((head, Received::None))),
                _ => Err(wrong("a frame without a body that has a checksum of one")),
            };
        }
        let wanted = place(&head, header.body as u64);
        let target = match wanted.filter(|span| span.len() == header.body) {
            Some(span) => Target::Place(span),
            None => Target::Own(vec![0; header.body]),
        };
        self.stage = Stage::Body { header, head, target, crc: 0 };
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::VERSION;

    /// The messages received when `bytes` are taken in pieces of `piece` bytes.
    fn receive(bytes: &[u8], piece: usize) -> io::Result<Vec<(Vec<u8>, Received)>> {
        let limits = Limits { head: 100, body: 1000, ..Limits::default() };
        let (mut inbox, mut rest, mut all) = (Inbox::new(), bytes, Vec::new());
        while !rest.is_empty() {
            let space = inbox.space();
            let n = space.len().min(piece).min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            all.extend(inbox.advance(n, &limits, &mut |_, _| None)?);
        }
        Ok(all)
    }

    fn frame(head: &[u8], body: &[u8]) -> Vec<u8> {
        [&Header::encode(Kind::Message, head, body)[..], head, body].concat()
    }

    fn three() -> Vec<u8> {
        let sign = Header::encode(Kind::SignOfLife, b"", b"");
        [&frame(b"one", b"")[..], &frame(b"", b"two"), &sign, &frame(b"three", &[3; 900])].concat()
    }

    #[test]
    fn frames_arrive_however_the_network_cuts_them() {
        let expected = [
            (b"one".to_vec(), Received::None),
            (Vec::new(), Received::Bytes(b"two".to_vec())),
            (b"three".to_vec(), Received::Bytes(vec![3; 900])),
        ];
        for piece in [1, 2, 7, 20, 21, 500, 5000] {
            assert_eq!(receive(&three(), piece).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn every_changed_bit_is_an_error_or_leaves_the_frame_unfinished() {
        let bytes = three();
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = receive(&changed, 64);
            // A longer frame than the bytes that are there is not yet wrong.
            assert!(found.as_ref().is_err() || found.unwrap().len() < 3, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_is_refused_by_its_header_before_memory_is_used_for_it() {
        let huge = Header::encode(Kind::Message, &[0; 101], b"");
        let error = receive(&huge, 20).unwrap_err();
        assert_eq!(error.to_string(), "a frame of 101 + 0 bytes, at most 100 + 1000");
        let mut old = Header::encode(Kind::Message, b"", b"");
        old[0] = VERSION as u8 + 1;
        let wanted = format!("version {}", VERSION + 1);
        assert!(receive(&old, 20).unwrap_err().to_string().contains(&wanted));
    }
}
