//! Fuzzes messages between agents of coupled files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::messages(bytes));
