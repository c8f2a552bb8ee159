//! No line is longer than 100 columns: sources, scripts, manifests, and prose outside of tables.

use super::{Tree, none, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Columns of a line at most.
const COLUMNS: usize = 100;

/// Documents that programs write from measurements.
const MEASURED: &str = "docs/benchmarks";

/// Whether files of this name have lines of limited length.
fn is_limited(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    matches!(ending, "rs" | "c" | "h" | "cc" | "py" | "sh" | "toml" | "md") || name == "Makefile"
}

/// Collects every file below `folder` that has lines of limited length.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().expect("a type");
        let is_made = name == "target" || name == "build" || name == ".git";
        if kind.is_dir() && !is_made {
            collect(&path, files);
        } else if kind.is_file() && is_limited(&name) {
            files.push(path);
        }
    }
}

/// The number and the columns of each line of `text` that is too long. Of Markdown, also in the
/// comments of Rust, rows of tables and words that have no space to break at may be longer, and so
/// may code in a document.
fn long_lines(name: &str, text: &str) -> Vec<(usize, usize)> {
    let is_document = name.ends_with(".md");
    let mut is_code = false;
    let mut long = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        is_code ^= is_document && words.starts_with("```");
        let is_table = words.starts_with('|') && (is_document || line.contains("//"));
        let is_word = is_document && !words.trim_start_matches(['-', ' ']).contains(' ');
        let columns = line.chars().count();
        if columns > COLUMNS && !is_code && !is_table && !is_word {
            long.push((index + 1, columns));
        }
    }
    long
}

/// Every line below `root` that is too long.
fn too_wide(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let mut wide = Vec::new();
    for path in files {
        let name = path.strip_prefix(root).expect("below the root").to_string_lossy();
        let is_measured = name.starts_with(MEASURED) && !name.ends_with("README.md");
        if is_measured {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8");
        let long = long_lines(&name, &text).into_iter();
        wide.extend(
            long.map(|(line, columns)| {
                format!("{name}:{line}: {columns} columns, at most {COLUMNS}")
            }),
        );
    }
    wide
}

#[test]
fn no_line_is_longer_than_its_limit() {
    none(too_wide(&root()));
}

#[test]
fn a_planted_long_line_is_found_in_every_kind_of_file() {
    let (fits, long) = ("x ".repeat(50), "x ".repeat(50) + "x");
    let tree = Tree::new("columns");
    for name in ["a.rs", "b.py", "c/d.sh", "e.toml", "g.c", "Makefile", ".github/f.md"] {
        tree.put(name, &format!("{fits}\n{long}\n"));
        assert_eq!(too_wide(&tree.0), [format!("{name}:2: 101 columns, at most 100")]);
        tree.put(name, &fits);
    }
    tree.put("target/a.rs", &long).put("g.f90", &long).put("docs/benchmarks/h.md", &long);
    tree.put("i.md", &format!("| {long}\n```sh\n{long}\n```\n- {}\n", "x".repeat(101)));
    tree.put("j.rs", &format!("/// | {long} |\n"));
    assert_eq!(too_wide(&tree.0), [""; 0]);
    tree.put("i.md", &format!("```sh\n```\n{long}\n"));
    tree.put("j.rs", &format!("let _ = a\n    | {long}\n"));
    assert_eq!(too_wide(&tree.0).len(), 2);
}
