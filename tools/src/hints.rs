//! `aggio hints`: the table of hints, as it is in force in this environment, or as a document.

use crate::{Answer, columns, man, markdown};
use agg_core::diagnostics::Diagnostics;
use agg_core::hints::{Declaration, Effect, Hints, Sources};
use serde_json::{Value, json};

/// Arguments of `aggio hints`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Everything about every hint as JSON
    #[arg(long, group = "form")]
    json: bool,
    /// The reference manual (docs/hints.md)
    #[arg(long, group = "form", hide = true)]
    markdown: bool,
    /// The manual page aggio-hints(7)
    #[arg(long, group = "form", hide = true)]
    man: bool,
    /// Values for this file: patterns of AGGIO_HINTS and MPICH_MPIIO_HINTS may depend on it
    #[arg(long, value_name = "PATH", default_value = "/")]
    file: String,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        if self.markdown || self.man {
            let text = if self.man { man::hints() } else { markdown::hints() };
            return Answer { text, findings: Vec::new(), status: None };
        }
        let mut complaints = Diagnostics::default();
        let sources = Sources::of_process(&mut complaints);
        let hints = Hints::resolve(&sources, &self.file, &[], &mut complaints);
        let text = if self.json { as_json(&hints) } else { as_table(&hints) };
        Answer {
            text,
            findings: complaints.0.iter().map(ToString::to_string).collect(),
            status: None,
        }
    }
}

/// The words for an effect.
pub(crate) fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Acts => "acts",
        Effect::Tunes => "for experiments",
        Effect::Accepted => "accepted, no effect",
        Effect::Told => "told only",
    }
}

fn as_table(hints: &Hints) -> String {
    let heading = ["HINT", "VALUE", "FROM", "EFFECT", "MEANING"].map(String::from).to_vec();
    let row = |d: &Declaration| {
        let value = hints.value(d);
        vec![
            d.shown_name(),
            if value.is_empty() { "-".into() } else { value },
            hints.origin(d.name).unwrap_or_default().name().into(),
            effect(d.effect).into(),
            d.sentence(),
        ]
    };
    columns(&[vec![heading], Declaration::ALL.iter().map(row).collect()].concat())
}

fn as_json(hints: &Hints) -> String {
    let object = |d: &Declaration| {
        json!({
            "name": d.shown_name(),
            "type": d.kind.name(),
            "accepted": d.kind.accepted_form(),
            "default": d.default_value(),
            "introduced_by": d.family.name(),
            "effect": effect(d.effect),
            "at_open_only": d.traits.at_open,
            "same_on_all_ranks": d.traits.same,
            "doc": d.sentence(),
            "value": hints.value(d),
            "origin": hints.origin(d.name).unwrap_or_default().name(),
        })
    };
    let aliases: Vec<Value> = Declaration::ALIASES
        .iter()
        .map(|(alias, name)| json!({ "alias": alias, "name": name }))
        .collect();
    let hints: Vec<Value> = Declaration::ALL.iter().map(object).collect();
    format!("{:#}\n", json!({ "schema": 1, "hints": hints, "aliases": aliases }))
}
