//! A directory, shown at a mount point with its containers and its sets of netCDF files as ordinary
//! files.
//!
//! ```text
//! kernel -> filesystem.rs (answers) -> view.rs: operations on names and open files
//!   namespace.rs: find, link, remove, rename          files.rs: open, close
//!     resolver.rs: the file that a name stands for      handles.rs, open_file.rs: read, write
//!     tree.rs: the files that the kernel knows          containers.rs, passthrough.rs
//!   making.rs: new files     change.rs: attributes     xattr.rs     listing.rs: entries
//!
//! blob.rs: a container -> agg_core::blob
//! sets.rs: sets of netCDF files -> aggio_formats
//! coupled.rs: generations in memory -> aggio_couple
//! session.rs: a mount from beginning to end               mounts.rs: mounts of anybody
//! ```
//!
//! Files of the backing directory are reached by descriptors, never by paths that somebody could
//! change meanwhile, and no symbolic link is followed here: links are shown, and the kernel follows
//! them for the program that asks.

#![forbid(unsafe_code)]

mod ahead;
mod attributes;
mod blob;
mod change;
mod containers;
mod coupled;
mod files;
mod filesystem;
mod handles;
mod held;
mod listing;
mod lists;
mod making;
pub mod mounts;
mod namespace;
mod open_file;
mod options;
mod passthrough;
mod request;
mod resolver;
mod seek;
mod session;
mod set_ids;
mod set_rights;
mod sets;
mod shown;
mod stamp;
#[cfg(test)]
mod testing;
mod tree;
mod view;
mod xattr;

pub use options::{NewFiles, Options};
pub use session::{Mount, ends};
