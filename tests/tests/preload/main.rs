//! The library itself, and programs without MPI that it is loaded into.

mod demo;
mod fsx;
mod harmless;
mod library;
mod litter;
mod posix;
mod programs;
mod run;
mod symbols;
mod told;
