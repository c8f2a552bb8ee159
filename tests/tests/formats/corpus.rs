//! The fuzzers' corpora, replayed; and every prefix of every entry, which is a truncated message.

use aggio_tests::{parsers, repository};

#[test]
fn no_input_of_the_corpus_makes_a_parser_fail() {
    for (name, parse) in parsers::ALL {
        let folder = repository().join("tests/corpus").join(name);
        let mut entries = 0;
        for entry in std::fs::read_dir(&folder).expect("every parser has a corpus") {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            parse(&bytes);
            (0..bytes.len().min(512)).for_each(|n| parse(&bytes[..n]));
            entries += 1;
        }
        assert!(entries > 0, "{} is empty", folder.display());
    }
}
