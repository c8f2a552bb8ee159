//! Fuzzes hints and settings.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::hints(bytes));
