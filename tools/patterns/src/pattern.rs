//! A pattern: the accesses to the file, and the layout of the data in memory.

use crate::access::Access;
use crate::kind::Kind;
use crate::memory::Memory;

/// The most ranks for which accesses are computed; offsets of all patterns stay below 2^63 then.
pub const MAX_RANKS: u64 = 1 << 20;

/// One access pattern. Made from text by [`str::parse`], which also checks that its sizes make
/// sense together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub(crate) kind: Kind,
    pub(crate) memory: Memory,
}

impl Pattern {
    /// The distribution of the bytes of the file among ranks.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// How the data lie in memory.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The access of `rank` of `ranks`.
    ///
    /// # Panics
    ///
    /// If there is no such rank, or more than [`MAX_RANKS`].
    pub fn access(&self, rank: u64, ranks: u64) -> Access {
        assert!(rank < ranks && ranks <= MAX_RANKS, "rank {rank} of {ranks}");
        let (view, calls) = self.kind.access(rank, ranks);
        let bytes = calls.iter().map(|call| call.bytes).sum();
        let memory = self.memory.layout(bytes, &view.filetype);
        Access { view, memory, calls }
    }

    /// Bytes of the file that `ranks` ranks need: no owned byte lies behind it, and without holes
    /// all before it are owned.
    pub fn span(&self, ranks: u64) -> u64 {
        self.kind.span(ranks)
    }

    /// Whether there are bytes between the owned ones that nobody may change.
    pub fn has_holes(&self) -> bool {
        self.kind.has_holes()
    }

    /// How often the file is opened and closed, if that is all that happens.
    pub fn opens(&self) -> Option<u64> {
        match self.kind {
            Kind::Opens { count } => Some(count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &[&str] = &[
        "contiguous,bytes=1003",
        "interleaved,piece=8,bytes=4K",
        "interleaved,piece=24,bytes=4K,memory=blocks:10:3",
        "strided,piece=16,hole=16,bytes=4K",
        "blocks,array=17x13,element=8,memory=ghost:2",
        "blocks,array=7x6x5,element=8",
        "blocks,array=4x5x6x7,element=48,order=fortran",
        "records,record=47,bytes=4K",
        "variables,count=5,piece=100",
        "columns,arrays=6,rows=5,width=4,lead=7,memory=split:7:16",
        "random,slot=64,bytes=4K,seed=3",
    ];

    /// How often each byte of the file is owned.
    fn owners(pattern: &Pattern, ranks: u64) -> Vec<u8> {
        let mut owned = vec![0; pattern.span(ranks) as usize];
        for rank in 0..ranks {
            let access = pattern.access(rank, ranks);
            let mut bytes = 0;
            access.for_each_file_piece(&mut |piece| {
                bytes += piece.len;
                let range = piece.offset as usize..(piece.offset + piece.len) as usize;
                owned[range].iter_mut().for_each(|times| *times += 1);
            });
            assert_eq!(bytes, access.bytes());
            assert_eq!(access.memory.bytes(), bytes);
        }
        owned
    }

    #[test]
    fn no_byte_has_two_owners_and_only_holes_have_none() {
        for text in SMALL {
            let pattern: Pattern = text.parse().unwrap();
            for ranks in [1, 2, 3, 4, 7, 8] {
                let owned = owners(&pattern, ranks);
                assert!(owned.iter().all(|&times| times <= 1), "{text}, {ranks} ranks");
                let holes = owned.contains(&0);
                assert_eq!(holes, pattern.has_holes(), "{text}, {ranks} ranks");
            }
        }
    }

    #[test]
    fn all_ranks_make_the_same_number_of_calls() {
        for text in SMALL {
            let pattern: Pattern = text.parse().unwrap();
            let calls = pattern.access(0, 8).calls.len();
            assert!((1..8).all(|rank| pattern.access(rank, 8).calls.len() == calls), "{text}");
            let scattered =
                !matches!(pattern.access(0, 8).memory, crate::Layout::Contiguous { .. });
            assert!(calls == 1 || !scattered, "{text}");
        }
    }

    #[test]
    fn a_hundred_thousand_ranks_are_no_special_case() {
        for text in SMALL {
            let pattern: Pattern = text.parse().unwrap();
            let access = pattern.access(99_999, 100_000);
            access.for_each_file_piece(&mut |piece| {
                assert!(piece.offset + piece.len <= pattern.span(100_000), "{text}");
            });
        }
    }

    #[test]
    fn in_fortran_order_the_first_dimension_is_contiguous_and_divided_first() {
        let pattern: Pattern = "blocks,array=4x6,element=1,order=fortran".parse().unwrap();
        let mut pieces = Vec::new();
        pattern.access(1, 2).for_each_file_piece(&mut |piece| pieces.push(piece.offset));
        assert_eq!(pieces, [2, 6, 10, 14, 18, 22]);
    }
}
