//! The state of the registry: names, generations, opens, readers and their positions.

pub use aggio_config::settings::couple::Options;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A process that has called, by a number of the agent's.
pub type Process = u64;
/// One program: all processes that a launcher started together, or one process alone.
pub type Job = u64;
/// Processes that follow each other: one that begins reads on where those ended.
pub type Family = u64;
/// The memory of one generation.
pub type Area = u64;
/// One open of one process.
pub type Handle = u64;
/// The absolute name of a file.
pub type Path = Vec<u8>;
/// The absolute name of a directory that has bytes for which there is no memory.
pub type Directory = Arc<str>;

/// The identity of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its program.
    pub job: Job,
    /// The number of processes of the program.
    pub ranks: u32,
    /// The processes that it follows.
    pub family: Family,
    /// Its name in messages.
    pub label: String,
}

/// The arguments of an open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of open(2)")]
pub struct Ask {
    /// Its name.
    pub path: Path,
    /// Data may be written.
    pub write: bool,
    /// Creates the file if it is missing.
    pub create: bool,
    /// Fails if it is there.
    pub exclusive: bool,
    /// Begins without bytes.
    pub truncate: bool,
    /// Looks at the newest generation, and is no reader of the file.
    pub view: bool,
    /// The process's own number of this open, by which it asks another agent for it again; 0 for
    /// none.
    pub key: u64,
    /// The process will say which bytes it has written.
    pub tells: bool,
    /// The options of the rule.
    pub options: Options,
}

/// The result of an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
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
pub struct Opening {
    /// Its number.
    pub handle: Handle,
    /// Its memory.
    pub area: Area,
    /// The number of the generation.
    pub generation: u64,
}

/// A change of memory that the caller carries out, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
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
    /// Move the bytes of a complete generation to this directory; then
    /// [`super::Registry::moved`].
    Move(Area, Directory),
    /// Say that this generation of a file was given up unread because memory is full.
    Dropped(Path, u64),
    /// Give it up.
    Free(Area),
}

/// The state of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody may write to it.
    Writing,
    /// It changes no more.
    Complete,
}

/// Whether a generation is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is not to be.
    Never,
    /// It is to be.
    Wanted,
    /// That is going on.
    Busy,
    /// It is.
    Done,
    /// It could not be, and is kept in memory.
    Failed,
}

/// The place of the bytes of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// In memory.
    Memory,
    /// In memory, while they are copied to this directory.
    Moving(Directory),
    /// In this directory; opens with numbers below this one still have the memory.
    Directory(Directory, Handle),
}

/// One generation of one file.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The name of the file.
    pub path: Path,
    /// Its number, from 1.
    pub number: u64,
    /// Whether it is complete.
    pub state: State,
    /// Programs that wrote it.
    pub jobs: BTreeSet<Job>,
    /// Processes that had it open for writing.
    pub writers: BTreeSet<Process>,
    /// The process that began it, as messages name it.
    pub maker: String,
    /// A program has said that it wrote to it, whatever the bytes were before.
    pub written: bool,
    /// A program may have written to it that does not say which bytes.
    pub untold: bool,
    /// Readers get it although it is not complete.
    pub published: bool,
    /// Its rule lets readers have records before it is complete.
    pub step: bool,
    /// Records of it that readers may have before it is complete, once they may.
    pub records: Option<u64>,
    /// A reader is done with it.
    pub read: bool,
    /// The name means it no more for its writer.
    pub unlinked: bool,
    /// Its name was removed while programs had it open for writing: it is for nobody.
    pub is_for_nobody: bool,
    /// Whether it is on disk.
    pub stored: Stored,
    /// The open that began it, while that is the only one for writing that there has been.
    pub alone: Option<Handle>,
    /// The file had been cut to no bytes by name before.
    pub emptied: bool,
    /// Bytes of memory, once it is complete.
    pub bytes: u64,
    /// Bytes that it is expected to have when it is complete; 0 if nothing is known.
    pub expected: u64,
    /// The place of its bytes.
    pub home: Home,
    /// Its memory began as a copy of this generation.
    pub copy_of: Option<Area>,
    /// Opens by which it was written.
    pub handles: BTreeSet<Handle>,
}

/// One open of one process.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// The process that has it.
    pub process: Process,
    /// The generation that is open.
    pub area: Area,
    /// Whether it may write.
    pub write: bool,
    /// The process will say which bytes it has written.
    pub tells: bool,
    /// Whether it moves the position of a reader.
    pub reads_on: bool,
    /// The generation was not complete, so that its reader opens it again to have the rest.
    pub is_part: bool,
    /// The process's own number of the open; 0 if it will not ask again.
    pub key: u64,
}

/// The position of one process that reads a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The generation of the last open, 0 before the first.
    pub at: u64,
    /// The number of times that it has this generation open.
    pub open: u32,
    /// It was read, not only looked at.
    pub seen: bool,
    /// The newest generation that it is done with.
    pub finished: u64,
}

/// The program that reads a file.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The number of its processes.
    pub ranks: u32,
    /// Those that have opened the file.
    pub processes: BTreeMap<Process, Position>,
}

/// A generation that will never be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The number of the generation.
    pub number: u64,
    /// The process that died.
    pub writer: String,
    /// Its memory; 0 if nobody has read anything.
    pub area: Area,
    /// Processes that read what was there of it, and have not been told.
    pub untold: BTreeSet<Process>,
}

impl Dead {
    /// A generation of which nobody has read anything.
    pub fn unread(number: u64, writer: String) -> Self {
        Self { number, writer, area: 0, untold: BTreeSet::new() }
    }
}

/// A generation that was being written when an earlier agent died: it will never be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aborted {
    /// The number of the generation.
    pub number: u64,
    /// The process that began it, as messages name it.
    pub maker: String,
    /// Opens by which it was being written, and by which key each was asked for, if it was open.
    pub opens: BTreeMap<Handle, u64>,
    /// Processes that know that it is lost.
    pub told: BTreeSet<Process>,
}

/// All that is known under one name.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// The last number that was given.
    pub last: u64,
    /// The generations, by number.
    pub generations: BTreeMap<u64, Area>,
    /// The programs that read it.
    pub readers: BTreeMap<Job, Reader>,
    /// The newest generation that each family of ended processes was done with.
    pub ended: BTreeMap<Family, u64>,
    /// The last generation that each family of processes removed without having written it.
    pub removed: BTreeMap<Family, u64>,
    /// The newest generation that was given up.
    pub lost: u64,
    /// The newest generation that was lost with an agent although its writer was not told, and went
    /// on.
    pub unreported: u64,
    /// The newest generation that was stored on disk.
    pub on_disk: u64,
    /// The newest generation that was given up although the name still meant it for its writer.
    pub dropped: u64,
    /// The newest generation, if its writer died.
    pub dead: Option<Dead>,
    /// The program that wrote last.
    pub writer: Option<Job>,
    /// Generations that programs were writing when an earlier agent died, and may write again.
    pub aborted: BTreeMap<Job, Aborted>,
    /// For its writer the file has no bytes, and its next open makes a generation.
    pub emptied: bool,
    /// The options of the last open.
    pub options: Options,
}

impl Name {
    /// Whether what the file was for its writer was given up.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped > 0 && self.dropped == self.last
    }
}
