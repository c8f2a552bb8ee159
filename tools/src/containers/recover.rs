//! `aggio recover`: finishes what killed processes had begun.

use super::{at, fsck, stored};
use crate::{Answer, progress};
use agg_core::blob::Container;
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
        let (mut all, mut findings) = (Vec::new(), Vec::new());
        match spool::recover(&self.spool) {
            Ok(list) => done.extend(list.into_iter().map(of_spool)),
            Err(why) => findings.push(format!("recover: {}", at(&self.spool, why))),
        }
        for path in &self.paths {
            match fsck::containers(path) {
                Ok(containers) => all.extend(containers.into_iter().map(|path| {
                    let size = stored(&path);
                    (path, size)
                })),
                Err(why) => findings.push(format!("recover: {why}")),
            }
        }
        let sealed = progress::each("sealing", all, |path, _| seal(&path));
        done.extend(sealed.into_iter().flatten());
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
    Done { path: one.path, what: format!("{} bytes written", one.bytes), error }
}

/// Seals a container; `None` if there was nothing to do.
fn seal(path: &Path) -> Option<Done> {
    let sealed = || -> agg_core::Result<Option<String>> {
        let container = Container::open(path)?;
        if container.attributes()?.sealed {
            return Ok(None);
        }
        container.writer()?.close()?;
        let sealed = container.attributes()?.sealed;
        let words = if sealed { "sealed" } else { "left alone: somebody is writing" };
        Ok(Some(words.into()))
    };
    match sealed() {
        Ok(what) => what.map(|what| Done { path: path.into(), what, error: None }),
        Err(why) => {
            Some(Done { path: path.into(), what: "not sealed".into(), error: Some(at(path, why)) })
        }
    }
}

fn line(done: &Done) -> String {
    format!("{}: {}\n", done.path.display(), done.what)
}

fn document(done: &[Done]) -> String {
    let object = |one: &Done| json!({ "path": one.path.display().to_string(), "done": one.what, "error": one.error });
    let files: Vec<Value> = done.iter().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "files": files }))
}
