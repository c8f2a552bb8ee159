//! Fuzzes errors that another rank sends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::errors(bytes));
