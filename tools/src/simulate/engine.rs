//! Patterns as the engine sees them: views made of the engine's type trees.

use agg_core::datatype::{Datatype, Order};
use agg_core::view::{Representation, View};
use agg_core::{Extent, Result};
use aggio_patterns::Layout;

/// The engine's view for the view of a pattern.
///
/// # Errors
/// Offsets beyond the largest one in a file.
pub(crate) fn view(pattern: &aggio_patterns::View) -> Result<View> {
    let extent = i64::try_from(pattern.extent).unwrap_or(i64::MAX);
    let filetype = datatype(&pattern.filetype)?.resized(0, extent)?;
    let etype = Datatype::bytes(1);
    View::new(pattern.displacement, etype, filetype, Representation::Native, true)
}

fn datatype(layout: &Layout) -> Result<Datatype> {
    let byte = Datatype::bytes(1);
    match layout {
        Layout::Contiguous { bytes } => Ok(Datatype::bytes(*bytes)),
        Layout::Strided { block, stride, count } => {
            Datatype::hvector(*count, *block, place(*stride), &byte)
        }
        Layout::Subarray { dimensions, element } => {
            let all = |value: fn(&aggio_patterns::Dimension) -> u64| -> Vec<u64> {
                dimensions.iter().map(value).collect()
            };
            let (sizes, parts, starts) = (all(|d| d.size), all(|d| d.part), all(|d| d.start));
            let child = Datatype::bytes(*element);
            Datatype::subarray(&sizes, &parts, &starts, Order::C, &child)
        }
        Layout::List(pieces) => {
            let blocks: Vec<_> = pieces.iter().map(|p| (p.len, place(p.offset))).collect();
            Datatype::hindexed(&blocks, &byte)
        }
        Layout::Sequence(parts) => {
            let field = |(offset, part): &(u64, Layout)| Ok((1, place(*offset), datatype(part)?));
            Datatype::structure(&parts.iter().map(field).collect::<Result<Vec<_>>>()?)
        }
    }
}

fn place(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// The bytes that a rank moves in one call.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) view: &'a View,
    pub(crate) position: u64,
    pub(crate) bytes: u64,
}

impl Request<'_> {
    /// Bytes of the request in `extent` of the file.
    pub(crate) fn within(&self, extent: Extent) -> u64 {
        let end = self.position + self.bytes;
        let before = |offset| self.view.data_before(offset).clamp(self.position, end);
        before(extent.end()) - before(extent.offset)
    }
}
