//! Fuzzes the metadata of sets of netCDF files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::blobs(bytes));
