//! Random programs on several hosts write a coupled file, and others read it and compare it with a
//! model. See `tests/programs/coupled_oracle.c`.

use aggio_tests::hosts::{CoupledHosts, LATE, Plan, end};
use aggio_tests::{Directory, Mpi, compile, factor, installed, library, names_in};
use std::path::Path;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// The seeds for each layout of hosts; `AGGIO_TEST_RANDOM` sets their number, `AGGIO_TEST_SEED` the
/// first one, and `AGGIO_TEST_ENDING` the ending of all files.
fn programs(first: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let count = number("AGGIO_TEST_RANDOM").unwrap_or(8 * factor() as u64);
    let first = number("AGGIO_TEST_SEED").unwrap_or(first);
    first..first + count
}

/// The endings of the files of consecutive seeds, which tell their rules.
const ENDINGS: [&str; 8] = ["dat", "step", "latest", "sync", "stored", "dat", "step", "after"];

/// The ending of a seed. Over the layouts of hosts, an ending has all pairs of MPIs.
fn ending(seed: u64) -> String {
    let one = ENDINGS[(seed + seed / 1000) as usize % ENDINGS.len()];
    std::env::var("AGGIO_TEST_ENDING").unwrap_or_else(|_| one.into())
}

/// Whether the files that a reader expects on disk are there, and no others. `shared` has the bytes
/// of each as NAME`.expected`.
fn stored(place: &CoupledHosts, shared: &Path) -> Result<(), String> {
    let names = names_in(shared);
    let wanted: Vec<&str> =
        names.iter().filter_map(|name| name.strip_suffix(".expected")).collect();
    let found = names_in(place.files.path());
    if found != wanted {
        return Err(format!("{found:?} are on disk, not {wanted:?}"));
    }
    for name in wanted {
        let read = |file: &Path| std::fs::read(file).map_err(|error| format!("{name}: {error}"));
        let found = read(&place.files.path().join(name))?;
        let wanted = read(&shared.join(format!("{name}.expected")))?;
        let wrong = wanted.iter().zip(&found).position(|(wanted, found)| wanted != found);
        if found != wanted {
            let lens = [found.len(), wanted.len()];
            return Err(format!("{name}: {lens:?} bytes on disk and expected, from {wrong:?} on"));
        }
    }
    Ok(())
}

/// Checks and removes the files on disk when programs and agents have ended. With `waits` the files
/// must be there before the agents end.
#[track_caller]
fn is_stored(place: &CoupledHosts, what: &str, shared: &Path, waits: bool) {
    let began = Instant::now();
    while waits && stored(place, shared).is_err() && began.elapsed() < GIVES_UP {
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = if waits { stored(place, shared) } else { Ok(()) };
    assert_eq!(before, Ok(()), "{what}, before the agents end\n{}", place.logs());
    place.end_agents();
    assert_eq!(stored(place, shared), Ok(()), "{what}\n{}", place.logs());
    for name in names_in(place.files.path()) {
        std::fs::remove_file(place.files.path().join(name)).expect("it can be removed");
    }
}

/// Runs one program: the first hosts write, and the others read files of the rule of `ending`.
#[track_caller]
fn is_right(
    place: &CoupledHosts,
    (seed, ending): (u64, &str),
    bytes: u64,
    (one, other): (&Mpi, &Mpi),
    hosts: [u32; 2],
) {
    let [writers, readers] = hosts;
    let what = format!(
        "seed {seed}, .{ending}, {bytes} bytes, {hosts:?} hosts, {} -> {}",
        one.name, other.name
    );
    let (shared, number) = (Directory::new(), seed.to_string());
    let file = place.file(&format!("random{seed}.{ending}"));
    let (bytes, ranks) = (bytes.to_string(), writers.to_string());
    let start = |mpi: &Mpi, what: &str, first, last| {
        let program = compile("coupled_oracle.c", mpi);
        let words = [what, &file[..], &number, "4", &bytes, &ranks];
        let mut job = place.spread(mpi, (first, last), &program, &words);
        job.env("SHARED", shared.path()).spawn().expect("mpirun")
    };
    let writes = start(one, "write", 1, writers);
    let reads = start(other, "read", writers + 1, writers + readers);
    let wrote = place.succeeds(&what, writes);
    let read = place.succeeds(&what, reads);
    assert!(wrote.contains("right") && read.contains("right"), "{what}: {wrote}{read}");
    if ["stored", "after"].contains(&ending) {
        is_stored(place, &what, shared.path(), seed % 16 < 8);
    }
}

/// Runs programs on so many writing and reading hosts, with files of at most `bytes` bytes.
#[track_caller]
fn are_right(hosts: [u32; 2], bytes: u64, first: u64) {
    let Some(place) = CoupledHosts::new(Plan::new(hosts[0] + hosts[1], 1), Path::new(AGENT)) else {
        return;
    };
    let all = installed();
    let pairs: Vec<(&Mpi, &Mpi)> =
        all.iter().flat_map(|one| all.iter().map(move |other| (one, other))).collect();
    for (seed, pair) in programs(first).zip(pairs.iter().cycle()) {
        is_right(&place, (seed, &ending(seed)), bytes, *pair, hosts);
    }
    place.leaves_nothing();
}

#[test]
fn two_hosts_write_random_programs_for_one() {
    are_right([2, 1], 200_000, 1000);
}

#[test]
fn three_hosts_write_random_programs_for_two() {
    are_right([3, 2], 3_000_000, 2000);
}

#[test]
fn five_hosts_write_random_programs_for_one() {
    are_right([5, 1], 20_000, 3000);
}

#[test]
fn one_host_writes_random_programs_for_three() {
    are_right([1, 3], 1_000_000, 4000);
}

/// Events while programs run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    AgentDies,
    RankDies,
    JobDies,
    /// All processes of a host are killed.
    HostDies,
    /// As `HostDies`, after its link was cut, so that the other hosts are not notified.
    HostIsLost,
    /// The agent is stopped for 5 s.
    AgentStops,
    /// The link of a host is down for 10 s at most.
    LinkIsDown,
}

const DEATHS: &[Event] = &[
    Event::AgentDies,
    Event::RankDies,
    Event::JobDies,
    Event::HostDies,
    Event::AgentDies,
    Event::RankDies,
    Event::JobDies,
    Event::HostDies,
    Event::HostIsLost,
];

const DELAYS: &[Event] = &[Event::AgentStops, Event::LinkIsDown];

/// Number of hosts that write, and that read, when an event happens.
const HOSTS: [u32; 2] = [2, 2];

/// The time after which an agent without messages from a host gives it up.
const GIVES_UP: Duration = Duration::from_secs(20);

const AGENTS: &str = "agent --foregroun[d]";
const RANKS: &str = "^/[^ ]*coupled_oracl[e]";
const LAUNCHERS_AND_RANKS: &str = "coupled_oracl[e]";

/// Runs a command on a host, which may fail: the process to kill may have ended.
fn run(place: &CoupledHosts, host: u32, command: &str) {
    let command = format!("{command} || true");
    place.cluster.output(&format!("node{host}"), &["sh", "-c", &command]);
}

fn signal(place: &CoupledHosts, host: u32, signal: &str, processes: &str) {
    run(place, host, &format!("pkill -{signal} -f '{processes}'"));
}

fn link(place: &CoupledHosts, host: u32, state: &str) {
    run(place, host, &format!("ip link set eth0 {state}"));
}

/// The range of hosts of the job that runs on `host`.
fn hosts_of_job(host: u32) -> std::ops::RangeInclusive<u32> {
    if host <= HOSTS[0] { 1..=HOSTS[0] } else { HOSTS[0] + 1..=HOSTS[0] + HOSTS[1] }
}

fn kill_job(place: &CoupledHosts, host: u32) {
    hosts_of_job(host).for_each(|host| signal(place, host, "KILL", LAUNCHERS_AND_RANKS));
}

impl Event {
    fn happens(self, place: &CoupledHosts, host: u32, seed: u64) {
        match self {
            Event::AgentDies => signal(place, host, "KILL", AGENTS),
            Event::RankDies => signal(place, host, "KILL", RANKS),
            Event::JobDies => kill_job(place, host),
            Event::HostDies => run(place, host, "kill -s KILL -- -1"),
            Event::HostIsLost => {
                link(place, host, "down");
                run(place, host, "kill -s KILL -- -1");
                // MPI may wait for ever for the lost ranks.
                std::thread::sleep(GIVES_UP + Duration::from_secs(5));
                kill_job(place, host);
            }
            Event::AgentStops => {
                signal(place, host, "STOP", AGENTS);
                std::thread::sleep(Duration::from_secs(5));
                signal(place, host, "CONT", AGENTS);
            }
            Event::LinkIsDown => {
                link(place, host, "down");
                std::thread::sleep(Duration::from_secs(1 + seed % 10));
                link(place, host, "up");
            }
        }
    }
}

/// Checks the output of programs that continued: right bytes, or one of the errors of deaths.
#[track_caller]
fn has_right_bytes(what: &str, place: &CoupledHosts, text: &str) {
    let is_error = |line: &str| line.starts_with("rank ") && line.contains(": ");
    // The next agent has no files of the one that died, and MPI notices dead ranks.
    let agent = ["MPI_ERR_IO", "nput/output error", "tale file handle", "No such file"];
    let known = [&agent[..], &["the MPI library says"]].concat();
    let is_known = |line: &str| known.iter().any(|one| line.contains(one));
    let is_wrong = text.contains(", not ") || text.contains(LATE);
    let unknown = text.lines().find(|line| is_error(line) && !is_known(line));
    assert!(!is_wrong && unknown.is_none(), "{what}: {unknown:?}: {text}\n{}", place.logs());
}

/// Removes the processes of a job that was killed, and the files that it wrote to the disk.
fn clean_up(place: &CoupledHosts) {
    for host in 1..=HOSTS[0] + HOSTS[1] {
        signal(place, host, "KILL", LAUNCHERS_AND_RANKS);
    }
    for name in names_in(place.files.path()).iter().filter(|name| name.ends_with(".tmp")) {
        std::fs::remove_file(place.files.path().join(name)).expect("it can be removed");
    }
}

/// Drops unread generations. Other hosts may keep bytes of them.
fn drop_unread(place: &CoupledHosts) {
    let aggio = library().expect("a library").with_file_name("aggio");
    let (aggio, directory) = (aggio.display(), place.meeting.path().join("couple"));
    let directory = directory.display();
    let paths = r#"sed -n 's/.*"path": "\(.*\)".*/\1/p'"#;
    let list = format!("{aggio} couple --json --dir {directory} | {paths}");
    let drop = format!("{list} | xargs -r {aggio} couple drop --dir {directory}");
    (1..=HOSTS[0] + HOSTS[1]).for_each(|host| run(place, host, &drop));
}

/// Waits until a file exists, or for the limit.
fn wait_for(file: &Path) {
    let began = Instant::now();
    while !file.exists() && began.elapsed() < GIVES_UP {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that programs write and read correctly while an event happens to them.
#[track_caller]
fn outlive(place: &CoupledHosts, event: Event, host: u32, seed: u64, mpi: &Mpi) {
    let what = format!("seed {seed}, {event:?} on node{host}, {}", mpi.name);
    let program = compile("coupled_oracle.c", mpi);
    let file = place.file(&format!("event{seed}.dat"));
    let began = place.file("began.tmp");
    let start = |what, first, last| {
        let words = [what, &file[..], &seed.to_string(), "60", "500000", "2"];
        let mut job = place.spread(mpi, (first, last), &program, &words);
        job.env("BEGAN", &began).spawn().expect("mpirun")
    };
    let mut jobs = [start("write", 1, 2), start("read", 3, 4)];
    // Wait, because readers that come after the death of an agent wait for another writer.
    wait_for(Path::new(&began));
    std::thread::sleep(Duration::from_millis(seed * 7919 % 2000));
    event.happens(place, host, seed);
    if host > HOSTS[0] {
        jobs.reverse();
    }
    for job in jobs {
        let (succeeded, text) = end(job);
        if event == Event::HostDies {
            // Its launcher has died. Ranks on other hosts may wait for ever, as a batch system
            // knows.
            kill_job(place, host);
        }
        has_right_bytes(&what, place, &text);
        let may_fail = DEATHS.contains(&event);
        assert!(may_fail || succeeded, "{what}: {text}\n{}", place.logs());
    }
    if event == Event::HostIsLost {
        link(place, host, "up");
    }
    clean_up(place);
}

/// Checks that nothing of earlier events is left, and that it does not affect the next programs.
#[track_caller]
fn are_outlived(events: &[Event], first: u64) {
    let plan = Plan::new(HOSTS[0] + HOSTS[1], 1);
    let Some(place) = CoupledHosts::new(plan, Path::new(AGENT)) else { return };
    let all = installed();
    for (seed, mpi) in programs(first).zip(all.iter().cycle()) {
        let count = events.len() as u64;
        let event = events[(seed % count) as usize];
        let host = 1 + (seed / count % u64::from(HOSTS[0] + HOSTS[1])) as u32;
        outlive(&place, event, host, seed, mpi);
        println!("seed {seed}: {event:?} on node{host}, {}", mpi.name);
        let ending = if seed % 4 == 3 { "sync" } else { "dat" };
        is_right(&place, (seed, ending), 20_000, (mpi, mpi), HOSTS);
        drop_unread(&place);
        place.leaves_nothing();
    }
}

#[test]
fn whoever_dies_no_host_reads_wrong_bytes_or_waits_for_ever_and_the_next_job_is_right() {
    are_outlived(DEATHS, 5000);
}

#[test]
fn agents_that_stop_and_links_that_are_down_delay_and_lose_nothing() {
    are_outlived(DELAYS, 6000);
}
