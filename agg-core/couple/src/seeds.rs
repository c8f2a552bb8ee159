//! Seeds of the fuzzers (`tests/corpus`): examples of what is read. After a change of a format a
//! test with `AGGIO_BLESS=1` writes them anew.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::path::Path;

/// Asserts that each seed of a fuzzer is read, and does not end where its version is looked at.
pub(crate) fn are_read(
    fuzzer: &str,
    examples: impl FnOnce() -> Vec<Vec<u8>>,
    is_read: impl Fn(&[u8]) -> bool,
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(fuzzer);
    if std::env::var_os("AGGIO_BLESS").is_some() {
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        for (number, bytes) in examples().into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:02}")), bytes).unwrap();
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let is_read = is_read(&std::fs::read(&path).unwrap());
        assert!(is_read, "{} is stale: run this test with AGGIO_BLESS=1", path.display());
    }
}

/// Values as bytes: so many of each kind, which the byte at `kind` tells.
pub(crate) fn some<T>(
    all: impl Strategy<Value = T>,
    encode: impl Fn(T) -> Vec<u8>,
    kind: usize,
    of_each: usize,
) -> Vec<Vec<u8>> {
    let (mut runner, mut counts) = (TestRunner::deterministic(), BTreeMap::new());
    let examples = (0..1000).map(|_| encode(all.new_tree(&mut runner).unwrap().current()));
    let is_wanted = |bytes: &Vec<u8>| {
        let count = counts.entry(bytes[kind]).or_insert(0);
        *count += 1;
        *count <= of_each
    };
    examples.filter(is_wanted).collect()
}
