//! Headers that are random, real, and hostile.

use super::*;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(any::<u8>(), 1..9).prop_map(Name)
}

fn attribute(version: Version) -> impl Strategy<Value = Attribute> {
    let kinds = if version == Version::Data64 { 11_usize } else { 6 };
    (name(), 0..kinds, 0..5_usize, any::<u8>()).prop_map(|(name, kind, count, byte)| {
        let kind: Type = Type::ALL[kind];
        let bytes = count * usize::try_from(kind.size()).unwrap();
        let values = (0..bytes).map(|index| byte.wrapping_mul(3).wrapping_add(index as u8));
        Attribute { name, kind, values: values.collect() }
    })
}

fn attributes(version: Version) -> impl Strategy<Value = Vec<Attribute>> {
    proptest::collection::vec(attribute(version), 0..3)
}

/// Which dimensions a variable has: the record dimension perhaps, then any of the others.
type Chosen = (Name, bool, Vec<prop::sample::Index>, Vec<Attribute>, usize);

fn variable(version: Version) -> impl Strategy<Value = Chosen> {
    let kinds = if version == Version::Data64 { 11_usize } else { 6 };
    let ids = proptest::collection::vec(any::<prop::sample::Index>(), 0..3);
    (name(), any::<bool>(), ids, attributes(version), 0..kinds)
}

fn made(
    version: Version,
    records: u64,
    lengths: &[u64],
    unlimited: usize,
    global: Vec<Attribute>,
    chosen: Vec<Chosen>,
) -> Header {
    let mut dimensions: Vec<Dimension> = lengths
        .iter()
        .enumerate()
        .map(|(index, length)| Dimension {
            name: format!("d{index}").as_str().into(),
            length: *length,
        })
        .collect();
    let unlimited = unlimited.min(dimensions.len());
    dimensions.insert(unlimited, Dimension { name: "time".into(), length: 0 });
    let others: Vec<usize> = (0..dimensions.len()).filter(|id| *id != unlimited).collect();
    let variables = chosen.into_iter().map(|(name, with_records, ids, attributes, kind)| {
        let ids = ids.iter().filter(|_| !others.is_empty()).map(|index| *index.get(&others));
        let dimensions = with_records.then_some(unlimited).into_iter().chain(ids).collect();
        Variable { name, dimensions, attributes, kind: Type::ALL[kind], told_size: 0, begin: 0 }
    });
    let variables = variables.collect();
    let records = Records::Known(records);
    Header { version, records, dimensions, attributes: global, variables }
}

/// Headers of all versions with a layout by PnetCDF's rules.
pub(crate) fn random_header() -> impl Strategy<Value = Header> {
    let version =
        prop_oneof![Just(Version::Classic), Just(Version::Offset64), Just(Version::Data64)];
    let parts = version.prop_flat_map(|version| {
        (
            Just(version),
            0..4_u64,
            proptest::collection::vec(1..7_u64, 0..4),
            0..4_usize,
            attributes(version),
            proptest::collection::vec(variable(version), 0..7),
            prop_oneof![Just(4_u64), Just(512), Just(4096)],
        )
    });
    parts.prop_map(|(version, records, lengths, unlimited, global, chosen, variables)| {
        let mut header = made(version, records, &lengths, unlimited, global, chosen);
        header.assign(Alignment { variables, records: 4 }).unwrap();
        header
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_again(header in random_header()) {
        let bytes = header.write().unwrap();
        prop_assert_eq!(bytes.len() as u64, header.size());
        prop_assert_eq!(parse(&bytes), Ok(header.clone()));
        let little = header.write_as(Endian::Little).unwrap();
        let dialect = Dialect { endian: Endian::Little, ..Dialect::default() };
        prop_assert_eq!(parse_as(&little, dialect), Ok(header));
    }

    #[test]
    fn every_byte_is_exactly_one_thing(header in random_header()) {
        let layout = Layout::of(&header).unwrap();
        let Records::Known(records) = header.records else { unreachable!() };
        let end = layout.end(records).unwrap();
        // The oracle: a list of the element of every byte, made element by element.
        let mut truth = vec![None; usize::try_from(end).unwrap()];
        for (variable, slot) in layout.slots.iter().enumerate() {
            for record in 0..if slot.records { records } else { 1 } {
                for at in 0..slot.size {
                    let (element, byte) = (at / slot.element, at % slot.element);
                    let element = Element { variable, record, element, byte };
                    let offset = usize::try_from(layout.offset(element).unwrap()).unwrap();
                    prop_assert!(offset as u64 >= header.size());
                    prop_assert_eq!(truth[offset].replace(element), None);
                }
            }
        }
        for (offset, truth) in truth.iter().enumerate() {
            prop_assert_eq!(layout.locate(offset as u64), *truth, "{}", offset);
        }
    }

    #[test]
    fn the_pieces_of_a_range_are_the_range(
        header in random_header(), start in 0..9000_u64, len in 0..9000_u64,
    ) {
        let layout = Layout::of(&header).unwrap();
        let mut at = start;
        for piece in layout.pieces(start..start + len) {
            prop_assert_eq!(piece.range.start, at);
            prop_assert!(!piece.range.is_empty());
            for offset in [piece.range.start, piece.range.end - 1] {
                let one = layout.piece(offset);
                let shift = offset - piece.range.start;
                match (one.place, piece.place) {
                    (
                        Place::Data { variable, record, byte },
                        Place::Data { variable: v, record: r, byte: b },
                    ) => {
                        prop_assert_eq!((variable, record, byte), (v, r, b + shift));
                    }
                    (one, piece) => prop_assert_eq!(one, piece),
                }
            }
            at = piece.range.end;
        }
        prop_assert_eq!(at, start + len);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for prefix in [&b"CDF\x01"[..], b"CDF\x02", b"CDF\x05"] {
            let _ = parse(&[prefix, &bytes].concat());
        }
    }
}

/// Two records of one variable each of four dimensions, in each version.
fn sample(version: Version) -> Header {
    let chosen = vec![
        ("a".into(), false, vec![], vec![], 3),
        ("b".into(), true, vec![], vec![Attribute::of_ints("n", &[1, -2])], 2),
        ("c".into(), true, vec![], vec![], 5),
    ];
    let mut header = made(version, 2, &[3, 4], 0, vec![], chosen);
    header.assign(Alignment::default()).unwrap();
    header
}

fn corrupt(bytes: &[u8]) -> (u64, String) {
    match parse(bytes) {
        Err(Error::Corrupt { offset, what }) => (offset, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_prefix_of_a_header_says_that_more_is_needed() {
    for version in [Version::Classic, Version::Offset64, Version::Data64] {
        let bytes = sample(version).write().unwrap();
        for len in 0..bytes.len() {
            match parse(&bytes[..len]) {
                Err(Error::NeedMore(least)) => {
                    assert!(least > len as u64 && least <= bytes.len() as u64, "{len}: {least}");
                }
                other => panic!("{len}: {other:?}"),
            }
        }
        let longer = [&bytes[..], b"data"].concat();
        assert_eq!(parse(&longer), Ok(sample(version)));
    }
}

#[test]
fn huge_counts_allocate_nothing() {
    let mut bytes = sample(Version::Data64).write().unwrap();
    bytes[16..24].copy_from_slice(&(1_u64 << 58).to_be_bytes());
    assert!(matches!(parse(&bytes), Err(Error::NeedMore(least)) if least > 1 << 60));
    bytes[16..24].copy_from_slice(&(u64::MAX >> 1).to_be_bytes());
    assert_eq!(corrupt(&bytes).0, 12);
    bytes[16..24].copy_from_slice(&u64::MAX.to_be_bytes());
    assert!(corrupt(&bytes).1.contains("negative"));
}

#[test]
fn what_no_writer_writes_is_refused_with_its_place() {
    assert_eq!(corrupt(b"CDF\x03").0, 0);
    assert_eq!(corrupt(b"\x89HDF\r\n\x1a\n").0, 0);
    let two = Header {
        dimensions: vec![
            Dimension { name: "t".into(), length: 0 },
            Dimension { name: "u".into(), length: 0 },
        ],
        variables: vec![],
        ..sample(Version::Data64)
    };
    let bytes = two.write().unwrap();
    assert!(corrupt(&bytes).1.contains("two dimensions without limit, t and u"));
    assert_eq!(parse_as(&bytes, Dialect { many_unlimited: true, ..Dialect::default() }), Ok(two));

    let mut second = sample(Version::Classic);
    second.variables[0].dimensions = vec![1, 0];
    assert!(corrupt(&second.write().unwrap()).1.contains("not its first dimension"));
    second.variables[0].dimensions = vec![7];
    assert!(corrupt(&second.write().unwrap()).1.contains("dimension 7 of 3"));

    let mut wide = sample(Version::Offset64);
    wide.variables[0].kind = Type::Int64;
    assert!(corrupt(&wide.write().unwrap()).1.contains("type 10, which CDF-2 does not have"));
}

#[test]
fn what_fills_names_up_may_be_anything_and_is_written_as_zeros() {
    let header = sample(Version::Classic);
    let bytes = header.write().unwrap();
    let at = bytes.windows(4).position(|four| four == b"d0\0\0").unwrap();
    let mut dirty = bytes.clone();
    dirty[at + 2..at + 4].copy_from_slice(b"xy");
    assert_eq!(parse(&dirty), Ok(header));
    assert_eq!(parse(&dirty).unwrap().write().unwrap(), bytes);
}

#[test]
fn an_empty_list_may_have_a_tag() {
    let empty = Header {
        version: Version::Classic,
        records: Records::Known(0),
        dimensions: vec![],
        attributes: vec![],
        variables: vec![],
    };
    let mut bytes = empty.write().unwrap();
    assert_eq!(bytes.len(), 32);
    for (at, tag) in [(11, 10), (19, 12), (27, 11)] {
        bytes[at] = tag;
    }
    assert_eq!(parse(&bytes), Ok(empty));
    bytes[27] = 10;
    assert_eq!(corrupt(&bytes).0, 24);
}

#[test]
fn variables_that_overlap_are_refused_by_name() {
    for (victim, begin) in [(0, 0), (0, 40), (1, 515), (2, 0)] {
        let mut header = sample(Version::Data64);
        header.variables[victim].begin = begin;
        let Err(Error::Corrupt { what, .. }) = Layout::of(&header) else { panic!("{victim}") };
        assert!(what.contains("begins at"), "{what}");
    }
    let mut far = sample(Version::Data64);
    far.variables[2].begin += 100;
    assert!(
        matches!(Layout::of(&far), Err(Error::Corrupt { what, .. }) if what.contains("further \
            apart"))
    );
    let mut huge = sample(Version::Data64);
    huge.dimensions[1].length = 1 << 62;
    huge.variables[0].dimensions = vec![1, 1];
    assert!(
        matches!(Layout::of(&huge), Err(Error::Corrupt { what, .. }) if what.contains("larger than \
            any file"))
    );
}

#[test]
fn one_variable_with_records_is_not_filled_up() {
    let mut header = sample(Version::Classic);
    header.variables.truncate(2);
    header.assign(Alignment::default()).unwrap();
    let layout = Layout::of(&header).unwrap();
    assert_eq!((layout.record_size, layout.slots[1].begin), (2, 516));
    assert_eq!(layout.end(3).unwrap(), 516 + 6);
    let two = Layout::of(&sample(Version::Classic)).unwrap();
    assert_eq!((two.record_size, two.end(2).unwrap()), (12, 516 + 24));
    assert_eq!((two.begun_records(516), two.begun_records(517), two.begun_records(529)), (0, 1, 2));
    assert_eq!(two.records(Records::Streaming, 516 + 23), 1);
}

#[test]
fn numbers_that_do_not_fit_are_not_written() {
    let mut header = sample(Version::Classic);
    header.variables[0].begin = 1 << 32;
    assert!(header.write().unwrap_err().to_string().contains("4294967296 does not fit"));
    header.version = Version::Offset64;
    assert_eq!(parse(&header.write().unwrap()).unwrap().variables[0].begin, 1 << 32);
}
