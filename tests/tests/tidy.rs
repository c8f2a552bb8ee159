//! The shape of the sources: arrows between crates and between layers of a crate, circles of files,
//! state of processes, lengths and first lines of files, lines of at most 100 columns, dependencies
//! that are used.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/columns.rs"]
mod columns;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/drivers.rs"]
mod drivers;
#[path = "tidy/impls.rs"]
mod impls;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/objects.rs"]
mod objects;
#[path = "tidy/sleeps.rs"]
mod sleeps;
#[path = "tidy/words.rs"]
mod words;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates of the workspace: each depends on those before it only. Tests may use any.
const CRATES: &[&str] = &[
    "aggio-base",
    "aggio-link",
    "aggio-types",
    "aggio-config",
    "aggio-comm",
    "aggio-plan",
    "aggio-container",
    "aggio-couple",
    "aggio-store",
    "aggio-staging",
    "aggio-engine",
    "agg-core",
    "aggio-driver-conformance",
    "aggio-formats",
    "aggio-fusefs",
    "aggio-posix",
    "aggio-preload",
    "aggio-patterns",
    "aggio",
    "aggio-tests",
    "aggio-slowfs",
    "aggio-bench",
];

/// Where sources are.
const FOLDERS: &[&str] = &["agg-core", "formats", "fusefs", "preload", "tests", "tools"];

/// Folders that may keep state of a process: the library that is loaded into it, and tests.
const HOSTS: &[&str] = &["preload", "tests"];

/// Lines of a file at most.
const LINES: usize = 450;

/// Tables may be longer; none of them may grow.
const LONG: &[(&str, usize)] =
    &[("preload/src/posix/symbols.rs", 795), ("preload/src/interposed.rs", 475)];

/// State of a process outside the host, by file and name. The list may only become shorter.
const STATE: &[(&str, &str)] = &[
    ("agg-core/base/src/log.rs", "ALL_RANKS"),
    ("agg-core/base/src/log.rs", "FILE"),
    ("agg-core/base/src/log.rs", "LEVEL"),
    ("agg-core/base/src/log.rs", "RANK"),
    ("agg-core/base/src/log.rs", "SEEN"),
    ("agg-core/comm/src/meeting.rs", "COMPLETE"),
    ("agg-core/comm/src/task.rs", "SLEEP"),
    ("agg-core/comm/src/task/place.rs", "POLLER"),
    ("agg-core/comm/src/task/place.rs", "WISH"),
    ("agg-core/comm/src/workers.rs", "EVENTS"),
    ("agg-core/comm/src/workers/testing.rs", "THREADLESS"),
    ("agg-core/container/src/directory/fd_range.rs", "FIRST"),
    ("agg-core/store/src/driver/fault.rs", "ARRANGED"),
    ("agg-core/store/src/driver/fault.rs", "BY_NAME"),
    ("agg-core/store/src/driver/sigbus.rs", "BEFORE"),
    ("agg-core/store/src/driver/sigbus.rs", "HANDLER"),
    ("agg-core/store/src/driver/sigbus.rs", "PAGE"),
    ("agg-core/store/src/driver/sigbus.rs", "WATCHES"),
    ("agg-core/store/src/driver/scratch.rs", "COUNT"),
    ("formats/src/e3sm/scatter.rs", "ROOM"),
    ("formats/src/logical/mod.rs", "COUNT"),
    ("fusefs/src/filesystem.rs", "BUFFER"),
];

/// Every source file below the folders of `root`, by its name relative to `root`.
fn sources(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a source file is UTF-8");
        let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
        (name, text)
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.expect("a readable folder");
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() && name != "target" && name != "build" && !name.starts_with('.') {
            collect(&path, files);
        } else if kind.is_file() && name.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// The output of `cargo metadata` for the workspace in `root`.
fn metadata(root: &Path) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.current_dir(root).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Dependencies between crates of the workspace that do not go down, and crates without a place.
fn wrong_arrows(metadata: &Value) -> Vec<String> {
    let place = |name: &str| CRATES.iter().position(|known| *known == name);
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(own) = place(name) else {
            wrong.push(format!("{name}: has no place in CRATES of tests/tests/tidy.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let other = dependency["name"].as_str().expect("a name");
            let is_for_tests = dependency["kind"].as_str() == Some("dev");
            if !is_for_tests && place(other).is_some_and(|other| other >= own) {
                wrong.push(format!("{name} -> {other}: a crate depends on crates below it only"));
            }
        }
    }
    wrong
}

/// Whether a file has nothing but tests.
fn is_of_tests(name: &str) -> bool {
    let mut parts = name.split('/');
    name.ends_with("tests.rs") || parts.any(|part| part == "tests" || part == "examples")
}

/// The part of a file before its tests.
fn before_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |end| &text[..end])
}

/// The name of a `static` that this line defines, unless its type cannot change: a reference or a
/// number. One without a value is somebody else's.
fn state_in(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |line| match line.strip_prefix('(') {
        Some(line) => line.split_once(')').map_or("", |(_, line)| line),
        None => line,
    });
    let declared = line.trim_start().strip_prefix("static ")?;
    if declared.ends_with(';') && !declared.contains('=') {
        return None;
    }
    let (name, kind) = declared.split_once(':')?;
    let kind = kind.trim_start();
    // Types that are not the language's own may be named by their paths.
    let path = kind.trim_start_matches('[').split(['<', ';', ' ']).next()?;
    let last = path.rsplit("::").next()?;
    let of_numbers = last.starts_with(|c: char| c.is_ascii_lowercase());
    let may_change = name.starts_with("mut ") || !(kind.starts_with('&') || of_numbers);
    may_change.then(|| name.trim_start_matches("mut ").trim())
}

/// State of a process outside the host that `known` does not name, and names that are there no
/// more.
fn wrong_state(files: &[(String, String)], known: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files {
        let of_host = HOSTS.iter().any(|host| file.starts_with(&format!("{host}/")));
        if !of_host && !is_of_tests(file) {
            found.extend(
                before_tests(text).lines().filter_map(state_in).map(|name| (&**file, name)),
            );
        }
    }
    let new = found.iter().filter(|state| !known.contains(state));
    let gone = known.iter().filter(|state| !found.contains(state));
    let new =
        new.map(|(file, name)| format!("{file}: {name}: only preload/ has statics that change"));
    let gone = gone.map(|(file, name)| format!("{file}: {name}: is gone; remove it from STATE"));
    new.chain(gone).collect()
}

/// Files that refer to items of crates above them by link symbols.
fn linked(files: &[(String, String)]) -> Vec<String> {
    let symbols = concat!("extern ", "\"Rust\"");
    let linked = files.iter().filter(|(_, text)| text.contains(symbols));
    linked.map(|(file, _)| format!("{file}: {symbols}: pass the value, or own it")).collect()
}

/// Files with too many lines.
fn too_long(files: &[(String, String)], known: &[(&str, usize)]) -> Vec<String> {
    let most = |file: &str| known.iter().find(|(known, _)| *known == file).map_or(LINES, |k| k.1);
    let lines = files.iter().map(|(file, text)| (file, text.lines().count(), most(file)));
    let long = lines.filter(|(_, lines, most)| lines > most);
    long.map(|(file, lines, most)| {
        format!("{file}: {lines} lines, at most {most}: move one idea to a file of its own")
    })
    .collect()
}

/// Files that do not begin with their purpose.
fn without_purpose(files: &[(String, String)]) -> Vec<String> {
    let tells = |text: &str| {
        let mut lines = text.lines().skip_while(|line| line.starts_with("#!"));
        lines.next().is_some_and(|line| line.len() > 8 && line.starts_with("//! "))
    };
    let silent = files.iter().filter(|(_, text)| !tells(text));
    silent.map(|(file, _)| format!("{file}: the first line says what the file is for")).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_crate_depends_on_crates_below_it_only() {
    none(wrong_arrows(&metadata(&root())));
}

#[test]
fn no_state_of_the_process_is_added_outside_the_host() {
    none(wrong_state(&sources(&root()), STATE));
}

#[test]
fn no_crate_reaches_up_by_link_symbols() {
    none(linked(&sources(&root())));
}

#[test]
fn no_file_is_longer_than_its_limit() {
    none(too_long(&sources(&root()), LONG));
}

#[test]
fn every_file_begins_with_what_it_is_for() {
    none(without_purpose(&sources(&root())));
}

/// A workspace in a temporary folder, which is removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(label: &str) -> Self {
        let name = format!("aggio-tidy-{label}-{}", std::process::id());
        let tree = Self(std::env::temp_dir().join(name));
        fs::create_dir(&tree.0).expect("a folder");
        tree
    }

    fn put(&self, name: &str, text: &str) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    /// A crate that depends on another one of the tree, in the given table of its manifest.
    fn member(&self, folder: &str, name: &str, needs: Option<(&str, &str, &str)>) -> &Self {
        let mut manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
        if let Some((table, other, path)) = needs {
            manifest.push_str(&format!("[{table}]\n{other} = {{ path = \"{path}\" }}\n"));
        }
        self.put(&format!("{folder}/Cargo.toml"), &manifest);
        self.put(&format!("{folder}/src/lib.rs"), "//! A crate that is planted.\n")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_planted_reference_upwards_is_found_and_one_for_tests_is_not() {
    let upwards = |table| Some((table, "aggio-types", "../types"));
    for (table, wrong) in [("dependencies", 1), ("build-dependencies", 1), ("dev-dependencies", 0)]
    {
        let tree = Tree::new(table);
        tree.put("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"agg-core/*\"]\n");
        tree.member("agg-core/base", "aggio-base", upwards(table));
        tree.member("agg-core/types", "aggio-types", None);
        let found = wrong_arrows(&metadata(&tree.0));
        assert_eq!(found.len(), wrong, "{found:?}");
        assert!(
            found.iter().all(|line| line.starts_with("aggio-base -> aggio-types: ")),
            "{found:?}"
        );
    }
}

#[test]
fn a_planted_crate_without_a_place_is_found() {
    let tree = Tree::new("place");
    tree.put("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"agg-core/*\"]\n");
    tree.member("agg-core/new", "aggio-new", None);
    let found = wrong_arrows(&metadata(&tree.0));
    assert!(found.len() == 1 && found[0].starts_with("aggio-new: has no place"), "{found:?}");
}

#[test]
fn a_planted_link_symbol_is_found() {
    let tree = Tree::new("linked");
    let text = concat!("//! A file.\n\nunsafe extern ", "\"Rust\" {\n    safe static A: u8;\n}\n");
    tree.put("preload/posix/src/wrong.rs", text).put("preload/src/right.rs", "//! A file.\n");
    let found = linked(&sources(&tree.0));
    assert!(found.len() == 1 && found[0].starts_with("preload/posix/src/wrong.rs: "), "{found:?}");
}

#[test]
fn planted_state_is_found_outside_the_host_and_its_tests_only() {
    let plain = "//! A file.\n\nstatic NAMES: &[&str] = &[];\npub static SIZES: [u8; 2] = [0; 2];\n\
                 unsafe extern \"C\" {\n    static mut stdin: *mut FILE;\n}\n";
    for (line, name) in [
        ("static FILES: Mutex<Vec<u8>> = Mutex::new(Vec::new());", "FILES"),
        ("pub(crate) static ONCE: OnceLock<u8> = OnceLock::new();", "ONCE"),
        ("    static BUFFER: RefCell<u8> = const { RefCell::new(0) };", "BUFFER"),
        ("static mut NUMBER: u8 = 0;", "NUMBER"),
        ("static PATH: std::sync::Mutex<u8> = std::sync::Mutex::new(0);", "PATH"),
        ("static SLOTS: [Slot; 2] = [Slot::new(), Slot::new()];", "SLOTS"),
    ] {
        let text = format!("{plain}{line}\n");
        let tested = format!("{plain}\n#[cfg(test)]\nmod tests {{\n    {line}\n}}\n");
        let tree = Tree::new(name);
        tree.put("agg-core/base/src/wrong.rs", &text).put("preload/src/right.rs", &text);
        tree.put("preload/posix/src/right.rs", &text);
        tree.put("formats/src/right.rs", &tested).put("tools/src/tests.rs", &text);
        let found = wrong_state(&sources(&tree.0), &[]);
        let expected = format!("agg-core/base/src/wrong.rs: {name}: ");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{line}: {found:?}");
        assert_eq!(
            wrong_state(&sources(&tree.0), &[("agg-core/base/src/wrong.rs", name)]).len(),
            0
        );
        let gone = [("agg-core/base/src/wrong.rs", name), ("agg-core/base/src/wrong.rs", "GONE")];
        assert_eq!(wrong_state(&sources(&tree.0), &gone).len(), 1);
    }
}

#[test]
fn a_planted_long_file_and_one_without_a_first_line_are_found() {
    let tree = Tree::new("files");
    let lines = |count: usize| format!("//! A file of lines.\n{}", "// line\n".repeat(count - 1));
    tree.put("formats/src/right.rs", &lines(LINES)).put("formats/src/long.rs", &lines(LINES + 1));
    tree.put("formats/src/silent.rs", "use std::fs;\n").put("formats/src/empty.rs", "");
    tree.put("formats/target/long.rs", &lines(LINES + 1));
    let files = sources(&tree.0);
    let long = too_long(&files, &[]);
    assert!(long.len() == 1 && long[0].starts_with("formats/src/long.rs: 451 lines"), "{long:?}");
    assert!(too_long(&files, &[("formats/src/long.rs", LINES + 1)]).is_empty());
    let silent = without_purpose(&files);
    assert_eq!(silent.len(), 2, "{silent:?}");
}
