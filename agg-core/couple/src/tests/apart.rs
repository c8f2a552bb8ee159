//! What tests let a shell do, which has nothing open of what they make.
//!
//! A child of their own has everything open until it becomes another program: files that other
//! tests have closed by then, and programs that cannot be run while they are open for writing.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

struct Shell {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// The shell, which is started by the first test that needs it and ends with the tests.
fn shell() -> &'static Mutex<Shell> {
    static SHELL: OnceLock<Mutex<Shell>> = OnceLock::new();
    SHELL.get_or_init(|| {
        let mut command = Command::new("sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Mutex::new(Shell { child, output })
    })
}

/// The line that the shell prints for this command.
fn answer(command: &str) -> String {
    let mut shell = shell().lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(shell.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    let mut line = String::new();
    shell.output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Makes sure that the shell is there before a test makes anything that it would have open.
pub(crate) fn begin() {
    shell();
}

/// Makes a program of this text.
pub(crate) fn make_program(path: &Path, text: &str) {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let (path, text) = (quoted(path.to_str().unwrap()), quoted(text));
    let made = answer(&format!("printf %s {text} > {path} && chmod 700 {path} && echo made"));
    assert_eq!(made, "made");
}

/// Set in the process of a test that [`alone`] runs.
const ALONE: &str = "AGGIO_TEST_ALONE";

/// Runs the test of this name in a process of its own. A child that another test makes has all
/// files of this process open for a moment, and an agent takes it for a program that writes.
pub(crate) fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let scratch = tempfile::tempdir().unwrap();
    let [output, status] = ["output", "status"].map(|name| scratch.path().join(name));
    let program = std::env::current_exe().unwrap();
    let [program, output, status] =
        [program, output, status].map(|path| path.display().to_string());
    let run = format!("{ALONE}=1 '{program}' --exact {name} --nocapture > {output} 2>&1");
    let end = format!("echo $? > {status}.new; mv {status}.new {status}");
    let started = answer(&format!("({run}; {end}) < /dev/null > /dev/null 2>&1 & echo started"));
    assert_eq!(started, "started");
    let ended = loop {
        match std::fs::read_to_string(&status) {
            Ok(ended) => break ended,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let output = std::fs::read_to_string(&output).unwrap();
    assert_eq!(ended.trim(), "0", "{output}");
    assert!(output.contains("1 passed"), "no test has this name: {output}");
}

/// A process, ended with the test.
pub(crate) struct Sleeper {
    number: i32,
    is_killed: Cell<bool>,
}

impl Sleeper {
    pub(crate) fn start() -> Self {
        let number = answer("sleep 600 < /dev/null > /dev/null 2>&1 & echo $!");
        Self { number: number.parse().unwrap(), is_killed: Cell::new(false) }
    }

    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    pub(crate) fn kill(&self) {
        if !self.is_killed.replace(true) {
            // SAFETY: only numbers. The process is there: it sleeps longer than tests take.
            unsafe { libc::kill(self.number, libc::SIGKILL) };
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.kill();
        answer(&format!("wait {}; echo ended", self.number));
    }
}
