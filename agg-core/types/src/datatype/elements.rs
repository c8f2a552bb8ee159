//! The basic elements of a datatype in typemap order.

use super::walk::{Grain, Stop, Walk};
use super::{Basic, Datatype};

/// Iterates over (basic element, how many in a row) in typemap order; made by
/// [`Datatype::elements`]. Equal neighbours are counted together; no item is empty.
#[derive(Clone, Debug)]
pub struct Elements {
    walk: Walk,
    waiting: Option<(Basic, u64)>,
}

impl Elements {
    pub(super) fn new(datatype: &Datatype, copies: u64) -> Self {
        let mut walk = Walk::new(datatype, copies, Grain::Elements);
        let waiting = match datatype.uniform() {
            // Only one kind: all copies are one row, and there is nothing to walk over.
            Some(basic) if copies > 0 => {
                walk = Walk::new(datatype, 0, Grain::Elements);
                let one = datatype.size() / u64::from(basic.size);
                Some((basic, one.saturating_mul(copies)))
            }
            _ => walk.locate(0).and_then(|(stop, _)| row(stop)),
        };
        Self { walk, waiting }
    }
}

fn row(stop: Stop) -> Option<(Basic, u64)> {
    let basic = stop.uniform?;
    Some((basic, stop.size / u64::from(basic.size)))
}

impl Iterator for Elements {
    type Item = (Basic, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (basic, mut count) = self.waiting.take()?;
        while let Some(stop) = self.walk.step() {
            match row(stop) {
                Some((same, more)) if same == basic => count = count.saturating_add(more),
                other => {
                    self.waiting = other;
                    break;
                }
            }
        }
        Some((basic, count))
    }
}
