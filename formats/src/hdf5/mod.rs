//! The contents of an HDF5 file and their places, read from its bytes; and files that hold lists of
//! bytes.
//!
//! Read are superblocks 0 to 3 with user blocks, object headers 1 and 2, groups old and new,
//! layouts 1 to 5 and every kind of chunk index. Each read is bounded by the bytes of the file;
//! work and memory together are bounded by the metadata that the file has, so that files that refer
//! to themselves, or promise data that they do not hold, come to an end. Unsupported parts (virtual
//! datasets, external files, newer messages) are named. The parts are described in the HDF5 File
//! Format Specification 3.0.
//!
//! ```text
//! contents                       all groups and datasets of a file
//! dataset, group                 the content of an object header
//! index                          the chunks of a dataset
//! superblock, header             where a file begins; the messages of an object
//! datatype, layout, properties, space   single messages
//! btree1, btree2, heap           structures that lead to links and chunks
//! reader, source, cursor, lookup3       bytes, bounds, numbers, checksums
//! attribute, types, globals      the details of one object, for comparisons
//! write                          files of lists of bytes
//! ```

mod attribute;
mod btree1;
mod btree2;
mod contents;
mod cursor;
mod dataset;
mod datatype;
mod globals;
mod group;
mod header;
mod heap;
mod index;
mod layout;
mod lookup3;
mod properties;
mod reader;
mod source;
mod space;
mod superblock;
mod types;
mod write;

pub use attribute::{Attribute, Details};
pub use contents::{Contents, Object, What, is_hdf5};
pub use dataset::Dataset;
pub use datatype::{Class, Datatype};
pub use index::{Chunk, Chunks};
pub use layout::{Chunked, Index, Layout};
#[cfg(test)]
pub(crate) use lookup3::checksum;
pub use properties::{Allocation, Fill, Filling, Filter};
pub use source::{OneOf, OnlyFile, Source};
pub use space::Space;
pub use superblock::Superblock;
pub use types::Type;
pub(crate) use write::container;

use crate::error::Result;
use crate::files::Files;
use std::ops::Range;

/// The first bytes of every HDF5 file, behind its user block.
pub const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Where the bytes of a contiguous dataset lie: a list of bytes in the root group, as E3SM-IO
/// writes them.
///
/// # Errors
///
/// If there is none of this name, or it is no contiguous list of bytes, or not all of it is there.
pub fn bytes_of(files: &dyn Files, file: usize, name: &str) -> Result<Range<u64>> {
    contents::bytes_of(&OneOf(files, file), name)
}
