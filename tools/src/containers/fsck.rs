//! `aggio fsck`: checks whether containers are whole, and names the remedy if not.

use super::{at, stored};
use crate::{Answer, exit, progress};
use agg_core::blob::{
    Check, Findings, Problem, Severity, check, is_container, is_kept_copy, is_remain,
};
use agg_core::output::is_aside;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `aggio fsck`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers, and directories in which all containers are checked
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Rebuild manifest, index and order from the logs, and cut off torn ends; old parts are kept
    #[arg(long)]
    repair: bool,
    /// Also recover intact frames behind a damaged one; implies --repair
    #[arg(long)]
    salvage: bool,
    /// Do not read the data to compare it with its checksums
    #[arg(long)]
    quick: bool,
    /// The findings as JSON
    #[arg(long)]
    json: bool,
}

/// A container and its findings.
type Checked = (PathBuf, Result<Findings, String>);

/// The objects at or below a path.
#[derive(Default)]
pub(super) struct Found {
    pub(super) containers: Vec<PathBuf>,
    /// Objects that no user has named: files and containers on their way, and containers that have
    /// lost their names.
    pub(super) remains: Vec<PathBuf>,
    /// Copies that a merge with `--resume` can go on with.
    copies: Vec<PathBuf>,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let (mut all, mut findings, mut remains) = (Vec::new(), Vec::new(), Vec::new());
        let mut copies = Vec::new();
        let how =
            Check { data: !self.quick, repair: self.repair || self.salvage, salvage: self.salvage };
        for path in &self.paths {
            match containers(path) {
                Err(why) => findings.push(format!("fsck: {why}")),
                Ok(found) => {
                    all.extend(found.containers.into_iter().map(|path| {
                        let size = stored(&path);
                        (path, size)
                    }));
                    remains.extend(found.remains);
                    copies.extend(found.copies);
                }
            }
        }
        let checked: Vec<Checked> = progress::each("checking", all, |path, _| {
            let found = check(&path, &how).map_err(|why| at(&path, why));
            (path, found)
        });
        let left = u8::from(!remains.is_empty());
        let worst = checked.iter().map(status).max().unwrap_or(0).max(left);
        let status = worst.max(if findings.is_empty() { exit::DONE } else { exit::DAMAGED });
        let text = if self.json {
            document(&checked, &remains)
        } else {
            let left = remains.iter().map(|path| remain(path));
            let kept = copies.iter().map(|path| copy(path));
            checked.iter().map(lines).chain(left).chain(kept).collect()
        };
        Answer { text, findings, status: Some(status) }
    }
}

fn status((_, found): &Checked) -> u8 {
    match found {
        Ok(found) => u8::try_from(found.exit_code()).unwrap_or(exit::DAMAGED),
        Err(_) => exit::DAMAGED,
    }
}

/// All containers at or below a path; symbolic links are not followed.
pub(super) fn containers(path: &Path) -> Result<Found, String> {
    let facts = std::fs::symlink_metadata(path).map_err(|why| at(path, why))?;
    if looks_like_one(path) {
        return Ok(Found { containers: vec![path.into()], ..Found::default() });
    }
    if !facts.is_dir() {
        return Err(at(path, "neither a container nor a directory"));
    }
    let (mut found, mut folders) = (Found::default(), vec![path.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|why| at(&folder, why))? {
            let entry = entry.map_err(|why| at(&folder, why))?;
            let Ok(kind) = entry.file_type() else { continue };
            let (path, name) = (entry.path(), entry.file_name());
            if kind.is_file() && is_remain(&name, true) {
                found.remains.push(path);
            } else if kind.is_dir() {
                if is_remain(&name, false) {
                    found.remains.push(path);
                } else if is_kept_copy(&name) {
                    found.copies.push(path);
                } else if looks_like_one(&path) {
                    found.containers.push(path);
                } else {
                    folders.push(path);
                }
            }
        }
    }
    found.containers.sort();
    found.remains.sort();
    found.copies.sort();
    Ok(found)
}

/// The message about an object that no user has named.
fn remain(path: &Path) -> String {
    let what = match path.file_name().is_some_and(is_aside) {
        true => "what is left while names changed; `aggio recover` gives it its own again",
        false => "what is left of a container or a file without a name; `aggio recover` removes it",
    };
    format!("{}: repairable: {what} if nobody has it open\n", path.display())
}

/// The message about a copy that `aggio merge --resume` has left on purpose.
fn copy(path: &Path) -> String {
    format!("{}: clean: `aggio merge --resume` goes on with it\n", path.display())
}

/// Whether a directory looks like a container. Its manifest may be unreadable, or gone while its
/// logs are there: this command has to check such directories, too.
fn looks_like_one(path: &Path) -> bool {
    let has = |name: &str| path.join(name).symlink_metadata().is_ok();
    is_container(path) || has(agg_core::blob::MANIFEST) || has("order")
}

fn word(status: u8, found: &Findings) -> &'static str {
    match status {
        0 => "clean",
        1 if !found.repairs.is_empty() => "repaired",
        1 => "repairable",
        _ => "damaged",
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Repairable => "repairable",
        Severity::Damaged => "damaged",
    }
}

fn lines(checked: &Checked) -> String {
    let path = checked.0.display();
    let found = match &checked.1 {
        Ok(found) => found,
        Err(why) => return format!("{why}\n"),
    };
    let mut text = format!(
        "{path}: {}: {} logs, {} frames, {} bytes\n",
        word(status(checked), found),
        found.logs,
        found.frames,
        found.bytes
    );
    for Problem { part, place, words, severity: how } in &found.problems {
        let place = place.map_or(String::new(), |place| format!(" at byte {place}"));
        text.push_str(&format!("  {}: {part}{place}: {words}\n", severity(*how)));
    }
    for done in &found.repairs {
        text.push_str(&format!("  done: {done}\n"));
    }
    text
}

fn document(checked: &[Checked], remains: &[PathBuf]) -> String {
    let problem = |problem: &Problem| {
        json!({
            "part": problem.part,
            "place": problem.place,
            "words": problem.words,
            "severity": severity(problem.severity),
        })
    };
    let object = |one: &Checked| match &one.1 {
        Err(why) => json!({ "path": one.0.display().to_string(), "error": why }),
        Ok(found) => json!({
            "path": one.0.display().to_string(),
            "verdict": word(status(one), found),
            "logs": found.logs,
            "frames": found.frames,
            "bytes": found.bytes,
            "problems": found.problems.iter().map(problem).collect::<Vec<Value>>(),
            "repairs": found.repairs,
        }),
    };
    let containers: Vec<Value> = checked.iter().map(object).collect();
    let remains: Vec<_> = remains.iter().map(|path| path.display().to_string()).collect();
    format!("{:#}\n", json!({ "schema": 1, "containers": containers, "remains": remains }))
}
