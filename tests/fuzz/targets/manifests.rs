//! Fuzzes manifests of blob containers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::manifests(bytes));
