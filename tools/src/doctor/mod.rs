//! `aggio doctor`: checks the library, programs and the machine, and suggests remedies.

mod coupling;
mod machine;
mod mpi;
mod program;

use crate::{Answer, exit, library};
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

/// A check: its subject, its result, and the remedy.
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) verdict: Verdict,
    /// The command or request of the check, so that the user can repeat it. Every check that passed
    /// has one.
    pub(crate) ran: Option<String>,
    pub(crate) found: String,
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn pass(
        what: &'static str,
        ran: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let ran = Some(ran.into());
        Finding { what, verdict: Verdict::Pass, ran, found: found.into(), fix: None }
    }

    pub(crate) fn warn(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding::trouble(what, Verdict::Warn, found.into(), fix.into())
    }

    pub(crate) fn fail(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding::trouble(what, Verdict::Fail, found.into(), fix.into())
    }

    fn trouble(what: &'static str, verdict: Verdict, found: String, fix: String) -> Self {
        Finding { what, verdict, ran: None, found, fix: Some(fix) }
    }
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let library = library::find(self.library.as_deref());
        let mut findings = vec![program::library(&library)];
        findings.extend(mpi::all());
        findings.extend(machine::all());
        findings.extend(coupling::check(&library));
        findings.extend(self.program.as_deref().map(program::check));
        let failed = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
        let text = if self.json { as_json(&findings) } else { as_lines(&findings) };
        Answer {
            text,
            status: Some(if failed { exit::FAILED } else { exit::DONE }),
            ..Answer::default()
        }
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
        if let Some(ran) = &finding.ran {
            text.push_str(&format!("      {:<12}ran: {ran}\n", ""));
        }
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
            "ran": finding.ran,
            "found": finding.found,
            "fix": finding.fix,
        })
    };
    let checks: Vec<_> = findings.iter().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "checks": checks }))
}
