//! `aggio ls`: a listing in which containers and sets of netCDF files are files.

use super::{at, facts};
use crate::{Answer, columns};
use aggio_formats::Sets;
use aggio_formats::files::Folder;
use facts::Facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Arguments of `aggio ls`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directories, containers, sets of netCDF files, and files
    #[arg(default_value = ".")]
    paths: Vec<PathBuf>,
    /// Mode in the letters of ls(1), owner, size, and what is a container or a set of netCDF files
    #[arg(short, long)]
    long: bool,
    /// Names that begin with a dot too
    #[arg(short, long)]
    all: bool,
    /// The files of sets, too
    #[arg(long)]
    subfiles: bool,
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
        let text = if self.json { facts::document(&files, false) } else { self.as_text(&files) };
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
        self.replace_subfiles(path, &mut names)?;
        names.sort();
        names.dedup();
        Ok(names.iter().map(|name| Facts::of(&path.join(name))).collect())
    }

    /// Puts sets of netCDF files in the place of their files.
    fn replace_subfiles(&self, folder: &Path, names: &mut Vec<OsString>) -> Result<(), String> {
        let place = Folder {
            path: folder.into(),
            shown: folder.into(),
            held: None,
            place: Ok,
            guard: None,
        };
        let mut sets = Sets::of(place);
        let mut found = Vec::new();
        for name in std::mem::take(names) {
            let set = match name.to_str() {
                Some(text) => sets.that_has(text).map_err(|why| why.to_string())?,
                None => None,
            };
            let Some(set) = set else {
                found.push(name);
                continue;
            };
            found.push(set.name().into());
            if self.subfiles {
                found.push(name);
            }
        }
        *names = found;
        Ok(())
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
                format!("container of {} logs, {state}", blob.logs)
            });
            let state = match facts.netcdf.as_ref().map(|file| file.describe().files.len()) {
                Some(files) => format!("set of {files} files"),
                None => state,
            };
            let owner = format!("{}:{}", facts.uid, facts.gid);
            vec![facts.mode_in_letters(), owner, facts.size.to_string(), state, name(facts)]
        };
        columns(&files.iter().map(row).collect::<Vec<_>>())
    }
}
