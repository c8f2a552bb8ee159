//! `aggio couple`: the agent's list of coupled files.

use crate::{Answer, columns};
use aggio_couple::client;
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often `--watch` looks.
const PERIOD: Duration = Duration::from_secs(1);

/// Arguments of `aggio couple`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The directory where programs look for the agent
    #[arg(
        long,
        env = "AGGIO_COUPLE_DIR",
        default_value = "",
        hide_default_value = true,
        global = true
    )]
    dir: String,
    /// Everything as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Look again every second, until interrupted
    #[arg(long)]
    watch: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List files, generations, their writers and readers, and waiting processes
    List,
    /// Give up complete generations of files that no program has open, read or not
    Drop {
        /// The files
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        if let Some(Action::Drop { files }) = &self.action {
            return self.drop(files);
        }
        let mut before = None;
        loop {
            let (text, bytes) = match self.list(before) {
                Ok(found) => found,
                Err(why) => return Answer::failed(format!("couple: {why}")),
            };
            if !self.watch {
                return Answer { text, ..Answer::default() };
            }
            before = Some(bytes);
            if writeln!(io::stdout(), "{text}").is_err() {
                return Answer::default();
            }
            std::thread::sleep(PERIOD);
        }
    }

    /// The list, and the number of bytes written so far; `before` is that number at the last call.
    fn list(&self, before: Option<u64>) -> Result<(String, u64), String> {
        let Some(text) = client::status(&self.dir).map_err(|why| why.to_string())? else {
            let none = if self.json { "null\n" } else { "no agent is running\n" };
            return Ok((none.into(), 0));
        };
        let status: Value = serde_json::from_str(&text).map_err(|why| why.to_string())?;
        let written = status["written"].as_u64().unwrap_or(0);
        if self.json {
            return Ok((format!("{status:#}\n"), written));
        }
        let rate = before.map(|before| written.saturating_sub(before));
        Ok((table(&status, rate), written))
    }

    fn drop(&self, files: &[PathBuf]) -> Answer {
        let mut answer = Answer::default();
        for file in files {
            let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            match client::drop_file(&self.dir, &path) {
                Ok(Some(count)) => answer.text.push_str(&dropped(&path, count)),
                Ok(None) => answer.findings.push("couple: no agent is running".into()),
                Err(why) => answer.findings.push(format!("couple: {}: {why}", path.display())),
            }
        }
        answer
    }
}

fn dropped(path: &Path, count: u64) -> String {
    let what = if count == 1 { "generation" } else { "generations" };
    format!("{}: {count} {what} dropped\n", path.display())
}

/// Bytes for people.
fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

fn word(value: &Value) -> String {
    // Names of files may hold anything; a terminal is to show them, not to obey them.
    value.as_str().unwrap_or_default().escape_debug().to_string().replace("\\'", "'")
}

fn table(status: &Value, rate: Option<u64>) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (process, held) = (&status["process"], status["bytes"].as_u64().unwrap_or(0));
    let connected = list(&status["processes"]).len();
    let directory = word(&status["directory"]);
    let mut text =
        format!("agent {process} in {directory}: {connected} processes, {} in memory", bytes(held));
    if let Some(moved @ 1..) = status["moved"].as_u64() {
        text.push_str(&format!(", {} in directories", bytes(moved)));
    }
    if let Some(copies @ 1..) = status["copies"].as_u64() {
        text.push_str(&format!(", {} in copies of other nodes' files", bytes(copies)));
    }
    if let Some(kept @ 1..) = status["kept"].as_u64() {
        text.push_str(&format!(", {} kept for other nodes", bytes(kept)));
    }
    if let Some(link) = status["link"].as_str() {
        text.push_str(&format!(", other nodes by {link}"));
    }
    if let Some(rate) = rate {
        text.push_str(&format!(", {} completed in the last second", bytes(rate)));
    }
    text.push('\n');
    for full in list(&status["full"]) {
        let (directory, why) = (word(&full["directory"]), word(&full["error"]));
        text.push_str(&format!("{directory} takes no more: {why}\n"));
    }
    let heading = ["FILE", "GENERATION", "STATE", "SIZE", "IN", "OPEN", "READ", "WRITER"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    let mut readers = Vec::new();
    for file in list(&status["files"]) {
        let path = word(&file["path"]);
        for one in list(&file["generations"]) {
            rows.push(vec![
                path.clone(),
                one["number"].to_string(),
                word(&one["state"]),
                bytes(one["size"].as_u64().unwrap_or(0)),
                word(&one["home"]),
                one["open"].to_string(),
                if one["read"] == Value::Bool(true) { "yes" } else { "no" }.into(),
                word(&one["writer"]),
            ]);
        }
        for reader in list(&file["readers"]) {
            let (who, at) = (word(&reader["process"]), &reader["generation"]);
            readers.push(format!("reader of {path}: {who}, generation {at}\n"));
        }
        if let Some(dead) = file["dead"].as_object() {
            let (writer, number) = (word(&dead["writer"]), &dead["generation"]);
            readers
                .push(format!("{path}: {writer} died before generation {number} was complete\n"));
        }
    }
    if rows.len() > 1 {
        text.push_str(&columns(&rows));
    }
    text.extend(readers);
    text.extend(list(&status["waits"]).iter().map(|wait| format!("waits: {}\n", word(wait))));
    text
}
