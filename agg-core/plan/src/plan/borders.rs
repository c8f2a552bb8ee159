//! Borders of file domains at borders of the things in a file.

use crate::format::Map;
use aggio_base::Extent;
use std::iter::successors;

/// How many borders of things are looked at on each side for one that lies at a multiple of the
/// unit.
const STEPS: usize = 16;

/// The rules for borders of file domains.
#[derive(Clone, Copy, Debug)]
pub struct Guide<'a> {
    /// Where the things lie.
    pub map: &'a dyn Map,
    /// Borders lie at multiples of this; 0 counts as 1. Where a border of a thing does not, the
    /// nearest multiple is taken.
    pub unit: u64,
    /// Bytes that a domain has at least, but for the last.
    pub least: u64,
}

impl Guide<'_> {
    /// The place for the border of a domain that would lie at `target`, at most `reach` away:
    /// between two slabs; inside a slab only if that reaches further on both sides, and then
    /// between two of its rows. `None` if nothing is near.
    fn near(&self, target: u64, reach: u64) -> Option<u64> {
        let before = |at: u64| self.map.border_before(at);
        let behind = |at: u64| self.map.border_behind(at);
        let lower = successors(before(target), |at| before(at.checked_sub(1)?));
        let upper = successors(behind(target), |at| behind(at.checked_add(1)?));
        let len = |border: u64| self.map.piece(border).extent.len;
        let slabs = self.choose(lower, upper, (target, reach), len);
        slabs.unwrap_or_else(|| self.between_rows(target, reach))
    }

    /// The same inside one slab.
    fn between_rows(&self, target: u64, reach: u64) -> Option<u64> {
        let (start, row) = self.map.rows(target).filter(|(_, row)| *row > 0)?;
        let before = target - (target - start) % row;
        let behind = if before == target { Some(target) } else { before.checked_add(row) };
        let lower = successors(Some(before), |at| at.checked_sub(row).filter(|at| *at >= start));
        let upper = successors(behind, |at| at.checked_add(row));
        self.choose(lower, upper, (target, reach), |_| row).flatten()
    }

    /// The border nearest to `target` that is a multiple of the unit, among borders below and above
    /// it and at most `reach` away. If there is none, the multiple nearest to the nearest border,
    /// if the thing that begins there is at least a unit long; else the inner `None`. The outer
    /// `None` if there is no border within `reach`.
    fn choose(
        &self,
        lower: impl Iterator<Item = u64>,
        upper: impl Iterator<Item = u64>,
        (target, reach): (u64, u64),
        len: impl Fn(u64) -> u64,
    ) -> Option<Option<u64>> {
        let unit = self.unit.max(1);
        let distance = |at: &u64| at.abs_diff(target);
        let (mut both, mut nearest) = (Vec::new(), Vec::new());
        let sides: [&mut dyn Iterator<Item = u64>; 2] =
            [&mut lower.take(STEPS), &mut upper.take(STEPS)];
        for side in sides {
            let mut near = side.take_while(|at| distance(at) <= reach).peekable();
            nearest.extend(near.peek().copied());
            both.extend(near.find(|at| at.is_multiple_of(unit)));
        }
        let border = nearest.into_iter().min_by_key(distance)?;
        if let Some(both) = both.into_iter().min_by_key(distance) {
            return Some(Some(both));
        }
        let below = border - border % unit;
        let multiples = [Some(below), below.checked_add(unit)].into_iter().flatten();
        let rounded =
            multiples.min_by_key(|at| at.abs_diff(border)).filter(|at| distance(at) <= reach);
        Some(rounded.filter(|_| len(border) >= unit))
    }
}

/// The inner borders of domains of `hull`. Without a format they would be at `even`: ascending,
/// `stride` apart.
pub(super) fn moved(
    guide: Guide<'_>,
    hull: Extent,
    even: impl Iterator<Item = u64>,
    stride: u64,
) -> Vec<u64> {
    let reach = stride.saturating_sub(guide.least) / 2;
    let mut borders: Vec<u64> = Vec::new();
    for target in even {
        let border = guide.near(target, reach).unwrap_or(target);
        let before = borders.last().copied().unwrap_or(hull.offset);
        if before < border && border < hull.end() {
            borders.push(border);
        }
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Records;
    use crate::plan::Domains;
    use proptest::prelude::*;

    fn domains(hull: Extent, aggregators: usize, unit: u64, map: &Records) -> Vec<Extent> {
        let domains =
            Domains::new(hull, aggregators, unit, 0).following(Guide { map, unit, least: 0 });
        (0..domains.count()).map(|domain| domains.extent(domain)).collect()
    }

    fn starts(parts: &[Extent]) -> Vec<u64> {
        parts.iter().map(|part| part.offset).collect()
    }

    #[test]
    fn domains_end_where_records_do() {
        let records = Records::new(1000, 96).expect("records");
        let parts = domains(Extent::new(96, 10_400), 4, 1, &records);
        assert_eq!(starts(&parts), [96, 3096, 5096, 8096], "not at 2696, 5296, 7896");
        let evenly = Domains::new(Extent::new(96, 10_400), 4, 1, 0);
        assert_eq!(evenly.extent(1).offset, 2696);
    }

    #[test]
    fn a_border_that_suits_both_is_preferred_to_a_nearer_one() {
        // Every eighth record begins at a multiple of 4096.
        let records = Records::new(1536, 0).expect("records");
        let parts = domains(Extent::new(0, 49_152), 3, 4096, &records);
        assert_eq!(
            starts(&parts),
            [0, 12_288, 36_864],
            "not 16,896 and 32,256, nor 16,384 and 32,768"
        );
    }

    #[test]
    fn things_that_are_shorter_than_a_unit_do_not_move_borders() {
        let records = Records::new(1000, 7).expect("records");
        let parts = domains(Extent::new(0, 49_152), 3, 4096, &records);
        assert_eq!(starts(&parts), [0, 16_384, 32_768]);
    }

    #[test]
    fn domains_are_not_made_shorter_than_the_hint_allows() {
        let records = Records::new(1320, 0).expect("records");
        let hull = Extent::new(0, 10_000);
        let shortest = |least| {
            let guide = Guide { map: &records, unit: 1, least };
            let domains = Domains::new(hull, 5, 1, least).following(guide);
            (0..domains.count() - 1).map(|domain| domains.extent(domain).len).min()
        };
        assert_eq!((shortest(0), shortest(1900)), (Some(1320), Some(1960)));
    }

    #[test]
    fn where_both_cannot_be_had_the_unit_counts_and_the_record_is_cut_by_less_than_one() {
        let records = Records::new(10_000, 7).expect("records");
        let parts = domains(Extent::new(0, 100_000), 4, 4096, &records);
        for part in &parts[1..] {
            let border = part.offset;
            assert!(border.is_multiple_of(4096), "{border}");
            let nearest = border - (border - 7) % 10_000;
            let off = border.abs_diff(nearest).min(border.abs_diff(nearest + 10_000));
            assert!(off <= 2048, "{border} is {off} bytes from a record");
        }
    }

    #[test]
    fn a_record_larger_than_a_domain_is_cut() {
        let records = Records::new(1_000_000, 0).expect("records");
        let parts = domains(Extent::new(0, 1_000_000), 4, 4096, &records);
        assert_eq!(parts.len(), 4);
    }

    proptest! {
        #[test]
        fn domains_cover_every_byte_once_and_cut_no_record_that_fits_into_one(
            start in prop_oneof![0..3000u64, i64::MAX as u64 - 9000..i64::MAX as u64 - 4000],
            len in 0..4000u64, aggregators in 1..9usize, unit in prop_oneof![Just(1u64), 1..300u64],
            record in 1..900u64, header in 0..50u64,
        ) {
            let hull = Extent::new(start, len);
            let records = Records::new(record, header).expect("records");
            let evenly = Domains::new(hull, aggregators, unit, 0);
            let domains = evenly.clone().following(Guide { map: &records, unit, least: 0 });
            prop_assert!(domains.count() <= evenly.count());
            prop_assert_eq!(domains.count() == 0, hull.is_empty());
            let mut at = hull.offset;
            for number in 0..domains.count() {
                let part = domains.extent(number);
                prop_assert!(part.offset == at && !part.is_empty());
                prop_assert_eq!(domains.touched_by(part), number..number + 1);
                let last = Extent::new(part.end() - 1, 1);
                prop_assert_eq!(domains.touched_by(last), number..number + 1);
                at = part.end();
                let inner = at < hull.end();
                prop_assert!(!inner || at.is_multiple_of(unit));
                let stride = evenly.extent(0).len.max(evenly.extent(1).len);
                if inner && unit == 1 && record <= stride {
                    let cut = at > header && !(at - header).is_multiple_of(record);
                    prop_assert!(!cut && (at >= header || at == 0), "a border at {}", at);
                }
            }
            prop_assert_eq!(at, if hull.is_empty() { at } else { hull.end() });
            prop_assert!(domains.extent(domains.count()).is_empty());
            prop_assert_eq!(domains.touched_by(hull), 0..domains.count());
        }

        #[test]
        fn domains_of_the_next_records_are_those_of_these_further_on(
            start in 0..3000u64,
            len in 1..4000u64,
            aggregators in 1..9usize,
            record in 1..900u64,
            further in 0..9u64,
        ) {
            let records = Records::new(record, 0).expect("records");
            let of = |start: u64| {
                let guide = Guide { map: &records, unit: 1, least: 0 };
                Domains::new(Extent::new(start, len), aggregators, 1, 0).following(guide)
            };
            let (then, now) = (of(start), of(start + further * record));
            prop_assert!(now.are_shifted(&then, further * record));
            prop_assert!(!now.are_shifted(&then, further * record + 1));
        }
    }
}
