//! A container as a file with a name, attributes and locks.

mod attributes;
pub(crate) mod container;
mod locks;
pub(crate) mod names;
mod presence;

pub(crate) use attributes::parts;
pub use attributes::{Attributes, Permissions};
pub use container::{Container, Create, drain};
pub use locks::LOCKS_FROM;
pub use names::{end_inherited, is_hidden, is_kept_copy, is_removed, remove, rename};
pub use presence::Presence;
