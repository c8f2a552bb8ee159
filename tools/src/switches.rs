//! `aggio env`: the environment variables that aggio looks at.

use crate::{Answer, columns, markdown};
use agg_core::diagnostics::Diagnostics;
use agg_core::hints::Sources;
use agg_core::settings::{Settings, Variable, process_variable};
use serde_json::{Value, json};

/// Arguments of `aggio env`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Everything about every variable as JSON
    #[arg(long, group = "form")]
    json: bool,
    /// The reference manual (docs/switches.md)
    #[arg(long, group = "form", hide = true)]
    markdown: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        if self.markdown {
            return Answer { text: markdown::switches(), findings: Vec::new(), status: None };
        }
        let mut complaints = Diagnostics::default();
        Settings::of_process(&mut complaints);
        Sources::of_process(&mut complaints);
        let text = if self.json { as_json() } else { as_table() };
        Answer {
            text,
            findings: complaints.0.iter().map(ToString::to_string).collect(),
            status: None,
        }
    }
}

fn as_table() -> String {
    let heading = ["VARIABLE", "HERE", "DEFAULT", "MEANING"].map(String::from).to_vec();
    let row = |v: &Variable| {
        let here = process_variable(v.name).unwrap_or_else(|| "-".into());
        vec![v.name.into(), here, v.default.into(), v.sentence()]
    };
    columns(&[vec![heading], Variable::public().map(row).collect()].concat())
}

fn as_json() -> String {
    let object = |v: &Variable| {
        json!({
            "name": v.name,
            "accepted": v.accepted,
            "default": v.default,
            "doc": v.sentence(),
            "value": process_variable(v.name),
        })
    };
    let variables: Vec<Value> = Variable::public().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "variables": variables }))
}
