//! Every exit status of the table in the manual is met by some command line, and nothing else is.

use crate::mounted::{aggio, container, pattern};
use aggio_tests::Directory;
use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

/// A directory with a good container, one that can be repaired, a damaged one, and files.
struct Place(Directory);

impl Place {
    fn new() -> Self {
        let place = Place(Directory::new());
        for name in ["good", "repairable", "damaged"] {
            container(place.path(name).as_ref(), &pattern(50_000), 50_000);
        }
        std::fs::write(place.path("file"), pattern(50_000)).unwrap();
        std::fs::write(place.path("other"), pattern(49_999)).unwrap();
        std::fs::remove_file(place.path("repairable/aggio-manifest")).unwrap();
        let log = std::fs::read_dir(place.path("damaged")).unwrap().flatten().find(|entry| {
            entry.file_name().to_string_lossy().ends_with(".log")
                && entry.metadata().unwrap().len() > 40_000
        });
        let log = log.unwrap().path();
        let mut bytes = std::fs::read(&log).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&log, bytes).unwrap();
        std::fs::create_dir(place.path("spool")).unwrap();
        place
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }

    /// Runs a line in which `@name` is a file of this directory.
    fn run(&self, line: &str, stdout: Stdio) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggio"));
        for word in line.split(' ') {
            match word.strip_prefix('@') {
                Some(name) => command.arg(self.path(name)),
                None => command.arg(word),
            };
        }
        let variable = if line.starts_with("env") { "AGGIO_REPROT" } else { "AGGIO_HINTS" };
        if line.contains("--json") {
            command.env(variable, "*:cb_nods=1");
        }
        // `doctor` starts an agent.
        command.env("AGGIO_COUPLE_DIR", self.path("agents"));
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
    }
}

/// Command lines and their statuses; `*` stands for every command.
const CASES: &[(&str, &str, i32)] = &[
    ("*", "ls @", 0),
    ("*", "stat @good @file", 0),
    ("*", "cat @good", 0),
    ("*", "split @file @new", 0),
    ("*", "merge @good @merged", 0),
    ("*", "index @good", 0),
    ("*", "recover --spool @spool @good", 0),
    ("*", "hints", 0),
    ("*", "env", 0),
    ("*", "completions bash", 0),
    ("*", "manual", 0),
    ("*", "simulate --ranks 10 interleaved,piece=1K,bytes=1M", 0),
    ("*", "run --library @file --dry-run true", 0),
    ("*", "ls @missing", 1),
    ("*", "stat @missing", 1),
    ("*", "cat @missing", 1),
    ("*", "split @missing @new2", 1),
    ("*", "merge @missing @new2", 1),
    ("*", "merge @good @file", 1),
    ("*", "index @missing", 1),
    ("*", "recover --spool @spool @missing", 1),
    ("*", "mount @missing @missing", 1),
    ("*", "umount @spool", 1),
    ("*", "manual missing", 1),
    ("*", "simulate nonsense", 1),
    ("env", "env --json", 1),
    ("hints", "hints --json", 1),
    ("*", "ls --no-such", 2),
    ("*", "merge --threads 99999 @good @new2", 2),
    ("*", "merge --threads -1 @good @new2", 2),
    ("*", "merge --to e3sm --subfiles 0 @good @new2", 2),
    ("*", "split --frame 99999999999 @file @new2", 2),
    ("*", "cat --offset -1 @file", 2),
    ("*", "simulate --ranks 0 interleaved,piece=1K,bytes=1M", 2),
    ("*", "simulate --cb-buffer-size 0 interleaved,piece=1K,bytes=1M", 2),
    ("doctor", "doctor --library @missing", 1),
    ("fsck", "fsck @good", 0),
    ("fsck", "fsck @repairable", 1),
    ("fsck", "fsck @damaged", 4),
    ("fsck", "fsck @missing", 4),
    ("run", "run --library @missing true", 127),
    ("run", "run --library @file no-such-program", 127),
    ("run", "run --library @file --report=loud true", 127),
    ("verify", "verify @good @file", 0),
    ("verify", "verify @good @other", 1),
    ("verify", "verify @good @missing", 2),
];

#[test]
fn every_status_of_the_manual_is_met_and_no_other() {
    let place = Place::new();
    let mut met = BTreeSet::new();
    for (command, line, status) in CASES {
        let output = place.run(line, Stdio::piped());
        assert_eq!(output.status.code(), Some(*status), "{line}: {output:?}");
        met.insert((command.to_string(), *status));
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(place.run("env", full.into()).status.code(), Some(5));
    met.insert(("*".into(), 5));
    // Whether nothing fails depends on the machine.
    let output = place.run("doctor", Stdio::piped());
    let fails = String::from_utf8_lossy(&output.stdout).contains("FAIL");
    assert_eq!(output.status.code(), Some(i32::from(fails)), "{output:?}");
    met.insert(("doctor".into(), 0));
    let table = String::from_utf8(aggio(&["manual", "--exit-status"]).stdout).unwrap();
    let declared: BTreeSet<(String, i32)> = table
        .lines()
        .map(|line| {
            let mut parts = line.split('\t');
            (parts.next().unwrap().into(), parts.next().unwrap().parse().unwrap())
        })
        .collect();
    assert_eq!(met, declared);
    for command in declared.iter().map(|(command, _)| command).filter(|command| *command != "*") {
        let page = String::from_utf8(aggio(&["manual", command]).stdout).unwrap();
        assert!(page.contains(".SH EXIT STATUS"), "{command}");
    }
}

#[test]
fn a_number_out_of_bounds_is_told_with_its_option_and_the_bounds() {
    let place = Place::new();
    let output = place.run("merge --threads 99999 @good @new", Stdio::piped());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("--threads") && told.contains("99999 is not in 0..=1024"), "{told}");
}

#[test]
fn every_check_that_passes_names_what_was_run() {
    let agents = Directory::new();
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_aggio"));
    doctor.args(["doctor", "--json", "sh"]).env("AGGIO_COUPLE_DIR", agents.path().join("agents"));
    let output = doctor.output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = json["checks"].as_array().unwrap();
    let passed: Vec<_> = checks.iter().filter(|check| check["verdict"] == "PASS").collect();
    assert!(!passed.is_empty());
    for check in passed {
        assert!(check["ran"].as_str().is_some_and(|ran| !ran.is_empty()), "{check}");
    }
}

#[test]
fn a_long_listing_has_the_letters_of_ls() {
    let place = Place::new();
    std::fs::remove_dir_all(place.path("repairable")).unwrap();
    let script = "cd \"$1\" && rm -r damaged spool && mkfifo pipe && ln -s file link && mkdir \
        folder && \
        chmod 1777 folder && chmod 4754 file && chmod 2640 other && ls -l";
    let letters = |output: Output| {
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |line: &str| {
            let name = line.split(' ').next_back().unwrap().to_owned();
            (name, line[..10].to_owned())
        };
        text.lines().filter(|line| line.len() > 10).map(line).collect::<Vec<_>>()
    };
    let shell = Command::new("sh").args(["-c", script, "sh"]).arg(place.path("")).output().unwrap();
    let native = letters(shell);
    let ours = letters(aggio(&["ls", "-l", &place.path("")]));
    for name in ["file", "folder", "other", "pipe"] {
        let find = |list: &[(String, String)]| list.iter().find(|one| one.0 == name).cloned();
        assert!(find(&native).is_some() && find(&native) == find(&ours), "{native:?} {ours:?}");
    }
    let ours = |name: &str| ours.iter().find(|one| one.0 == name).unwrap().1.clone();
    assert_eq!((&ours("good")[..1], &ours("link")[..1]), ("-", "l"));
}

/// The output on standard error of `aggio cat` of a container while its reader is slow; on a
/// terminal, or not.
fn told_by_a_slow_cat(terminal: bool) -> String {
    let place = Place(Directory::new());
    container(place.path("blob").as_ref(), &pattern(32 << 20), 1 << 20);
    let aggio = env!("CARGO_BIN_EXE_aggio");
    let slow = "head -c 16000000 > /dev/null; sleep 1.2; head -c 8000000 > /dev/null; sleep 0.3; \
        cat > /dev/null";
    let line = format!("{aggio} cat {} | (exec 2>/dev/null; {slow})", place.path("blob"));
    let mut command = if terminal {
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &line]);
        command
    };
    command.env("TERM", "xterm").stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = if terminal { output.stdout } else { output.stderr };
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn what_lasts_long_tells_rate_and_time_left_on_a_terminal_only() {
    assert_eq!(told_by_a_slow_cat(false), "");
    let told = told_by_a_slow_cat(true);
    assert!(told.contains("writing") && told.contains("/s") && told.contains("left"), "{told:?}");
}
