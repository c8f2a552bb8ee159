//! Frames, the records of a log. A header gives the place of the bytes in the file, so the logs
//! alone are enough to rebuild everything else. `docs/FORMAT.md` has the table.

use crate::errors::damaged;
use crate::format::numbers::{u32_at, u64_at};
use aggio_base::{Extent, Result};

/// The first bytes of a frame.
pub(crate) const MAGIC: [u8; 4] = *b"agF1";
/// Bytes of a header without runs.
pub(crate) const HEADER: usize = 64;
/// Bytes of one run in a header.
pub(crate) const RUN: usize = 32;
/// Bytes before the data of a frame with one run.
pub(crate) const SHORT: usize = HEADER + RUN;
/// Flag: the data has no checksum.
pub(crate) const NO_DATA_CRC: u8 = 1;
/// No byte of a file lies beyond this.
pub(crate) const FILE_END: u64 = i64::MAX as u64;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Bytes of the file.
    Data = 0,
    /// The file's size is set; the run's start is the size.
    Truncate = 1,
    /// A range becomes zeros; the run is the range. The size stays.
    Hole = 2,
    /// Everything before this frame in its log is on storage.
    Commit = 3,
    /// The last frame of its log. Its data summarises all frames before it.
    Summary = 4,
    /// Bytes of the file that begin at a page of the log, and are changed in place.
    Mapped = 5,
    /// Bytes of the file that lie in such a place already; the second run says where: `start` is
    /// the place, `length` the id of the log.
    Again = 6,
}

impl Kind {
    /// Whether frames of this kind change the file; only these have sequence numbers of their own.
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, Kind::Commit | Kind::Summary)
    }
}

/// Pieces at equal distances, one behind the other in the frame's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    /// Where the first piece belongs in the file.
    pub start: u64,
    /// Bytes of one piece.
    pub length: u64,
    /// From one piece's start to the next one's.
    pub stride: i64,
    /// Number of pieces.
    pub count: u64,
}

impl Strip {
    /// One piece.
    #[inline]
    pub fn one(extent: Extent) -> Self {
        Self { start: extent.offset, length: extent.len, stride: 0, count: 1 }
    }

    /// Takes the next piece in if it continues the strip; says whether it did.
    #[inline]
    pub fn extend(&mut self, next: Extent) -> bool {
        let last = self.start.wrapping_add((self.stride as u64).wrapping_mul(self.count - 1));
        let stride = next.offset.wrapping_sub(last) as i64;
        let continues = next.len == self.length
            && (if self.count == 1 {
                is_sound(last, self.length, stride, 2)
            } else {
                stride == self.stride
            });
        if continues {
            self.stride = stride;
            self.count += 1;
        }
        continues
    }

    /// Whether it describes bytes that a file can have, each once.
    pub fn is_sound(&self) -> bool {
        is_sound(self.start, self.length, self.stride, self.count)
    }
}

/// Whether `count` pieces have bytes, do not overlap and lie where a file can have bytes.
pub(crate) fn is_sound(start: u64, length: u64, stride: i64, count: u64) -> bool {
    let (first, steps) = (i128::from(start), i128::from(count) - 1);
    let Some(last) = steps.checked_mul(i128::from(stride)).and_then(|way| way.checked_add(first))
    else {
        return false;
    };
    let end = first.max(last).saturating_add(i128::from(length));
    let apart = count == 1 && stride == 0 || stride.unsigned_abs() >= length;
    count > 0 && length > 0 && apart && first.min(last) >= 0 && end <= i128::from(FILE_END)
}

/// A frame's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) strips: Vec<Strip>,
    pub(crate) data_len: u64,
    pub(crate) data_crc: u32,
    /// The sequence number of the first piece; each next piece has the next number.
    pub(crate) seq: u64,
    pub(crate) last_seq: u64,
    /// The log that it was written to.
    pub(crate) log: u64,
    /// Its place in that log.
    pub(crate) place: u64,
    /// Bytes between the runs and the first piece; only where pieces begin at a page.
    pub(crate) skip: u32,
    /// The checksum of header and runs, as it was read.
    pub(crate) head_crc: u32,
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The numbers of a header that say how long it is; they are not trusted before the checksum fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// Bytes of header and runs.
    pub(crate) head: u64,
    /// Bytes of data.
    pub(crate) data: u64,
}

impl Lengths {
    /// Reads them from the first [`HEADER`] bytes of a frame.
    pub(crate) fn of(bytes: &[u8; HEADER]) -> Result<Self> {
        if bytes[..4] != MAGIC {
            return Err(damaged("no frame begins here"));
        }
        if u16::from_le_bytes([bytes[6], bytes[7]]) as usize != HEADER {
            return Err(damaged("the frame's header has an unknown length"));
        }
        let runs = u64::from(u32_at(bytes, 8));
        let head = HEADER as u64 + runs * RUN as u64;
        let data = u64_at(bytes, 16);
        if data > FILE_END {
            return Err(damaged("the frame's data is longer than a file can be"));
        }
        Ok(Self { head, data })
    }
}

/// Facts about the data of a frame, from the first bytes of the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Where in the log the data begins.
    pub(crate) data: u64,
    pub(crate) data_len: u64,
    pub(crate) data_crc: u32,
    /// Whether the data has a checksum.
    pub(crate) has_crc: bool,
}

impl Head {
    /// Reads them; `None` if no frame of the log `id` begins so at `place`. The checksum of the
    /// header is not looked at: a wrong one makes that of the data wrong.
    pub(crate) fn of(bytes: &[u8; SHORT], id: u64, place: u64) -> Option<Self> {
        let lengths = Lengths::of(bytes.first_chunk()?).ok()?;
        let own = (u64_at(bytes, 40), u64_at(bytes, 48)) == (id, place);
        let data = place.checked_add(lengths.head)?;
        data.checked_add(lengths.data).filter(|_| own)?;
        let (data_crc, has_crc) = (u32_at(bytes, 12), bytes[5] & NO_DATA_CRC == 0);
        Some(Self { data, data_len: lengths.data, data_crc, has_crc })
    }
}

/// The log to which a frame belongs that begins with these bytes; `None` if none does.
pub(crate) fn owner(header: &[u8; HEADER]) -> Option<u64> {
    Lengths::of(header).ok().map(|_| u64_at(header, 40))
}

impl Frame {
    /// Bytes of header and runs.
    pub(crate) fn head_len(&self) -> u64 {
        (HEADER + RUN * self.strips.len()) as u64
    }

    /// Where in its log the first piece lies.
    pub(crate) fn data_place(&self) -> u64 {
        self.place + self.head_len() + u64::from(self.skip)
    }

    /// Bytes of the whole frame.
    pub(crate) fn len(&self) -> u64 {
        self.head_len() + self.data_len
    }

    /// Writes header and runs to the start of `bytes`, which has room for them; returns their
    /// checksum.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) -> u32 {
        bytes[..HEADER].fill(0);
        put(bytes, 0, &MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.flags;
        put(bytes, 6, &(HEADER as u16).to_le_bytes());
        put(bytes, 8, &(self.strips.len() as u32).to_le_bytes());
        put(bytes, 12, &self.data_crc.to_le_bytes());
        put(bytes, 16, &self.data_len.to_le_bytes());
        put(bytes, 24, &self.seq.to_le_bytes());
        put(bytes, 32, &self.last_seq.to_le_bytes());
        put(bytes, 40, &self.log.to_le_bytes());
        put(bytes, 48, &self.place.to_le_bytes());
        put(bytes, 56, &self.skip.to_le_bytes());
        for (strip, room) in self.strips.iter().zip(bytes[HEADER..].chunks_exact_mut(RUN)) {
            put(room, 0, &strip.start.to_le_bytes());
            put(room, 8, &strip.length.to_le_bytes());
            put(room, 16, &strip.stride.to_le_bytes());
            put(room, 24, &strip.count.to_le_bytes());
        }
        let crc = checksum(&bytes[..HEADER + RUN * self.strips.len()]);
        put(bytes, 60, &crc.to_le_bytes());
        crc
    }

    /// Header and runs as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.head_len() as usize];
        self.encode_into(&mut bytes);
        bytes
    }

    /// Reads header and runs, exactly as many bytes as [`Lengths`] said.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return Err(damaged("the frame's header is cut off"));
        };
        let lengths = Lengths::of(header)?;
        if lengths.head != bytes.len() as u64 || u32_at(bytes, 60) != checksum(bytes) {
            return Err(damaged("the checksum of the frame's header is wrong"));
        }
        let kind = match bytes[4] {
            0 => Kind::Data,
            1 => Kind::Truncate,
            2 => Kind::Hole,
            3 => Kind::Commit,
            4 => Kind::Summary,
            5 => Kind::Mapped,
            6 => Kind::Again,
            other => return Err(damaged(format!("frame of the unknown kind {other}"))),
        };
        let strips = bytes[HEADER..].chunks_exact(RUN).map(|run| Strip {
            start: u64_at(run, 0),
            length: u64_at(run, 8),
            stride: u64_at(run, 16) as i64,
            count: u64_at(run, 24),
        });
        let frame = Self {
            kind,
            flags: bytes[5],
            strips: strips.collect(),
            data_len: lengths.data,
            data_crc: u32_at(bytes, 12),
            seq: u64_at(bytes, 24),
            last_seq: u64_at(bytes, 32),
            log: u64_at(bytes, 40),
            place: u64_at(bytes, 48),
            skip: u32_at(bytes, 56),
            head_crc: u32_at(bytes, 60),
        };
        frame.validate()?;
        Ok(frame)
    }

    /// The number of pieces.
    fn pieces(&self) -> u128 {
        self.strips.iter().map(|strip| u128::from(strip.count)).sum()
    }

    fn validate_again(&self) -> Result<()> {
        let right = match self.strips[..] {
            [bytes, there] => {
                let end = there.start.checked_add(bytes.length);
                let one = bytes.count == 1 && (there.stride, there.count) == (0, 1);
                bytes.is_sound() && one && end.is_some_and(|end| end <= FILE_END)
            }
            _ => false,
        };
        let numbered = self.seq == self.last_seq && self.last_seq < FILE_END;
        let empty = self.data_len == 0 && self.skip == 0;
        let words = "the frame does not say where bytes lie";
        (right && numbered && empty).then_some(()).ok_or_else(|| damaged(words))
    }

    fn validate(&self) -> Result<()> {
        if self.kind == Kind::Again {
            return self.validate_again();
        }
        let bytes_of = |strip: &Strip| u128::from(strip.count) * u128::from(strip.length);
        let data = self.strips.iter().fold(0_u128, |sum, one| sum.saturating_add(bytes_of(one)));
        let single = self.strips.len() == 1 && self.strips[0].count == 1;
        let sound = self.strips.iter().all(Strip::is_sound);
        let right = match self.kind {
            Kind::Data => sound && !self.strips.is_empty() && data == u128::from(self.data_len),
            Kind::Truncate => single && self.data_len == 0 && self.strips[0].start <= FILE_END,
            Kind::Hole => single && sound && self.data_len == 0,
            Kind::Commit => self.strips.is_empty() && self.data_len == 0,
            Kind::Summary => self.strips.is_empty(),
            Kind::Mapped => {
                let room = u128::from(self.data_len.saturating_sub(self.skip.into()));
                single && sound && data <= room
            }
            Kind::Again => false,
        };
        let right = right && (self.skip == 0 || self.kind == Kind::Mapped);
        if !right {
            return Err(damaged("the frame's runs contradict its kind or length"));
        }
        let numbers = self.last_seq.checked_sub(self.seq).map(|steps| u128::from(steps) + 1);
        let fits = !self.kind.is_change() || numbers == Some(self.pieces());
        if !fits || self.last_seq >= FILE_END {
            return Err(damaged("the frame's sequence numbers do not fit its pieces"));
        }
        Ok(())
    }
}

/// The checksum of header and runs, as if its own field were zero.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let before = aggio_base::checksum::crc32c(&bytes[..60]);
    let own = aggio_base::checksum::crc32c_append(before, &[0; 4]);
    aggio_base::checksum::crc32c_append(own, &bytes[64..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let strips = vec![
            Strip { start: 1 << 40, length: 10, stride: 100, count: 3 },
            Strip { start: 500, length: 5, stride: -5, count: 4 },
        ];
        Frame {
            kind: Kind::Data,
            flags: 0,
            strips,
            data_len: 50,
            data_crc: 7,
            seq: 100,
            last_seq: 106,
            log: 3,
            place: 4096,
            skip: 0,
            head_crc: 0,
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let decoded = Frame::decode(&frame().encode()).unwrap();
        assert_eq!(Frame { head_crc: 0, ..decoded }, frame());
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let bytes = frame().encode();
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert!(Frame::decode(&changed).is_err(), "bit {at}");
        }
        (0..bytes.len()).for_each(|n| assert!(Frame::decode(&bytes[..n]).is_err(), "{n} bytes"));
    }

    #[test]
    fn frames_that_contradict_themselves_are_refused_though_their_checksum_fits() {
        type Change = fn(&mut Frame);
        let changes: [Change; 12] = [
            |frame| frame.data_len = 51,
            |frame| frame.strips[0].length = 0,
            |frame| frame.strips[0].count = 0,
            |frame| frame.strips[0].stride = 9,
            |frame| frame.strips[0].start = FILE_END - 100,
            |frame| {
                let (start, length) = (u64::MAX - 1, u64::MAX);
                frame.strips[0] = Strip { start, length, stride: i64::MAX, count: u64::MAX };
            },
            |frame| frame.strips[1].start = 14,
            |frame| frame.last_seq = 107,
            |frame| frame.kind = Kind::Commit,
            |frame| frame.skip = 1,
            |frame| frame.kind = Kind::Mapped,
            |frame| frame.kind = Kind::Again,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut bad = frame();
            change(&mut bad);
            assert!(Frame::decode(&bad.encode()).is_err(), "change {number}");
        }
    }
}
