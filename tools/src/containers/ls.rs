//! `aggio ls`: a listing in which containers are files.

use super::{at, facts};
use crate::{Answer, columns};
use facts::Facts;
use std::path::{Path, PathBuf};

/// Arguments of `aggio ls`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directories, containers and files
    #[arg(default_value = ".")]
    paths: Vec<PathBuf>,
    /// Mode, size, logs and state too; `c` stands for a container
    #[arg(short, long)]
    long: bool,
    /// Names that begin with a dot too
    #[arg(short, long)]
    all: bool,
    /// Everything as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let (mut files, mut findings) = (Vec::new(), Vec::new());
        for path in &self.paths {
            match self.list(path) {
                Ok(found) => {
                    for one in found {
                        match one {
                            Ok(facts) => files.push(facts),
                            Err(why) => findings.push(format!("ls: {why}")),
                        }
                    }
                }
                Err(why) => findings.push(format!("ls: {why}")),
            }
        }
        let text = if self.json { facts::document(&files) } else { self.as_text(&files) };
        Answer { text, findings, status: None }
    }

    fn list(&self, path: &Path) -> Result<Vec<Result<Facts, String>>, String> {
        let facts = Facts::of(path)?;
        if facts.kind != "directory" {
            return Ok(vec![Ok(facts)]);
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|why| at(path, why))? {
            names.push(entry.map_err(|why| at(path, why))?.file_name());
        }
        names.retain(|name| self.all || !name.to_string_lossy().starts_with('.'));
        names.sort();
        Ok(names.iter().map(|name| Facts::of(&path.join(name))).collect())
    }

    fn as_text(&self, files: &[Facts]) -> String {
        let name = |facts: &Facts| match facts.path.file_name() {
            Some(name) if self.paths.len() == 1 => name.to_string_lossy().into_owned(),
            _ => facts.path.display().to_string(),
        };
        if !self.long {
            return files.iter().map(|facts| name(facts) + "\n").collect();
        }
        let row = |facts: &Facts| {
            let state = facts.blob.as_ref().map_or(String::new(), |blob| {
                let state = if blob.sealed { "sealed" } else { "open" };
                format!("{} logs, {state}", blob.logs)
            });
            let owner = format!("{}:{}", facts.uid, facts.gid);
            vec![facts.mode_in_letters(), owner, facts.size.to_string(), state, name(facts)]
        };
        columns(&files.iter().map(row).collect::<Vec<_>>())
    }
}
