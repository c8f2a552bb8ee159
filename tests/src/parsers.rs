//! Every parser of the engine under arbitrary bytes: the bodies of the fuzz targets (`tests/fuzz`),
//! which the test `corpus` replays over `tests/corpus` without a fuzzer.
//!
//! A parser may refuse its input; it must not panic, loop, or allocate more than the input justifies,
//! and what it accepts must mean the same after being written and read again.

use agg_core::blob::inspect;
use agg_core::complaint::Complaints;
use agg_core::datatype::Datatype;
use agg_core::driver::fault_plan::Plan;
use agg_core::hints::{Hints, Sources};
use agg_core::pattern::Pattern;
use agg_core::settings::Settings;
use agg_core::view::View;
use agg_core::{Error, Extent};

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
    let mut complaints = Complaints::default();
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
    for bytes in [bytes.to_vec(), inspect::frame_with_checksum(bytes)] {
        if let Ok(again) = inspect::frame(&bytes) {
            assert_eq!(inspect::frame(&again), Ok(again));
        }
    }
}

/// Merged indexes.
pub fn indexes(bytes: &[u8]) {
    if let Ok(pieces) = inspect::index(bytes) {
        assert!(pieces.runs + pieces.singles <= bytes.len() as u64);
    }
}
