//! The writers of the bytes of a logical file.

use super::Logical;
use crate::blobs::Owned;
use crate::cdf::Place;
use std::ops::Range;

/// Elements of a variable and their writer, sorted.
pub(crate) type Parts = Vec<(Range<u64>, u32)>;

/// The writers of the variables of a set.
pub(crate) struct Writers {
    /// The writers of each file.
    pub(crate) groups: Vec<Vec<u32>>,
    /// The elements of each writer, in each decomposition.
    pub(crate) parts: Vec<Parts>,
    /// The decomposition of each variable; those that have none are the first writer's.
    pub(crate) used: Vec<Option<usize>>,
}

/// The bytes of each writer of a set.
pub struct Written<'a> {
    file: &'a Logical,
    writers: Writers,
}

impl Logical {
    /// The bytes of each writer of a set; `None` if its files do not tell them.
    #[must_use]
    pub fn written(&self) -> Option<Written<'_>> {
        Some(Written { file: self, writers: self.source.writers()? })
    }
}

impl Written<'_> {
    /// The writers of each file of the set.
    #[must_use]
    pub fn groups(&self) -> &[Vec<u32>] {
        &self.writers.groups
    }

    /// The bytes of all writers, in the order of the file; also those of variables behind the end
    /// of a file that ends early. The header is the first writer's.
    pub fn owned(&self) -> impl Iterator<Item = Owned> {
        let layout = &self.file.layout;
        let head = Owned { range: 0..layout.header, writer: 0 };
        let pieces = layout.pieces(layout.header..self.file.end);
        let data = pieces.filter_map(|piece| match piece.place {
            Place::Data { variable, record, .. } => Some((variable, record, piece.range)),
            _ => None,
        });
        let parts = data.filter(|(variable, record, _)| {
            self.file.has(super::Slab { variable: *variable, record: *record })
        });
        std::iter::once(head).chain(parts.flat_map(|(variable, _, range)| {
            let element = layout.slots[variable].element;
            let parts = self.writers.used[variable].map(|k| self.writers.parts[k].as_slice());
            let whole = parts.is_none().then_some(Owned { range: range.clone(), writer: 0 });
            let at = move |elements: u64| range.start + elements * element;
            let each = parts.unwrap_or(&[]).iter().map(move |(elements, writer)| Owned {
                range: at(elements.start)..at(elements.end),
                writer: *writer,
            });
            whole.into_iter().chain(each)
        }))
    }
}
