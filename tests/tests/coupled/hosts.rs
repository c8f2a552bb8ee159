//! Programs on several simulated hosts exchange a file in memory.

mod user;

use aggio_tests::hosts::end;
use aggio_tests::waiting::{connected, waiting};
use std::process::Child;
use std::time::{Duration, Instant};
use user::{PROGRAM, User, fails, first_line, succeeds};

const BYTES: &str = "5000003";

#[test]
fn a_reader_gets_every_generation_of_a_writer_on_another_host() {
    let Some(user) = User::new(2) else { return };
    for (number, reader_first) in [true, false].into_iter().enumerate() {
        let file = format!("/coupled/pair{number}");
        let reads = ["read", &file, "1", "4", BYTES];
        let writes = ["write", &file, "1", "4", BYTES];
        let (one, other) = match reader_first {
            true => (user.start("node2", &reads), user.start("node1", &writes)),
            false => (user.start("node1", &writes), user.start("node2", &reads)),
        };
        succeeds(one);
        succeeds(other);
    }
    assert_eq!(user.left(), ["token"], "nothing is left but the token");
}

#[test]
fn two_writers_and_their_readers_are_on_four_hosts() {
    let Some(user) = User::new(4) else { return };
    let programs = [
        ("node3", ["read", "/coupled/a", "1", "3", BYTES]),
        ("node4", ["read", "/coupled/b", "1", "3", BYTES]),
        ("node4", ["read", "/coupled/a", "1", "3", BYTES]),
        ("node1", ["write", "/coupled/a", "1", "3", BYTES]),
        ("node2", ["write", "/coupled/b", "1", "3", BYTES]),
    ];
    let started = programs.map(|(host, words)| user.start(host, &words));
    started.into_iter().for_each(succeeds);
    assert_eq!(user.left(), ["token"]);
}

#[test]
fn the_death_of_a_writer_is_told_on_another_host() {
    let Some(user) = User::new(2) else { return };
    let reader = user.start("node1", &["read", "/coupled/dies", "1", "1", "2000000000"]);
    let killed = ["timeout", "-s", "KILL", "0.7", PROGRAM];
    let words = ["write", "/coupled/dies", "1", "1", "2000000000"];
    let writer = user.command("node2", &[&killed[..], &words].concat()).spawn();
    fails(writer.expect("the program starts"), &[]);
    fails(reader, &["Some(5)", "died before generation 1 was complete"]);
}

/// The parts of a file that programs of several hosts write at the same time.
const PARTS: &str = "60007";

impl User {
    /// Starts a writer of one of three parts of a generation on each of these hosts, each after the
    /// one before has opened the file.
    fn parts(&self, file: &str, hosts: [&str; 3], pause: &str) -> [Child; 3] {
        let mut number = 0;
        hosts.map(|host| {
            let words = ["part", file, "1", "1", PARTS, pause, "3", &number.to_string()];
            let mut child = self.start(host, &words);
            first_line(&mut child);
            number += 1;
            child
        })
    }
}

#[test]
fn programs_of_several_hosts_write_one_generation_byte_by_byte() {
    let Some(user) = User::new(4) else { return };
    let places = [
        // A host of the writers owns the name, or a host without writers.
        (None, ["node1", "node2", "node3"]),
        (Some("node4"), ["node1", "node2", "node3"]),
        (Some("node2"), ["node1", "node2", "node1"]),
    ];
    for (number, (first, hosts)) in places.into_iter().enumerate() {
        let file = format!("/coupled/parts{number}");
        let reads = ["read", &*file, "1", "1", PARTS];
        let early = first.map(|host| user.start(host, &reads));
        user.until(|agents| waiting(agents) == usize::from(early.is_some()));
        user.parts(&file, hosts, "1500").into_iter().for_each(succeeds);
        early.into_iter().for_each(succeeds);
        if first.is_none() {
            succeeds(user.start("node4", &reads));
        }
        assert_eq!(user.left(), ["token"]);
    }
}

#[test]
fn when_one_of_several_hosts_loses_its_agent_nobody_gets_what_is_left() {
    let Some(user) = User::new(3) else { return };
    for (number, host) in ["node1", "node2"].into_iter().enumerate() {
        let file = format!("/coupled/lost{number}");
        let writers = user.parts(&file, ["node1", "node2", "node2"], "2000");
        let reader = user.start("node3", &["read", &file, "1", "1", PARTS]);
        user.until(|agents| waiting(agents) == 1 && connected(agents) >= 4);
        let began = Instant::now();
        user.kill_agent(host);
        for writer in writers {
            fails(writer, &["Some("]);
        }
        fails(reader, &["Some(5)"]);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

#[test]
fn when_one_of_several_writers_is_killed_the_others_are_told_when_they_close() {
    let Some(user) = User::new(3) else { return };
    for (number, killed) in (0..3).enumerate() {
        let file = format!("/coupled/killed{number}");
        let mut writers = user.parts(&file, ["node1", "node2", "node3"], "2000").map(Some);
        let reader = user.start("node3", &["read", &file, "1", "1", PARTS]);
        user.until(|agents| waiting(agents) == 1 && connected(agents) >= 4);
        let host = ["node1", "node2", "node3"][killed];
        let pattern = format!("kill -9 $(pgrep -f 'coupled par[t] {file}')");
        user.cluster.output(host, &["sh", "-c", &pattern]);
        fails(writers[killed].take().expect("a writer"), &[]);
        for writer in writers.into_iter().flatten() {
            fails(writer, &["Some(5)", "died before generation 1 was complete"]);
        }
        fails(reader, &["Some(5)", "died before generation 1 was complete"]);
    }
}

#[test]
fn when_the_agent_of_an_owner_is_killed_readers_are_told_and_the_file_works_again() {
    let Some(user) = User::new(2) else { return };
    let mut writer = user.start("node1", &["write", "/coupled/again", "1", "1", BYTES, "3000"]);
    first_line(&mut writer);
    let mut reader = user.start("node2", &["read", "/coupled/again", "1", "2", BYTES]);
    first_line(&mut reader);
    let start = Instant::now();
    user.kill_agent("node1");
    fails(reader, &["Some(5)", "the agent of node1 has ended"]);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // It has written everything, and does not need its agent any more.
    drop(end(writer));
    let reader = user.start("node2", &["read", "/coupled/again", "1", "2", BYTES]);
    let writer = user.start("node1", &["write", "/coupled/again", "1", "2", BYTES]);
    succeeds(writer);
    succeeds(reader);
}

#[test]
fn a_reader_that_has_no_file_open_when_the_agent_of_the_owner_is_killed_does_not_wait_for_ever() {
    let Some(user) = User::new(2) else { return };
    let writer = user.start("node1", &["write", "/coupled/rest", "1", "1", BYTES, "9000"]);
    let mut reader = user.start("node2", &["read", "/coupled/rest", "1", "2", BYTES, "3000"]);
    first_line(&mut reader);
    user.kill_agent("node1");
    fails(reader, &["Some(5)", "the agent of node1 has ended"]);
    drop(end(writer));
}

#[test]
fn a_file_that_is_cut_while_another_host_than_its_owner_writes_it_has_no_bytes_of_before() {
    let Some(user) = User::new(2) else { return };
    // The host of the first writer owns the name.
    succeeds(user.start("node1", &["write", "/coupled/cut", "1", "1", "1000"]));
    let reader = user.start("node1", &["read", "/coupled/cut", "1", "4", "1000"]);
    succeeds(user.start("node2", &["rewrite", "/coupled/cut", "2", "4", "1000"]));
    succeeds(reader);
}

#[test]
fn a_reader_whose_host_cannot_reach_the_owner_yet_waits_until_it_can() {
    let Some(user) = User::new(2) else { return };
    let link = |state| user.cluster.output("node2", &["ip", "link", "set", "eth0", state]);
    let mut writer = user.start("node1", &["write", "/coupled/far", "1", "1", BYTES, "20000"]);
    first_line(&mut writer);
    link("down");
    let mut reader = user.start("node2", &["read", "/coupled/far", "1", "1", BYTES]);
    user.until(|agents| connected(agents) == 2);
    // The agent of node2 has tried to connect by then.
    user.cluster.output("node2", &["sleep", "3"]);
    assert!(reader.try_wait().expect("a child").is_none(), "it waits");
    link("up");
    succeeds(reader);
    user.kill_agent("node1");
    drop(end(writer));
}

#[test]
fn an_open_on_another_host_that_a_signal_ends_is_taken_back() {
    let Some(user) = User::new(2) else { return };
    let holder = user.start("node1", &["read", "/coupled/late", "1", "3", BYTES]);
    user.until(|agents| waiting(agents) == 1);
    let mut reader = user.start("node2", &["impatient", "/coupled/late", "1", "3", BYTES]);
    first_line(&mut reader);
    succeeds(user.start("node1", &["write", "/coupled/late", "1", "3", BYTES]));
    succeeds(reader);
    succeeds(holder);
}

/// Files of this size are copied in parts.
const LARGE: &str = "40000003";

#[test]
fn a_reader_that_wants_a_part_of_a_file_gets_that_part() {
    let Some(user) = User::new(3) else { return };
    let file = "/coupled/step.1";
    let mut writer = user.start("node1", &["write", file, "1", "4", LARGE, "100"]);
    first_line(&mut writer);
    let part = |host, number, few: &[&str]| {
        let words = ["parts", file, "1", "4", LARGE, "0", number, "8"];
        user.start(host, &[&words, few].concat())
    };
    let on_second = ["0", "7"].map(|number| part("node2", number, &["few"]));
    let others = [("node3", "5"), ("node1", "3")].map(|(host, number)| part(host, number, &[]));
    // A reader of the whole file gets the parts that others have requested, and the rest.
    let all = user.start("node3", &["read", file, "1", "4", LARGE]);
    on_second.into_iter().chain(others).chain([all, writer]).for_each(succeeds);
    assert_eq!(user.left(), ["token"]);
}

#[test]
fn a_part_of_a_file_that_is_given_up_meanwhile_comes_nevertheless() {
    let Some(user) = User::new(2) else { return };
    let file = "/coupled/a.one";
    let writes = |first, last| user.start("node1", &["write", file, first, last, LARGE]);
    let mut holder = user.start("node1", &["hold", "/coupled/b", "1", "1", "10", "6000"]);
    first_line(&mut holder);
    succeeds(writes("1", "1"));
    let words = ["parts", file, "1", "1", LARGE, "2000", "2", "8", "rest"];
    let mut reader = user.start("node2", &words);
    first_line(&mut reader);
    succeeds(writes("2", "3"));
    succeeds(reader);
    succeeds(user.start("node2", &["parts", file, "3", "3", LARGE, "0", "1", "8", "rest"]));
    succeeds(holder);
}

#[test]
fn a_reader_whose_file_lacks_parts_is_told_that_its_owner_has_ended() {
    let Some(user) = User::new(2) else { return };
    let file = "/coupled/lost";
    let mut writer = user.start("node1", &["write", file, "1", "1", LARGE, "5000"]);
    first_line(&mut writer);
    let words = ["parts", file, "1", "1", LARGE, "1000", "2", "8", "rest"];
    let mut reader = user.start("node2", &words);
    first_line(&mut reader);
    user.kill_agent("node1");
    fails(reader, &["Some(5)"]);
    drop(end(writer));
}

#[test]
fn what_a_reader_will_open_next_comes_while_it_is_busy() {
    let Some(user) = User::new(2) else { return };
    let file = "/coupled/next.1";
    // Generation 2 is complete when the reader has read the first and not opened the second.
    let mut writer = user.start("node1", &["write", file, "1", "2", LARGE, "1500"]);
    first_line(&mut writer);
    let mut reader = user.start("node2", &["read", file, "1", "2", LARGE, "6000"]);
    first_line(&mut reader);
    let (began, twice) = (Instant::now(), 2 * LARGE.parse::<u64>().expect("a number"));
    while user.cluster.traffic()[0].bytes_out < twice {
        assert!(began.elapsed() < Duration::from_millis(5500), "it comes when it is opened");
        std::thread::sleep(Duration::from_millis(20));
    }
    succeeds(writer);
    succeeds(reader);
    assert!(user.cluster.traffic()[0].bytes_out < twice * 3 / 2, "it came twice");
    assert_eq!(user.left(), ["token"]);
}

#[test]
fn a_node_that_reads_no_more_gets_two_more_files_at_most() {
    let Some(user) = User::new(2) else { return };
    let file = "/coupled/idle.1";
    let mut writer = user.start("node1", &["write", file, "1", "6", LARGE, "300"]);
    // Otherwise the node of the reader would own the file and receive all written bytes.
    first_line(&mut writer);
    succeeds(user.start("node2", &["read", file, "1", "1", LARGE, "4000"]));
    let sent = user.cluster.traffic()[0].bytes_out;
    assert!(sent < 7 * LARGE.parse::<u64>().expect("a number") / 2, "{sent} bytes");
    succeeds(user.start("node2", &["read", file, "2", "6", LARGE]));
    succeeds(writer);
    assert_eq!(user.left(), ["token"]);
}

#[test]
fn agents_reach_each_other_by_ucx() {
    let Some(user) = User::with_ucx(3) else { return };
    let reads = ["read", "/coupled/a", "1", "4", BYTES];
    let readers = ["node2", "node3"].map(|host| user.start(host, &reads));
    let writer = user.start("node1", &["write", "/coupled/a", "1", "4", BYTES]);
    readers.into_iter().chain([writer]).for_each(succeeds);
    user.parts("/coupled/b", ["node1", "node2", "node3"], "1500").into_iter().for_each(succeeds);
    succeeds(user.start("node2", &["read", "/coupled/b", "1", "1", PARTS]));
    assert_eq!(user.left(), ["token"]);
}

#[test]
fn the_death_of_an_agent_is_told_by_ucx() {
    let Some(user) = User::with_ucx(2) else { return };
    let mut writer = user.start("node1", &["write", "/coupled/a", "1", "1", BYTES, "3000"]);
    first_line(&mut writer);
    let mut reader = user.start("node2", &["read", "/coupled/a", "1", "2", BYTES]);
    first_line(&mut reader);
    let start = Instant::now();
    user.kill_agent("node1");
    fails(reader, &["Some(5)", "the agent of node1 has ended"]);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    drop(end(writer));
}

#[test]
fn nodes_with_different_links_say_so() {
    let Some(user) = User::with_ucx(2).map(|user| User { link: "tcp", ..user }) else { return };
    let mut writer = user.start("node1", &["write", "/coupled/a", "1", "1", BYTES, "2000"]);
    first_line(&mut writer);
    let reader = |link| {
        let mut command = user.command("node2", &[PROGRAM, "read", "/coupled/a", "1", "1", BYTES]);
        command.env("AGGIO_COUPLE_LINK", link).spawn().expect("the program starts")
    };
    let words = ["the agent of node node1 speaks \"tcp\"", "AGGIO_COUPLE_LINK must be the same"];
    fails(reader("ucx"), &words);
    user.kill_agent("node2");
    fails(reader("rdma"), &["AGGIO_COUPLE_LINK=rdma: it is tcp or ucx"]);
    succeeds(writer);
}

#[test]
fn a_writer_whose_owner_cannot_be_reached_when_it_closes_is_told() {
    let Some(user) = User::new(2) else { return };
    // One node writes, or two do.
    for (number, hosts) in [&["node2"][..], &["node1", "node2"]].into_iter().enumerate() {
        let file = format!("/coupled/cut{number}");
        // The host of the first writer owns the name.
        succeeds(user.start("node1", &["write", &file, "1", "1", PARTS]));
        let reader = user.start("node1", &["read", &file, "1", "2", PARTS]);
        let hold = |host: &&str| {
            let mut child = user.start(host, &["hold", &file, "2", "2", PARTS, "2000"]);
            first_line(&mut child);
            child
        };
        let writers: Vec<Child> = hosts.iter().map(hold).collect();
        user.until(|agents| waiting(agents) == 1);
        user.cluster.output("node2", &["ip", "link", "set", "eth0", "down"]);
        for (host, writer) in hosts.iter().zip(writers) {
            match *host {
                "node2" => fails(writer, &["Some(5)", "the agent of node1 has ended"]),
                // It had closed the file before the loss was noticed.
                _ => succeeds(writer),
            }
        }
        fails(reader, &["Some(5)"]);
        user.cluster.output("node2", &["ip", "link", "set", "eth0", "up"]);
    }
}
