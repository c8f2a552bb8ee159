//! netCDF classic files for the engine: the places of variables, and headers that come last.

use crate::cdf::{self, Element, Header, Layout, Place, Version};
use agg_core::Extent;
use agg_core::format::{Data, Format, Map, Piece, Recognised, Thing};
use std::sync::Arc;

/// The formats of this crate, for [`agg_core::format::Formats`].
pub static FORMATS: &[&dyn Format] = &[&Classic];

/// CDF-1, CDF-2 and CDF-5.
struct Classic;

impl Format for Classic {
    fn name(&self) -> &'static str {
        "netCDF classic"
    }

    fn recognise(&self, head: &[u8]) -> Recognised {
        if !matches!(head, [b'C', b'D', b'F', 1 | 2 | 5, ..]) {
            return Recognised::Other;
        }
        match cdf::parse(head).and_then(|header| Variables::of(&header)) {
            Ok(map) => Recognised::Map(Arc::new(map)),
            Err(_) => Recognised::Unclear,
        }
    }
}

/// Where the variables of a file lie.
#[derive(Debug)]
struct Variables {
    version: Version,
    layout: Layout,
    /// Bytes of a row of each variable: all its elements with one index of its slowest dimension,
    /// that of records aside.
    rows: Vec<u64>,
}

impl Variables {
    fn of(header: &Header) -> Result<Self, cdf::Error> {
        let layout = Layout::of(header)?;
        let row = |(variable, size): (&cdf::Variable, u64)| {
            let slowest = header.shape(variable).first().copied().unwrap_or(1);
            (size / slowest.max(1)).max(variable.kind.size())
        };
        let sizes = layout.slots.iter().map(|slot| slot.size);
        let rows = header.variables.iter().zip(sizes).map(row).collect();
        Ok(Self { version: header.version, layout, rows })
    }
}

impl Map for Variables {
    fn header(&self) -> u64 {
        self.layout.header
    }

    fn piece(&self, offset: u64) -> Piece {
        let piece = self.layout.piece(offset);
        let extent = Extent::between(piece.range.start, piece.range.end);
        let thing = match piece.place {
            Place::Header => Thing::Header,
            Place::Pad => Thing::Gap,
            Place::Data { variable, record, byte } => {
                let size = self.layout.slots[variable].element;
                let elements = byte / size..(byte + extent.len).div_ceil(size);
                Thing::Data(Data { variable, record, elements })
            }
        };
        Piece { extent, thing }
    }

    fn extent_of(&self, data: &Data) -> Option<Extent> {
        let Data { variable, record, elements } = data;
        let at = |element| {
            self.layout.offset(Element { variable: *variable, record: *record, element, byte: 0 })
        };
        let start = at(elements.start)?;
        let size = self.layout.slots.get(*variable)?.element;
        if elements.is_empty() {
            return Some(Extent::new(start, 0));
        }
        Some(Extent::between(start, at(elements.end - 1)?.checked_add(size)?))
    }

    fn border_before(&self, offset: u64) -> Option<u64> {
        Some(self.layout.around(offset).start)
    }

    fn border_behind(&self, offset: u64) -> Option<u64> {
        let whole = self.layout.around(offset);
        let border = if whole.start == offset { offset } else { whole.end };
        (border < u64::MAX).then_some(border)
    }

    fn rows(&self, offset: u64) -> Option<(u64, u64)> {
        let Place::Data { variable, byte, .. } = self.layout.piece(offset).place else {
            return None;
        };
        Some((offset - byte, self.rows[variable]))
    }

    fn last(&self) -> Extent {
        Extent::new(0, self.layout.header)
    }

    fn depends_on(&self, changed: Extent) -> bool {
        let records = Extent::new(4, self.version.count_bytes() as u64);
        !changed.is_empty() && changed.intersect(records) != changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdf::{Alignment, Dimension, Records, Type, Variable};
    use agg_core::format::pieces;
    use proptest::prelude::*;

    const VERSIONS: [Version; 3] = [Version::Classic, Version::Offset64, Version::Data64];

    /// A file with variables: whether each has records, the lengths of its first and of its second
    /// dimension, and its type.
    fn header(
        version: Version,
        variables: &[(bool, u64, u64, Type)],
        alignment: Alignment,
    ) -> Header {
        let dimension = |name: String, length| Dimension { name: name.as_str().into(), length };
        let mut dimensions = vec![dimension("t".into(), 0)];
        let mut made = Vec::new();
        for (number, (records, rows, columns, kind)) in variables.iter().enumerate() {
            let first = dimensions.len();
            dimensions.push(dimension(format!("r{number}"), *rows));
            dimensions.push(dimension(format!("c{number}"), *columns));
            let mut own = vec![first, first + 1];
            if *records {
                own.insert(0, 0);
            }
            let name = format!("v{number}").as_str().into();
            made.push(Variable {
                name,
                dimensions: own,
                attributes: vec![],
                kind: *kind,
                told_size: 0,
                begin: 0,
            });
        }
        let mut header = Header {
            version,
            records: Records::Known(0),
            dimensions,
            attributes: vec![],
            variables: made,
        };
        header.assign(alignment).expect("a small file");
        header
    }

    fn map_of(header: &Header) -> Arc<dyn Map> {
        match Classic.recognise(&header.write().expect("a header")) {
            Recognised::Map(map) => map,
            other => panic!("{other:?}"),
        }
    }

    fn any_header() -> impl Strategy<Value = Header> {
        let kinds =
            proptest::sample::select(vec![Type::Byte, Type::Short, Type::Int, Type::Double]);
        let variable = (any::<bool>(), 1..6u64, 1..6u64, kinds);
        let alignment = proptest::sample::select(vec![4, 64, 512]);
        (0..3usize, proptest::collection::vec(variable, 0..6), alignment).prop_map(
            |(version, variables, alignment)| {
                header(
                    VERSIONS[version],
                    &variables,
                    Alignment { variables: alignment, records: 4 },
                )
            },
        )
    }

    /// Every byte of the file with so many records: the variable, record and element that it is of.
    fn bytes_of(header: &Header, records: u64, len: u64) -> Vec<Option<(usize, u64, u64)>> {
        let mut bytes = vec![None; len as usize];
        let with = |variable: &&Variable| header.has_records(variable);
        let padded = |variable: &Variable| {
            let size = header.elements(variable).expect("a number") * variable.kind.size();
            if header.variables.iter().filter(with).count() == 1 {
                size
            } else {
                size.next_multiple_of(4)
            }
        };
        let record_size: u64 = header.variables.iter().filter(with).map(padded).sum();
        for (number, variable) in header.variables.iter().enumerate() {
            let count = if header.has_records(variable) { records } else { 1 };
            for record in 0..count {
                let size = variable.kind.size();
                for byte in 0..header.elements(variable).expect("a number") * size {
                    let at = variable.begin + record * record_size + byte;
                    if at < len {
                        bytes[at as usize] = Some((number, record, byte / size));
                    }
                }
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn every_byte_is_where_a_walk_over_all_elements_finds_it(
            header in any_header(), at in 0..3000u64, len in 0..600u64,
        ) {
            let (map, bytes) = (map_of(&header), bytes_of(&header, 4000, 4000));
            let mut next = at;
            for piece in pieces(&*map, Extent::new(at, len)) {
                prop_assert_eq!(piece.extent.offset, next);
                prop_assert!(!piece.extent.is_empty());
                next = piece.extent.end();
                for offset in piece.extent.offset..next {
                    match (&piece.thing, bytes[offset as usize]) {
                        (Thing::Header, None) => prop_assert!(offset < map.header()),
                        (Thing::Gap, None) => prop_assert!(offset >= map.header()),
                        (Thing::Data(data), Some((variable, record, element))) => {
                            prop_assert_eq!((data.variable, data.record), (variable, record));
                            prop_assert!(data.elements.contains(&element));
                            let one = Data { elements: element..element + 1, ..data.clone() };
                            let there = map.extent_of(&one).expect("the element is somewhere");
                            prop_assert_eq!(there.intersect(Extent::new(offset, 1)).len, 1);
                        }
                        found => prop_assert!(false, "byte {}: {:?}", offset, found),
                    }
                }
                if let Thing::Data(data) = &piece.thing {
                    // Back again: the whole elements that the piece has bytes of.
                    let back = map.extent_of(data).expect("they are somewhere");
                    prop_assert_eq!(back.intersect(piece.extent), piece.extent);
                    let size = header.variables[data.variable].kind.size();
                    prop_assert!(back.len < piece.extent.len + 2 * size);
                }
            }
            prop_assert_eq!(next, at + len);
        }

        #[test]
        fn borders_are_where_neighbours_are_different_things(
            header in any_header(),
            at in 0..3000u64,
        ) {
            let (map, bytes) = (map_of(&header), bytes_of(&header, 4000, 4000));
            let thing = |offset: u64| {
                let found = bytes[offset as usize];
                let found = found.map(|(variable, record, _)| (variable, record));
                found.ok_or(offset < map.header())
            };
            let is_border = |offset: &u64| *offset == 0 || thing(*offset - 1) != thing(*offset);
            prop_assert_eq!(map.border_before(at), (0..=at).rev().find(is_border));
            let behind = (at..4000).find(is_border);
            prop_assert!(behind.is_none() || map.border_behind(at) == behind);
            match (map.rows(at), bytes[at as usize]) {
                (None, None) => {}
                (Some((start, row)), Some((variable, _, _))) => {
                    prop_assert!(start <= at && is_border(&start));
                    let variable = &header.variables[variable];
                    let columns = header.shape(variable)[1];
                    prop_assert_eq!(row, columns * variable.kind.size());
                }
                found => prop_assert!(false, "{:?}", found),
            }
        }
    }

    #[test]
    fn a_number_of_records_changes_no_place() {
        for (version, bytes) in [(Version::Classic, 4), (Version::Data64, 8)] {
            let map = map_of(&header(version, &[(true, 2, 3, Type::Int)], Alignment::default()));
            assert!(!map.depends_on(Extent::new(4, bytes)) && !map.depends_on(Extent::default()));
            assert!(map.depends_on(Extent::new(4, bytes + 1)) && map.depends_on(Extent::new(3, 2)));
            assert_eq!(map.last(), Extent::new(0, map.header()));
        }
    }

    #[test]
    fn bytes_that_are_no_netcdf_file_are_not_recognised() {
        for other in [&b""[..], b"CDF", b"CDF\x03....", b"\x89HDF\r\n\x1a\n"] {
            assert!(matches!(Classic.recognise(other), Recognised::Other), "{other:?}");
        }
        let whole = header(Version::Data64, &[(true, 2, 3, Type::Int)], Alignment::default())
            .write()
            .expect("a header");
        for len in 4..whole.len() {
            assert!(matches!(Classic.recognise(&whole[..len]), Recognised::Unclear), "{len} bytes");
        }
        let mut broken = whole.clone();
        broken[20] = 0xFF;
        assert!(matches!(Classic.recognise(&broken), Recognised::Unclear));
    }
}
