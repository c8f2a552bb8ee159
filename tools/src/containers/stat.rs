//! `aggio stat`: what is known about containers and files.

use super::facts::{self, Facts};
use crate::Answer;
use std::path::PathBuf;

/// Arguments of `aggio stat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers and files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Everything as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let (mut files, mut findings) = (Vec::new(), Vec::new());
        for path in &self.paths {
            match Facts::of(path) {
                Ok(facts) => files.push(facts),
                Err(why) => findings.push(format!("stat: {why}")),
            }
        }
        let text =
            if self.json { facts::document(&files) } else { files.iter().map(lines).collect() };
        Answer { text, findings, status: None }
    }
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
    text
}
