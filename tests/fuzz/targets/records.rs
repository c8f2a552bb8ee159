//! Fuzzes records of generations that survive their agent.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::records(bytes));
