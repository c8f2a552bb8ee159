//! Fuzzes HDF5 files with blobs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::hdf5(bytes));
