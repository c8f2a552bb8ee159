//! Files that the convention cannot express, and wrong ones.

use super::sample::{X, change, sample};
use super::*;

#[test]
fn what_is_no_netcdf_file_is_none() {
    for bytes in [&b""[..], b"CDF", b"\x89HDF\r\n\x1a\n", &sample().bytes[..100]] {
        let written = Written { bytes: bytes.to_vec(), owners: vec![], writers: 1 };
        assert!(
            written.refusal().starts_with("not a netCDF classic file: "),
            "{}",
            written.refusal()
        );
    }
    let mut streaming = sample();
    streaming.bytes[4..12].fill(0xFF);
    assert_eq!(streaming.refusal(), "its header does not tell the number of records");
}

#[test]
fn elements_of_two_writers_are_refused() {
    let mut written = sample();
    written.owners[X + 8 + 16 + 3] = Some(0);
    assert_eq!(written.refusal(), "y: writers 1 and 0 wrote parts of element 1");
    // Half an element that nobody wrote is zero, and the writer's.
    let mut half = sample();
    (half.bytes[X], half.owners[X]) = (0, None);
    stands_for(files(&half.plan(&[vec![0, 1]], Kind::Pnetcdf), &half.bytes), &half.bytes, &[]);
}

#[test]
fn records_of_different_writers_are_refused() {
    let mut written = sample();
    written.owners[X + 8 + 16..X + 8 + 18].fill(Some(1));
    let words = "y: not every record was written by the same writers at the same places";
    assert_eq!(written.refusal(), words);
    written.owners[X + 8 + 16..X + 8 + 24].fill(None);
    written.bytes[X + 8 + 16..X + 8 + 24].fill(0);
    assert_eq!(written.refusal(), words);
}

#[test]
fn bytes_that_belong_to_no_variable_are_refused_unless_they_are_zeros() {
    let mut written = sample();
    written.owners[X - 2] = Some(1);
    written.bytes[X - 2] = 7;
    assert_eq!(
        written.refusal(),
        "byte 510, behind the header, belongs to no variable and is not zero"
    );
    let mut filled = change(|header| header.dimensions[1].length = 3);
    filled.bytes[X + 6] = 9;
    filled.owners[X + 6] = Some(0);
    assert_eq!(filled.refusal(), "byte 518, behind x, belongs to no variable and is not zero");
    let mut behind = sample();
    behind.bytes.push(1);
    behind.owners.push(Some(0));
    assert_eq!(behind.refusal(), "y: byte 552 is in record 2, but there are 2");
}

#[test]
fn names_of_the_convention_are_refused() {
    let refused = |act: fn(&mut Header)| change(act).refusal();
    let words = "has a name of the convention's";
    assert_eq!(
        refused(|header| header.dimensions[1].name = "nblobs".into()),
        format!("dimension nblobs {words}")
    );
    assert_eq!(
        refused(|header| header.variables[1].name = "D1.nreqs".into()),
        format!("variable D1.nreqs {words}")
    );
    assert_eq!(
        refused(|header| header.attributes.push(Attribute::of_ints("num_subfiles", &[1]))),
        format!("attribute num_subfiles {words}")
    );
    assert_eq!(
        refused(|header| {
            header.variables[2].attributes.push(Attribute::of_ints("decomposition_ID", &[1]));
        }),
        format!("t: attribute decomposition_ID {words}")
    );
}

#[test]
fn a_header_that_nobody_would_write_like_that_is_refused() {
    let mut written = sample();
    let at = written.bytes.windows(4).position(|four| four == b"n\0\0\0").unwrap();
    written.bytes[at + 2] = 1;
    assert_eq!(
        written.refusal(),
        format!("its header is not as PnetCDF writes it from byte {} on", at + 2)
    );
}

/// A file of zeros behind the header.
struct Sparse {
    head: Vec<u8>,
    size: u64,
}

impl Content for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = self.head.get(offset as usize + at).copied().unwrap_or(0);
        }
        Ok(())
    }
}

#[test]
fn decompositions_of_more_elements_than_31_bits_tell_are_refused() {
    let mut header = parse(&sample().bytes).unwrap();
    header.dimensions[1].length = 1 << 31;
    header.assign(Alignment::default()).unwrap();
    let size = Layout::of(&header).unwrap().end(2).unwrap();
    let (head, begin) = (header.write().unwrap(), header.variables[0].begin);
    let sparse = Sparse { head, size };
    let of = |owned: &[(u64, u64, u32)]| {
        let owned = owned.iter().map(|(start, end, writer)| {
            Ok(Owned { range: begin + start..begin + end, writer: *writer })
        });
        Plan::of(&sparse, &mut owned.into_iter(), &[vec![0, 1]], Kind::Pnetcdf).unwrap()
    };
    let Outcome::Unsuited(what) = of(&[(0, 10, 0), (10, 1 << 32, 1)]) else { panic!() };
    assert_eq!(what, "x: 2147483648 elements, the convention has numbers of 31 bits");
    assert!(matches!(of(&[(0, 1 << 32, 1)]), Outcome::Plan(_)), "whole variables may have more");
}

#[test]
fn lists_that_are_wrong_are_errors() {
    let written = sample();
    let of = |owned: Vec<Owned>, groups: &[Vec<u32>]| {
        let outcome = Plan::of(&written.bytes, &mut owned.into_iter().map(Ok), groups, Kind::Hdf5);
        outcome.map(|_| ()).unwrap_err().to_string()
    };
    let owned = |start, writer| Owned { range: start..start + 4, writer };
    let twice = "the list of subfiles: a writer is in no subfile, or in two";
    assert_eq!(of(vec![], &[vec![0, 1], vec![1]]), twice);
    assert_eq!(of(vec![], &[vec![0], vec![2]]), twice);
    let order = "the list of writers: bytes 2..6 of writer 0 are out of order";
    assert_eq!(of(vec![owned(0, 1), owned(2, 0)], &[vec![0, 1]]), order);
    let stranger = "the list of writers: bytes 0..4 of writer 2 are out of order";
    assert_eq!(of(vec![owned(0, 2)], &[vec![0, 1]]), stranger);
    let empty = Plan::of(&written.bytes, &mut std::iter::empty(), &[vec![0], vec![]], Kind::Hdf5);
    assert!(matches!(empty, Ok(Outcome::Unsuited(what)) if what == "a subfile without a writer"));
}

#[test]
fn places_that_make_no_sense_are_refused_by_the_reader() {
    let classic = change(|header| header.version = Version::Classic);
    let plan = classic.plan(&[vec![0, 1]], Kind::Pnetcdf);
    let good = files(&plan, &classic.bytes);
    stands_for(good.clone(), &classic.bytes, &[]);
    let refused = |values: Vec<i64>| {
        let mut bad = good.clone();
        let mut header = parse(&bad[0].1).unwrap();
        assert_eq!(header.attributes[3].name, *"canonical_layout");
        header.attributes[3].values = values.iter().flat_map(|one| one.to_be_bytes()).collect();
        // A shorter header leaves the data where they are.
        let bytes = header.write().unwrap();
        bad[0].1[..bytes.len()].copy_from_slice(&bytes);
        let why = open_blobs(Arc::new(bad), 1, &Options::default()).map(|_| ());
        why.unwrap_err().to_string()
    };
    let (x, y, t) = (512, 520, 528);
    let list = "attribute canonical_layout is no list of a version, a size and begins";
    assert!(refused(vec![3, 552, x, y, t]).ends_with(list));
    assert!(refused(vec![1, -1, x, y, t]).ends_with(list));
    assert!(refused(vec![1]).ends_with(list));
    assert!(refused(vec![1, 20, x, y, t]).contains("says 20 bytes, fewer than the header has"));
    assert!(refused(vec![1, 552, x, y]).ends_with("has 2 begins for 3 variables"));
    assert!(refused(vec![1, 552, x, x, t]).contains("begins at"));
    assert!(refused(vec![1, 552, x, y, i64::MAX]).contains("does not fit in a header of CDF-1"));
}
