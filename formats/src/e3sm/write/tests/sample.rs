//! A small file of two writers, and its set byte by byte.

use super::*;

/// `x(4)` and `y(time, 4)` of shorts, and `t(time)`, in two records; even columns are of writer 0,
/// odd ones of writer 1.
pub(super) fn sample() -> Written {
    let variable = |name: &str, dimensions: &[usize], kind| Variable {
        name: name.into(),
        dimensions: dimensions.to_vec(),
        attributes: vec![],
        kind,
        told_size: 0,
        begin: 0,
    };
    let dimension = |name: &str, length| Dimension { name: name.into(), length };
    let mut header = Header {
        version: Version::Data64,
        records: Records::Known(2),
        dimensions: vec![dimension("time", 0), dimension("n", 4)],
        attributes: vec![],
        variables: vec![
            variable("x", &[1], Type::Short),
            variable("y", &[0, 1], Type::Short),
            variable("t", &[0], Type::Double),
        ],
    };
    header.assign(Alignment::default()).unwrap();
    written(&header)
}

/// Where the sample's `x` begins; `y` and `t` follow, record by record.
pub(super) const X: usize = 512;

fn written(header: &Header) -> Written {
    let mut bytes = header.write().unwrap();
    let mut owners = vec![Some(0); bytes.len()];
    bytes.resize(X, 0);
    owners.resize(X, None);
    let record = if header.variables.len() == 2 { 8 } else { 16 };
    for at in 0..8 + 2 * record {
        let is_scalar = at >= 8 && (at - 8) % record >= 8;
        bytes.push(at as u8 + 1);
        owners.push(Some(if is_scalar { 0 } else { at / 2 % 2 }));
    }
    Written { bytes, owners, writers: 2 }
}

pub(super) fn change(act: impl FnOnce(&mut Header)) -> Written {
    let mut header = parse(&sample().bytes).unwrap();
    act(&mut header);
    header.assign(Alignment::default()).unwrap();
    written(&header)
}

#[test]
fn variables_of_the_same_map_share_a_decomposition_and_scalars_are_whole() {
    let plan = sample().plan(&[vec![1], vec![0]], Kind::Pnetcdf);
    let files = files(&plan, &sample().bytes);
    let first = parse(&files[0].1).unwrap();
    assert_eq!(first.attribute("num_decompositions").unwrap().ints(), Some(vec![1]));
    assert!(first.attribute("canonical_layout").is_none());
    let lengths: Vec<(String, u64)> =
        first.dimensions.iter().map(|one| (one.name.to_string(), one.length)).collect();
    let named = |name: &str, length| (name.to_owned(), length);
    assert_eq!(lengths[2..], [named("nblobs", 1), named("D1.nelems", 2), named("D1.max_nreqs", 2)]);
    let layout = Layout::of(&first).unwrap();
    let bytes = |variable: usize, record: u64, len: usize| {
        let begin = layout.offset_of(variable, record).unwrap() as usize;
        files[0].1[begin..begin + len].to_vec()
    };
    let words = |list: &[u32]| list.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    assert_eq!(bytes(0, 0, 4), words(&[2]), "nreqs");
    assert_eq!(bytes(1, 0, 8), words(&[0, 0]), "blob_start");
    assert_eq!(bytes(2, 0, 8), words(&[0, 2]), "blob_count");
    assert_eq!(bytes(3, 0, 8), words(&[1, 3]), "offsets");
    assert_eq!(bytes(4, 0, 8), words(&[1, 1]), "lengths");
    assert_eq!(bytes(5, 0, 4), [3, 4, 7, 8], "x");
    assert_eq!(bytes(6, 1, 4), [27, 28, 31, 32], "y");
    assert_eq!(bytes(7, 1, 8), [33, 34, 35, 36, 37, 38, 39, 40], "t");
}

#[test]
fn dimensions_of_the_same_length_share_a_decomposition() {
    let written = change(|header| {
        header.dimensions.push(Dimension { name: "m".into(), length: 4 });
        header.variables[1].dimensions[1] = 2;
    });
    for kind in [Kind::Pnetcdf, Kind::Hdf5] {
        let files = files(&written.plan(&[vec![0], vec![1]], kind), &written.bytes);
        if kind == Kind::Pnetcdf {
            let first = parse(&files[0].1).unwrap();
            assert_eq!(first.attribute("num_decompositions").unwrap().ints(), Some(vec![1]));
        }
        stands_for(files, &written.bytes, &[]);
    }
}

#[test]
fn requests_end_where_rows_do() {
    let found = |runs: &[(u32, u32)]| maps::Found {
        dimensions: vec![0, 1],
        runs: runs.iter().map(|(to, len)| (maps::Run { to: *to, len: *len }, 0)).collect(),
    };
    let map = maps::Map::of(found(&[(2, 9), (11, 1), (15, 5)]), 5, 1);
    let requests: Vec<(u32, u32)> = map.requests_of(0).map(|run| (run.to, run.len)).collect();
    assert_eq!(requests, [(2, 3), (5, 5), (10, 1), (11, 1), (15, 5)]);
    assert_eq!((map.request_count(0), map.count(0)), (5, 15));
}

#[test]
fn a_subfile_whose_writers_wrote_nothing_is_there() {
    let written = Written { writers: 4, ..sample() };
    for kind in [Kind::Pnetcdf, Kind::Hdf5] {
        let plan = written.plan(&[vec![2, 3], vec![1, 0]], kind);
        stands_for(files(&plan, &written.bytes), &written.bytes, &[]);
    }
}

#[test]
fn what_nobody_wrote_stays_a_hole() {
    let mut written = sample();
    for at in [X + 4, X + 8 + 4, X + 8 + 16 + 4] {
        written.owners[at..at + 2].fill(None);
        written.bytes[at..at + 2].fill(0);
    }
    let files = files(&written.plan(&[vec![0, 1]], Kind::Hdf5), &written.bytes);
    let file = open_blobs(Arc::new(files), 1, &Options::default()).unwrap();
    let told = &file.describe().coverage[0];
    assert_eq!((told.written, told.gaps, &told.first_gaps[0]), (3, 1, &(2..3)));
}

#[test]
fn a_file_may_end_inside_of_an_element() {
    for act in [|_: &mut Header| {}, |header: &mut Header| header.variables.truncate(2)] {
        let mut written = change(act);
        written.bytes.pop();
        written.owners.pop();
        for kind in [Kind::Pnetcdf, Kind::Hdf5] {
            let plan = written.plan(&[vec![0, 1]], kind);
            stands_for(files(&plan, &written.bytes), &written.bytes, &[]);
        }
    }
}
