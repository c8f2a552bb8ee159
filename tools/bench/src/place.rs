//! The file systems that are measured.

use crate::Arguments;
use crate::slow::SlowMount;
use std::path::{Path, PathBuf};

/// A directory on a file system.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    /// Keeps the slow file system mounted.
    slow: Option<SlowMount>,
}

impl Place {
    /// Options of the benchmark program here.
    pub(crate) fn options(&self) -> Vec<String> {
        let Some(slow) = &self.slow else { return Vec::new() };
        // The kernel lets only one process at a time make a file longer, which a parallel file
        // system does not.
        vec!["--presized".into(), "--requests".into(), slow.requests().display().to_string()]
    }
}

/// How to make a place; a mount exists only while it is measured.
pub(crate) enum Plan<'a> {
    Directory { name: &'a str, directory: &'a Path },
    Slow { program: &'a Path, directory: &'a Path, options: &'a str },
}

impl Plan<'_> {
    /// The standard patterns that suit it.
    pub(crate) fn set(&self) -> &'static str {
        match self {
            Plan::Directory { .. } => "benchmark",
            Plan::Slow { .. } => "slow",
        }
    }

    pub(crate) fn make(&self) -> Result<Place, String> {
        match *self {
            Plan::Directory { name, directory } => {
                Ok(Place { name: name.into(), directory: directory.into(), slow: None })
            }
            Plan::Slow { program, directory, options } => {
                let slow = SlowMount::start(program, directory, options)?;
                let directory = slow.directory().to_path_buf();
                Ok(Place { name: "slow".into(), directory, slow: Some(slow) })
            }
        }
    }
}

/// All places that were asked for.
pub(crate) fn plans(arguments: &Arguments) -> Result<Vec<Plan<'_>>, String> {
    let mut plans = Vec::new();
    for text in &arguments.places {
        let (name, directory) =
            text.split_once('=').ok_or(format!("{text}: want NAME=DIRECTORY"))?;
        plans.push(Plan::Directory { name, directory: Path::new(directory) });
    }
    if let (Some(program), Some(directory)) = (&arguments.slowfs, &arguments.slow_directory) {
        plans.push(Plan::Slow { program, directory, options: &arguments.slow_options });
    }
    if plans.is_empty() { Err("no place to measure: --on or --slowfs".into()) } else { Ok(plans) }
}

/// A fresh directory that goes away with its value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn create(parent: &Path, name: &str) -> Result<Self, String> {
        let path = parent.join(format!("ab{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Removes the files of a killed job, too; the next run uses another name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
