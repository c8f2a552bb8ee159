//! Files of a crate that refer to each other in a circle are few.

use super::modules::{Crate, Module};
use super::{Tree, none, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files of a circle at most.
const FILES: usize = 4;

/// Folders of crates: those with a manifest and sources below `root`.
fn crates(root: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(root).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_made = name == "target" || name == "build" || name.starts_with('.');
        if entry.file_type().expect("a type").is_dir() && !is_made {
            let is_crate = path.join("Cargo.toml").exists();
            let sources = [path.join("src/lib.rs"), path.join("src/main.rs")];
            found.extend(sources.into_iter().filter(|source| is_crate && source.exists()));
            crates(&path, found);
        }
    }
}

/// Which files a file refers to.
type References = BTreeMap<String, BTreeSet<String>>;

/// The references between the files of a crate: every path that begins with `crate` or `super`,
/// leads to another file, and is not one of tests. A parent that uses its own child without such a
/// path refers to a part of itself.
fn references(of: &Crate) -> References {
    let mut references = References::new();
    for module in &of.modules {
        for path in module.paths.iter().filter(|path| path[0] == "crate" || path[0] == "super") {
            let Some(target) = of.file_of(module, path) else { continue };
            if target != module.file {
                references.entry(module.file.clone()).or_default().insert(target.to_owned());
            }
        }
    }
    references
}

/// Every file that can be reached from `file`.
fn reached<'a>(references: &'a References, file: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&str> = references.get(file).into_iter().flatten().map(|to| &**to).collect();
    while let Some(next) = left.pop() {
        if found.insert(next) {
            left.extend(references.get(next).into_iter().flatten().map(|to| &**to));
        }
    }
    found
}

/// The circles of a crate that are too large: the files that reach each other.
fn too_large(of: &Crate) -> Vec<String> {
    let references = references(of);
    let all: BTreeMap<&str, BTreeSet<&str>> =
        references.keys().map(|file| (&**file, reached(&references, file))).collect();
    let mut large = BTreeSet::new();
    for (file, reached) in &all {
        let comes_back = |other: &&&str| all.get(**other).is_some_and(|back| back.contains(file));
        let circle: Vec<&str> = reached.iter().filter(comes_back).copied().collect();
        if circle.len() > FILES {
            large.insert(format!(
                "{} files refer to each other in a circle, at most {FILES}: {}",
                circle.len(),
                circle.join(", ")
            ));
        }
    }
    large.into_iter().collect()
}

fn circles(root: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    crates(root, &mut sources);
    sources.iter().flat_map(|source| too_large(&Crate::read(root, source))).collect()
}

#[test]
fn few_files_refer_to_each_other_in_a_circle() {
    none(circles(&root()));
}

/// A crate of files `a`, `b`, ...: each uses the next one, and the last the first.
fn planted(label: &str, files: usize) -> Tree {
    let tree = Tree::new(label);
    tree.put("agg-core/base/Cargo.toml", "[package]\nname = \"aggio-base\"\n");
    let name = |file: usize| char::from(b'a' + (file % files) as u8);
    let all: String = (0..files).map(|file| format!("mod {};\n", name(file))).collect();
    tree.put("agg-core/base/src/lib.rs", &format!("//! A crate.\n\n{all}"));
    for file in 0..files {
        let next = name(file + 1);
        let text = format!("//! A file.\n\nuse crate::{next}::Thing as Next;\npub struct Thing;\n");
        tree.put(&format!("agg-core/base/src/{}.rs", name(file)), &text);
    }
    tree
}

#[test]
fn a_planted_circle_is_found_if_it_is_too_large() {
    assert_eq!(circles(&planted("circle-of-four", 4).0), [""; 0]);
    let found = circles(&planted("circle-of-five", 5).0);
    let files = "a.rs, b.rs, c.rs, d.rs, e.rs".replace(", ", ", agg-core/base/src/");
    let circle = "5 files refer to each other in a circle, at most 4: agg-core/base/src/";
    assert_eq!(found, [circle.to_owned() + &files]);
}

#[test]
fn references_in_any_form_close_a_circle() {
    let file = "agg-core/base/src/e.rs";
    let text = |reference: &str| format!("{reference}\npub struct Thing;\n");
    for reference in [
        "use super::{a::Thing as Next, b};",
        "fn f() { super::a::Thing; }",
        "fn f<'a>(x: &'a u8) -> char { use crate::a::*; '\"' }",
        "fn f() { m!(crate::a::Thing) }",
        "use crate::Thing as Next;",
        "mod inner { use super::super::a::Thing; }",
    ] {
        let tree = planted("references", 5);
        let lib = "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\npub use a::Thing;\n";
        tree.put("agg-core/base/src/lib.rs", lib).put(file, &text(reference));
        assert_eq!(circles(&tree.0).len(), 1, "{reference}");
    }
    for reference in [
        "// use super::a::Thing;",
        "/* use super::a::Thing; */",
        "const TEXT: &str = \"use super::a::Thing;\";",
        "const TEXT: &str = r#\"\"use super::a::Thing;\"#;",
        "#[cfg(test)]\nuse super::a::Thing;",
        "#[cfg(test)]\nmod tests {\n    use crate::a::Thing;\n}",
        "pub(in super::super) fn f() {}",
        "use std::a::Thing;",
    ] {
        let tree = planted("no-references", 5);
        tree.put(file, &text(reference));
        assert_eq!(circles(&tree.0), [""; 0], "{reference}");
    }
}

#[test]
fn modules_are_found_where_the_compiler_finds_them() {
    let tree = planted("folders", 2);
    tree.put("agg-core/base/src/a.rs", "//! A.\nmod own;\n#[path = \"other.rs\"]\nmod third;\n");
    tree.put("agg-core/base/src/a/own.rs", "//! Own.\nuse super::third::Thing;\n");
    tree.put("agg-core/base/src/other.rs", "//! Other.\npub struct Thing;\n");
    tree.put("agg-core/base/src/b.rs", "");
    tree.put("agg-core/base/src/b/mod.rs", "//! Never read, as there is b.rs.\nuse crate::a;\n");
    let source = tree.0.join("agg-core/base/src/lib.rs");
    let read = Crate::read(&tree.0, &source);
    let files: Vec<&str> = read.modules.iter().map(|module: &Module| &*module.file).collect();
    let expected = ["lib.rs", "a.rs", "a/own.rs", "other.rs", "b.rs"];
    assert_eq!(files, expected.map(|file| format!("agg-core/base/src/{file}")));
    let own = &references(&read)["agg-core/base/src/a/own.rs"];
    assert_eq!(own.iter().collect::<Vec<_>>(), ["agg-core/base/src/other.rs"]);
}
