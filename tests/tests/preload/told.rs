//! Messages of the library to its user: settings that are wrong or of no use, messages by level,
//! reports.

use aggio_tests::{Directory, Finished, Job, compile, installed, library};
use std::path::Path;
use std::process::{Command, Output};

/// An ordinary program under the library with these settings only, in a directory of its own.
fn plain(library: &Path, words: &[&str], variables: &[(&str, &str)], folder: &Path) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AGGIO") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).env("LD_PRELOAD", library);
    command.output().expect("it starts")
}

/// Whether it succeeds, and its standard error.
fn said(library: &Path, words: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let folder = Directory::new();
    let output = plain(library, words, variables, folder.path());
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A job of two ranks that leaves files open.
fn job(mpi: &aggio_tests::Mpi, library: &Path, variables: &[(&str, &str)]) -> Finished {
    let folder = Directory::new();
    let job = Job::new(&compile("left_open.c", mpi)).ranks(2).preload(Some(library));
    let job = job.argument(folder.path().join("file"));
    variables.iter().fold(job, |job, (name, value)| job.variable(name, value)).run()
}

const SCRIPT: &str = "f = open('a.out', 'wb', 0)\nfor _ in range(50): f.write(b'12345')";
const WRITE: &[&str] = &["/usr/bin/python3", "-S", "-c", SCRIPT];

#[test]
fn strict_ends_any_program_for_an_unknown_variable_and_a_log_file_that_cannot_be_written() {
    let Some(library) = library() else { return };
    for bad in [("AGGIO_REPROT", "1"), ("AGGIO_LOG_FILE", "/no/such/file"), ("AGGIO_LOG", "loud")] {
        let (good, text) = said(&library, &["/bin/true"], &[bad, ("AGGIO_STRICT", "1")]);
        assert!(!good && text.contains(bad.0), "{bad:?}: {text}");
        assert_eq!(said(&library, &["/bin/true"], &[bad]), (true, String::new()));
    }
    let good = [("AGGIO_LOG_FILE", "log.%p"), ("AGGIO_STRICT", "1")];
    assert_eq!(said(&library, &["/bin/true"], &good), (true, String::new()));
}

#[test]
fn a_pattern_that_matched_no_file_is_told_by_the_program_that_writes() {
    let Some(library) = library() else { return };
    for name in ["AGGIO_POSIX", "AGGIO_BLOB"] {
        let (good, text) = said(&library, WRITE, &[(name, "*.dat:close")]);
        let line = format!("{name}: \"*.dat\" matched no file");
        assert!(good && text.matches(&line).count() == 1, "{text}");
        assert_eq!(said(&library, WRITE, &[(name, "*.out:close")]), (true, String::new()));
        assert_eq!(said(&library, WRITE, &[(name, "*:close")]), (true, String::new()));
        assert_eq!(said(&library, &["/bin/ls"], &[(name, "*.dat:close")]), (true, String::new()));
        // A process that starts others cannot see their files, and those are not alone.
        let shell = ["/bin/sh", "-c", "echo 1 > a; /bin/sh -c 'echo 1 > b'; true"];
        assert_eq!(said(&library, &shell, &[(name, "*.dat:close")]), (true, String::new()));
    }
}

#[test]
fn a_pattern_that_matched_no_file_is_told_once_a_job() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let rules = [
            ("AGGIO_DEFER", "*.none"),
            ("AGGIO_BLOB", "*.nope"),
            ("AGGIO_HINTS", "file:cb_nodes=1,*.nil:cb_nodes=2"),
        ];
        let finished = job(&mpi, &library, &rules);
        for line in [
            "AGGIO_DEFER: \"*.none\" matched no file that rank 0 opened",
            "AGGIO_BLOB: \"*.nope\" matched no file",
            "AGGIO_HINTS: \"*.nil\" matched no file",
        ] {
            let report = finished.report();
            assert_eq!(finished.stderr.matches(line).count(), 1, "{line}: {report}");
        }
        assert!(!finished.stderr.contains("\"file\" matched"), "{}", finished.report());
    }
}

#[test]
fn debug_tells_each_call_and_trace_each_request() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let told = |level| job(&mpi, &library, &[("AGGIO_LOG", level)]).stderr;
        let (info, debug, trace) = (told("info"), told("debug"), told("trace"));
        let call = "debug: ";
        assert!(info.contains(": opened ") && !info.contains(call), "{info}");
        assert!(debug.contains("MPI_File_write_at: 4 bytes"), "{debug}");
        assert!(!debug.contains("trace: ") && trace.contains("trace: "), "{debug}{trace}");
    }
    let told =
        |level| said(&library, WRITE, &[("AGGIO_POSIX", "*.out:close"), ("AGGIO_LOG", level)]).1;
    assert!(told("debug").contains("a.out: opened, mode close"), "{}", told("debug"));
    assert!(told("trace").contains("1 kept pieces, 245 bytes, by 1 requests"), "{}", told("trace"));
}

#[test]
fn a_hint_in_force_names_who_set_it() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let shown = |hints| {
            let variables = [("AGGIO_HINTS", hints), ("ROMIO_PRINT_HINTS", "1")];
            job(&mpi, &library, &variables).stderr
        };
        let one = shown("*:cb_nodes=1");
        assert!(one.contains("cb_nodes = 1 (AGGIO_HINTS)"), "{one}");
        let many = shown("*:cb_nodes=99");
        assert!(many.contains("(aggio; AGGIO_HINTS asked for 99)"), "{many}");
    }
}

/// The lines that are JSON, which must be whole lines.
fn objects(text: &str) -> Vec<serde_json::Value> {
    let lines = text.lines().filter(|line| line.contains("aggio_report"));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect()
}

#[test]
fn files_that_are_open_when_mpi_ends_are_reported_by_each_rank() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let finished = job(&mpi, &library, &[("AGGIO_REPORT", "json")]);
        let all = objects(&finished.stderr);
        // Two ranks, two files each.
        assert_eq!(all.len(), 4, "{}", finished.report());
        for object in &all {
            assert_eq!(object["aggio_report"], 2);
            assert_eq!(
                (&object["interface"], &object["open_at_end"]),
                (&"mpi".into(), &true.into())
            );
            assert_eq!(object["sum"]["bytes_written"], 4, "{object}");
            assert!(object["mean"]["seconds_in_calls"].is_number(), "{object}");
        }
        let ranks = all.iter().filter(|object| object["ranks"] == 2).map(|o| o["rank"].as_u64());
        let mut ranks: Vec<_> = ranks.collect();
        ranks.sort();
        assert_eq!(ranks, [Some(0), Some(1)]);
    }
}

#[test]
fn programs_without_mpi_report_files_and_containers_however_they_end() {
    let Some(library) = library() else { return };
    let ends =
        ["f.close()", "sys.exit(0)", "f.flush(); os._exit(0)", "os.execv('/bin/true', ['t'])"];
    for (rule, end) in ["close", "posix"].into_iter().flat_map(|mode| ends.map(|end| (mode, end))) {
        for name in ["AGGIO_POSIX", "AGGIO_BLOB"] {
            let options = if rule == "posix" && name == "AGGIO_BLOB" { "" } else { ":" };
            let rule = if options.is_empty() { "*.out".into() } else { format!("*.out:{rule}") };
            let script =
                format!("import os, sys; f = open('a.out', 'wb', 0); f.write(b'12345'); {end}");
            let words = ["/usr/bin/python3", "-S", "-c", &script];
            let (good, text) = said(&library, &words, &[(name, &rule), ("AGGIO_REPORT", "json")]);
            let all = objects(&text);
            let of_exec = end.contains("execv");
            assert!(good && (all.len() == 1 || of_exec), "{name} {rule} {end}: {text}");
            for object in all {
                assert_eq!(object["interface"], "posix", "{object}");
                let written = object["sum"]["container_bytes_written"].as_u64();
                let expected = if name == "AGGIO_BLOB" { 5 } else { 0 };
                assert_eq!(written, Some(expected), "{name} {rule} {end}: {object}");
            }
        }
    }
}

#[test]
fn that_nothing_is_kept_back_is_told_once_for_all_files() {
    let Some(library) = library() else { return };
    let script = "for name in 'abc':\n with open(name + '.out', 'wb', 0) as f:\n  for _ in \
        range(50): f.write(b'1')";
    let words = ["/usr/bin/python3", "-S", "-c", script];
    let variables = [("AGGIO_POSIX", "*.out:close"), ("AGGIO_SPOOL", "/no/such/directory")];
    let (good, text) = said(&library, &words, &variables);
    assert!(good && text.matches("small writes are not kept back").count() == 1, "{text}");
}
