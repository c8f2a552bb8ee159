//! Memory for generations: how much is used, how much the next one needs, and the directories
//! that take bytes for which there is none.

use super::{Area, Directory, Home, Options, Path};
use std::collections::BTreeMap;

/// Large files have memory in pages of so many bytes at most.
const PAGE: u64 = 2 << 20;

/// Names that differ in digits only: the files of one series are alike.
pub(crate) type Series = Vec<u8>;

/// The series of a name.
pub(crate) fn series(path: &[u8]) -> Series {
    let mut series = Series::with_capacity(path.len());
    for byte in path {
        match byte.is_ascii_digit() {
            true if series.last() == Some(&b'0') => {}
            true => series.push(b'0'),
            false => series.push(*byte),
        }
    }
    series
}

/// Whether there is memory for another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Enough,
    Later,
    /// Readers may make room, but no directory does: the error of the one that is full.
    Full(i32),
}

/// The memory that another generation needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes that all may have.
    budget: u64,
    /// Bytes that it is expected to have.
    expected: u64,
    /// The generation that it begins as a copy of.
    pub(super) source: Option<Area>,
}

impl Need {
    /// Whether it may begin beside `used` bytes. One that is larger than all may begin alone.
    fn is_met(self, used: u64) -> bool {
        let all = used.saturating_add(self.expected);
        self.budget == 0 || used == 0 || used < self.budget && all <= self.budget
    }
}

/// The memory of all generations, and the directories beside it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes that generations have or are expected to have.
    used: u64,
    /// Bytes that are being freed.
    leaving: u64,
    /// Bytes that there may be where a rule says nothing.
    limit: u64,
    /// Bytes of the last complete generation of each series.
    sizes: BTreeMap<Series, u64>,
    /// Directories that take no more bytes, and the error that said so.
    full: BTreeMap<Directory, i32>,
    /// A file with a directory for its generations, if they may be too many since the last look.
    pub(crate) grown: Option<Path>,
}

impl Room {
    /// Tells how many bytes of memory all generations have or are expected to have, how many others
    /// are being freed, and how many there may be where a rule says nothing.
    pub(crate) fn measure(&mut self, used: u64, leaving: u64, limit: u64) {
        (self.used, self.leaving, self.limit) = (used, leaving, limit);
    }

    /// A generation needs memory.
    pub(super) fn need(&self, options: &Options, expected: u64, source: Option<Area>) -> Need {
        let budget = if options.budget > 0 { options.budget } else { self.limit };
        Need { budget, expected, source }
    }

    /// Whether another generation may begin.
    pub(super) fn has(&self, need: Need) -> bool {
        need.is_met(self.used)
    }

    /// Whether another generation may begin before bytes that are being freed are free.
    pub(super) fn has_now(&self, need: Need) -> bool {
        need.is_met(self.used + self.leaving)
    }

    /// Whether memory is being freed.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving > 0
    }

    /// The memory of a generation is being freed.
    pub(super) fn free(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
        self.leaving += bytes;
    }

    /// A complete generation of a file has so many bytes; `spills` if its rule names a directory.
    pub(super) fn weigh(&mut self, path: &[u8], bytes: u64, spills: bool) {
        self.sizes.insert(series(path), bytes);
        self.grown = spills.then(|| path.to_vec()).or(self.grown.take());
    }

    /// Bytes that another generation of a file is expected to have: as many as the last one of its
    /// series, and as the `copied` ones with which it begins; 0 if nothing is known.
    pub(super) fn expected(&self, path: &[u8], copied: u64) -> u64 {
        let bytes = self.sizes.get(&series(path)).copied().unwrap_or(0).max(copied);
        if bytes >= 2 * PAGE { bytes.next_multiple_of(PAGE) } else { bytes }
    }

    /// A directory takes no more for now.
    pub(super) fn refuse(&mut self, directory: Directory, error: i32) {
        self.full.insert(directory, error);
    }

    /// A generation is given up: its directory may take others now.
    pub(super) fn leave(&mut self, home: &Home) {
        if let Home::Moving(directory) | Home::Directory(directory, _) = home {
            self.full.remove(directory);
        }
    }

    /// The error of a directory, if it takes no more.
    pub(super) fn error_of(&self, directory: &Directory) -> Option<i32> {
        self.full.get(directory).copied()
    }

    /// Directories that took no more may do so now; whether there are any.
    pub(crate) fn try_directories_again(&mut self) -> bool {
        !std::mem::take(&mut self.full).is_empty()
    }

    /// Directories that take no more, and why.
    pub(crate) fn full_directories(&self) -> impl Iterator<Item = (&Directory, i32)> {
        self.full.iter().map(|(directory, error)| (directory, *error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_digits_are_one_series() {
        assert_eq!(series(b"/r1/ck.0009.nc"), series(b"/r22/ck.10.nc"));
        assert_ne!(series(b"ck.1.nc"), series(b"ck.nc"));
        assert_ne!(series(b"ck.1.nc"), series(b"ck.1.h5"));
    }

    #[test]
    fn a_generation_is_expected_to_have_the_pages_of_the_last_one_of_its_series() {
        let mut room = Room::default();
        for (bytes, expected) in [(7, 7), (PAGE + 1, PAGE + 1), (2 * PAGE + 1, 3 * PAGE)] {
            room.weigh(b"/d/ck.1", bytes, false);
            assert_eq!(room.expected(b"/d/ck.20", 0), expected);
        }
        assert_eq!((room.expected(b"/d/other", 0), room.expected(b"/d/other", 9)), (0, 9));
    }

    #[test]
    fn there_is_room_within_the_budget_or_for_one_alone() {
        let mut room = Room::default();
        let options = Options { budget: 10, ..Options::default() };
        let fits = |room: &Room, bytes| room.has(room.need(&options, bytes, None));
        assert!(fits(&room, 99), "alone");
        room.measure(6, 1, 0);
        assert!(fits(&room, 4) && !fits(&room, 5));
        assert!(!room.has_now(room.need(&options, 4, None)) && room.is_leaving());
        room.free(3);
        assert!(fits(&room, 7));
        let unlimited = room.need(&Options::default(), u64::MAX, None);
        assert!(room.has(unlimited), "neither the rule nor the node has a limit");
    }

    #[test]
    fn a_full_directory_takes_more_when_a_generation_has_left_it() {
        let (mut room, place) = (Room::default(), Directory::from("/spill"));
        room.refuse(place.clone(), libc::ENOSPC);
        room.leave(&Home::Memory);
        assert_eq!(room.error_of(&place), Some(libc::ENOSPC));
        room.leave(&Home::Directory(place.clone(), 3));
        assert!(room.error_of(&place).is_none() && !room.try_directories_again());
    }
}
