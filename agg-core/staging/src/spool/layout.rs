//! The layout of a spool file: a head, then slots, each the dirty pieces of one file and room for
//! their bytes.
//!
//! The file is memory that a process shares with later ones on the same machine: numbers are in the
//! machine's order. Every store leaves it whole: pieces up to `count` are valid, and one store of
//! [`run`](Piece::run) changes the length and the checksum of a piece. So a valid piece is as its
//! owner left it, even if the owner was killed; if its [checks](super::checks) fail, it is damaged.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// The first bytes of a spool file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"aggspool");
/// The form described here.
pub const VERSION: u32 = 4;
/// The form before: fields are where they are in [`VERSION`], without checks.
pub const UNCHECKED: u32 = 3;
/// The smallest pages that there are.
pub const PAGE: usize = 4096;
/// Bytes before the first slot.
pub const HEAD: usize = 4096;
/// Longest name of a file, with its final zero.
pub const PATH: usize = 4096;
/// Most pieces of one slot.
pub const PIECES: usize = 500;
/// Bytes of a slot before its data.
pub const SLOT_HEAD: usize = 20480;
/// Bytes of data in the slot of a file.
pub const SLOT_DATA: usize = 256 * 1024;
/// Bytes of data in the first slot of a container, which become one frame; where that is soon full,
/// the next one is larger.
pub const FRAME_DATA: usize = 1024 * 1024;
/// Bytes of data in the largest slot of a container.
pub const MOST_FRAME_DATA: usize = 16 * FRAME_DATA;
/// No slot has more bytes of data.
pub const MOST_DATA: usize = 1024 * 1024 * 1024;

/// A slot that belongs to a file.
pub const USED: u32 = 0x6e5d_a713;
/// A slot that was given back: its bytes are in their file.
pub const FREE: u32 = 0x91a2_58ec;

/// Words of a head that tell which files it may have slots of.
pub const FILTER: usize = 8;

/// The head of a spool file.
#[derive(Debug)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The process that writes it.
    pub pid: AtomicU32,
    /// When that process started, in clock ticks since boot.
    pub started: AtomicU64,
    /// The boot of the machine during which it started.
    pub boot: [AtomicU64; 2],
    /// A number made of the machine's name and identity.
    pub host: AtomicU64,
    /// A bit for each inode with a slot, now or before; several inodes may share one.
    pub files: [AtomicU64; FILTER],
    /// How many slots there are, [guarded](super::checks::guarded).
    pub slots: AtomicU64,
    /// The check of the owner's fields, and of the name of this file.
    pub check: AtomicU32,
}

/// A run of dirty bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Piece {
    /// Where it belongs in the file.
    pub offset: AtomicU64,
    /// Its length in the lower 32 bits, its checksum in the upper ones.
    pub run: AtomicU64,
    /// Where it begins in the data of the slot.
    pub place: AtomicU64,
}

/// The head of a slot.
#[derive(Debug)]
#[repr(C)]
pub struct SlotHead {
    /// Whether the slot belongs to a file: [`USED`] or [`FREE`].
    pub used: AtomicU32,
    /// How many pieces count, [guarded](super::checks::guarded_short).
    pub count: AtomicU32,
    /// Bytes of data behind this head, whole pages, [guarded](super::checks::guarded).
    pub room: AtomicU64,
    /// Device of the file.
    pub device: AtomicU64,
    /// Inode of the file.
    pub inode: AtomicU64,
    /// When the file was made, in nanoseconds; 0 if its file system does not say. A number of an
    /// inode is given again, this is not.
    pub born: AtomicU64,
    /// The latest version of the file that is known to come from processes that keep bytes of it; 0
    /// if none is.
    pub stamp: AtomicU64,
    /// Bytes of the file when the owner began to write the pieces to it, or after a later change by
    /// another process that keeps bytes of it.
    pub size: AtomicU64,
    /// Until when, in nanoseconds since 1970, the owner may be writing them to the file; 0 if it is
    /// not.
    pub until: AtomicU64,
    /// Length of its name.
    pub path_len: AtomicU64,
    /// Its name, absolute.
    pub path: [u8; PATH],
    /// The pieces; of two that overlap, the later holds.
    pub pieces: [Piece; PIECES],
    /// How many pieces the owner has written to the file since `until` was set, in the
    /// [order](super::stored::sort) of writing; 0 if it does not record that.
    pub stored: AtomicU32,
    /// The check of the fields that identify the file.
    pub check: AtomicU32,
}

const _: () = assert!(size_of::<SlotHead>() <= SLOT_HEAD && size_of::<Head>() <= HEAD);
const _: () = assert!((SLOT_HEAD | SLOT_DATA | FRAME_DATA).is_multiple_of(PAGE));
