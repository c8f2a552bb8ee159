//! Fuzzes patterns of file names.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::patterns(bytes));
