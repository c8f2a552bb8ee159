//! The hint `aggio_tune`: settings for tests and experiments, each a declaration of the table.

use super::resolve::Origin;
use super::table::{Declaration, Effect, Hints};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::spelling;

/// The name of the hint.
pub(super) const HINT: &str = "aggio_tune";

/// What the declarations of the settings begin with; users leave it out.
const PREFIX: &str = "aggio_";

/// One `name=value` of the hint: its declaration, the position in the table, and the value.
pub(super) type Part<'a> = (usize, &'static Declaration, &'a str);

impl Declaration {
    /// Every setting of `aggio_tune`.
    pub fn tuned() -> impl Iterator<Item = &'static Declaration> {
        Self::ALL.iter().filter(|declaration| declaration.effect == Effect::Tunes)
    }

    /// The name as users write it.
    pub fn shown_name(&self) -> String {
        match self.effect {
            Effect::Tunes => format!("{HINT}={}", self.short_name()),
            _ => self.name.into(),
        }
    }

    /// The name as in `aggio_tune`.
    pub fn short_name(&self) -> &'static str {
        self.name.strip_prefix(PREFIX).unwrap_or(self.name)
    }
}

/// The settings in `text`, in its order. Others go to `complaints`, by name.
pub(super) fn parts<'a>(
    text: &'a str,
    origin: Origin,
    complaints: &mut Diagnostics,
) -> Vec<Part<'a>> {
    let mut found = Vec::new();
    for part in text.split_whitespace() {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let mut table = Declaration::ALL.iter().enumerate();
        let known = table.find(|(_, d)| d.effect == Effect::Tunes && d.short_name() == name);
        match known {
            Some((index, declaration)) => found.push((index, declaration, value)),
            None => {
                let names = Declaration::tuned().map(Declaration::short_name);
                let kind = format!("setting of {HINT}");
                complaints.unknown(origin.name(), &kind, name, spelling::nearest(name, names));
            }
        }
    }
    found
}

/// The text with the good settings of `text` alone. Others go to `complaints`.
pub(super) fn checked(text: &str, origin: Origin, complaints: &mut Diagnostics) -> String {
    let mut good = Vec::new();
    for (_, declaration, value) in parts(text, origin, complaints) {
        if (declaration.set)(&mut Hints::default(), value) {
            good.push(format!("{}={value}", declaration.short_name()));
        } else {
            declaration.complain((&declaration.shown_name(), value), origin, complaints);
        }
    }
    good.join(" ")
}

/// The text of the hint after `name=value` was added: a value before it counts no more.
pub(super) fn with(text: &str, name: &str, value: &str) -> String {
    let is_other = |part: &&str| part.split_once('=').is_none_or(|(other, _)| other != name);
    let others = text.split_whitespace().filter(is_other).map(String::from);
    others.chain([format!("{name}={value}")]).collect::<Vec<_>>().join(" ")
}
