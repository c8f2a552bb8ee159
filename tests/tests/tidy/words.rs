//! Comments say what a thing is: relative clauses with a noun that the reader must guess are rare.

use super::{none, root, sources};
use std::collections::BTreeMap;

/// Words that begin such clauses.
const GUESSED: &[&str] = &["who", "whom", "what", "whose", "whoever", "whatever"];

/// Comment lines of a crate with such words, in 100, at most.
const MOST: usize = 3;

fn is_guessed(comment: &str) -> bool {
    let text = comment.to_lowercase();
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '\'');
    text.contains("of which") || words.any(|word| GUESSED.contains(&word))
}

/// The folder of the crate that a file belongs to: the part of its name before `src` or `tests`.
pub(super) fn crate_of(name: &str) -> &str {
    let inside = ["/src/", "/tests/", "/examples/"].iter().filter_map(|at| name.find(at)).min();
    inside.or_else(|| name.rfind('/')).map_or(name, |end| &name[..end])
}

/// The crates with too many of these comment lines.
fn guessing(files: &[(String, String)]) -> Vec<String> {
    let mut counts = BTreeMap::<&str, (usize, usize)>::new();
    for (name, text) in files {
        let comments = text.lines().map(str::trim_start).filter(|line| line.starts_with("//"));
        let (found, all) = counts.entry(crate_of(name)).or_default();
        for comment in comments {
            *all += 1;
            *found += usize::from(is_guessed(comment));
        }
    }
    let is_wrong = |found: usize, all: usize| found * 100 > all * MOST;
    let wrong = counts.into_iter().filter(|(_, (found, all))| is_wrong(*found, *all));
    wrong.map(|(name, (found, all))| format!("{name}: {found} of {all} comment lines")).collect()
}

#[test]
fn comments_name_the_things_that_they_are_about() {
    none(guessing(&sources(&root())));
}

#[test]
fn a_planted_crate_whose_comments_make_readers_guess_is_found() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let plain = "/// The rank that writes next.\n".repeat(40);
    let guess = "    // Who has not opened it knows none.\n";
    let files = [
        file("a/src/one.rs", &format!("{plain}{guess}let what = 1;\n")),
        file("a/tests/two.rs", "// A part of which\n// nothing, which is somewhat whole\n"),
        file("b/src/one.rs", &format!("{plain}{guess}")),
    ];
    assert_eq!(guessing(&files), ["a: 2 of 43 comment lines"]);
}
