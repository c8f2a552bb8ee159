//! Jobs on several hosts exchange generations of various sizes and values with jobs on other hosts,
//! with the writer or the reader first.

use aggio_tests::hosts::{CoupledHosts, Plan, end};
use aggio_tests::{Mpi, compile, factor, installed, library, postpone};
use std::path::Path;
use std::time::Duration;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// The parameters of an exchange.
#[derive(Clone, Copy, Debug)]
struct Exchange<'a> {
    /// Number of hosts of the writers, and of the readers.
    hosts: (u32, u32),
    layout: &'a str,
    values: &'a str,
    kibibytes: u64,
    generations: u32,
    /// Percentage of its part that a reader reads; 0 for all.
    percent: u32,
    reader_first: bool,
    /// Milliseconds between the writer's generations.
    pause: &'a str,
}

const PLAIN: Exchange<'static> = Exchange {
    hosts: (2, 2),
    layout: "contiguous",
    values: "random",
    kibibytes: 1024,
    generations: 3,
    percent: 0,
    reader_first: false,
    pause: "0",
};

impl Exchange<'_> {
    /// Checks that both jobs succeed and the readers find every value.
    #[track_caller]
    fn is_right(&self, place: &CoupledHosts, writer: &Mpi, reader: &Mpi) {
        self.is_right_while(place, writer, reader, || ());
    }

    /// As [`is_right`](Self::is_right), while `happens` runs.
    #[track_caller]
    fn is_right_while(
        &self,
        place: &CoupledHosts,
        writer: &Mpi,
        reader: &Mpi,
        happens: impl FnOnce(),
    ) {
        self.run(place, writer, reader, happens);
        place.leaves_nothing();
    }

    /// Both jobs succeed; their agents may still run.
    #[track_caller]
    fn run(&self, place: &CoupledHosts, writer: &Mpi, reader: &Mpi, happens: impl FnOnce()) {
        let what = format!("{self:?}, {} -> {}", writer.name, reader.name);
        let (writers, readers) = self.hosts;
        let (file, size) = (place.file("parts.dat"), self.kibibytes.to_string());
        let [generations, percent] = [self.generations, self.percent].map(|n| n.to_string());
        let words = |what| {
            let mut words =
                vec![what, self.layout, self.values, &file[..], &generations, &size[..]];
            words.extend((self.percent > 0 && what == "read").then_some(&percent[..]));
            words
        };
        let write = || {
            let program = compile("coupled_parts.c", writer);
            let mut job = place.spread(writer, (1, writers), &program, &words("write"));
            job.env("PAUSE", self.pause).spawn().expect("mpirun")
        };
        let read = || {
            let (hosts, program) =
                ((writers + 1, writers + readers), compile("coupled_parts.c", reader));
            place.spread(reader, hosts, &program, &words("read")).spawn().expect("mpirun")
        };
        let (wrote, text) = if self.reader_first {
            let reads = read();
            place.until_waiting(1);
            let writes = write();
            happens();
            (place.succeeds(&what, writes), place.succeeds(&what, reads))
        } else {
            let writes = write();
            let reads = read();
            happens();
            (place.succeeds(&what, writes), place.succeeds(&what, reads))
        };
        for generation in 1..=self.generations {
            let line = format!("generation {generation}: right");
            assert!(text.contains(&line), "{what}: {text}{wrote}");
        }
    }
}

/// Makes hosts of one rank each.
fn place(plan: Plan) -> Option<CoupledHosts> {
    CoupledHosts::new(plan, Path::new(AGENT))
}

/// Exchanges generations of these sizes in KiB between jobs of `hosts` hosts each.
#[track_caller]
fn generations_of(hosts: u32, kibibytes: &[u64]) {
    let Some(place) = place(Plan::new(2 * hosts, 1)) else { return };
    for mpi in installed() {
        for (kibibytes, reader_first) in kibibytes.iter().zip([false, true].into_iter().cycle()) {
            let hosts = (hosts, hosts);
            let exchange = Exchange { hosts, kibibytes: *kibibytes, reader_first, ..PLAIN };
            exchange.is_right(&place, &mpi, &mpi);
        }
    }
}

#[test]
fn two_hosts_write_generations_of_all_sizes_for_two_others() {
    let large = if factor() > 1 { &[256 << 10, 256 << 10][..] } else { &[] };
    generations_of(2, &[&[1 << 10, 16 << 10, 64 << 10, 32 << 10], large].concat());
}

#[test]
fn three_hosts_write_generations_for_three_others() {
    let large = if factor() > 1 { &[64 << 10, 256 << 10, 256 << 10][..] } else { &[] };
    generations_of(3, &[&[4 << 10, 32 << 10], large].concat());
}

#[test]
fn five_hosts_write_generations_for_five_others() {
    let large = if factor() > 1 { &[16 << 10, 64 << 10, 256 << 10][..] } else { &[] };
    generations_of(5, &[&[1 << 10, 4 << 10], large].concat());
}

#[test]
fn generations_from_one_mebibyte_to_four_gibibytes_go_between_hosts_of_all_numbers_and_mpis() {
    if factor() == 1 {
        return postpone("exchanges of up to 4 GiB (AGGIO_TEST_FACTOR above 1)");
    }
    let sizes = [1, 4, 16, 64, 256, 4096];
    let mpis = installed();
    for hosts in 1..=5 {
        let Some(place) = place(Plan::new(2 * hosts, 1)) else { return };
        for (number, size) in sizes.into_iter().enumerate() {
            let values = ["random", "integers", "zeros"][(number + hosts as usize) % 3];
            // All hosts share the memory of this machine.
            let generations = if size > 256 { 1 } else { 3 };
            for writer in &mpis {
                for reader in &mpis {
                    for reader_first in [false, true] {
                        let exchange = Exchange { generations, reader_first, values, ..PLAIN };
                        Exchange { hosts: (hosts, hosts), kibibytes: size << 10, ..exchange }
                            .is_right(&place, writer, reader);
                    }
                }
            }
        }
    }
}

#[test]
fn generations_that_are_like_the_one_before_and_integers_in_doubles_are_read_as_they_were_written()
{
    let Some(place) = place(Plan::new(4, 1)) else { return };
    for mpi in installed() {
        for values in ["zeros", "integers"] {
            Exchange { values, kibibytes: 4 << 10, ..PLAIN }.is_right(&place, &mpi, &mpi);
        }
    }
}

#[test]
fn hosts_that_share_a_pid_namespace_are_nodes_of_their_own() {
    let Some(place) = place(Plan::new(4, 1).share_processes()) else { return };
    for mpi in installed() {
        for layout in ["contiguous", "slabs"] {
            Exchange { layout, kibibytes: 48 << 10, ..PLAIN }.is_right(&place, &mpi, &mpi);
        }
    }
}

/// Returns the bytes that each host sent and received during an exchange, in generations.
fn traffic_of(exchange: &Exchange<'_>, place: &CoupledHosts, mpi: &Mpi) -> Vec<(f64, f64)> {
    let before = place.cluster.traffic();
    exchange.is_right(place, mpi, mpi);
    let generations = |bytes: u64| {
        bytes as f64 / (u64::from(exchange.generations) * exchange.kibibytes * 1024) as f64
    };
    let moved = place.cluster.traffic().into_iter().zip(before).map(|(now, then)| now - then);
    moved.map(|one| (generations(one.bytes_out), generations(one.bytes_in))).collect()
}

/// One host writes for two others, with the readers first.
const ONE_WRITER: Exchange<'static> =
    Exchange { hosts: (1, 2), kibibytes: 32 << 10, reader_first: true, ..PLAIN };

#[test]
fn the_bytes_of_one_writer_go_to_the_hosts_that_read_them_and_nowhere_else() {
    let Some(place) = place(Plan::new(3, 1)) else { return };
    for mpi in installed() {
        let moved = traffic_of(&ONE_WRITER, &place, &mpi);
        for (host, (sent, received)) in moved.iter().enumerate() {
            // Each of the two readers' hosts gets half of each generation.
            let (least, most) = if host == 0 { (0.0, 0.1) } else { (0.5, 0.55 + 0.03) };
            let is_right = *received > least && *received < most;
            assert!(is_right, "{}: host {host} received: {moved:?}", mpi.name);
            let most = if host == 0 { 1.1 } else { 0.05 };
            assert!(*sent < most, "{}: host {host} sent: {moved:?}", mpi.name);
        }
        let slabs = Exchange { layout: "slabs", ..ONE_WRITER };
        let moved = traffic_of(&slabs, &place, &mpi);
        assert!(moved[0].0 < 1.1 && moved[1].1 < 0.55 + 0.03, "{}: {moved:?}", mpi.name);
        let moved = traffic_of(&Exchange { percent: 1, ..ONE_WRITER }, &place, &mpi);
        assert!(moved[0].0 < 0.03, "{}: {moved:?}", mpi.name);
    }
}

#[test]
fn what_hosts_write_stays_there_and_goes_to_the_hosts_that_read_it() {
    for hosts in [2, 3] {
        let Some(place) = place(Plan::new(2 * hosts, 1)) else { return };
        let exchange = Exchange { hosts: (hosts, hosts), kibibytes: 24 << 10, ..PLAIN };
        let all = [
            exchange,
            Exchange { values: "integers", ..exchange },
            Exchange { values: "zeros", reader_first: true, ..exchange },
            Exchange { layout: "slabs", ..exchange },
        ];
        for mpi in installed() {
            for exchange in all {
                let moved = traffic_of(&exchange, &place, &mpi);
                // Units of 4 KiB contain more than the rows of a slab.
                let more = if exchange.layout == "slabs" { 1.15 } else { 1.1 };
                let part = more / f64::from(hosts) + 0.02;
                for (host, (sent, received)) in moved.iter().enumerate() {
                    let writes = host < hosts as usize;
                    let (sends, receives) = if writes { (part, 0.05) } else { (0.05, part) };
                    let is_right = *sent < sends && *received < receives;
                    assert!(is_right, "{}, {exchange:?}, host {host}: {moved:?}", mpi.name);
                }
            }
        }
    }
}

/// Two hosts write generations of 24 MiB with pauses between them, and two others read some.
struct Series<'a> {
    layout: &'a str,
    percent: u32,
    written: u32,
    read: u32,
}

impl Series<'_> {
    /// Returns the generations that the writers' hosts have sent.
    #[track_caller]
    fn sent(&self, place: &CoupledHosts, mpi: &Mpi) -> f64 {
        let (file, program) = (place.file("parts.dat"), compile("coupled_parts.c", mpi));
        let [written, read, percent] =
            [self.written, self.read, self.percent].map(|n| n.to_string());
        let words = |what, count| [what, self.layout, "random", &file, count, "24576"];
        let job = |hosts, words: &[&str]| {
            place.spread(mpi, hosts, &program, words).env("PAUSE", "600").spawn()
        };
        let before = place.cluster.traffic();
        let reads = job((3, 4), &[&words("read", &read)[..], &[&percent]].concat());
        let wrote = job((1, 2), &words("write", &written)).expect("mpirun");
        let text = place.succeeds(&mpi.name, reads.expect("mpirun"));
        place.succeeds(&mpi.name, wrote);
        assert_eq!(text.matches(": right").count() as u32, self.read, "{}: {text}", mpi.name);
        let moved = place.cluster.traffic().into_iter().zip(before);
        let sent: u64 = moved.take(2).map(|(now, then)| (now - then).bytes_out).sum();
        sent as f64 / (24 << 20) as f64
    }
}

#[test]
fn readers_get_what_they_read_of_the_generation_before_without_asking() {
    let Some(place) = place(Plan::new(4, 1)) else { return };
    for mpi in installed() {
        for (layout, percent) in [("contiguous", 100), ("slabs", 100), ("contiguous", 10)] {
            let what = format!("{}, {layout}, {percent} %", mpi.name);
            let kept = place.keep_agents(&mpi);
            let sent = Series { layout, percent, written: 8, read: 8 }.sent(&place, &mpi);
            for host in ["node3", "node4"] {
                let asked = place.status(host, "fetches");
                // It asks the nodes for the first one; a subscription may be late once.
                let nodes = if layout == "slabs" { 2 } else { 1 };
                assert!((1..=2 * nodes).contains(&asked), "{what}: {host} has asked {asked} times");
                let messages = place.status(host, "messages");
                assert!(messages < 8 * 64, "{what}: {host} has sent {messages} messages");
            }
            let read = 8.0 * f64::from(percent) / 100.0;
            assert!(sent < read * 1.15 + 0.1, "{what}: {sent} were sent");
            drop(kept);
            place.leaves_nothing();
        }
    }
}

#[test]
fn parts_of_many_rows_travel_in_few_messages() {
    let Some(place) = place(Plan::new(4, 1)) else { return };
    for mpi in installed() {
        // The readers' columns have 4096 parts of 8 KiB.
        let exchange = Exchange { layout: "rows", kibibytes: 64 << 10, ..PLAIN };
        let kept = place.keep_agents(&mpi);
        exchange.run(&place, &mpi, &mpi, || ());
        for host in place.cluster.names() {
            let messages = place.status(&host, "messages");
            assert!((1..3 * 64).contains(&messages), "{}: {host}: {messages}", mpi.name);
        }
        drop(kept);
        place.leaves_nothing();
    }
}

#[test]
fn a_job_that_reads_no_more_gets_no_more_bytes() {
    let Some(place) = place(Plan::new(4, 1)) else { return };
    for mpi in installed() {
        let (layout, percent) = ("contiguous", 100);
        let sent = Series { layout, percent, written: 8, read: 3 }.sent(&place, &mpi);
        // At most one more generation was on its way when the job ended.
        assert!(sent < 4.3, "{}: {sent} were sent", mpi.name);
        for host in place.cluster.names() {
            let mut drop = place.cluster.launch().command(&host);
            drop.arg(library().expect("a library").with_file_name("aggio"));
            drop.args(["couple", "drop", &place.file("parts.dat")]);
            assert!(place.prepare(drop, &mpi).env_remove("LD_PRELOAD").status().is_ok());
        }
        place.leaves_nothing();
    }
}

#[test]
fn who_reads_what_a_host_has_lost_is_told_which_one_and_reads_what_others_have() {
    let Some(place) = place(Plan::new(3, 1)) else { return };
    for mpi in installed() {
        let (file, program) = (place.file("lost.dat"), compile("coupled_parts.c", &mpi));
        let words = |what, count| [what, "contiguous", "random", &file[..], count, "4096"];
        let job = |hosts, words: &[&str]| place.spread(&mpi, hosts, &program, words).spawn();
        let wrote = job((1, 2), &words("write", "2")).expect("mpirun");
        place.succeeds("the writers", wrote);
        place.cluster.output("node2", &["pkill", "-KILL", "-f", "agent --foregroun[d]"]);
        let (succeeded, text) = end(job((3, 3), &words("read", "1")).expect("mpirun"));
        assert!(!succeeded && text.contains("node2"), "{}: {text}", mpi.name);
        let few = [&words("read", "1")[..], &["10"]].concat();
        let read = place.succeeds("10 % of the file", job((3, 3), &few).expect("mpirun"));
        assert!(read.contains("generation 1: right"), "{}: {read}", mpi.name);
        let mut cat = place.cluster.launch().command("node1");
        cat.args(["cat", &file]);
        let (succeeded, text) = end(place.prepare(cat, &mpi).spawn().expect("cat"));
        assert!(!succeeded && text.contains("node2"), "{}: {text}", mpi.name);
    }
}

/// A job on one host writes slowly for a job on another host.
const SLOW: Exchange<'static> =
    Exchange { hosts: (1, 1), kibibytes: 20 << 10, pause: "700", ..PLAIN };

#[test]
fn a_link_that_is_down_for_ten_seconds_delays_what_is_written_and_loses_nothing() {
    let Some(place) = place(Plan::new(2, 1)) else { return };
    for mpi in installed().into_iter().take(1) {
        let link = |state| {
            place.cluster.output("node2", &["ip", "link", "set", "eth0", state]);
        };
        SLOW.is_right_while(&place, &mpi, &mpi, || {
            place.until_written();
            // The agents of both hosts know each other.
            place.until_waiting(1);
            link("down");
            std::thread::sleep(Duration::from_secs(10));
            link("up");
        });
    }
}

#[test]
fn an_agent_that_is_stopped_for_five_seconds_delays_and_loses_nothing() {
    let Some(place) = place(Plan::new(2, 1)) else { return };
    for mpi in installed().into_iter().take(1) {
        for host in ["node1", "node2"] {
            let signal = |signal: &str| {
                // The agent may have ended, or not yet have started.
                let command = format!("pkill -{signal} -f 'agent --foregroun[d]' || true");
                place.cluster.output(host, &["sh", "-c", &command]);
            };
            SLOW.is_right_while(&place, &mpi, &mpi, || {
                place.until_written();
                signal("STOP");
                std::thread::sleep(Duration::from_secs(5));
                signal("CONT");
            });
        }
    }
}
