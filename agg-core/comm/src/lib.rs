//! Communication of ranks: the transport, collective steps, memory of a node, futures and workers.
//! Independent of files and of MPI.

pub mod asks;
pub mod group;
pub mod lanes;
pub mod meeting;
pub mod node;
pub mod pieces;
pub mod tags;
pub mod task;
pub mod transport;
pub mod workers;
