//! No type has more methods, over all its `impl` blocks, or fields than a reader can hold.

use super::words::crate_of;
use super::{before_tests, is_of_tests, none, root, sources};
use std::collections::BTreeMap;

const METHODS: usize = 40;
const FIELDS: usize = 15;

/// Types that are larger, with their methods and fields: types of one name in a crate are counted
/// together. None of them may grow.
const LARGE: &[(&str, &str, usize, usize)] = &[
    ("agg-core/couple", "Kept", 2, 17),
    ("agg-core/couple", "Open", 1, 20),
    ("agg-core/types", "Datatype", 44, 6),
    ("tools", "Arguments", 58, 96),
    ("tools", "Prediction", 2, 16),
    ("tools/bench", "Arguments", 0, 21),
    ("tools/bench", "Case", 3, 16),
];

/// The methods and fields of each type of a crate.
type Sizes<'a> = BTreeMap<(&'a str, &'a str), (usize, usize)>;

/// The name of the type that a line begins to define or implement. Traits are counted with their
/// own definition.
fn subject(line: &str) -> Option<(&str, bool)> {
    let visible = ["pub ", "pub(crate) ", "pub(super) ", ""];
    let stripped = visible.iter().find_map(|words| line.strip_prefix(words)).unwrap_or(line);
    let name = |rest: &'_ str| rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    if let Some(rest) = stripped.strip_prefix("struct ") {
        let is_open = line.ends_with('{');
        return Some((&rest[..name(rest).unwrap_or(rest.len())], true)).filter(|_| is_open);
    }
    let rest = stripped.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => &generics[generics.find("> ")? + 1..],
        None => rest,
    };
    let rest = rest.strip_prefix(' ').filter(|rest| !rest.contains(" for "))?;
    Some((&rest[..name(rest).unwrap_or(rest.len())], false))
}

/// Whether a line of an inherent `impl` begins a method.
fn is_method(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else {
        return false;
    };
    let before = line.split("fn ").next().unwrap_or_default();
    line.contains("fn ")
        && before.split_whitespace().all(|word| {
            let is_visible = word.starts_with("pub") || word == "in" || word.ends_with(')');
            is_visible || ["const", "unsafe", "async", "extern", "\"C\""].contains(&word)
        })
}

/// Whether a line of a structure is a field.
fn is_field(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ") else { return false };
    let is_other = [' ', '/', '#', '}'].iter().any(|first| line.starts_with(*first));
    !is_other && line.contains(": ")
}

/// Counts the methods and fields of a file.
fn count<'a>(name: &'a str, text: &'a str, sizes: &mut Sizes<'a>) {
    let mut current = None;
    for line in before_tests(text).lines() {
        if !line.starts_with(' ') && !line.is_empty() {
            current = subject(line);
        }
        let Some((subject, is_structure)) = current else { continue };
        let (methods, fields) = sizes.entry((crate_of(name), subject)).or_default();
        *methods += usize::from(!is_structure && is_method(line));
        *fields += usize::from(is_structure && is_field(line));
    }
}

/// The types that are too large, or larger than they are known to be.
fn too_large(files: &[(String, String)], known: &[(&str, &str, usize, usize)]) -> Vec<String> {
    let mut sizes = Sizes::new();
    for (name, text) in files.iter().filter(|(name, _)| !is_of_tests(name)) {
        count(name, text, &mut sizes);
    }
    let is_wrong = |(of, name): (&str, &str), (methods, fields): (usize, usize)| {
        let limit = known.iter().find(|known| (known.0, known.1) == (of, name));
        let (most, many) = limit.map_or((METHODS, FIELDS), |one| (one.2, one.3));
        methods > most || fields > many
    };
    let wrong = sizes.into_iter().filter(|(of, sizes)| is_wrong(*of, *sizes));
    wrong
        .map(|((of, name), (methods, fields))| {
            format!("{of}: {name} has {methods} methods and {fields} fields")
        })
        .collect()
}

#[test]
fn no_type_is_larger_than_its_limit() {
    none(too_large(&sources(&root()), LARGE));
}

#[test]
fn a_planted_type_with_too_many_methods_or_fields_is_found() {
    let method = "    pub(crate) const fn one(&self) {}\n";
    let field = "    /// A field: it has a comment.\n    #[doc(hidden)]\n    pub(crate) one: u8,\n";
    let block = |head: &str, line: &str, times| format!("{head} {{\n{}}}\n", line.repeat(times));
    let file = |name: &str, text: String| (name.to_owned(), text);
    let files = [
        file("a/src/one.rs", block("impl<'a> One<'a>", method, 21)),
        file("a/src/two.rs", block("impl<T: Copy> One<T>", method, 20)),
        file("a/src/three.rs", block("impl Trait for One", method, 90)),
        file(
            "a/src/four.rs",
            block("pub struct Wide<T>", field, 16) + &block("impl Wide", method, 3),
        ),
        file("b/src/one.rs", block("impl One", method, 40) + &block("struct One", field, 15)),
        file("b/tests/one.rs", block("impl One", method, 40)),
    ];
    let wide = "a: Wide has 3 methods and 16 fields";
    assert_eq!(too_large(&files, &[]), ["a: One has 41 methods and 0 fields", wide]);
    assert_eq!(too_large(&files, &[("a", "One", 41, 0)]), [wide]);
    assert_eq!(too_large(&files, &[("a", "One", 40, 0), ("a", "Wide", 3, 16)]).len(), 1);
}
