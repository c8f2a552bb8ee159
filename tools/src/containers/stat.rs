//! `aggio stat`: describes containers, sets of netCDF files, and files.

use super::facts::{self, Facts};
use super::{hdf5, netcdf, sets};
use crate::Answer;
use std::path::PathBuf;

/// Arguments of `aggio stat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers, sets of netCDF files, and files; also describes what netCDF and HDF5 files hold
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Everything as JSON
    #[arg(long)]
    json: bool,
    /// Each chunk of HDF5 files: its first element, its place and its bytes in the file
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    sets: sets::Flags,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let (mut files, mut findings) = (Vec::new(), Vec::new());
        for path in &self.paths {
            match Facts::with(path, self.sets) {
                Ok(mut facts) => {
                    let problems = look_into(&mut facts).unwrap_or_else(|why| vec![why]);
                    findings.extend(problems.into_iter().map(|why| format!("stat: {why}")));
                    files.push(facts);
                }
                Err(why) => findings.push(format!("stat: {why}")),
            }
        }
        let text = if self.json {
            facts::document(&files, self.chunks)
        } else {
            files.iter().map(|facts| lines(facts, self.chunks)).collect()
        };
        Answer { text, findings, status: None }
    }
}

/// Looks for a netCDF file or, in the content of a container, an HDF5 file; returns the damage that
/// is found.
fn look_into(facts: &mut Facts) -> Result<Vec<String>, String> {
    if facts.kind == "file" {
        facts.netcdf = netcdf::of_file(&facts.path)?;
    }
    if let Some(file) = facts.netcdf.as_ref().filter(|file| !file.is_netcdf()) {
        facts.hdf5 = hdf5::of_source(file)?;
    }
    if facts.netcdf.is_none() && ["file", "container"].contains(&facts.kind) {
        facts.hdf5 = hdf5::of(&facts.path, facts.kind == "container")?;
    }
    Ok(facts.hdf5.iter().flat_map(hdf5::problems).collect())
}

fn lines(facts: &Facts, chunks: bool) -> String {
    let mut text = format!(
        "{}: {}, {} bytes ({} stored), mode {:04o}, owner {}:{}\n",
        facts.path.display(),
        facts.kind,
        facts.size,
        facts.stored,
        facts.mode,
        facts.uid,
        facts.gid
    );
    if let Some(blob) = &facts.blob {
        let state =
            if blob.sealed { "sealed" } else { "being written, or not sealed after a crash" };
        text.push_str(&format!("  generation {}, {} logs, {state}\n", blob.generation, blob.logs));
    }
    if let Some(file) = &facts.netcdf {
        text.push_str(&netcdf::lines(file));
    }
    if let Some(found) = &facts.hdf5 {
        text.push_str(&hdf5::lines(found, facts.unit, chunks));
    }
    text
}
