//! `aggio merge`: a container becomes an ordinary file.

use super::{at, show_progress};
use crate::Answer;
use agg_core::blob::{self, Merge};
use std::path::PathBuf;

/// Arguments of `aggio merge`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The container
    container: PathBuf,
    /// The file that is made; it appears when it is complete. A run that was interrupted goes on
    file: PathBuf,
    /// Replace the file if there is one
    #[arg(short, long)]
    force: bool,
    /// Check all checksums before, and compare the file with the container after
    #[arg(long)]
    verify: bool,
    /// Threads that copy; 0 for as many as there are cores
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    threads: usize,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let merged = show_progress("merging", |progress| {
            let how = Merge {
                threads: self.threads,
                verify: self.verify,
                replace: self.force,
                progress: Some(progress),
            };
            blob::merge(&self.container, &self.file, &how)
        });
        match merged {
            Ok(_) => Answer::default(),
            Err(why) if why.errno() == EEXIST => Answer::failed(format!(
                "merge: {}",
                at(&self.file, "there already (--force replaces it)")
            )),
            Err(why) => Answer::failed(format!("merge: {}", at(&self.container, why))),
        }
    }
}

/// The error that something has the name already.
pub(super) const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();
