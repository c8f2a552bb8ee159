//! Checks of a spool file: numbers with their complement, and checksums of its owner, of the file
//! of each slot, and of each piece with its bytes.

use aggio_base::checksum::crc32c_append;

/// A number of less than 32 bits, and its complement.
pub fn guarded(number: u64) -> u64 {
    debug_assert!(u32::try_from(number).is_ok());
    number | !number << 32
}

/// The number in a guarded word; `None` if it is damaged.
pub(super) fn unguarded(word: u64) -> Option<u64> {
    let number = word & u64::from(u32::MAX);
    (word == guarded(number)).then_some(number)
}

/// A number of less than 16 bits, and its complement.
#[inline]
pub fn guarded_short(number: u32) -> u32 {
    debug_assert!(u16::try_from(number).is_ok());
    number | !number << 16
}

/// The number in such a word; `None` if it is damaged.
pub(super) fn unguarded_short(word: u32) -> Option<u32> {
    let number = word & u32::from(u16::MAX);
    (word == guarded_short(number)).then_some(number)
}

/// The checksum of numbers.
fn of_numbers<const N: usize>(numbers: [u64; N]) -> u32 {
    crc32c_append(0, numbers.map(u64::to_ne_bytes).as_flattened())
}

/// Length and checksum of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Bytes.
    pub(super) len: u64,
    /// The checksum of its [place](Run::begin) and of its bytes.
    pub(super) crc: u32,
}

impl Run {
    /// The piece number `index` of a slot, at `offset` of the file and at `place` of the data,
    /// before it has any bytes.
    #[inline]
    pub(super) fn begin(index: usize, offset: u64, place: u64) -> Self {
        Self { len: 0, crc: of_numbers([index as u64, offset, place]) }
    }

    /// With more bytes.
    #[inline]
    pub(super) fn and(self, bytes: &[u8]) -> Self {
        let len = self.len + bytes.len() as u64;
        Self { len, crc: crc32c_append(self.crc, bytes) }
    }

    /// As one word.
    #[inline]
    pub(super) fn word(self) -> u64 {
        debug_assert!(u32::try_from(self.len).is_ok());
        self.len | u64::from(self.crc) << 32
    }

    /// From such a word.
    #[inline]
    pub(super) fn of(word: u64) -> Self {
        Self { len: word & u64::from(u32::MAX), crc: (word >> 32) as u32 }
    }
}

/// The owner of a spool file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    /// The last part of the name of the file.
    pub(super) name: &'a [u8],
    pub(super) pid: u32,
    pub(super) started: u64,
    pub(super) boot: [u64; 2],
    pub(super) host: u64,
}

impl Owner<'_> {
    /// Its check.
    pub(super) fn check(&self) -> u32 {
        let [first, second] = self.boot;
        let numbers = [u64::from(self.pid), self.started, first, second, self.host];
        crc32c_append(of_numbers(numbers), self.name)
    }
}

/// Which file a slot is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned<'a> {
    /// Where the data of the slot begin in the spool file.
    pub(super) data: u64,
    pub(super) room: u64,
    /// Device, inode and [birth](super::born) of the file.
    pub(super) identity: [u64; 3],
    /// Its name.
    pub(super) path: &'a [u8],
}

impl Owned<'_> {
    /// Its check.
    pub(super) fn check(&self) -> u32 {
        let [device, inode, born] = self.identity;
        let numbers = [self.data, self.room, device, inode, born, self.path.len() as u64];
        crc32c_append(of_numbers(numbers), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarded_number_of_which_any_bit_changed_is_damaged() {
        for number in [0, 1, 255, 500, 0xffff] {
            assert_eq!(unguarded(guarded(number)), Some(number));
            assert_eq!(unguarded_short(guarded_short(number as u32)), Some(number as u32));
            for bit in 0..64 {
                assert_eq!(unguarded(guarded(number) ^ 1 << bit), None);
            }
            for bit in 0..32 {
                assert_eq!(unguarded_short(guarded_short(number as u32) ^ 1 << bit), None);
            }
        }
        assert_eq!((unguarded(0), unguarded_short(0)), (None, None), "what nobody wrote");
    }

    #[test]
    fn a_run_that_grows_has_the_checksum_of_all_its_bytes() {
        let whole = Run::begin(3, 1 << 40, 77).and(b"all bytes of it");
        let grown = Run::begin(3, 1 << 40, 77).and(b"all ").and(b"").and(b"bytes of it");
        assert_eq!(whole, grown);
        assert_eq!((Run::of(whole.word()), whole.len), (whole, 15));
        let others = [
            Run::begin(2, 1 << 40, 77).and(b"all bytes of it"),
            Run::begin(3, 1 << 41, 77).and(b"all bytes of it"),
            Run::begin(3, 1 << 40, 78).and(b"all bytes of it"),
            Run::begin(3, 1 << 40, 77).and(b"all bytes of if"),
        ];
        assert!(others.iter().all(|other| other.crc != whole.crc));
    }
}
