//! Access patterns: one line of text says which bytes of a shared file each of P ranks moves, and
//! from where in memory.
//!
//! ```text
//! "blocks,array=256x256x128,element=8"  ->  Pattern  ->  access(rank, ranks)
//!                                                    ->  Access { view, memory, calls }
//! ```
//!
//! The benchmark makes MPI datatypes of an [`Access`], a simulation makes the engine's trees of it;
//! both read the same pattern files. This crate does not use MPI, and no rank needs data of another
//! one: an access is a function of two numbers.
//!
//! | text | the bytes of each rank |
//! |---|---|
//! | `contiguous,bytes=N` | rank r the r-th part of the file |
//! | `interleaved,piece=N,bytes=N` | pieces dealt to the ranks in turn |
//! | `strided,piece=N,hole=N,bytes=N` | the same, each piece followed by bytes that nobody touches |
//! | `blocks,array=AxB..,element=N[,order=fortran]` | a block of a global array, ranks arranged as by `MPI_Dims_create` |
//! | `records,record=N,bytes=N` | records dealt in turn, one call with an explicit offset for each |
//! | `variables,count=N,piece=N` | N variables one after another, one call for each, all ranks have a piece of every one |
//! | `columns,arrays=N,rows=N,width=N,lead=N` | some columns of each of many 2-D arrays, in one call, after a small variable |
//! | `random,slot=N,bytes=N[,seed=N]` | pieces of random length at random places, half of the bytes untouched |
//! | `opens,count=N` | nothing: the file is opened and closed N times |
//!
//! `bytes` is the number of bytes that all ranks move together; each of them gets the same share,
//! rounded down to whole pieces but at least one. Numbers take K, M and G. `memory=` says how the
//! data lie in memory: `blocks:SIZE:GAP`, `split:FIRST:GAP` (a gap after the first FIRST bytes), or
//! for `blocks` patterns `ghost:N` (N ghost cells around the local array).

mod access;
mod grid;
mod kind;
mod layout;
mod memory;
mod parse;
mod pattern;
mod random;
mod set;

pub use access::{Access, Call, View};
pub use grid::dims_create;
pub use kind::{Kind, Order};
pub use layout::{Dimension, Layout, Piece};
pub use memory::Memory;
pub use pattern::{MAX_RANKS, Pattern};
pub use set::{Entry, parse_set, standard_set};
