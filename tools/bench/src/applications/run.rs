//! One job of an application pattern, and the numbers that it and the library's report print.

use crate::job;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The numbers of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// Seconds.
    pub(super) written: f64,
    pub(super) read: f64,
    /// Bytes of the data, once.
    pub(super) bytes: f64,
    /// Of all ranks to the file system, as the library's report counts them; 0 natively.
    pub(super) requests: u64,
}

/// Runs `command`, at most `timeout` seconds.
pub(super) fn run(
    mut command: Command,
    timeout: u64,
    scratch: &Path,
    interrupted: &AtomicBool,
) -> Result<Run, String> {
    let mut child = job::start(&mut command, scratch)?;
    let output = job::collect(child.stdout.take());
    let errors = job::collect(child.stderr.take());
    let until = Instant::now() + Duration::from_secs(timeout);
    let mut ended = false;
    while !ended && Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(2));
        ended = child.try_wait().is_ok_and(|status| status.is_some());
    }
    let how = job::end(&mut child, scratch, !ended);
    let [output, errors] = [output, errors].map(|text| text.join().unwrap_or_default());
    if !ended {
        return Err(format!("it took more than {timeout} s"));
    }
    parse(&output, &errors).ok_or_else(|| {
        let first = errors.lines().find(|line| !line.trim().is_empty());
        format!("{how}: {}", first.unwrap_or("no message"))
    })
}

/// `write SECONDS read SECONDS bytes N`, and the reports of the files among the `errors`.
fn parse(output: &str, errors: &str) -> Option<Run> {
    let line = output.lines().find(|line| line.starts_with("write "))?;
    let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let &[written, read, bytes] = words.as_slice() else { return None };
    let of = |report: &serde_json::Value, name: &str| report["sum"][name].as_u64().unwrap_or(0);
    let requests = errors
        .lines()
        .filter_map(|line| serde_json::from_str(&line[line.find('{')?..]).ok())
        .map(|report| of(&report, "writes_out") + of(&report, "reads_out"))
        .sum();
    Some(Run { written, read, bytes, requests })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_from_the_program_and_requests_from_the_reports() {
        let errors =
            "noise {\n{\"sum\":{\"writes_out\":3,\"reads_out\":4}}\n{\"sum\":{\"reads_out\":5}}\n";
        let run = parse("write 0.5 read 0.25 bytes 1000\n", errors);
        let expected = Run { written: 0.5, read: 0.25, bytes: 1000.0, requests: 12 };
        assert_eq!(run, Some(expected));
        assert_eq!(parse("no result\n", errors), None);
    }
}
