//! `aggio stat`: what is known about containers, sets of netCDF files, and files.

use super::facts::{self, Facts};
use super::{netcdf, sets};
use crate::Answer;
use std::path::PathBuf;

/// Arguments of `aggio stat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers, sets of netCDF files, and files; what netCDF files hold is told, too
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Everything as JSON
    #[arg(long)]
    json: bool,
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
                    let looked = look_into(&mut facts);
                    findings.extend(looked.err().map(|why| format!("stat: {why}")));
                    files.push(facts);
                }
                Err(why) => findings.push(format!("stat: {why}")),
            }
        }
        let text =
            if self.json { facts::document(&files) } else { files.iter().map(lines).collect() };
        Answer { text, findings, status: None }
    }
}

/// A plain file may be a netCDF file.
fn look_into(facts: &mut Facts) -> Result<(), String> {
    if facts.kind == "file" {
        facts.netcdf = netcdf::of_file(&facts.path)?;
    }
    Ok(())
}

fn lines(facts: &Facts) -> String {
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
    text
}
