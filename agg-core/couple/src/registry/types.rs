//! Numbers of processes, programs, opens and memory; the arguments and results of the registry.

pub(crate) use aggio_config::settings::couple::Options;
use std::sync::Arc;

/// A process that has called, by a number of the agent's.
pub(crate) type Process = u64;
/// One program: all processes that a launcher started together, or one process alone.
pub(crate) type Job = u64;
/// Processes that follow each other: one that begins reads on where those ended.
pub(crate) type Family = u64;
/// The memory of one generation.
pub(crate) type Area = u64;
/// One open of one process.
pub(crate) type Handle = u64;
/// The absolute name of a file.
pub(crate) type Path = Vec<u8>;
/// The absolute name of a directory that has bytes for which there is no memory.
pub(crate) type Directory = Arc<str>;

/// The identity of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// Its program.
    pub(crate) job: Job,
    /// The number of processes of the program.
    pub(crate) ranks: u32,
    /// The processes that it follows.
    pub(crate) family: Family,
    /// Its name in messages.
    pub(crate) label: String,
}

/// The arguments of an open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of open(2)")]
pub(crate) struct Ask {
    /// Its name.
    pub(crate) path: Path,
    /// Data may be written.
    pub(crate) write: bool,
    /// Creates the file if it is missing.
    pub(crate) create: bool,
    /// Fails if it is there.
    pub(crate) exclusive: bool,
    /// Begins without bytes.
    pub(crate) truncate: bool,
    /// Looks at the newest generation, and is no reader of the file.
    pub(crate) view: bool,
    /// The process's own number of this open, by which it asks another agent for it again; 0 for
    /// none.
    pub(crate) key: u64,
    /// The process will say which bytes it has written.
    pub(crate) tells: bool,
    /// The options of the rule.
    pub(crate) options: Options,
}

/// The result of an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has this memory.
    Opened(Opening),
    /// Nothing is there for it yet.
    Wait,
    /// The error of this number.
    Fail(i32),
    /// The writer died, and the file on disk is meant.
    OnDisk,
}

/// An open that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Its number.
    pub(crate) handle: Handle,
    /// Its memory.
    pub(crate) area: Area,
    /// The number of the generation.
    pub(crate) generation: u64,
}

/// A change of memory that the caller carries out, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Make it, empty or with the bytes of another one.
    Make(Area, Option<Area>),
    /// Cut it to no bytes.
    Empty(Area),
    /// Find out whether nobody can write to it any more; if so, [`super::Registry::commit`].
    Look(Area),
    /// Store a complete generation under this name on disk; then [`super::Registry::stored`].
    Store(Area, Path),
    /// Remove this name from the disk.
    Remove(Path),
    /// Move the bytes of a complete generation to this directory; then `Files::moved`.
    Move(Area, Directory),
    /// Say that this generation of a file was given up unread because memory is full.
    Dropped(Path, u64),
    /// Give it up.
    Free(Area),
}
