//! Reads the header of a netCDF file in a classic format: the number of records, and the bytes that
//! each record has.

use aggio_base::Extent;

/// Bytes of a header at most; larger ones are for readers that wait for the whole file.
pub(crate) const MOST: u64 = 16 << 20;

/// A header that is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Records that it announces.
    pub(crate) records: u64,
    /// Bytes of their number, which begins at [`NUMBER`].
    pub(crate) width: usize,
    /// Its bytes without that number.
    pub(crate) rest: Vec<u8>,
    /// Bytes from one record to the next.
    stride: u64,
    /// The parts of the first record, one for each variable.
    slots: Vec<Extent>,
}

/// The offset of the number of records in the file.
pub const NUMBER: usize = 4;

/// Whether bytes from `offset` on are some of the number of records, however wide that is.
pub fn covers_number(offset: u64, len: u64) -> bool {
    len > 0 && offset < NUMBER as u64 + 8 && offset.saturating_add(len) > NUMBER as u64
}

/// A variable, as far as it tells which bytes a record has.
struct Variable {
    begin: u64,
    /// Bytes in one record, without those that fill up.
    bytes: u64,
    is_record: bool,
}

struct Cursor<'a> {
    left: &'a [u8],
    /// Bytes of counts, and of positions in the file.
    count: usize,
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(usize::try_from(len).ok()?)?;
        self.left = left;
        Some(taken)
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        let bytes = self.take(width as u64)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn counted(&mut self) -> Option<u64> {
        self.number(self.count)
    }

    fn padded(&mut self, len: u64) -> Option<()> {
        self.take(len.checked_next_multiple_of(4)?).map(drop)
    }

    fn name(&mut self) -> Option<()> {
        let len = self.counted()?;
        self.padded(len)
    }

    /// Returns the number of elements of a list of the kind `tag`.
    fn list(&mut self, tag: u64) -> Option<u64> {
        let (found, count) = (self.number(4)?, self.counted()?);
        (found == tag || found == 0 && count == 0).then_some(count)
    }

    fn attributes(&mut self) -> Option<()> {
        for _ in 0..self.list(12)? {
            self.name()?;
            let size = size_of_type(self.number(4)?)?;
            let count = self.counted()?;
            self.padded(count.checked_mul(size)?)?;
        }
        Some(())
    }

    fn variable(&mut self, dimensions: &[u64]) -> Option<Variable> {
        self.name()?;
        let (mut elements, mut is_record) = (1u64, false);
        for place in 0..self.counted()? {
            let dimension = usize::try_from(self.counted()?).ok()?;
            match *dimensions.get(dimension)? {
                0 if place == 0 => is_record = true,
                len => elements = elements.checked_mul(len)?,
            }
        }
        self.attributes()?;
        let bytes = elements.checked_mul(size_of_type(self.number(4)?)?)?;
        self.counted()?;
        let begin = self.number(self.offset)?;
        Some(Variable { begin, bytes, is_record })
    }
}

fn size_of_type(kind: u64) -> Option<u64> {
    [1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8].get(usize::try_from(kind).ok()?.checked_sub(1)?).copied()
}

/// Parses the beginning of a file; `None` if it is no header, or not all of one.
pub(crate) fn parse(bytes: &[u8]) -> Option<Header> {
    let (count, offset) = match bytes.get(..4)? {
        b"CDF\x01" => (4, 4),
        b"CDF\x02" => (4, 8),
        b"CDF\x05" => (8, 8),
        _ => return None,
    };
    let mut cursor = Cursor { left: &bytes[NUMBER..], count, offset };
    let records = cursor.counted()?;
    if records == u64::MAX >> (64 - 8 * count) {
        // Their number follows from the size of the file.
        return None;
    }
    let mut dimensions = Vec::new();
    for _ in 0..cursor.list(10)? {
        cursor.name()?;
        dimensions.push(cursor.counted()?);
    }
    cursor.attributes()?;
    let mut variables = Vec::new();
    for _ in 0..cursor.list(11)? {
        variables.push(cursor.variable(&dimensions)?);
    }
    let len = bytes.len() - cursor.left.len();
    let rest = bytes[..NUMBER].iter().chain(&bytes[NUMBER + count..len]).copied().collect();
    let variables: Vec<Variable> = variables.into_iter().filter(|one| one.is_record).collect();
    let stride = match &variables[..] {
        // One variable alone is not filled up.
        [one] => one.bytes,
        all => all
            .iter()
            .try_fold(0u64, |sum, one| sum.checked_add(one.bytes.checked_next_multiple_of(4)?))?,
    };
    let slots = variables.into_iter().map(|one| Extent::new(one.begin, one.bytes)).collect();
    Some(Header { records, width: count, rest, stride, slots })
}

impl Header {
    /// Whether a record is the bytes of one variable.
    pub(crate) fn has_one_variable(&self) -> bool {
        self.slots.len() == 1
    }

    /// Returns the bytes of the record `record`; `None` if no file can have them.
    pub(crate) fn bytes_of(&self, record: u64) -> Option<Vec<Extent>> {
        let ahead = record.checked_mul(self.stride)?;
        let slot = |slot: &Extent| {
            let offset = slot.offset.checked_add(ahead)?;
            offset.checked_add(slot.len).filter(|end| *end <= i64::MAX as u64)?;
            Some(Extent::new(offset, slot.len))
        };
        self.slots.iter().map(slot).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A header with a fixed variable and record variables of so many shorts, in the format
    /// `version`; the first record begins at `begin`.
    pub(crate) fn header(version: u8, records: u64, shorts: &[u64], begin: u64) -> Vec<u8> {
        let wide = version == 5;
        let mut out = vec![b'C', b'D', b'F', version];
        let count = |out: &mut Vec<u8>, number: u64| match wide {
            true => out.extend(number.to_be_bytes()),
            false => out.extend((number as u32).to_be_bytes()),
        };
        let tag = |out: &mut Vec<u8>, number: u32| out.extend(number.to_be_bytes());
        let name = |out: &mut Vec<u8>, text: &str| {
            count(out, text.len() as u64);
            out.extend(text.bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        };
        count(&mut out, records);
        tag(&mut out, 10);
        count(&mut out, 1 + shorts.len() as u64);
        name(&mut out, "time");
        count(&mut out, 0);
        for len in shorts {
            name(&mut out, "width");
            count(&mut out, *len);
        }
        tag(&mut out, 12);
        count(&mut out, 1);
        name(&mut out, "title");
        tag(&mut out, 2);
        count(&mut out, 3);
        out.extend(b"abc\0");
        tag(&mut out, 11);
        count(&mut out, shorts.len() as u64);
        let mut at = begin;
        for (index, len) in shorts.iter().enumerate() {
            name(&mut out, "v");
            count(&mut out, 2);
            count(&mut out, 0);
            count(&mut out, 1 + index as u64);
            tag(&mut out, 0);
            count(&mut out, 0);
            tag(&mut out, 3);
            count(&mut out, (2 * len).next_multiple_of(4));
            match version {
                1 => out.extend((at as u32).to_be_bytes()),
                _ => out.extend(at.to_be_bytes()),
            }
            at += (2 * len).next_multiple_of(4);
        }
        out
    }

    #[test]
    fn records_are_where_the_format_says() {
        for version in [1, 2, 5] {
            let bytes = header(version, 3, &[3, 4], 1000);
            let found = parse(&bytes).unwrap();
            assert_eq!((found.records, found.width), (3, if version == 5 { 8 } else { 4 }));
            assert_eq!(found.bytes_of(2).unwrap(), [Extent::new(1032, 6), Extent::new(1040, 8)]);
            assert_eq!(found.bytes_of(u64::MAX), None);
            let alone = parse(&header(version, 0, &[3], 1000)).unwrap();
            assert_eq!(alone.bytes_of(2).unwrap(), [Extent::new(1012, 6)], "it is not filled up");
            let other = parse(&header(version, 9, &[3, 4], 1000)).unwrap();
            assert!(other.rest == found.rest && other != found);
        }
    }

    #[test]
    fn a_part_of_a_header_is_none_wherever_it_is_cut() {
        for version in [1, 2, 5] {
            let bytes = header(version, 3, &[3, 4], 1000);
            for len in 0..bytes.len() {
                assert_eq!(parse(&bytes[..len]), None, "{len} of {}", bytes.len());
            }
        }
    }

    #[test]
    fn damaged_headers_do_no_harm() {
        let mut word = 1u64;
        for round in 0..20_000u64 {
            let mut bytes = header([1, 2, 5][round as usize % 3], 3, &[3, 4], 1000);
            for _ in 0..1 + round % 3 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1 + round);
                let at = 4 + (word >> 33) as usize % (bytes.len() - 4);
                bytes[at] = [0, 1, 0x7f, 0xff][(word >> 20) as usize % 4];
            }
            if let Some(found) = parse(&bytes) {
                let _ = (found.bytes_of(0), found.bytes_of(found.records));
            }
        }
    }

    #[test]
    fn a_number_that_follows_from_the_size_announces_nothing() {
        assert_eq!(parse(&header(1, u64::from(u32::MAX), &[3], 1000)), None);
        assert_eq!(parse(&header(5, u64::MAX, &[3], 1000)), None);
        assert_eq!(parse(b"\x89HDF\r\n\x1a\n"), None);
    }

    #[test]
    fn accesses_that_touch_the_number_are_known() {
        let all = [(0, 4), (0, 5), (4, 4), (11, 1), (12, 9), (7, 0), (3, u64::MAX)];
        let found = all.map(|(offset, len)| covers_number(offset, len));
        assert_eq!(found, [false, true, true, true, false, false, true]);
    }
}
