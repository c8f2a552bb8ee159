//! `aggio recover`: completes the work of killed processes.

use super::{at, fsck, stored};
use crate::{Answer, progress};
use agg_core::Error;
use agg_core::blob::{self, Cleared, Recovered};
use agg_core::{spool, stage};
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
    /// Where writes of MPI programs are staged, if they are
    #[arg(long, value_name = "DIRECTORY", env = "AGGIO_STAGE")]
    stage: Option<PathBuf>,
    /// Also write buffered bytes to files that somebody else has changed since
    #[arg(long)]
    changed: bool,
    /// Results as JSON
    #[arg(long)]
    json: bool,
}

/// The repair of one file.
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
        if let Some(directory) = &self.stage {
            match stage::recover(&stage::Home::new(directory), self.changed) {
                Ok(list) => done.extend(list.into_iter().map(of_stage)),
                Err(why) => findings.push(format!("recover: {}", at(directory, why))),
            }
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
    written(one.path, one.spool, one.bytes, one.error)
}

fn of_stage(one: stage::Drained) -> Done {
    if one.error.is_none() && one.bytes == 0 {
        return Done { path: one.stage, what: "removed".into(), error: None };
    }
    written(one.path, one.stage, one.bytes, one.error)
}

/// The result for bytes that waited in `place` for the file `path`.
fn written(path: PathBuf, place: PathBuf, bytes: u64, error: Option<Error>) -> Done {
    let error =
        error.map(|why| format!("{} (the bytes are still in {})", at(&path, why), place.display()));
    let what = match &error {
        Some(_) => "not written".into(),
        None => format!("{bytes} bytes written"),
    };
    Done { path, what, error }
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

/// Removes an object that a killed process left without a name, or gives it its name again.
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
