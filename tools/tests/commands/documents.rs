//! The generated documents in the repository are those that the tables make.
//!
//! `AGGIO_BLESS=1 cargo test -p aggio --test commands documents::` writes them anew.

use std::path::Path;
use std::process::{Command, Output};

fn aggio(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aggio"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

#[track_caller]
fn check(file: &str, arguments: &[&str]) {
    let output = aggio(arguments, &[]);
    assert!(output.status.success(), "{output:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("AGGIO_BLESS").is_some() {
        std::fs::write(&path, &output.stdout).expect("the document can be written");
    }
    let present = std::fs::read(&path).unwrap_or_default();
    assert!(present == output.stdout, "{file} is stale: run this test with AGGIO_BLESS=1");
}

#[test]
fn the_manual_of_hints_is_fresh() {
    check("docs/hints.md", &["hints", "--markdown"]);
}

#[test]
fn the_manual_page_of_hints_is_fresh() {
    check("man/aggio-hints.7", &["hints", "--man"]);
}

#[test]
fn the_manual_page_of_the_simulation_is_fresh() {
    check("man/aggio-simulate.1", &["simulate", "--man"]);
}

/// Commands with pages that are made from their definition.
const COMMANDS: [&str; 18] = [
    "hints",
    "env",
    "mount",
    "umount",
    "ls",
    "stat",
    "cat",
    "merge",
    "verify",
    "split",
    "fsck",
    "index",
    "recover",
    "couple",
    "agent",
    "run",
    "doctor",
    "completions",
];

#[test]
fn the_manual_pages_of_the_commands_are_fresh() {
    check("man/aggio.1", &["manual"]);
    for command in COMMANDS {
        check(&format!("man/aggio-{command}.1"), &["manual", command]);
    }
}

#[test]
fn every_page_that_a_page_refers_to_is_there() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../man");
    let text = std::fs::read_to_string(pages.join("aggio.1")).expect("a page").replace('\\', "");
    let named = text.split_whitespace().filter_map(|word| {
        let (name, section) = word.strip_suffix(')')?.split_once('(')?;
        name.starts_with("aggio-").then(|| format!("{name}.{section}"))
    });
    let missing: Vec<String> = named.filter(|page| !pages.join(page).exists()).collect();
    assert_eq!(missing, [] as [&str; 0]);
}

#[test]
fn the_completions_are_fresh() {
    for (shell, file) in [("bash", "aggio.bash"), ("zsh", "_aggio"), ("fish", "aggio.fish")] {
        check(&format!("completions/{file}"), &["completions", shell]);
    }
}

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        let output = aggio(&[command, "--help"], &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Usage: aggio"), "{command}: {text}");
    }
}

#[test]
fn the_document_of_the_simulation_has_the_introduction_in_force() {
    let document = include_str!("../../../docs/benchmarks/simulation.md");
    assert!(document.starts_with(include_str!("../../src/simulate/introduction.md")));
}

#[test]
fn the_manual_of_switches_is_fresh() {
    check("docs/switches.md", &["env", "--markdown"]);
}

#[test]
fn the_reference_of_reports_is_fresh() {
    check("docs/reports.md", &["manual", "--reports"]);
}

#[test]
fn hints_as_json_tell_value_and_origin_for_a_file() {
    let variables = [("AGGIO_HINTS", "*.nc:cb_nodes=4")];
    let output = aggio(&["hints", "--json", "--file", "/d/x.nc"], &variables);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let hints = json["hints"].as_array().expect("a list");
    let cb_nodes = hints.iter().find(|hint| hint["name"] == "cb_nodes").expect("cb_nodes");
    assert_eq!(cb_nodes["value"], "4");
    assert_eq!(cb_nodes["origin"], "AGGIO_HINTS");
    assert_eq!(json["schema"], 1);
}

#[test]
fn a_bad_environment_is_a_finding() {
    let output = aggio(&["env"], &[("AGGIO_REPROT", "1"), ("AGGIO_HINTS", "*:cb_nods=4")]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("did you mean AGGIO_REPORT?"), "{told}");
    assert!(told.contains("did you mean cb_nodes?"), "{told}");
}

#[test]
fn unknown_arguments_are_a_usage_error() {
    assert_eq!(aggio(&["hints", "--no-such"], &[]).status.code(), Some(2));
}
