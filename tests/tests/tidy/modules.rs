//! The modules of a crate: their files, and the paths that the code in them names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A path such as `crate::file::File`, in parts.
type Parts = Vec<String>;

/// A module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Its file, relative to the root of the workspace.
    pub(crate) file: String,
    /// Every path in it, tests excluded.
    pub(crate) paths: Vec<Parts>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that `use` defines or shortens, and their targets.
    imports: BTreeMap<String, Parts>,
    globs: Vec<Parts>,
    /// Names of items that it defines.
    items: BTreeSet<String>,
}

/// The modules of a crate; the first one is its root.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    pub(crate) modules: Vec<Module>,
}

/// Names and marks of Rust; text in quotes keeps its first quote, comments are left out.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let name = |text: &str| {
            text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
        };
        let end = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ if rest.starts_with("::") => 2,
            '"' => quoted(rest, 0),
            'r' | 'b' | 'c' if is_text(rest) => quoted(rest, rest.find('"').unwrap_or(0)),
            '\'' => character(rest),
            _ if first.is_alphanumeric() || first == '_' => name(rest),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end.max(first.len_utf8()));
        let is_comment = token.starts_with("//") || token.starts_with("/*");
        if !first.is_whitespace() && !is_comment && !token.starts_with('\'') {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

/// Whether it begins with the prefix of a text, such as `r#"` or `b"`.
fn is_text(rest: &str) -> bool {
    let prefix = rest.split('"').next().unwrap_or_default();
    let marks = prefix.trim_start_matches(['b', 'c']).trim_start_matches('r');
    prefix.len() < rest.len()
        && prefix.len() - marks.len() <= 2
        && marks.trim_matches('#').is_empty()
}

/// The length of a text with its quote at `quote`.
fn quoted(rest: &str, quote: usize) -> usize {
    let prefix = &rest[..quote];
    if prefix.contains('r') {
        let end = format!("\"{}", "#".repeat(prefix.matches('#').count()));
        return rest[quote + 1..].find(&end).map_or(rest.len(), |at| quote + 1 + at + end.len());
    }
    let mut escaped = false;
    for (at, c) in rest[quote + 1..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return quote + 1 + at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character in quotes, or of the mark of a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(1, |at| 3 + at + 1),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// Where the item ends that begins at `at`.
fn after_item(tokens: &[&str], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => {
                if depth == 1 && *token == "}" {
                    return at + 1;
                }
                if depth == 0 {
                    return at;
                }
                depth = 0;
            }
            ")" | "]" | "}" => depth -= 1,
            ";" | "," if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Where the attribute ends that begins at `at`.
fn after_attribute(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "[" => depth += 1,
            "]" if depth == 1 => return index + 1,
            "]" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The tokens without items that are only for tests.
fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) {
            while tokens.get(at) == Some(&"#") {
                at = after_attribute(tokens, at);
            }
            at = after_item(tokens, at);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Whether it is a name, and no mark or text.
fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_') && !token.contains('"')
}

/// Reads the tree of a `use` from `at` on, below `before`: the paths with the names they get, `*`
/// for all; where it ends.
fn tree(
    tokens: &[&str],
    mut at: usize,
    before: &[String],
    leaves: &mut Vec<(Parts, String)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(at).copied() {
            Some("::") => at += 1,
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = tree(tokens, at, &path, leaves);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            Some("*") => {
                leaves.push((path, "*".to_owned()));
                return at + 1;
            }
            Some(name) if is_name(name) => {
                path.push(name.to_owned());
                at += 1;
                match tokens.get(at).copied() {
                    Some("::") => {}
                    Some("as") => {
                        let called = tokens.get(at + 1).copied().unwrap_or_default();
                        leaves.push((path, called.to_owned()));
                        return at + 2;
                    }
                    _ => {
                        leaves.push((path, name.to_owned()));
                        return at;
                    }
                }
            }
            _ => return at + 1,
        }
    }
}

impl Crate {
    /// Reads the crate with the root file `source`; files are named relative to `root`.
    pub(crate) fn read(root: &Path, source: &Path) -> Self {
        let mut read = Self::default();
        read.file(root, source, None, true);
        read
    }

    /// Reads a module that has a file of its own.
    fn file(
        &mut self,
        root: &Path,
        path: &Path,
        parent: Option<usize>,
        owns_folder: bool,
    ) -> usize {
        let text = fs::read_to_string(path).expect("a source file is UTF-8");
        let file = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
        let module = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        let folder = path.parent().expect("a folder");
        let children = match owns_folder || path.ends_with("mod.rs") {
            true => folder.to_path_buf(),
            false => path.with_extension(""),
        };
        self.code(root, module, &without_tests(&tokens(&text)), &(children, folder.to_path_buf()));
        module
    }

    /// Reads the code of a module; its children are in the first folder, those with an attribute
    /// `path` in the second.
    fn code(&mut self, root: &Path, module: usize, tokens: &[&str], folders: &(PathBuf, PathBuf)) {
        let mut at = 0;
        let mut named: Option<&str> = None;
        while let Some(token) = tokens.get(at).copied() {
            let (next, after) = (tokens.get(at + 1).copied(), tokens.get(at + 2).copied());
            match (token, next, after) {
                ("path", Some("="), Some(file)) => {
                    named = Some(file.trim_matches('"'));
                    at += 3;
                }
                ("mod", Some(name), Some(";")) => {
                    let path = child(folders, name, named.take());
                    if path.exists() {
                        let child = self.file(root, &path, Some(module), false);
                        self.modules[module].children.insert(name.to_owned(), child);
                    }
                    at += 3;
                }
                ("mod", Some(name), Some("{")) => {
                    let end = after_item(tokens, at);
                    let child = self.modules.len();
                    let file = self.modules[module].file.clone();
                    self.modules.push(Module { file, parent: Some(module), ..Module::default() });
                    let folders = (folders.0.join(name), folders.1.clone());
                    self.code(root, child, &tokens[at + 3..end - 1], &folders);
                    self.modules[module].children.insert(name.to_owned(), child);
                    at = end;
                }
                ("in", _, _) if at > 1 && tokens[at - 1] == "(" && tokens[at - 2] == "pub" => {
                    // Where something is visible is no reference.
                    at += tokens[at..].iter().position(|token| *token == ")").unwrap_or(1);
                }
                ("use", Some(_), _) => {
                    let mut leaves = Vec::new();
                    at = tree(tokens, at + 1, &[], &mut leaves);
                    leaves.into_iter().for_each(|leaf| self.modules[module].import(leaf));
                }
                _ if is_name(token) && next == Some("::") => {
                    let mut path = vec![token.to_owned()];
                    while tokens.get(at + 1) == Some(&"::")
                        && tokens.get(at + 2).is_some_and(|token| is_name(token))
                    {
                        path.push(tokens[at + 2].to_owned());
                        at += 2;
                    }
                    self.modules[module].paths.push(path);
                    at += 1;
                }
                _ => {
                    const ITEMS: [&str; 7] =
                        ["fn", "struct", "enum", "trait", "type", "const", "static"];
                    if let Some(name) = next.filter(|name| ITEMS.contains(&token) && is_name(name))
                    {
                        self.modules[module].items.insert(name.to_owned());
                    }
                    at += 1;
                }
            }
        }
    }

    /// The names of the modules from the root of the crate down to `module`.
    pub(crate) fn name_of(&self, module: &Module) -> Parts {
        let mut names = Parts::new();
        let mut at = self.modules.iter().position(|one| std::ptr::eq(one, module));
        while let Some((number, parent)) =
            at.and_then(|number| Some((number, self.modules[number].parent?)))
        {
            let children = &self.modules[parent].children;
            names.extend(children.iter().find(|child| *child.1 == number).map(|c| c.0.clone()));
            at = Some(parent);
        }
        names.reverse();
        names
    }

    /// The path from the root of the crate on, for one that begins with `crate` or `super`.
    pub(crate) fn absolute(&self, module: &Module, path: &[String]) -> Option<Parts> {
        let above = path.iter().take_while(|name| *name == "super").count();
        let mut names = self.name_of(module);
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "super" => names.truncate(names.len().checked_sub(above)?),
            _ => return None,
        }
        names.extend_from_slice(&path[above..]);
        Some(names)
    }

    /// The file to which `path` leads from `module`: that of the last module in it, or of the one
    /// that defines the item behind it.
    pub(crate) fn file_of(&self, module: &Module, path: &[String]) -> Option<&str> {
        let module = self.modules.iter().position(|one| std::ptr::eq(one, module))?;
        Some(&self.modules[self.module_of(module, path, 16)?].file)
    }

    fn module_of(&self, module: usize, mut path: &[String], steps: usize) -> Option<usize> {
        let (mut at, steps) = (module, steps.checked_sub(1)?);
        match path.first()?.as_str() {
            "crate" => (at, path) = (0, &path[1..]),
            "self" => path = &path[1..],
            "super" => {}
            name if self.modules[at].knows(name) => {}
            _ => return None,
        }
        while path.first().is_some_and(|name| name == "super") {
            (at, path) = (self.modules[at].parent?, &path[1..]);
        }
        while let Some(name) = path.first().filter(|name| *name != "self") {
            let here = &self.modules[at];
            if let Some(child) = here.children.get(name) {
                (at, path) = (*child, &path[1..]);
            } else if here.items.contains(name) {
                return Some(at);
            } else if let Some(import) = here.imports.get(name).filter(|to| **to != [name.clone()])
            {
                let whole: Parts = import.iter().chain(&path[1..]).cloned().collect();
                return self.module_of(at, &whole, steps);
            } else {
                let behind = |glob: &Parts| {
                    let other = self.module_of(at, glob, steps)?;
                    self.modules[other].knows(name).then_some(other)
                };
                let other = here.globs.iter().find_map(behind).filter(|other| *other != at);
                let Some(other) = other else { return Some(at) };
                at = other;
            }
        }
        Some(at)
    }
}

/// The file of a child.
fn child((children, own): &(PathBuf, PathBuf), name: &str, named: Option<&str>) -> PathBuf {
    if let Some(named) = named {
        return own.join(named);
    }
    let file = children.join(format!("{name}.rs"));
    if file.exists() { file } else { children.join(name).join("mod.rs") }
}

impl Module {
    fn import(&mut self, (path, called): (Parts, String)) {
        if path.is_empty() {
            return;
        }
        self.paths.push(path.clone());
        match &*called {
            "*" => self.globs.push(path),
            "self" => {
                let path = path[..path.len() - 1].to_vec();
                if let Some(name) = path.last() {
                    self.imports.insert(name.clone(), path);
                }
            }
            _ => {
                self.imports.insert(called, path);
            }
        }
    }

    fn knows(&self, name: &str) -> bool {
        let children = &self.children;
        children.contains_key(name) || self.imports.contains_key(name) || self.items.contains(name)
    }
}
