//! The methods of a type are in the folder of its file, or below it: a method in another place is a
//! use of that place that no path shows.

use super::words::crate_of;
use super::{before_tests, is_of_tests, none, root, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Types with methods in other folders. The list may only become shorter.
const ELSEWHERE: &[(&str, &str)] =
    &[("agg-core/container", "Placed"), ("agg-core/engine", "Engine")];

const VISIBLE: [&str; 4] = ["pub ", "pub(crate) ", "pub(super) ", ""];

/// The name at the beginning of `text`.
fn first_name(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let stripped = VISIBLE.iter().find_map(|words| line.strip_prefix(words))?;
    let kinds = ["struct ", "enum ", "union "];
    kinds.iter().find_map(|kind| stripped.strip_prefix(kind)).map(first_name)
}

/// The name of the type whose own methods a line begins.
fn extended(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("unsafe ").unwrap_or(line).strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => &generics[generics.find("> ")? + 1..],
        None => rest,
    };
    rest.strip_prefix(' ').filter(|rest| !rest.contains(" for ")).map(first_name)
}

/// The folder of a file.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Blocks of methods that are neither in the folder of their type nor below it.
fn elsewhere(files: &[(String, String)], known: &[(&str, &str)]) -> Vec<String> {
    let files = || files.iter().filter(|(name, _)| name.contains("/src/") && !is_of_tests(name));
    let mut homes = BTreeMap::<(&str, &str), Vec<&str>>::new();
    for (name, text) in files() {
        for defined in before_tests(text).lines().filter_map(defined) {
            homes.entry((crate_of(name), defined)).or_default().push(name);
        }
    }
    let mut wrong = BTreeSet::new();
    for (name, text) in files() {
        for extended in before_tests(text).lines().filter_map(extended) {
            let of = (crate_of(name), extended);
            let Some(homes) = homes.get(&of).filter(|_| !known.contains(&of)) else { continue };
            let is_at = |home: &&str| Path::new(name).starts_with(folder(home));
            if !homes.iter().any(is_at) {
                wrong.insert(format!("{name} has methods of {extended}, which {homes:?} defines"));
            }
        }
    }
    wrong.into_iter().collect()
}

#[test]
fn the_methods_of_a_type_are_in_its_folder() {
    none(elsewhere(&sources(&root()), ELSEWHERE));
}

#[test]
fn a_planted_method_in_another_folder_is_found() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file("a/src/parts/one.rs", "pub(crate) struct One<'a> {\n}\nimpl One<'_> {}\n"),
        file("a/src/parts/two/part.rs", "impl<'a> One<'a> {}\nenum Part {}\n"),
        file("a/src/two/mod.rs", "struct Two;\n"),
        file("a/src/two/part.rs", "impl Two {}\nimpl From<One> for Two {}\n"),
        file("a/src/other.rs", "impl<T: Copy> One<T> {}\nimpl Elsewhere {}\n"),
        file("b/src/other.rs", "impl One {}\n#[cfg(test)]\nmod tests {}\nimpl Two {}\n"),
    ];
    let one = "a/src/other.rs has methods of One, which [\"a/src/parts/one.rs\"] defines";
    assert_eq!(elsewhere(&files, &[]), [one]);
    assert_eq!(elsewhere(&files, &[("a", "One")]), [] as [&str; 0]);
}
