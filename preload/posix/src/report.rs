//! The line of `AGGIO_REPORT` about a file that a program used without MPI.

use super::counts::Counts;
use super::files::Held;
use super::reason::Reason;
use super::state::Inside;
use crate::config;
use agg_core::log;
use agg_core::report::{VERSION, object, quoted};
use agg_core::rules::Mode;
use agg_core::settings::Report;
use std::path::Path;
use std::time::Duration;

/// Reports the events of an open file since the last report, if there are any.
pub fn tell_news(held: &mut Held) {
    if held.is_news() {
        let counts = std::mem::take(&mut held.counts);
        held.told = true;
        tell(&held.path, held.mode, &counts);
    }
}

/// Reports the events of a file.
pub fn tell(path: &[u8], mode: Mode, counts: &Counts) {
    let _inside = Inside::enter();
    let path = String::from_utf8_lossy(path);
    match config::get().settings.report {
        Report::Off => {}
        Report::Line => log::report(format_args!("{}", line(&path, mode, counts))),
        Report::Json => log::object(&json(&path, mode, counts)),
    }
}

/// Reports how long the open of a coupled file has waited.
pub fn tell_coupled(path: &Path, generation: u64, writes: bool, waited: Duration) {
    let path = path.to_string_lossy();
    match config::get().settings.report {
        Report::Off => {}
        Report::Line => log::report(format_args!("{}", coupled(&path, generation, writes, waited))),
        Report::Json => log::object(&coupled_json(&path, generation, writes, waited)),
    }
}

fn coupled(path: &str, generation: u64, writes: bool, waited: Duration) -> String {
    let what = if writes { "writing" } else { "reading" };
    let seconds = waited.as_secs_f64();
    format!(
        "report: {path}: coupled, generation {generation} for {what}: opened after {seconds:.3} s"
    )
}

fn coupled_json(path: &str, generation: u64, writes: bool, waited: Duration) -> String {
    format!(
        "{{\"aggio_report\":{VERSION},\"interface\":\"posix\",\"file\":{},\"coupled\":\
         {{\"generation\":{generation},\"writes\":{writes},\"seconds_waited\":{:.9}}}}}",
        quoted(path),
        waited.as_secs_f64()
    )
}

fn reasons(counts: &Counts) -> impl Iterator<Item = (&'static str, u64)> {
    Reason::TEXTS.into_iter().zip(counts.reasons).filter(|(_, count)| *count > 0)
}

fn line(path: &str, mode: Mode, counts: &Counts) -> String {
    let Counts { kept, kept_bytes, drains, read, fills, lost, .. } = counts;
    let mut line = format!(
        "report: {path}: without MPI, mode {}; {kept} writes kept back, {kept_bytes} bytes, \
         stored by {drains} requests",
        mode.name()
    );
    if counts.reads + counts.writes > 0 {
        line += &format!(
            "; in a container: {} reads of {} bytes, {} writes of {} bytes",
            counts.reads, counts.bytes_read, counts.writes, counts.bytes_written
        );
    }
    if *fills > 0 {
        line += &format!("; {read} reads served by {fills} requests");
    }
    if *lost > 0 {
        line += &format!("; {lost} bytes LOST");
    }
    for (reason, count) in reasons(counts) {
        line += &format!("; left to the kernel: {reason} ({count})");
    }
    line
}

fn json(path: &str, mode: Mode, counts: &Counts) -> String {
    let sums = [
        ("container_reads", counts.reads),
        ("container_bytes_read", counts.bytes_read),
        ("container_writes", counts.writes),
        ("container_bytes_written", counts.bytes_written),
        ("kept_writes", counts.kept),
        ("kept_bytes", counts.kept_bytes),
        ("requests", counts.drains),
        ("reads_ahead", counts.read),
        ("read_requests", counts.fills),
        ("lost_bytes", counts.lost),
    ];
    format!(
        "{{\"aggio_report\":{VERSION},\"interface\":\"posix\",\"file\":{},\"mode\":\"{}\",\
         \"sum\":{},\"left_to_the_kernel\":{}}}",
        quoted(path),
        mode.name(),
        object(sums.to_vec()),
        object(reasons(counts).collect())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        let mut counts = Counts { kept: 7, kept_bytes: 70, drains: 2, ..Counts::default() };
        counts.reasons[Reason::Mapped as usize] = 1;
        counts
    }

    #[test]
    fn the_report_of_a_coupled_file_tells_how_long_its_open_waited() {
        let waited = Duration::from_millis(1250);
        let text = coupled("/d/o", 3, false, waited);
        let expected = "report: /d/o: coupled, generation 3 for reading: opened after 1.250 s";
        assert_eq!(text, expected);
        let text = coupled_json("/d/\"o\"", 3, true, waited);
        assert!(text.starts_with(r#"{"aggio_report":2,"interface":"posix","file":"/d/\"o\"","#));
        let end = r#""coupled":{"generation":3,"writes":true,"seconds_waited":1.250000000}}"#;
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_line_tells_writes_requests_and_why_the_kernel_did_the_rest() {
        let text = line("/d/o", Mode::Close, &counts());
        assert!(text.contains("7 writes kept back, 70 bytes, stored by 2 requests"), "{text}");
        assert!(text.ends_with("left to the kernel: mapped into memory (1)"), "{text}");
    }

    #[test]
    fn the_json_line_quotes_the_name() {
        let text = json("/d/\"o\"", Mode::Causal, &counts());
        assert!(
            text.contains(r#""file":"/d/\"o\"","mode":"causal","sum":{"container_reads":0,"#),
            "{text}"
        );
        assert!(text.ends_with(r#""left_to_the_kernel":{"mapped into memory":1}}"#), "{text}");
    }
}
