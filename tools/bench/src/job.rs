//! One job: started, listened to, and ended in time.

use crate::results::{Failure, Measurement};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// For making files, taking the limit and verifying, which are not measured.
const PREPARATION: Duration = Duration::from_secs(300);

/// The results of a job's cases, by their index.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) done: Vec<Measurement>,
    /// Of the case after the last one that is done, if the job did not do all.
    pub(crate) failure: Option<Failure>,
}

/// Starts a job with pipes for its output, and marks its processes, so that [`end`] finds them.
pub(crate) fn start(command: &mut Command, scratch: &Path) -> Result<Child, String> {
    command
        .env(aggio_tests::MARK, scratch)
        .env("TMPDIR", scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|why| format!("cannot start mpirun: {why}"))
}

/// Runs `command`, which does `cases` cases one after another, each within `timeout` seconds.
pub(crate) fn run(
    mut command: Command,
    cases: usize,
    timeout: u64,
    scratch: &Path,
    interrupted: &AtomicBool,
) -> Result<Told, String> {
    let mut child = start(&mut command, scratch)?;
    let errors = collect(child.stderr.take());
    let lines = listen(&mut child);
    let told = follow(&lines, cases, Duration::from_secs(timeout), interrupted);
    let kill = told.failure.is_some() || interrupted.load(Ordering::Relaxed);
    let ended = end(&mut child, scratch, kill);
    let errors = errors.join().unwrap_or_default();
    if interrupted.load(Ordering::Relaxed) {
        return Err("interrupted".into());
    }
    Ok(with_reason(told, cases, &ended, &errors))
}

/// A job that ended before its last case failed in the next one.
fn with_reason(mut told: Told, cases: usize, ended: &str, errors: &str) -> Told {
    if told.failure.is_none() && told.done.len() < cases {
        let ours = errors.lines().find(|line| line.starts_with("aggio-bench-ranks:"));
        let line = ours.or_else(|| errors.lines().find(|line| !line.trim().is_empty()));
        told.failure = Some(Failure::Failed(format!("{ended}: {}", line.unwrap_or("no message"))));
    }
    told
}

fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

pub(crate) fn collect(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // Show the bytes that were read before an error, too.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Reads lines until the job is done, ends, or takes too long.
fn follow(
    lines: &Receiver<String>,
    cases: usize,
    timeout: Duration,
    interrupted: &AtomicBool,
) -> Told {
    let mut told = Told::default();
    let (mut deadline, mut started) = (Instant::now() + PREPARATION, false);
    while told.done.len() < cases && !interrupted.load(Ordering::Relaxed) {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) if line.starts_with("start ") => {
                (deadline, started) = (Instant::now() + timeout, true);
            }
            Ok(line) => {
                if let Some(measurement) = parse(&line) {
                    told.done.push(measurement);
                    (deadline, started) = (Instant::now() + PREPARATION, false);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return told,
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(RecvTimeoutError::Timeout) => {
                told.failure = Some(if started {
                    Failure::TimedOut(timeout.as_secs())
                } else {
                    Failure::Failed("preparing or verifying took too long".into())
                });
                return told;
            }
        }
    }
    told
}

/// `done CASE seconds=S limit=L [hidden=H] [requests=N]`.
fn parse(line: &str) -> Option<Measurement> {
    let mut words = line.strip_prefix("done ")?.split(' ').skip(1);
    let fields: Vec<(&str, &str)> = words.by_ref().filter_map(|w| w.split_once('=')).collect();
    let field = |key: &str| fields.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    Some(Measurement {
        round: 0,
        seconds: field("seconds")?.parse().ok()?,
        limit: field("limit")?.parse().ok()?,
        hidden: field("hidden").and_then(|value| value.parse().ok()),
        requests: field("requests").and_then(|value| value.parse().ok()),
    })
}

/// Lets the job end by itself, or makes it end; the result says how it ended.
pub(crate) fn end(child: &mut Child, scratch: &Path, by_force: bool) -> String {
    let patience = if by_force {
        // A launcher that is asked removes the shared memory of its ranks; one that is killed
        // leaves it behind.
        terminate(child);
        Duration::from_secs(10)
    } else {
        Duration::from_secs(30)
    };
    let until = Instant::now() + patience;
    let mut status = child.try_wait().ok().flatten();
    while status.is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        status = child.try_wait().ok().flatten();
    }
    aggio_tests::kill_marked(scratch.as_os_str());
    // Dead already, or killed a line above; it only has to be collected.
    let _ = child.kill();
    let status = status.or_else(|| child.wait().ok());
    status.map_or("ended".into(), |status| status.to_string())
}

fn terminate(child: &Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        // It was not collected yet, so the number is still its own; if it is dead, nothing is left
        // to do.
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(id),
            nix::sys::signal::Signal::SIGTERM,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;

    fn shell(script: &str, cases: usize) -> Told {
        let scratch = Scratch::create(&std::env::temp_dir(), &format!("{cases}-{}", script.len()));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, cases, 1, &scratch.unwrap().0, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn cases_are_read_from_what_the_job_prints() {
        let told = shell("echo start a; echo done a seconds=0.5 limit=0.25 hidden=0.9; echo x", 1);
        assert_eq!(told.failure, None);
        let expected =
            Measurement { round: 0, seconds: 0.5, limit: 0.25, hidden: Some(0.9), requests: None };
        assert_eq!(told.done, [expected]);
    }

    #[test]
    fn a_job_that_fails_tells_why() {
        let told =
            shell("echo done a seconds=1 limit=1; echo aggio-bench-ranks: bad >&2; exit 3", 2);
        assert_eq!(told.done.len(), 1);
        let Some(Failure::Failed(why)) = told.failure else { panic!("{told:?}") };
        assert!(why.contains("bad") && why.contains('3'), "{why}");
    }

    #[test]
    fn a_case_that_takes_too_long_is_given_up() {
        let told = shell("echo start a; sleep 100", 1);
        assert_eq!(told.failure, Some(Failure::TimedOut(1)));
    }

    #[test]
    fn an_interruption_ends_the_job() {
        let scratch = Scratch::create(&std::env::temp_dir(), "interrupted").unwrap();
        let mut command = Command::new("sleep");
        command.arg("100");
        let result = run(command, 1, 60, &scratch.0, &AtomicBool::new(true));
        assert_eq!(result, Err("interrupted".into()));
    }
}
