//! `aggio doctor`: what works here, what does not, and what helps.

mod machine;
mod mpi;
mod program;

use crate::{Answer, library};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `aggio doctor`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The findings as JSON
    #[arg(long)]
    json: bool,
    /// The library, if it is not the one that was installed with this program
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// A program that is to run under aggio
    program: Option<String>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Warn,
    Fail,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Warn => "WARN",
            Verdict::Fail => "FAIL",
        }
    }
}

/// A check: what was looked at, what was found, what helps.
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) found: String,
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn pass(what: &'static str, found: impl Into<String>) -> Self {
        Finding { what, verdict: Verdict::Pass, found: found.into(), fix: None }
    }

    pub(crate) fn warn(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding { what, verdict: Verdict::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn fail(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding { what, verdict: Verdict::Fail, found: found.into(), fix: Some(fix.into()) }
    }
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let library = library::find(self.library.as_deref());
        let mut findings = vec![program::library(&library)];
        findings.extend(mpi::all());
        findings.extend(machine::all());
        findings.extend(self.program.as_deref().map(program::check));
        let failed = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
        let text = if self.json { as_json(&findings) } else { as_lines(&findings) };
        Answer { text, status: Some(u8::from(failed)), ..Answer::default() }
    }
}

fn as_lines(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!(
            "{}  {:<12}{}\n",
            finding.verdict.name(),
            finding.what,
            finding.found
        ));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("      {:<12}fix: {fix}\n", ""));
        }
    }
    text
}

fn as_json(findings: &[Finding]) -> String {
    let object = |finding: &Finding| {
        json!({
            "check": finding.what,
            "verdict": finding.verdict.name(),
            "found": finding.found,
            "fix": finding.fix,
        })
    };
    let checks: Vec<_> = findings.iter().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "checks": checks }))
}
