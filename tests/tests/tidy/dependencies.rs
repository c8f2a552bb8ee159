//! Every dependency that a manifest declares is used in the sources of its crate.

use super::{Tree, metadata, none, root};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The text of all Rust sources below `folder`, but for those of other crates.
fn collect(folder: &Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a type"));
        if kind.is_dir() && !path.join("Cargo.toml").exists() && !path.ends_with("target") {
            collect(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("UTF-8"));
        }
    }
}

/// Whether `text` names a crate, as `name::` or `name!`.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let is_start = !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let rest = &text[at + name.len()..];
        is_start && (rest.starts_with("::") || rest.starts_with('!') || rest.starts_with(" as "))
    })
}

/// Dependencies that no source of their crate names, and those of the workspace without a member.
fn unused(metadata: &Value, root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut declared = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let mut text = String::new();
        collect(manifest.parent().expect("a folder"), &mut text);
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let name = dependency["name"].as_str().expect("a name");
            declared.push(name);
            if !names(&text, &name.replace('-', "_")) {
                let own = package["name"].as_str().expect("a name");
                wrong.push(format!("{own} -> {name}: no source of the crate uses it"));
            }
        }
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let rows = table.lines().take_while(|line| !line.starts_with('['));
    for name in rows.filter_map(|row| row.split_once(" = ")).map(|(name, _)| name) {
        if !declared.contains(&name) {
            wrong.push(format!("Cargo.toml: {name}: no crate of the workspace uses it"));
        }
    }
    wrong
}

#[test]
fn every_dependency_is_used() {
    none(unused(&metadata(&root()), &root()));
}

#[test]
fn a_planted_dependency_that_nobody_uses_is_found() {
    let tree = Tree::new("unused");
    let manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"agg-core/*\"]\n\
                    [workspace.dependencies]\nlog = \"0.4\"\n";
    tree.put("Cargo.toml", manifest).member("agg-core/base", "aggio-base", None);
    let needs = Some(("dependencies", "aggio-base", "../base"));
    tree.member("agg-core/types", "aggio-types", needs);
    let found = unused(&metadata(&tree.0), &tree.0);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("aggio-types -> aggio-base: "), "{found:?}");
    assert!(found[1].starts_with("Cargo.toml: log: "), "{found:?}");
    tree.put("agg-core/types/src/lib.rs", "//! A crate.\npub use aggio_base::Planted;\n");
    tree.put("Cargo.toml", manifest.split_once("[workspace.dep").expect("a table").0);
    assert_eq!(unused(&metadata(&tree.0), &tree.0), [""; 0]);
}
