//! `aggio fsck`: whether containers are whole.

use super::{PIECE, at, progress};
use crate::Answer;
use agg_core::blob::{Container, is_container};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Exit status: something was repaired, or can be.
const REPAIRABLE: u8 = 1;
/// Exit status: something is damaged.
const DAMAGED: u8 = 4;

/// Arguments of `aggio fsck`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers, and directories in which all containers are checked
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Seal what was not sealed after a crash and is not being written
    #[arg(long)]
    repair: bool,
    /// The findings as JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Clean,
    Unsealed,
    Repaired,
    Damaged(String),
}

impl Verdict {
    fn status(&self) -> u8 {
        match self {
            Verdict::Clean => 0,
            Verdict::Unsealed | Verdict::Repaired => REPAIRABLE,
            Verdict::Damaged(_) => DAMAGED,
        }
    }

    fn words(&self) -> (&'static str, &str) {
        match self {
            Verdict::Clean => ("clean", "every byte can be read"),
            Verdict::Unsealed => {
                ("unsealed", "being written, or left by a crash; --repair seals it")
            }
            Verdict::Repaired => ("repaired", "sealed"),
            Verdict::Damaged(why) => ("damaged", why),
        }
    }
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let (mut found, mut findings) = (Vec::new(), Vec::new());
        for path in &self.paths {
            let containers = containers(path).unwrap_or_else(|why| {
                findings.push(format!("fsck: {why}"));
                Vec::new()
            });
            for container in containers {
                let verdict = self.check(&container);
                found.push((container, verdict));
            }
        }
        let worst = found.iter().map(|(_, verdict)| verdict.status()).max().unwrap_or(0);
        let status = worst.max(if findings.is_empty() { 0 } else { DAMAGED });
        let text = if self.json { document(&found) } else { found.iter().map(line).collect() };
        Answer { text, findings, status: Some(status) }
    }

    fn check(&self, path: &Path) -> Verdict {
        let sealed = match read_all(path) {
            Ok(sealed) => sealed,
            Err(why) => return Verdict::Damaged(why),
        };
        if sealed {
            return Verdict::Clean;
        }
        if !self.repair {
            return Verdict::Unsealed;
        }
        let closed = Container::open(path)
            .and_then(|container| container.writer())
            .and_then(agg_core::blob::Writer::close);
        match closed.map_err(|why| at(path, why)).and_then(|()| read_all(path)) {
            Ok(true) => Verdict::Repaired,
            Ok(false) => Verdict::Unsealed,
            Err(why) => Verdict::Damaged(why),
        }
    }
}

/// Reads every byte; whether the container is sealed.
fn read_all(path: &Path) -> Result<bool, String> {
    let reader = Container::open(path).and_then(|container| container.reader());
    let reader = reader.map_err(|why| at(path, why))?;
    let (mut place, mut buffer) = (0, vec![0; PIECE]);
    let bar = progress(reader.size(), "reading");
    loop {
        match reader.read_at(&mut buffer, place).map_err(|why| at(path, why))? {
            0 => break,
            count => place += count as u64,
        }
        bar.set_position(place);
    }
    bar.finish_and_clear();
    Ok(reader.is_sealed())
}

/// All containers at or below a path; symbolic links are not followed.
pub(super) fn containers(path: &Path) -> Result<Vec<PathBuf>, String> {
    let facts = std::fs::symlink_metadata(path).map_err(|why| at(path, why))?;
    // A directory whose manifest is unreadable is what this command is for.
    if is_container(path) || path.join("aggio-manifest").symlink_metadata().is_ok() {
        return Ok(vec![path.into()]);
    }
    if !facts.is_dir() {
        return Err(at(path, "neither a container nor a directory"));
    }
    let (mut found, mut folders) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|why| at(&folder, why))? {
            let entry = entry.map_err(|why| at(&folder, why))?;
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let has_manifest = path.join("aggio-manifest").symlink_metadata().is_ok();
            if has_manifest { found.push(path) } else { folders.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

fn line((path, verdict): &(PathBuf, Verdict)) -> String {
    let (word, more) = verdict.words();
    let path = path.display().to_string();
    match more.strip_prefix(&format!("{path}: ")) {
        Some(rest) => format!("{path}: {word}: {rest}\n"),
        None => format!("{path}: {word}: {more}\n"),
    }
}

fn document(found: &[(PathBuf, Verdict)]) -> String {
    let object = |(path, verdict): &(PathBuf, Verdict)| {
        let (word, more) = verdict.words();
        json!({ "path": path.display().to_string(), "verdict": word, "why": more })
    };
    let containers: Vec<Value> = found.iter().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "containers": containers }))
}
