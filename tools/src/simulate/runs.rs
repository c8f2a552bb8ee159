//! The extents of the file in which a request has data, without a look at every piece: gaps below a
//! limit are filled, so that pieces close enough to each other are one run.

use agg_core::Extent;
use aggio_patterns::{Call, Layout, View};

/// The outline of a part of a layout: first byte, end, largest gap inside.
#[derive(Clone, Copy)]
struct Shape {
    start: u64,
    end: u64,
    gap: u64,
}

/// Calls `visit` with extents in ascending order that together hold all data of the call, have a
/// byte of data at both ends, and inside no gap of more than `limit` bytes.
pub(crate) fn visit(view: &View, call: Call, limit: u64, visit: &mut dyn FnMut(Extent)) {
    let mut joined = Joined { limit, run: None, visit };
    let in_one = view.filetype.bytes();
    let whole =
        in_one > 0 && call.position.is_multiple_of(in_one) && call.bytes.is_multiple_of(in_one);
    if call.bytes == 0 {
    } else if view.is_contiguous() {
        joined.add(Extent::new(view.displacement + call.position, call.bytes));
    } else if !whole {
        view.for_each_piece(call.position, call.bytes, &mut |piece| {
            joined.add(Extent::new(piece.offset, piece.len));
        });
    } else {
        let first = view.displacement + call.position / in_one * view.extent;
        repeat(&view.filetype, first, view.extent, call.bytes / in_one, &mut joined);
    }
    joined.end();
}

/// `count` copies of `layout`, one every `stride` bytes.
fn repeat(layout: &Layout, first: u64, stride: u64, count: u64, joined: &mut Joined<'_>) {
    let Some(shape) = shape(layout) else { return };
    if copies(shape, stride, count).gap <= joined.limit {
        let end = first + (count - 1) * stride + shape.end;
        return joined.add(Extent::between(first + shape.start, end));
    }
    for index in 0..count {
        descend(layout, first + index * stride, joined);
    }
}

fn descend(layout: &Layout, base: u64, joined: &mut Joined<'_>) {
    let Some(all) = shape(layout) else { return };
    if all.gap <= joined.limit {
        return joined.add(Extent::between(base + all.start, base + all.end));
    }
    match layout {
        Layout::Subarray { dimensions, element } => {
            if let [first, inner @ ..] = &dimensions[..] {
                let bytes = element * inner.iter().map(|dimension| dimension.size).product::<u64>();
                let inner = Layout::Subarray { dimensions: inner.to_vec(), element: *element };
                for index in first.start..first.start + first.part {
                    descend(&inner, base + index * bytes, joined);
                }
            }
        }
        Layout::Sequence(parts) => {
            for (offset, part) in parts {
                descend(part, base + offset, joined);
            }
        }
        _ => layout.for_each_piece(base, &mut |piece| {
            joined.add(Extent::new(piece.offset, piece.len));
        }),
    }
}

/// `None` for a layout without data.
fn shape(layout: &Layout) -> Option<Shape> {
    match layout {
        Layout::Contiguous { bytes } => whole(*bytes),
        Layout::Strided { block, stride, count } => {
            (*count > 0).then(|| whole(*block).map(|shape| copies(shape, *stride, *count)))?
        }
        Layout::Subarray { dimensions, element } => {
            let (mut shape, mut bytes) = (whole(*element)?, *element);
            for dimension in dimensions.iter().rev() {
                if dimension.part == 0 {
                    return None;
                }
                shape = copies(shape, bytes, dimension.part);
                shape.start += dimension.start * bytes;
                shape.end += dimension.start * bytes;
                bytes *= dimension.size;
            }
            Some(shape)
        }
        Layout::List(pieces) => {
            in_turn(pieces.iter().map(|piece| (piece.offset, whole(piece.len))))
        }
        Layout::Sequence(parts) => in_turn(parts.iter().map(|(at, part)| (*at, shape(part)))),
    }
}

fn whole(bytes: u64) -> Option<Shape> {
    (bytes > 0).then_some(Shape { start: 0, end: bytes, gap: 0 })
}

fn copies(shape: Shape, stride: u64, count: u64) -> Shape {
    let between = (stride + shape.start).saturating_sub(shape.end);
    let gap = if count > 1 { shape.gap.max(between) } else { shape.gap };
    Shape { end: shape.end + (count - 1) * stride, gap, ..shape }
}

fn in_turn(parts: impl Iterator<Item = (u64, Option<Shape>)>) -> Option<Shape> {
    let shapes = parts.filter_map(|(at, shape)| shape.map(|shape| (at, shape)));
    shapes.fold(None, |all: Option<Shape>, (at, part)| {
        let (start, end) = (at + part.start, at + part.end);
        let all = all.unwrap_or(Shape { start, end: start, gap: 0 });
        let gap = all.gap.max(part.gap).max(start.saturating_sub(all.end));
        Some(Shape { start: all.start, end: end.max(all.end), gap })
    })
}

/// Joins neighbours.
struct Joined<'a> {
    limit: u64,
    run: Option<Extent>,
    visit: &'a mut dyn FnMut(Extent),
}

impl Joined<'_> {
    fn add(&mut self, extent: Extent) {
        match &mut self.run {
            Some(run) if extent.offset <= run.end().saturating_add(self.limit) => {
                *run = Extent::between(run.offset, run.end().max(extent.end()));
            }
            run => {
                if let Some(done) = run.replace(extent) {
                    (self.visit)(done);
                }
            }
        }
    }

    fn end(&mut self) {
        if let Some(done) = self.run.take() {
            (self.visit)(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_patterns::Pattern;

    /// The runs by a walk along all pieces.
    fn walked(view: &View, call: Call, limit: u64) -> Vec<Extent> {
        let mut runs: Vec<Extent> = Vec::new();
        view.for_each_piece(call.position, call.bytes, &mut |piece| {
            let end = piece.offset + piece.len;
            match runs.last_mut() {
                Some(run) if piece.offset <= run.end() + limit => {
                    *run = Extent::between(run.offset, end);
                }
                _ => runs.push(Extent::new(piece.offset, piece.len)),
            }
        });
        runs
    }

    #[test]
    fn runs_are_those_of_a_walk() {
        for text in [
            "contiguous,bytes=1003",
            "interleaved,piece=8,bytes=4K",
            "strided,piece=16,hole=16,bytes=4K",
            "blocks,array=17x13,element=8",
            "blocks,array=7x6x5,element=8",
            "blocks,array=4x5x6x7,element=48,order=fortran",
            "records,record=47,bytes=4K",
            "columns,arrays=6,rows=5,width=4,lead=7",
            "random,slot=64,bytes=4K,seed=3",
        ] {
            let pattern: Pattern = text.parse().expect(text);
            for (ranks, limit) in [(1, 0), (3, 0), (4, 7), (4, 40), (8, 90), (7, 1000)] {
                for rank in 0..ranks {
                    let access = pattern.access(rank, ranks);
                    let cut = Call { position: 5, bytes: access.bytes().saturating_sub(9) };
                    for call in access.calls.iter().copied().chain([cut]) {
                        let mut runs = Vec::new();
                        visit(&access.view, call, limit, &mut |run| runs.push(run));
                        let expected = walked(&access.view, call, limit);
                        assert_eq!(runs, expected, "{text}, {rank} of {ranks}, gaps up to {limit}");
                    }
                }
            }
        }
    }
}
