//! Every parser of the engine under arbitrary bytes: the bodies of the fuzz targets (`tests/fuzz`),
//! which the test `corpus` replays over `tests/corpus` without a fuzzer.
//!
//! A parser may refuse its input; it must not panic, loop, or allocate more than the input
//! justifies, and accepted input must mean the same after being written and read again.

use agg_core::blob::inspect;
use agg_core::datatype::Datatype;
use agg_core::diagnostics::Diagnostics;
use agg_core::driver::fault_plan::Plan;
use agg_core::hints::{Hints, Sources};
use agg_core::pattern::Pattern;
use agg_core::settings::Settings;
use agg_core::view::View;
use agg_core::{Error, Extent};
use aggio_couple::inspect as couple;
use aggio_formats::cdf::{self, Dialect, Endian, Layout, Place};
use aggio_formats::hdf5::{Contents, Details, OneOf, Source, What};
use aggio_formats::{Logical, Options, plain, set};
use std::sync::Arc;

/// A parser's name and its body.
pub type Parser = (&'static str, fn(&[u8]));

/// All of them; each has a folder of the same name in `tests/corpus`.
pub const ALL: &[Parser] = &[
    ("trees", trees),
    ("views", views),
    ("errors", errors),
    ("hints", hints),
    ("patterns", patterns),
    ("faults", faults),
    ("manifests", manifests),
    ("frames", frames),
    ("indexes", indexes),
    ("netcdf", netcdf),
    ("blobs", blobs),
    ("hdf5", hdf5),
    ("requests", requests),
    ("messages", messages),
    ("records", records),
];

/// Datatype trees that another rank sends.
pub fn trees(bytes: &[u8]) {
    let Ok(tree) = Datatype::decode(bytes) else { return };
    let again = Datatype::decode(&tree.encode()).expect("what was encoded can be decoded");
    assert_eq!(again.hash(), tree.hash());
    assert_eq!((again.size(), again.extent()), (tree.size(), tree.extent()));
    assert!(tree.tree_bytes() <= 4096 + 256 * bytes.len(), "{} bytes", tree.tree_bytes());
    let mut cursor = tree.cursor(u64::MAX, 0);
    for _ in 0..100 {
        let Some((displacement, len)) = cursor.run() else { return };
        assert_eq!(tree.offset_at(cursor.position()), displacement);
        cursor.advance(len);
    }
}

/// Views that another rank sends.
pub fn views(bytes: &[u8]) {
    let Ok(view) = View::decode(bytes) else { return };
    let again = View::decode(&view.encode()).expect("what was encoded can be decoded");
    assert_eq!(again.hash(), view.hash());
    if view.is_empty() {
        return;
    }
    let extents: Vec<Extent> = view.extents(0, 1000).take(100).collect();
    if view.is_aggregatable() {
        assert!(extents.windows(2).all(|pair| pair[0].end() <= pair[1].offset), "{extents:?}");
    }
}

/// Errors that another rank sends.
pub fn errors(bytes: &[u8]) {
    if let Some(error) = Error::from_bytes(bytes) {
        assert_eq!(Error::from_bytes(&error.to_bytes()), Some(error));
    }
}

/// Hints of the environment, of a file and of the application, and the settings.
pub fn hints(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let variable = |_: &str| Some(text.clone());
    let file = |_: &str| Ok(bytes.to_vec());
    let mut complaints = Diagnostics::default();
    let sources = Sources::read(&variable, &file, &mut complaints);
    let info: Vec<(String, String)> = text
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let hints = Hints::resolve(&sources, "/data/file.nc", &info, &mut complaints);
    let mut copy = Hints::default();
    copy.adopt(&hints.must_agree());
    copy.adopt(bytes);
    let _ = Settings::read(&variable, std::slice::from_ref(&text), &mut complaints);
}

/// Path patterns.
pub fn patterns(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (pattern, path) = text.split_once('\n').unwrap_or((&text, "/data/file.nc"));
    if pattern.len() > 200 || path.len() > 200 {
        return;
    }
    for one in Pattern::list(pattern) {
        let _ = one.matches(path);
    }
}

/// Fault plans.
pub fn faults(bytes: &[u8]) {
    let _ = Plan::parse(&String::from_utf8_lossy(bytes), "/data/file.nc", 1);
}

/// Manifests of blob containers.
pub fn manifests(bytes: &[u8]) {
    if let Ok(text) = inspect::manifest(bytes) {
        assert_eq!(inspect::manifest(text.as_bytes()), Ok(text));
    }
}

/// Headers of frames in logs, as they are, and with a checksum that fits.
pub fn frames(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), inspect::log_with_summary(bytes)] {
        let pieces = inspect::summary(&bytes).expect("bytes in memory can be read");
        assert!(pieces.unwrap_or(0) <= (bytes.len() * bytes.len()) as u64);
    }
    for bytes in [bytes.to_vec(), inspect::frame_with_checksum(bytes)] {
        if let Ok(again) = inspect::frame(&bytes) {
            assert_eq!(inspect::frame(&again), Ok(again));
        }
    }
}

/// The messages between programs and their agent of coupled files.
pub fn requests(bytes: &[u8]) {
    for parse in [couple::request, couple::reply] {
        if let Ok(again) = parse(bytes) {
            assert_eq!(parse(&again).expect("what was encoded can be decoded"), again);
        }
    }
}

/// The messages between agents of coupled files on different nodes.
pub fn messages(bytes: &[u8]) {
    if let Ok(again) = couple::message(bytes) {
        let decoded = couple::message(&again);
        assert_eq!(decoded.expect("what was encoded can be decoded"), again);
    }
    // No two bodies mean the same, so that nothing in one was passed over.
    for body in [couple::differences, couple::places, couple::locations] {
        body(bytes).into_iter().for_each(|again| assert_eq!(again, bytes));
    }
}

/// Records of generations that survive their agent, as they are, and with a checksum that fits.
pub fn records(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), couple::with_checksum(bytes)] {
        if let Ok(again) = couple::record(&bytes) {
            // No two texts mean the same, so that nothing in it was passed over.
            assert_eq!(again, bytes);
        }
    }
}

/// Merged indexes.
pub fn indexes(bytes: &[u8]) {
    if let Ok(pieces) = inspect::index(bytes) {
        assert!(pieces.runs + pieces.singles <= bytes.len() as u64);
    }
}

/// Headers of netCDF files in every dialect; an accepted header is written and read again, and each
/// byte has one place.
pub fn netcdf(bytes: &[u8]) {
    for (endian, many_unlimited) in
        [(Endian::Big, false), (Endian::Little, false), (Endian::Big, true)]
    {
        let dialect = Dialect { endian, many_unlimited };
        let Ok(header) = cdf::parse_as(bytes, dialect) else { continue };
        let written = header.write_as(endian).expect("what was read can be written");
        assert_eq!(written.len() as u64, header.size());
        assert_eq!(cdf::parse_as(&written, dialect).as_ref(), Ok(&header));
        if let Ok(layout) = Layout::of(&header) {
            places(&layout);
        }
    }
}

/// Pieces at interesting offsets go on where they end, and elements are where they say.
fn places(layout: &Layout) {
    let begins = layout.slots.iter().flat_map(|slot| [slot.begin, slot.begin + slot.size]);
    for offset in begins.chain([0, layout.header, layout.records_begin, 1 << 62]) {
        for offset in [offset.saturating_sub(1), offset] {
            let piece = layout.piece(offset);
            assert!(piece.range.contains(&offset), "{offset}: {piece:?}");
            match (layout.locate(offset), piece.place) {
                (Some(element), Place::Data { .. }) => {
                    assert_eq!(layout.offset(element), Some(offset));
                }
                (found, _) => assert_eq!(found, None),
            }
        }
    }
}

/// Reads a file that came out of arbitrary bytes, if it is small.
fn read_all(file: &Logical) {
    if file.size() > 1 << 20 {
        return;
    }
    let mut all = vec![0; file.size() as usize];
    if file.read_at(&mut all, 0).is_ok() {
        for window in file.windows().take(100) {
            let mut part = vec![0; (window.end - window.start) as usize];
            file.read_window(&mut part, window.start).expect("what could be read before");
            assert!(part == all[window.start as usize..window.end as usize]);
        }
    }
    let _ = file.describe();
}

/// Sets of one or two files: blobs of E3SM-IO, a master and its subfiles of PnetCDF, a file by
/// itself. The first two bytes say where the first file ends.
pub fn blobs(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_at_checked(2) else { return };
    let length = usize::from(u16::from_be_bytes([length[0], length[1]])).min(rest.len());
    let (first, second) = rest.split_at(length);
    let files = || vec![("first".to_owned(), first.to_vec()), ("second".into(), second.to_vec())];
    for partial in [false, true] {
        let options = Options { partial, ..Options::default() };
        let opened = [
            set::open_blobs(Arc::new(files()), 2, &options),
            set::open_subfiles(Arc::new(files()), &options),
        ];
        opened.iter().flatten().for_each(read_all);
    }
    if let Ok(Some(file)) = plain::open(Box::new(files()), "first") {
        read_all(&file);
    }
}

/// Types and attributes of the object at an address, and the content of heaps.
fn details(source: &dyn Source, address: u64) {
    let Ok(found) = Details::of(source, address) else { return };
    let _ = (found.datatype(), found.compact());
    for attribute in found.attributes().unwrap_or_default() {
        assert!(!attribute.of.to_string().is_empty());
        let _ = found.list(&attribute.bytes);
    }
}

/// HDF5 files: their content, the place of a dataset, and the meaning of its blobs.
pub fn hdf5(bytes: &[u8]) {
    let files = vec![("file".to_owned(), bytes.to_vec())];
    for read in [Contents::read, Contents::read_unverified] {
        let Ok(found) = read(&OneOf(&files, 0)) else { continue };
        for object in &found.objects {
            let What::Dataset(_, chunks) = &object.what else { continue };
            for chunk in chunks.iter().take(1000) {
                assert!(chunk.place + chunk.stored <= bytes.len() as u64, "{chunk:?}");
            }
        }
        assert!(found.metadata <= bytes.len() as u64, "{found:?}");
        for address in found.objects.iter().filter_map(|object| object.address).take(100) {
            details(&OneOf(&files, 0), address);
        }
    }
    if let Ok(place) = aggio_formats::hdf5::bytes_of(&files, 0, "data_blob") {
        assert!(place.end <= bytes.len() as u64, "{place:?}");
    }
    if let Ok(file) = set::open_blobs(Arc::new(files), 1, &Options::default()) {
        read_all(&file);
    }
}
