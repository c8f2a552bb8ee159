//! `aggio merge`: a container, or a set of netCDF files, becomes an ordinary file.

use super::assemble::{Assembly, THERE};
use super::{at, sets, show_progress};
use crate::Answer;
use agg_core::blob::{self, Merge};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Arguments of `aggio merge`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The container, or the name that a set of netCDF files stands for
    container: PathBuf,
    /// The file that is made; it appears when it is complete. For a container, a run that was interrupted goes on
    file: PathBuf,
    /// Replace the file if there is one
    #[arg(short, long)]
    force: bool,
    /// Check all checksums before, and compare the file with the container or the set after
    #[arg(long)]
    verify: bool,
    /// Threads that copy; 0 for as many as there are cores
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    sets: sets::Flags,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let merged = if blob::is_container(&self.container) {
            self.merge_container()
        } else {
            self.merge_set()
        };
        match merged {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("merge: {why}")),
        }
    }

    fn merge_container(&self) -> Result<(), String> {
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
            Ok(_) => Ok(()),
            Err(why) if why.errno() == EEXIST => Err(at(&self.file, THERE)),
            Err(why) => Err(at(&self.container, why)),
        }
    }

    fn merge_set(&self) -> Result<(), String> {
        let neither = || at(&self.container, "neither a container nor a set of netCDF files");
        let from = sets::open(&self.container, self.sets)?.ok_or_else(neither)?;
        let first = from.describe().files.into_iter().next().ok_or_else(neither)?;
        let found = std::fs::metadata(&first.name).map_err(|why| at(first.name.as_ref(), why))?;
        show_progress("merging", |progress| {
            let how = Assembly {
                threads: self.threads,
                verify: self.verify,
                replace: self.force,
                mode: found.mode() & 0o777,
                progress,
            };
            how.run(&from, &self.file)
        })
    }
}

/// The error that something has the name already.
pub(super) const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();
