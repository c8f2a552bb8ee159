//! Which methods are measured with which patterns.

use crate::Arguments;
use aggio_patterns::{Entry, Kind, parse_set, standard_set};

/// One case: a method, an operation, and a named pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) method: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) entry: Entry,
}

impl Case {
    /// As the benchmark program takes it.
    pub(crate) fn argument(&self) -> String {
        format!("{}:{}:{}", self.method, self.operation, self.entry.pattern)
    }

    /// For tables.
    pub(crate) fn label(&self) -> String {
        format!("{} {} {}", self.entry.name, self.method, self.operation)
    }

    /// Bytes that all ranks move.
    pub(crate) fn bytes(&self, ranks: u32) -> u64 {
        let ranks = u64::from(ranks);
        (0..ranks).map(|rank| self.entry.pattern.access(rank, ranks).bytes()).sum()
    }
}

/// The methods and operations that are measured for a kind of pattern.
///
/// Independent access to the smallest pieces is left out: it takes the native implementations
/// minutes. Overlap is measured with large pieces, as in real programs.
fn methods(kind: &Kind) -> Vec<(&'static str, &'static str)> {
    let mut methods = vec![("collective", "write")];
    if matches!(kind, Kind::Opens { .. }) {
        return methods;
    }
    methods.push(("collective", "read"));
    if matches!(
        kind,
        Kind::Contiguous { .. }
            | Kind::Interleaved { piece: 64.., .. }
            | Kind::Strided { .. }
            | Kind::Records { .. }
    ) {
        methods.extend([("independent", "write"), ("independent", "read")]);
    }
    if matches!(kind, Kind::Contiguous { .. } | Kind::Interleaved { piece: 65536.., .. }) {
        methods.extend([("overlap", "write"), ("overlap-test", "write")]);
    }
    methods
}

/// The cases for a place; `set` names the standard patterns that suit it.
pub(crate) fn selected(arguments: &Arguments, set: &str) -> Result<Vec<Case>, String> {
    let text = match &arguments.patterns {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?
        }
        None => standard_set(if arguments.quick { "quick" } else { set })
            .ok_or(format!("no pattern set is called {set}"))?
            .to_owned(),
    };
    let wanted = |list: &[String], is: &dyn Fn(&str) -> bool| {
        list.is_empty() || list.iter().any(|one| is(one))
    };
    let entries = parse_set(&text)?.into_iter();
    let entries = entries.filter(|e| wanted(&arguments.only, &|name| e.name.starts_with(name)));
    let cases = entries.flat_map(|entry| {
        methods(entry.pattern.kind()).into_iter().map(move |(method, operation)| Case {
            method,
            operation,
            entry: entry.clone(),
        })
    });
    let cases: Vec<Case> =
        cases.filter(|case| wanted(&arguments.methods, &|name| name == case.method)).collect();
    if cases.is_empty() { Err("no case is selected".into()) } else { Ok(cases) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn labels(options: &[&str]) -> Vec<String> {
        let all = ["bench", "--library", "l"].iter().chain(options);
        let cases = selected(&Arguments::parse_from(all), "benchmark");
        cases.unwrap_or_default().iter().map(Case::label).collect()
    }

    #[test]
    fn patterns_and_methods_can_be_selected() {
        assert_eq!(labels(&["--only", "opens"]), ["opens collective write"]);
        assert_eq!(
            labels(&["--only", "contiguous,ior", "--methods", "independent"]),
            [
                "contiguous independent write",
                "contiguous independent read",
                "ior-hard independent write",
                "ior-hard independent read"
            ]
        );
        assert!(labels(&["--only", "nothing"]).is_empty());
        assert_eq!(labels(&["--quick"]), labels(&[]));
    }
}
