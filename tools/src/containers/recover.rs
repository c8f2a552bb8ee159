//! `aggio recover`: finishes what killed processes had begun.

use super::{at, fsck, stored};
use crate::{Answer, progress};
use agg_core::blob::{self, Cleared, Recovered};
use agg_core::spool;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `aggio recover`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers, and directories in which all containers are sealed that a crash left open
    paths: Vec<PathBuf>,
    /// Where the spool files of killed processes are
    #[arg(long, value_name = "DIRECTORY", env = "AGGIO_SPOOL", default_value = spool::DIRECTORY)]
    spool: PathBuf,
    /// Also write buffered bytes to files that somebody else has changed since
    #[arg(long)]
    changed: bool,
    /// What was done as JSON
    #[arg(long)]
    json: bool,
}

/// What was done about one file.
struct Done {
    path: PathBuf,
    what: String,
    error: Option<String>,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let mut done = Vec::new();
        let (mut all, mut findings, mut remains) = (Vec::new(), Vec::new(), Vec::new());
        match spool::recover_all(&self.spool, self.changed) {
            Ok(list) => done.extend(list.into_iter().map(of_spool)),
            Err(why) => findings.push(format!("recover: {}", at(&self.spool, why))),
        }
        for path in &self.paths {
            match fsck::containers(path) {
                Ok(found) => {
                    all.extend(found.containers.into_iter().map(|path| {
                        let size = stored(&path);
                        (path, size)
                    }));
                    remains.extend(found.remains);
                }
                Err(why) => findings.push(format!("recover: {why}")),
            }
        }
        let finished = progress::each("sealing", all, |path, _| finish(&path));
        done.extend(finished.into_iter().flatten());
        done.extend(remains.iter().flat_map(|path| clear(path)));
        for one in done.iter().filter_map(|one| one.error.as_ref()) {
            findings.push(format!("recover: {one}"));
        }
        let text = if self.json { document(&done) } else { done.iter().map(line).collect() };
        Answer { text, findings, status: None }
    }
}

fn of_spool(one: spool::Recovered) -> Done {
    let error = one.error.map(|why| {
        format!("{} (the bytes are still in {})", at(&one.path, why), one.spool.display())
    });
    let what = match &error {
        Some(_) => "not written".into(),
        None => format!("{} bytes written", one.bytes),
    };
    Done { path: one.path, what, error }
}

/// Finishes a container; nothing if there was nothing to do.
fn finish(path: &Path) -> Vec<Done> {
    let told = |what: String, error| Done { path: path.into(), what, error };
    match blob::recover(path) {
        Ok(Recovered { done, is_used }) => {
            let rest = is_used.then(|| "left alone: somebody is writing".to_owned());
            done.into_iter().chain(rest).map(|what| told(what, None)).collect()
        }
        Err(why) => vec![told("not finished".into(), Some(at(path, why)))],
    }
}

/// Removes what a killed process left without a name, or gives it its own again.
fn clear(path: &Path) -> Vec<Done> {
    let told = |what: &str, error| vec![Done { path: path.into(), what: what.into(), error }];
    let back = |path| Done { path, what: "has its name again".into(), error: None };
    match blob::clear(path) {
        Ok(Cleared::Removed) => told("removed", None),
        Ok(Cleared::PutBack(paths)) => paths.into_iter().map(back).collect(),
        Ok(Cleared::Needed) => told("left alone: somebody has it open", None),
        Err(why) => told("not removed", Some(at(path, why))),
    }
}

fn line(done: &Done) -> String {
    format!("{}: {}\n", done.path.display(), done.what)
}

fn document(done: &[Done]) -> String {
    let object = |one: &Done| {
        let path = one.path.display().to_string();
        json!({ "path": path, "done": one.what, "error": one.error })
    };
    let files: Vec<Value> = done.iter().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "files": files }))
}
