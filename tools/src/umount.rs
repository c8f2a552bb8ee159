//! `aggio umount`: ends a mount, even if its process is gone.

use crate::Answer;
use aggio_fusefs::mounts;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time in which the process of a mount must finish open files.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `aggio umount`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where it is mounted
    #[arg(value_name = "MOUNT_POINT", required = true)]
    points: Vec<PathBuf>,
    /// Also if it is in use: it vanishes from the directory tree now and ends with its last user
    #[arg(short = 'z', long)]
    lazy: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let mut answer = Answer::default();
        for point in &self.points {
            if let Err(why) = self.unmount(point) {
                answer.findings.push(format!("umount: {}: {why}", point.display()));
            }
        }
        answer
    }

    fn unmount(&self, point: &Path) -> Result<(), String> {
        let point = mounts::resolve(point).map_err(|why| why.to_string())?;
        let Some(_) = mounts::at(&point).map_err(|why| why.to_string())? else {
            return Err("no mount of aggio is there".into());
        };
        // Nobody can use a dead mount; a program may still have its working directory there.
        let lazy = self.lazy || mounts::is_dead(&point);
        mounts::remove(&point, lazy, PATIENCE).map_err(|why| match why.raw_os_error() {
            Some(16) => "in use (-z unmounts it when its last user is gone)".into(),
            _ => why.to_string(),
        })
    }
}
