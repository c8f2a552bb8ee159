//! Programs on other simulated hosts than the writer's read a file before it is complete
//! (`ready=step`, `ready=sync`), whichever host owns its name.

use aggio_tests::hosts::{CoupledHosts, Plan, end};
use aggio_tests::waiting::{agents, connected, until_agents, waiting};
use aggio_tests::{Family, Mpi, compile_with, installed, library};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");
const RECORDS: u32 = 12;

/// Three hosts that see one directory.
struct Place(CoupledHosts);

impl Place {
    fn new() -> Option<Self> {
        CoupledHosts::new(Plan::new(3, 2), Path::new(AGENT)).map(Self)
    }

    /// Starts a program on a host, with the rule `rule`; it is killed after 60 s.
    fn start(&self, host: &str, rule: &str, words: &str) -> Child {
        let library = library().expect("a library");
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
        let words = words.replace("PROGRAMS", programs);
        let limit = ["timeout", "-s", "KILL", "60"].into_iter().chain(words.split(' '));
        let mut command: Command = self.0.cluster.launch().command(host);
        let started = command
            .args(limit)
            .env("LD_PRELOAD", &library)
            .env("AGGIO_COUPLE", format!("*.out:{rule}"))
            .env("AGGIO_COUPLE_DIR", self.0.meeting.path().join("couple"))
            .env("AGGIO_TEST_AGENT", library.with_file_name("aggio"))
            .env("TMPDIR", self.0.meeting.path())
            .envs(installed().iter().flat_map(|mpi| mpi.environment().iter().copied()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        started.expect("the program starts")
    }

    /// Runs writer and reader, one after the other or the reader first. Returns the numbers that
    /// the reader printed.
    #[track_caller]
    fn exchange(&self, rule: &str, programs: [(&str, &str); 2], reader_first: bool) -> Vec<u32> {
        let [(writer, write), (reader, read)] = programs;
        let start = |(host, words)| self.start(host, rule, words);
        let before = agents(&self.0.statuses());
        let begins = |state: fn(&[Value]) -> usize| {
            let before = state(&before);
            until_agents(|| self.0.statuses(), |agents| state(agents) > before);
        };
        let (write, read) = if reader_first {
            let read = start((reader, read));
            begins(waiting);
            (start((writer, write)), read)
        } else {
            let write = start((writer, write));
            begins(connected);
            (write, start((reader, read)))
        };
        let ((wrote, text), (succeeded, printed)) = (end(write), end(read));
        let what = format!("{programs:?}, reader first {reader_first}");
        assert!(wrote && succeeded, "{what}: {text}{printed}\n{}", self.0.logs());
        assert_eq!(aggio_tests::names_in(self.0.files.path()), [] as [&str; 0], "{what}");
        printed.lines().map(|line| line.parse().expect("a number")).collect()
    }
}

fn open_mpi() -> Option<Mpi> {
    installed().into_iter().find(|mpi| mpi.family == Family::OpenMpi)
}

/// The command of the program that writes or reads with PnetCDF; `None` without PnetCDF.
fn pnetcdf(ranks: u32) -> Option<String> {
    let mpi = open_mpi()?;
    let program = compile_with("coupled_steps.c", &mpi, &["-lpnetcdf"]);
    Some(format!("{} -n {ranks} {}", mpi.mpirun().display(), program.path.display()))
}

const PYTHON: &str = "/usr/bin/python3 PROGRAMS/coupled_steps.py";

#[test]
fn records_are_read_on_another_host_while_others_are_written() {
    let Some(place) = Place::new() else { return };
    let (mut round, mut parts) = (0, 0);
    for (width, format) in [(3, 1), (5000, 2), (300_000, 5)] {
        let file = place.0.file(&format!("{format}.out"));
        let mut writers = vec![
            format!("{PYTHON} write {file} {format} {RECORDS} {width}"),
            format!("{PYTHON} write {file} {format} {RECORDS} {width} share"),
        ];
        let mut readers = vec![
            format!("{PYTHON} read {file} {RECORDS} {width} reopen"),
            format!("{PYTHON} read {file} {RECORDS} {width} sync"),
        ];
        let parallel = |ranks, words| pnetcdf(ranks).map(|program| format!("{program} {words}"));
        writers.extend(parallel(2, format!("write {file} {format} {RECORDS} {width} 20")));
        readers.extend(parallel(2, format!("read {file} {RECORDS} {width}")));
        for (number, writer) in writers.iter().enumerate() {
            let reader = &readers[(round + number) % readers.len()];
            let rule = ["ready=step", "ready=step:numrecs=now"][round % 2];
            let programs = [("node1", &writer[..]), ("node2", &reader[..])];
            let seen = place.exchange(rule, programs, round % 2 == 0);
            assert!(seen.is_sorted() && seen.last() == Some(&RECORDS), "{programs:?}: {seen:?}");
            parts += usize::from(seen.len() > 2);
            round += 1;
        }
    }
    // Most readers start too late to see a part.
    assert!(parts > 0, "none of {round} readers saw a part of the records");
}

#[test]
fn lines_are_read_on_another_host_when_they_were_synchronised() {
    let Some(place) = Place::new() else { return };
    for reader_first in [true, false] {
        let file = place.0.file("log.out");
        let programs = ["write", "follow"]
            .map(|what| format!("/usr/bin/python3 PROGRAMS/coupled_log.py {what} {file} 50"));
        let programs = [("node1", &programs[0][..]), ("node3", &programs[1][..])];
        let seen = place.exchange("ready=sync", programs, reader_first);
        assert!(seen.len() > 4 && seen.is_sorted() && seen.last() == Some(&50), "{seen:?}");
    }
}

#[test]
fn two_readers_on_two_hosts_see_what_a_third_one_writes() {
    let Some(place) = Place::new() else { return };
    let file = place.0.file("a.out");
    let read = format!("{PYTHON} read {file} {RECORDS} 5000 reopen");
    let other = place.start("node3", "ready=step", &read);
    let write = format!("{PYTHON} write {file} 5 {RECORDS} 5000");
    let seen = place.exchange("ready=step", [("node1", &write), ("node2", &read)], true);
    assert_eq!(seen.last(), Some(&RECORDS));
    let (succeeded, text) = end(other);
    assert!(succeeded && text.ends_with("12\n"), "{text}\n{}", place.0.logs());
}

/// Kills the agent of a host.
fn kill_agent(place: &Place, host: &str) {
    let kill = "pkill -9 -f 'agent --foregroun[d]' || true";
    place.0.cluster.output(host, &["sh", "-c", kill]);
}

/// Reads the output of a program up to a line that ends with `words`.
fn wait_for(child: &mut Child, words: &str) {
    use std::io::Read;
    let output = child.stdout.as_mut().expect("its output is a pipe");
    let mut text = String::new();
    while !text.ends_with(&format!("{words}\n")) {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("more text");
        text.push(byte[0].into());
    }
}

#[test]
fn a_reader_that_waits_for_a_record_is_told_that_an_agent_has_ended() {
    let Some(place) = Place::new() else { return };
    // The name belongs to the host of the writer, or to that of the reader.
    for (reader_first, killed) in [(false, "node1"), (true, "node1"), (true, "node2")] {
        let file = place.0.file(&format!("{reader_first}-{killed}.out"));
        let write = format!("{PYTHON} write {file} 1 5 5000 hold");
        let read = format!("{PYTHON} read {file} {RECORDS} 5000 sync");
        let start = |host, words: &str| place.start(host, "ready=step", words);
        let (mut reader, mut writer);
        if reader_first {
            reader = start("node2", &read);
            place.0.until_waiting(1);
            writer = start("node1", &write);
            wait_for(&mut writer, "all");
        } else {
            writer = start("node1", &write);
            wait_for(&mut writer, "all");
            reader = start("node2", &read);
        }
        wait_for(&mut reader, "5");
        kill_agent(&place, killed);
        let began = Instant::now();
        let (succeeded, text) = end(reader);
        let what = format!("reader first {reader_first}, {killed}");
        assert!(!succeeded && text.contains("Input/output error"), "{what}: {text}");
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        writer.kill().expect("it is there");
        end(writer);
    }
}

/// Waits at most `time` for the end of a program. Returns whether it has ended.
fn ends_within(child: &mut Child, time: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < time {
        if child.try_wait().expect("it was started").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn whoever_dies_a_reader_on_another_host_gets_the_right_records_or_an_error() {
    let Some(place) = Place::new() else { return };
    let mut word = 0x5eed_u64;
    for round in 0..9 * aggio_tests::factor() {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round as u64);
        let (reader_first, delay) = (word >> 40 & 1 == 1, 100 + (word >> 33) % 400);
        let file = place.0.file(&format!("{round}.out"));
        let write = format!("{PYTHON} write {file} 5 {RECORDS} 5000");
        let read = format!("{PYTHON} read {file} {RECORDS} 5000 {}", ["sync", "reopen"][round % 2]);
        let start = |host, words: &str| place.start(host, "ready=step", words);
        let (mut reader, writer);
        if reader_first {
            reader = start("node2", &read);
            place.0.until_waiting(1);
            writer = start("node1", &write);
        } else {
            writer = start("node1", &write);
            reader = start("node2", &read);
        }
        std::thread::sleep(Duration::from_millis(delay));
        let victim = ["the writer", "node1", "node2"][round / 3 % 3];
        match victim {
            "the writer" => {
                let kill = "pkill -9 -f 'steps.py writ[e]' || true";
                place.0.cluster.output("node1", &["sh", "-c", kill]);
            }
            host => kill_agent(&place, host),
        }
        let what = format!("round {round}: {victim}, {delay} ms, reader first {reader_first}");
        // If the writer never began, the reader waits for the generation of the next one.
        if !ends_within(&mut reader, Duration::from_secs(5)) {
            let (succeeded, text) = end(start("node3", &write));
            assert!(succeeded, "{what}: {text}\n{}", place.0.logs());
        }
        let (succeeded, text) = end(reader);
        let told = ["Input/output error", "died", "ended", "Stale", "Unknown file format"];
        let is_told = !succeeded && told.iter().any(|word| text.contains(word));
        let is_right = succeeded && text.lines().any(|line| line == "12");
        assert!(is_right || is_told, "{what}: {text}\n{}", place.0.logs());
        assert!(!text.contains(": a is") && !text.contains(": b is"), "{what}: {text}");
        end(writer);
    }
}

#[test]
fn a_reader_on_another_host_is_told_that_the_writer_of_its_open_file_has_died() {
    let Some(place) = Place::new() else { return };
    for reader_first in [true, false] {
        let file = place.0.file("dies.out");
        let write = format!("{PYTHON} write {file} 1 5 5000 die");
        let read = format!("{PYTHON} read {file} {RECORDS} 5000 sync");
        let began = Instant::now();
        let start = |host, words: &str| place.start(host, "ready=step", words);
        let (first, second) = match reader_first {
            true => (start("node2", &read), start("node1", &write)),
            false => (start("node1", &write), start("node2", &read)),
        };
        let ended = [end(first), end(second)];
        let (_, text) = &ended[usize::from(!reader_first)];
        let what = format!("reader first {reader_first}: {text}\n{}", place.0.logs());
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        assert!(text.contains("died before"), "{what}");
    }
}
