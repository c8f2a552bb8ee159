//! Hints: requests of users and sites to the engine, declared once and resolved from every source.
//!
//! The table in `table.rs` is the only declaration of each hint. From it come the struct [`Hints`],
//! its parser, the result of `MPI_File_get_info` ([`Hints::in_force`]) and the documents.

mod chosen;
mod declare;
mod drain;
mod family;
mod foreign;
mod kind;
mod resolve;
mod sources;
mod table;
mod tuning;
mod verify;

pub use chosen::{Chosen, Records};
pub use drain::Drain;
pub use family::Family;
pub use foreign::Foreign;
pub use kind::{Kind, Switch};
pub(crate) use kind::{bytes as size, yes_or_no};
pub use resolve::{InForce, Origin};
pub use sources::{Entry, Rule, Sources};
pub use table::{Declaration, Effect, Hints, Traits};
pub use verify::Verify;
