//! Fuzzes headers of frames in logs of blob containers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::frames(bytes));
