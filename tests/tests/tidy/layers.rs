//! A crate may declare layers: its folders and files at the top, where each refers to itself and to
//! lower ones only.

use super::modules::Crate;
use super::{Tree, none, root};
use std::path::Path;

/// Crates with their layers, the lowest one first. A re-export in the root of a crate is above all
/// layers. Files for tests have no place.
const LAYERS: &[(&str, &[&str])] = &[(
    "agg-core/container",
    &[
        "refused",
        "errors",
        "directory",
        "output",
        "format",
        "order",
        "log",
        "index",
        "reading",
        "writing",
        "file",
        "repair",
        "transfer",
        "blob",
    ],
)];

/// References of a crate that do not go down, and files without a layer.
fn wrong(of: &Crate, layers: &[&str]) -> Vec<String> {
    let place = |name: &str| layers.iter().position(|layer| *layer == name);
    let mut wrong = Vec::new();
    for module in &of.modules {
        let name = of.name_of(module);
        let Some(own) = name.first() else { continue };
        let Some(own) = place(own) else {
            wrong.push(format!("{}: {own} has no place in LAYERS", module.file));
            continue;
        };
        for path in module.paths.iter().filter(|path| path[0] == "crate" || path[0] == "super") {
            let Some(target) = of.absolute(module, path) else { continue };
            if target.first().and_then(|name| place(name)).is_none_or(|layer| layer > own) {
                wrong.push(format!("{} -> crate::{}", module.file, target.join("::")));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

fn read(root: &Path, folder: &str) -> Crate {
    Crate::read(root, &root.join(folder).join("src/lib.rs"))
}

#[test]
fn a_layer_refers_to_lower_ones_only() {
    let root = root();
    none(LAYERS.iter().flat_map(|(folder, layers)| wrong(&read(&root, folder), layers)).collect());
}

/// A crate with the layers `low`, which has the file `low/file.rs`, and `high`.
fn planted(label: &str, reference: &str) -> Tree {
    let tree = Tree::new(label);
    let lib = "//! A crate.\nmod low;\nmod high;\npub use high::Thing;\n#[cfg(test)]\nmod tests;\n";
    tree.put("one/src/lib.rs", lib).put("one/src/low/mod.rs", "//! Low.\nmod file;\n");
    tree.put("one/src/high.rs", "//! High.\nuse crate::low::file;\npub struct Thing;\n");
    tree.put("one/src/tests.rs", "//! Tests.\nuse crate::high::Thing;\n");
    tree.put("one/src/low/file.rs", &format!("//! A file.\n{reference}\n"));
    tree
}

#[test]
fn a_planted_reference_to_a_higher_layer_is_found_in_any_form() {
    for (reference, target) in [
        ("use crate::high::Thing;", "high::Thing"),
        ("use super::super::{high::Thing as Other};", "high::Thing"),
        ("fn f() { crate::high::f() }", "high::f"),
        ("use crate::Thing;", "Thing"),
        ("use crate::*;", ""),
        ("mod inner { use super::super::super::high; }", "high"),
    ] {
        let tree = planted("layers", reference);
        let found = wrong(&read(&tree.0, "one"), &["low", "high"]);
        assert_eq!(found, [format!("one/src/low/file.rs -> crate::{target}")], "{reference}");
    }
    for reference in [
        "use super::other;",
        "use crate::low::other;",
        "#[cfg(test)]\nmod tests {\n    use crate::high::Thing;\n}",
        "mod inner { use super::super::file; }",
    ] {
        let tree = planted("no-layers", reference);
        assert_eq!(wrong(&read(&tree.0, "one"), &["low", "high"]), [""; 0], "{reference}");
    }
    let tree = planted("no-place", "");
    let found = wrong(&read(&tree.0, "one"), &["low"]);
    assert_eq!(found, ["one/src/high.rs: high has no place in LAYERS"]);
}
