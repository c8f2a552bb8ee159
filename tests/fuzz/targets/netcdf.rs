//! Fuzzes headers of netCDF files, their layouts and where their elements lie.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aggio_tests::parsers::netcdf(bytes));
