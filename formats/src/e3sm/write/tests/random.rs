//! Random files of random writers, in random groups.

use super::stored::{InStores, files_on_disk};
use super::*;
use crate::cdf::tests::random_header;
use crate::logical::{Logical, Slab};
use aggio_tests::factor;
use proptest::prelude::*;

/// The differences of a file from one that PnetCDF makes by itself.
#[derive(Clone, Debug)]
struct Quirks {
    /// Bytes by which the data of variables without records, and of those with records, begin
    /// later.
    gaps: [u64; 2],
    /// The bytes that the file has less, or more, than its variables.
    less: Index,
    more: usize,
    quirks: [bool; 3],
}

fn quirks() -> impl Strategy<Value = Quirks> {
    let odd = || prop::bool::weighted(0.3);
    ([0..9_u64, 0..9], any::<Index>(), 0..40_usize, [odd(), odd(), odd()]).prop_map(
        |(gaps, less, more, quirks)| Quirks { gaps: gaps.map(|gap| 4 * gap), less, more, quirks },
    )
}

/// The owner of each element of each variable: the numbers are cut to writers and one more that is
/// nobody.
#[derive(Clone, Debug)]
struct Chosen {
    header: Header,
    writers: u32,
    /// For each variable whether one writer has it whole; otherwise the pattern of its owners.
    whole: Vec<Index>,
    patterns: Vec<Vec<u8>>,
    seed: u8,
    quirks: Quirks,
}

fn chosen() -> impl Strategy<Value = Chosen> {
    let patterns = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..30), 1..4);
    let whole = proptest::collection::vec(any::<Index>(), 7);
    (random_header(), 1..9_u32, whole, patterns, any::<u8>(), quirks()).prop_map(
        |(mut header, writers, whole, patterns, seed, quirks)| {
            if quirks.quirks[0] {
                for variable in &mut header.variables {
                    let is_recorded = variable
                        .dimensions
                        .first()
                        .is_some_and(|id| header.dimensions[*id].length == 0);
                    variable.begin += quirks.gaps[0] + if is_recorded { quirks.gaps[1] } else { 0 };
                }
            }
            Chosen { header, writers, whole, patterns, seed, quirks }
        },
    )
}

impl Chosen {
    fn owner(&self, variable: usize, element: u64) -> Option<u32> {
        let which = self.whole[variable].index(self.patterns.len() + 2);
        let number = match which.checked_sub(2) {
            Some(pattern) => {
                let pattern = &self.patterns[pattern];
                u32::from(pattern[element as usize % pattern.len()])
            }
            None if which == 0 => self.writers,
            None => u32::from(self.seed),
        };
        Some(number % (self.writers + 1)).filter(|writer| *writer < self.writers)
    }

    fn written(&self) -> Written {
        let layout = Layout::of(&self.header).unwrap();
        let Records::Known(records) = self.header.records else { unreachable!() };
        let mut bytes = self.header.write().unwrap();
        let end = layout.end(records).unwrap().max(layout.header) as usize;
        let mut owners = vec![Some(0); bytes.len()];
        for at in bytes.len()..end {
            let owner = match layout.piece(at as u64).place {
                Place::Data { variable, byte, .. } => {
                    self.owner(variable, byte / layout.slots[variable].element)
                }
                _ => Some(at as u32 % self.writers).filter(|_| at % 3 == 0),
            };
            let is_data = matches!(layout.piece(at as u64).place, Place::Data { .. });
            let value = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            bytes.push(if owner.is_some() && is_data { value as u8 } else { 0 });
            owners.push(owner);
        }
        if self.quirks.quirks[1] {
            bytes.resize(bytes.len() + self.quirks.more, 0);
            owners.resize(bytes.len(), Some(0));
        } else if self.quirks.quirks[2] {
            let holes = owners.iter().rev().take_while(|owner| owner.is_none()).count();
            bytes.truncate(bytes.len() - self.quirks.less.index(holes + 1));
            owners.truncate(bytes.len());
        }
        Written { bytes, owners, writers: self.writers }
    }
}

/// Puts each writer in one of at most so many subfiles, so that none is empty.
fn grouped(writers: u32, wanted: usize, chosen: &[u8]) -> Vec<Vec<u32>> {
    let count = wanted.min(writers as usize);
    let mut groups = vec![Vec::new(); count];
    for writer in (0..writers).rev() {
        let index = writer as usize;
        let to = if index < count { index } else { usize::from(chosen[index]) % count };
        groups[to].push(writer);
    }
    groups
}

fn grouping() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (1..5_usize, proptest::collection::vec(any::<u8>(), 9))
}

fn parts() -> impl Strategy<Value = Vec<(Index, usize)>> {
    proptest::collection::vec((any::<Index>(), 0..300_usize), 5)
}

fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(500 * factor() as u32)
}

fn opened(files: Files) -> Logical {
    let count = files.len();
    open_blobs(Arc::new(files), count, &Options::default()).unwrap()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_set_is_exactly_the_file_that_it_was_made_of(
        chosen in chosen(), (count, to) in grouping(), parts in parts(),
    ) {
        let written = chosen.written();
        let groups = grouped(written.writers, count, &to);
        for kind in [Kind::Pnetcdf, Kind::Hdf5] {
            let plan = written.plan(&groups, kind);
            stands_for(files(&plan, &written.bytes), &written.bytes, &parts);
        }
    }

    #[test]
    fn a_set_is_the_same_if_it_is_copied_from_where_the_file_is_stored(
        chosen in chosen(), (count, to) in grouping(), every in 1..9_usize, parting in 0..3_usize,
    ) {
        let written = chosen.written();
        let stores = InStores::new(&written, every, parting);
        let groups = grouped(written.writers, count, &to);
        for kind in [Kind::Pnetcdf, Kind::Hdf5] {
            let plan = written.plan(&groups, kind);
            prop_assert!(files_on_disk(&plan, &stores) == files(&plan, &written.bytes));
        }
    }

    #[test]
    fn a_set_of_a_set_is_the_same_set(chosen in chosen(), (count, to) in grouping()) {
        let written = chosen.written();
        let groups = grouped(written.writers, count, &to);
        let first = files(&written.plan(&groups, Kind::Hdf5), &written.bytes);
        let file = opened(first.clone());
        let told = file.written().unwrap();
        let mut owned = told.owned().map(Ok);
        // Without decompositions the number of writers is unknown.
        let mut next = 0_u32..;
        let groups: Vec<Vec<u32>> = match file.describe().coverage.len() {
            0 => told.groups().to_vec(),
            _ => groups.iter().map(|group| next.by_ref().take(group.len()).collect()).collect(),
        };
        prop_assert_eq!(told.groups(), &groups[..]);
        let plan = match Plan::of(&written.bytes, &mut owned, &groups, Kind::Hdf5).unwrap() {
            Outcome::Plan(plan) => plan,
            Outcome::Unsuited(what) => panic!("{what}"),
        };
        let second = files(&plan, &written.bytes);
        if file.describe().coverage.is_empty() {
            stands_for(second, &written.bytes, &[]);
        } else {
            prop_assert!(first == second);
        }
    }

    #[test]
    fn the_same_in_cdf5_has_the_same_values(chosen in chosen(), (count, to) in grouping()) {
        let written = chosen.written();
        let groups = grouped(written.writers, count, &to);
        let set = || opened(files(&written.plan(&groups, Kind::Hdf5), &written.bytes));
        let (before, after) = (set(), set().into_cdf5().unwrap());
        let mut bytes = vec![0xEE; after.size() as usize];
        prop_assert_eq!(after.read_at(&mut bytes, 0).unwrap(), bytes.len());
        let header = parse(&bytes).unwrap();
        let layout = Layout::of(&header).unwrap();
        prop_assert_eq!(header.version, Version::Data64);
        let without = |header: &Header| {
            let mut header = header.clone();
            header.version = Version::Data64;
            header.assign(Alignment::default()).unwrap();
            header
        };
        prop_assert_eq!(without(before.header()), header);
        for (variable, slot) in layout.slots.iter().enumerate() {
            for record in 0..if slot.records { before.records() } else { 1 } {
                let mut values = vec![0xEE; slot.size as usize];
                before.read_slab(Slab { variable, record }, 0, &mut values).unwrap();
                let begin = layout.offset_of(variable, record).unwrap() as usize;
                prop_assert_eq!(&bytes[begin..begin + values.len()], &values);
            }
        }
    }

    #[test]
    fn whoever_wrote_whichever_bytes_a_set_is_the_file_or_there_is_none(
        chosen in chosen(), (count, to) in grouping(),
        // Some of them change the header, so that variables may become very large.
        strangers in proptest::collection::vec((any::<Index>(), 1..40_usize, any::<u8>()), 1..4),
    ) {
        let mut written = chosen.written();
        for (at, len, writer) in strangers {
            let at = at.index(written.owners.len());
            let end = written.owners.len().min(at + len);
            written.owners[at..end].fill(Some(u32::from(writer) % written.writers));
            if writer % 2 == 0 {
                written.bytes[at..end].fill(writer);
            }
        }
        let groups = grouped(written.writers, count, &to);
        for kind in [Kind::Pnetcdf, Kind::Hdf5] {
            if let Outcome::Plan(plan) = written.outcome(&groups, kind)
                && let Ok(files) = small_files(&plan, &written.bytes)
            {
                stands_for(files, &written.bytes, &[]);
            }
        }
    }
}
