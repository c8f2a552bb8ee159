//! The directory that is shown, and how.

use agg_core::blob::Verify;
use aggio_couple::Viewer;
use aggio_formats::Holes;
use std::path::PathBuf;

/// The kind of new files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewFiles {
    /// Files as they are.
    #[default]
    Plain,
    /// Containers.
    Container,
}

/// The directory that is shown, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory that is shown.
    pub backend: PathBuf,
    /// Where it is shown.
    pub point: PathBuf,
    /// Whether it may be changed.
    pub write: bool,
    /// Whether other users may use it.
    pub allow_other: bool,
    /// The kind of files that are made here.
    pub new_files: NewFiles,
    /// Whether the kernel reads and writes plain files by itself where it can.
    pub passthrough: bool,
    /// Whether bytes of containers are compared with checksums when they are read.
    pub verify: Verify,
    /// Whether the files of sets are listed, too.
    pub subfiles: bool,
    /// The bytes of sets that were never written.
    pub holes: Holes,
    /// Opens files that programs exchange in memory, to show those as well.
    pub coupled: Option<Viewer>,
}
