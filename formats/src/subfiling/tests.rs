//! Masters and subfiles of random variables, in memory.

use crate::cdf::{
    Alignment, Attribute, Dimension, Header, Layout, Records, Type, Variable, Version,
};
use crate::logical::Options;
use proptest::prelude::*;
use std::sync::Arc;

const ADDED: &str = "_PnetCDF_SubFiling.";

/// A variable with one dimension that is shared among subfiles, with or without records.
#[derive(Clone, Debug)]
struct Model {
    lengths: Vec<u64>,
    shared: usize,
    subfiles: usize,
    records: Option<u64>,
}

fn model() -> impl Strategy<Value = Model> {
    (
        proptest::collection::vec(1..6_u64, 1..4),
        any::<prop::sample::Index>(),
        1..4_usize,
        proptest::option::of(0..4_u64),
    )
        .prop_map(|(mut lengths, shared, subfiles, records)| {
            let shared = shared.index(lengths.len());
            lengths[shared] += subfiles as u64 - 1;
            Model { lengths, shared, subfiles, records }
        })
}

fn value(record: u64, element: u64) -> [u8; 4] {
    ((record as u32 + 1) << 16 | element as u32).to_be_bytes()
}

impl Model {
    /// The part of a subfile, as PnetCDF divides.
    fn part(&self, subfile: u64) -> (u64, u64) {
        let (length, count) = (self.lengths[self.shared], self.subfiles as u64);
        ((length * subfile).div_ceil(count), (length * (subfile + 1)).div_ceil(count))
    }

    fn header(&self, lengths: &[u64], attributes: Vec<Attribute>, scalar: bool) -> Header {
        let time = self.records.map(|_| Dimension { name: "t".into(), length: 0 });
        let named = |(id, length): (usize, &u64)| Dimension {
            name: format!("d{id}").as_str().into(),
            length: *length,
        };
        let dimensions: Vec<Dimension> =
            time.into_iter().chain(lengths.iter().enumerate().map(named)).collect();
        let ids = if scalar { vec![] } else { (0..dimensions.len()).collect() };
        let variable = Variable {
            name: "v".into(),
            dimensions: ids,
            attributes,
            kind: Type::Int,
            told_size: 0,
            begin: 0,
        };
        let (records, variables) = (Records::Known(0), vec![variable]);
        let mut header =
            Header { version: Version::Data64, records, dimensions, attributes: vec![], variables };
        header.assign(Alignment::default()).unwrap();
        header
    }

    fn master(&self) -> Vec<u8> {
        let one =
            |name: &str, values: &[i32]| Attribute::of_ints(&format!("{ADDED}{name}"), values);
        let first = usize::from(self.records.is_some());
        let ids: Vec<i32> = (0..(first + self.lengths.len()) as i32).collect();
        let mut attributes = vec![
            one("par_dim_index", &[(first + self.shared) as i32]),
            one("dimids_org", &ids),
            one("num_subfiles", &[self.subfiles as i32]),
        ];
        for subfile in 0..self.subfiles {
            let (low, end) = self.part(subfile as u64);
            let name = format!("range(d{}).subfile.{subfile}", self.shared);
            attributes.push(one(&name, &[low as i32, end as i32 - 1]));
        }
        let mut header = self.header(&self.lengths, attributes, true);
        header.attributes.push(one("num_subfiles", &[self.subfiles as i32]));
        header.assign(Alignment::default()).unwrap();
        header.write().unwrap()
    }

    /// The elements of a record that a subfile has, in its order.
    fn elements(&self, subfile: u64) -> Vec<u64> {
        let (low, end) = self.part(subfile);
        let inner: u64 = self.lengths[self.shared + 1..].iter().product();
        let shared = self.lengths[self.shared];
        let all: u64 = self.lengths.iter().product();
        (0..all).filter(|element| (low..end).contains(&(element / inner % shared))).collect()
    }

    fn subfile(&self, subfile: u64) -> Vec<u8> {
        let (low, end) = self.part(subfile);
        let mut lengths = self.lengths.clone();
        lengths[self.shared] = end - low;
        let header = self.header(&lengths, vec![], false);
        let mut bytes = header.write().unwrap();
        bytes.resize(header.variables[0].begin as usize, 0);
        for record in 0..self.records.unwrap_or(1) {
            bytes.extend(
                self.elements(subfile).into_iter().flat_map(|element| value(record, element)),
            );
        }
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_element_comes_from_the_subfile_that_has_it(
        model in model(), reads in proptest::collection::vec((0..900_u64, 0..300_usize), 5),
    ) {
        let mut files = vec![("m".to_owned(), model.master())];
        files.extend((0..model.subfiles as u64).map(|s| (format!("m.{s}"), model.subfile(s))));
        let file = super::open(Arc::new(files), "m", &Options::default()).unwrap();
        prop_assert_eq!(file.records(), model.records.unwrap_or(0));
        let header = file.header();
        let layout = Layout::of(header).unwrap();
        let mut truth = header.write().unwrap();
        truth.resize(layout.end(0).unwrap().max(header.variables[0].begin) as usize, 0);
        truth.truncate(header.variables[0].begin as usize);
        let all: u64 = model.lengths.iter().product();
        for record in 0..model.records.unwrap_or(1) {
            truth.extend((0..all).flat_map(|element| value(record, element)));
        }
        if model.records == Some(0) {
            truth.truncate(header.size() as usize);
        }
        let mut bytes = vec![0xEE; file.size() as usize];
        prop_assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        prop_assert_eq!(&bytes, &truth);
        for (start, len) in reads {
            let mut part = vec![0xEE; len];
            let count = file.read_at(&mut part, start).unwrap();
            let wanted = truth.get(start as usize..).unwrap_or(&[]);
            prop_assert_eq!(&part[..count], &wanted[..wanted.len().min(len)]);
        }
    }
}
