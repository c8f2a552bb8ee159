//! `aggio split`: an ordinary file becomes a container.

use super::at;
use super::guarded::guarded;
use super::merge::EEXIST;
use crate::{Answer, numbers, progress};
use agg_core::blob::{self, Split};
use agg_core::output::Unfinished;
use std::path::PathBuf;

/// Arguments of `aggio split`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file
    file: PathBuf,
    /// The container that is made; it appears when it is complete
    container: PathBuf,
    /// Bytes of the file that are stored together; 0 for 4 MiB
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = numbers::frame())]
    frame: u64,
    /// Store no checksums of the data
    #[arg(long)]
    no_data_crc: bool,
    /// Compare the container with the file before it gets its name
    #[arg(long)]
    verify: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        match guarded(|unfinished| self.split(unfinished)) {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("split: {why}")),
        }
    }

    fn split(&self, unfinished: &Unfinished) -> Result<(), String> {
        let made = progress::show("splitting", |progress| {
            let how = Split {
                frame: self.frame,
                data_crc: !self.no_data_crc,
                verify: self.verify,
                progress: Some(progress),
                unfinished,
            };
            blob::split(&self.file, &self.container, &how)
        });
        made.map_err(|why| match why.errno() {
            EEXIST => at(&self.container, "there already"),
            _ => at(&self.file, why),
        })
    }
}
