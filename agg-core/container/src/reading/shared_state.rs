//! The state that an opened container shares with its readers and writers.

use crate::directory::{Dir, Stage};
use crate::order::Hold;
use crate::output::parent_of;
use aggio_base::Result;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state that a container shares with its readers and writers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) dir: Dir,
    /// Whether this process made it. It may write then regardless of the mode, as after `open`.
    pub(crate) made_here: bool,
    /// Whether the manifest and the directory's own name are durable.
    pub(crate) born: AtomicBool,
    /// The hold that marks the container as in use while its name is hidden.
    pub(crate) made_with: OnceLock<Option<Hold>>,
    /// Where logs that are made from now on wait, if they do.
    pub(crate) stage: OnceLock<Stage>,
}

impl Shared {
    /// The state of a container in `dir` that this process has made or opened.
    pub(crate) fn new(dir: Dir, made_here: bool) -> Self {
        let born = AtomicBool::new(!made_here);
        Self { dir, made_here, born, made_with: OnceLock::new(), stage: OnceLock::new() }
    }

    /// Makes the container itself durable, once.
    pub(crate) fn sync_birth(&self) -> Result<()> {
        if self.born.load(Ordering::Acquire) {
            return Ok(());
        }
        self.dir.sync()?;
        let parent = parent_of(self.dir.path());
        Dir::open_following(&parent)?.sync()?;
        self.born.store(true, Ordering::Release);
        Ok(())
    }
}
