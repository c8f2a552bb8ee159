//! `aggio split`: an ordinary file becomes a container.

use super::at;
use super::merge::EEXIST;
use crate::{Answer, numbers, progress};
use agg_core::blob::{self, Split};
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
        let made = progress::show("splitting", |progress| {
            let how = Split {
                frame: self.frame,
                data_crc: !self.no_data_crc,
                verify: self.verify,
                progress: Some(progress),
            };
            blob::split(&self.file, &self.container, &how)
        });
        match made {
            Ok(()) => Answer::default(),
            Err(why) if why.errno() == EEXIST => {
                Answer::failed(format!("split: {}", at(&self.container, "there already")))
            }
            Err(why) => Answer::failed(format!("split: {}", at(&self.file, why))),
        }
    }
}
