//! Fuzzes plans of the driver that fails.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::faults(bytes));
