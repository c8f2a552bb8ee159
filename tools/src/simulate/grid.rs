//! Windows in file order, and their domains.

use agg_core::Extent;
use agg_core::plan::{Domains, Sequence};

/// The division of the file into windows by a plan; each window belongs to a domain.
pub(crate) enum Grid {
    /// aggio: the windows of the real planner. `before[d]` windows lie in domains before `d`.
    Sequence { windows: Sequence, domains: Domains, before: Vec<u64> },
    /// ROMIO's generic plan: equal domains, each cut from its start into buffers of `buffer` bytes.
    Even { hull: Extent, domain: u64, buffer: u64 },
    /// ROMIO's plan for Lustre: stripes, dealt to `domains` aggregators in turn.
    Cyclic { hull: Extent, stripe: u64, domains: u64 },
}

impl Grid {
    /// The windows of aggio's planner.
    pub(crate) fn sequence(windows: Sequence) -> Self {
        let domains = windows.domains();
        let mut before = vec![0];
        for domain in 0..domains.count() {
            before.push(before[domain] + windows.windows_of(domain));
        }
        Grid::Sequence { windows, domains, before }
    }

    /// Number of domains that have bytes.
    pub(crate) fn domains(&self) -> usize {
        match self {
            Grid::Sequence { domains, .. } => domains.count(),
            Grid::Even { hull, domain, .. } => hull.len.div_ceil((*domain).max(1)) as usize,
            Grid::Cyclic { domains, .. } => (*domains).min(self.count()) as usize,
        }
    }

    /// Number of windows.
    pub(crate) fn count(&self) -> u64 {
        let hull = self.hull();
        if hull.is_empty() { 0 } else { self.index(hull.end() - 1) + 1 - self.index(hull.offset) }
    }

    /// Most windows of one domain: the rounds of a plan in lock-step.
    pub(crate) fn rounds(&self) -> u64 {
        match self {
            Grid::Sequence { before, .. } => {
                before.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
            }
            Grid::Even { hull, domain, buffer } => (*domain).min(hull.len).div_ceil(*buffer),
            Grid::Cyclic { domains, .. } => self.count().div_ceil(*domains),
        }
    }

    fn hull(&self) -> Extent {
        match self {
            Grid::Sequence { domains, .. } => {
                let last = domains.count().saturating_sub(1);
                Extent::between(domains.extent(0).offset, domains.extent(last).end())
            }
            Grid::Even { hull, .. } | Grid::Cyclic { hull, .. } => *hull,
        }
    }

    /// The number of the window with byte `offset`, which lies in the hull; it grows with `offset`.
    pub(crate) fn index(&self, offset: u64) -> u64 {
        match self {
            Grid::Sequence { windows, domains, before } => {
                let domain = domains.touched_by(Extent::new(offset, 1)).start;
                before[domain] + windows.index(domains.extent(domain), offset)
            }
            Grid::Even { hull, domain, buffer } => {
                let (number, inside) =
                    ((offset - hull.offset) / domain, (offset - hull.offset) % domain);
                number * domain.div_ceil(*buffer) + inside / buffer
            }
            Grid::Cyclic { stripe, .. } => offset / stripe,
        }
    }

    /// The domain of window `window`; not for stripes: their domains are not in file order.
    pub(crate) fn domain_of(&self, window: u64) -> u64 {
        match self {
            Grid::Sequence { before, .. } => {
                before.partition_point(|before| *before <= window) as u64 - 1
            }
            Grid::Even { domain, buffer, .. } => window / domain.div_ceil(*buffer),
            Grid::Cyclic { domains, .. } => window % domains,
        }
    }

    /// Gaps of this many bytes hide no window: each window inside a run has data.
    pub(crate) fn harmless_gap(&self) -> u64 {
        self.shortest().saturating_sub(1)
    }

    /// Bytes of a window that no border cuts.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Grid::Sequence { windows, .. } => windows.size(),
            Grid::Even { domain, buffer, .. } => (*domain).min(*buffer),
            Grid::Cyclic { stripe, .. } => *stripe,
        }
    }

    /// Bytes of the shortest window that may lie inside a gap.
    fn shortest(&self) -> u64 {
        match self {
            Grid::Sequence { windows, domains, before } => {
                let size = windows.size();
                let edges = |domain: usize| {
                    let extent = domains.extent(domain);
                    if before[domain + 1] - before[domain] == 1 {
                        return extent.len;
                    }
                    let (head, tail) = (size - extent.offset % size, (extent.end() - 1) % size + 1);
                    head.min(tail)
                };
                // Data touches both ends of the hull.
                (1..domains.count().saturating_sub(1)).map(edges).min().unwrap_or(size).min({
                    let first = (domains.count() > 1).then(|| domains.extent(0));
                    let last = domains.count().checked_sub(1).filter(|last| *last > 0);
                    let last = last.map(|last| domains.extent(last));
                    let tail = first.map(|first| (first.end() - 1) % size + 1);
                    let head = last.map(|last| size - last.offset % size);
                    tail.unwrap_or(size).min(head.unwrap_or(size))
                })
            }
            Grid::Even { domain, buffer, .. } => {
                let rest = domain % buffer;
                if rest == 0 { *buffer } else { rest }
            }
            Grid::Cyclic { stripe, .. } => *stripe,
        }
    }

    /// Calls `visit` with the parts of `span` that belong to `domain`.
    pub(crate) fn visit_domain(&self, domain: usize, span: Extent, visit: &mut dyn FnMut(Extent)) {
        let mut part = |extent: Extent| {
            let part = extent.intersect(span);
            if !part.is_empty() {
                visit(part);
            }
        };
        match self {
            Grid::Sequence { domains, .. } => part(domains.extent(domain)),
            Grid::Even { hull, domain: size, .. } => {
                let start = hull.offset + domain as u64 * size;
                part(Extent::new(start, *size).intersect(*hull));
            }
            Grid::Cyclic { stripe, domains, .. } => {
                let first = span.offset / stripe;
                let skip = (domain as u64 + domains - first % domains) % domains;
                let numbers =
                    (first + skip..span.end().div_ceil(*stripe)).step_by(*domains as usize);
                for number in numbers {
                    part(Extent::new(number * stripe, *stripe));
                }
            }
        }
    }

    /// How often [`Grid::visit_domain`] would call for `span`, about.
    pub(crate) fn parts_of_domain(&self, span: Extent) -> u64 {
        match self {
            Grid::Cyclic { stripe, domains, .. } => span.len / stripe / domains + 1,
            _ => 1,
        }
    }

    /// Units of `unit` bytes in which windows of different nodes lie; `node` says where the
    /// aggregator of a domain is.
    pub(crate) fn shared_units(&self, unit: u64, node: &dyn Fn(usize) -> u64) -> u64 {
        let (mut shared, mut last) = (0, None);
        let mut border = |at: u64| {
            if !at.is_multiple_of(unit) && last != Some(at / unit) {
                last = Some(at / unit);
                shared += 1;
            }
        };
        let hull = self.hull();
        match self {
            Grid::Sequence { domains, .. } => {
                for domain in 1..domains.count() {
                    if node(domain - 1) != node(domain) {
                        border(domains.extent(domain).offset);
                    }
                }
            }
            Grid::Even { domain: size, .. } => {
                for domain in 1..self.domains() {
                    if node(domain - 1) != node(domain) {
                        border(hull.offset + domain as u64 * size);
                    }
                }
            }
            Grid::Cyclic { stripe, domains, .. } => {
                let at = |number: u64| node((number % domains) as usize);
                for number in hull.offset / stripe + 1..hull.end().div_ceil(*stripe) {
                    if at(number - 1) != at(number) {
                        border(number * stripe);
                    }
                }
            }
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grids() -> Vec<Grid> {
        let hull = Extent::between(70, 1000);
        vec![
            Grid::sequence(Sequence::new(Domains::new(hull, 3, 64, 0), 100)),
            Grid::sequence(Sequence::new(Domains::new(hull, 1, 1, 0), 4096)),
            Grid::Even { hull, domain: 310, buffer: 64 },
            Grid::Cyclic { hull, stripe: 64, domains: 3 },
        ]
    }

    #[test]
    fn every_byte_belongs_to_one_domain_and_numbers_grow() {
        for grid in grids() {
            let mut owned = vec![0; 1000];
            for domain in 0..grid.domains() {
                grid.visit_domain(domain, Extent::between(70, 1000), &mut |part| {
                    (part.offset..part.end()).for_each(|byte| owned[byte as usize] += 1);
                });
            }
            assert!(owned[70..].iter().all(|times| *times == 1));
            let numbers: Vec<u64> = (70..1000).map(|offset| grid.index(offset)).collect();
            assert!(numbers.is_sorted());
            let mut different = numbers.clone();
            different.dedup();
            assert_eq!(different.len() as u64, grid.count());
        }
    }

    #[test]
    fn a_gap_below_the_shortest_window_hides_none() {
        for grid in grids() {
            let gap = grid.harmless_gap();
            for start in 71..999 - gap.min(900) {
                let (left, right) = (grid.index(start - 1), grid.index(start + gap));
                assert!(right <= left + 1, "gap of {gap} at {start}");
            }
        }
    }

    #[test]
    fn units_are_shared_where_borders_cut_them() {
        let hull = Extent::new(0, 1024);
        let even = |domain| Grid::Even { hull, domain, buffer: 64 };
        let apart = |domain: usize| domain as u64;
        assert_eq!(even(256).shared_units(128, &apart), 0);
        assert_eq!(even(192).shared_units(128, &apart), 3);
        assert_eq!(even(192).shared_units(128, &|_| 0), 0);
        assert_eq!(even(16).shared_units(128, &apart), 8);
        let stripes = Grid::Cyclic { hull, stripe: 64, domains: 2 };
        assert_eq!(stripes.shared_units(128, &apart), 8);
        assert_eq!(stripes.shared_units(64, &apart), 0);
    }
}
