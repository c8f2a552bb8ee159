//! The agent of a program with several processes is killed (`level=process`): a generation is never
//! complete if it lacks bytes that one of the processes has lost.

use aggio_tests::coupling::{Coupling, Running};
use aggio_tests::{Directory, names_in};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

fn coupling(place: &Directory) -> Option<Coupling> {
    Coupling::of(&format!("ck.*:level=process:spill={}", place.path().display()))
}

/// Waits until the agent has ended by itself and nothing is left.
#[track_caller]
fn is_clean(place: &Directory) {
    let began = Instant::now();
    while !names_in(place.path()).is_empty() {
        assert!(began.elapsed() < SOON, "left: {:?}", names_in(place.path()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command of one rank of a program of two, with the environment that a launcher sets.
fn rank(rank: u32, script: &str) -> String {
    format!("PMI_RANK={rank} PMI_SIZE=2 PMI_JOBID=job /usr/bin/python3 {script}")
}

/// Carries out the orders of its rank, line by line, and prints the result of each.
const RANK: &str = "import os, sys
files = {}
for line in open('orders.' + os.environ['PMI_RANK']):
    what, name = line.split()
    try:
        if what == 'make': files[name] = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if what == 'join': files[name] = os.open(name, os.O_RDWR)
        if what == 'write':
            rank = int(os.environ['PMI_RANK'])
            os.pwrite(files[name], str(rank).encode() * 5000, 5000 * rank)
        if what == 'close': os.close(files.pop(name))
        print(what, 'done', flush=True)
    except OSError as error: print(what, error.strerror, flush=True)";

/// Two ranks, and the orders that each receives in its turn.
struct Ranks {
    running: Vec<Running>,
    orders: Vec<File>,
    said: [String; 2],
}

impl Ranks {
    fn start(coupling: &Coupling) -> Self {
        std::fs::write(coupling.path().join("rank.py"), RANK).expect("a script");
        let path = |number: u32| coupling.path().join(format!("orders.{number}"));
        for number in 0..2 {
            coupling.run(&format!("LD_PRELOAD= mkfifo {}", path(number).display()));
        }
        let running = (0..2).map(|number| coupling.start(&rank(number, "rank.py"))).collect();
        let open = |number| OpenOptions::new().write(true).open(path(number)).expect("a reader");
        Self { running, orders: (0..2).map(open).collect(), said: Default::default() }
    }

    /// Gives an order to a rank and returns its answer.
    #[track_caller]
    fn does(&mut self, rank: usize, what: &str) -> String {
        writeln!(self.orders[rank], "{what} ck.1").expect("it listens");
        let began = Instant::now();
        loop {
            let printed = self.running[rank].printed();
            if let Some(line) = printed.strip_prefix(&*self.said[rank])
                && line.ends_with('\n')
            {
                let said = line.trim().strip_prefix(what).unwrap_or_else(|| panic!("{printed}"));
                let said = said.trim().to_owned();
                self.said[rank] = printed;
                return said;
            }
            assert!(began.elapsed() < SOON, "{:?}", self.running[rank]);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn each(&mut self, orders: &[(usize, &str, &str)]) {
        for (rank, what, said) in orders {
            assert_eq!(self.does(*rank, what), *said, "rank {rank}: {what}");
        }
    }
}

const LOST: &str = "Stale file handle";

#[test]
fn a_rank_that_comes_late_does_not_complete_what_another_one_has_lost() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    let mut ranks = Ranks::start(&coupling);
    ranks.each(&[(0, "make", "done"), (0, "write", "done")]);
    coupling.kill_agent();
    // The file of the other rank is lost, so this one would have half of the bytes.
    ranks.each(&[(1, "join", LOST), (0, "close", LOST)]);
    // Both ranks were notified, and the next generation is whole.
    for order in ["make", "write"] {
        assert_eq!(ranks.does(0, order), "done");
    }
    ranks.each(&[(1, "join", "done"), (1, "write", "done")]);
    ranks.each(&[(0, "close", "done"), (1, "close", "done")]);
    drop(ranks);
    let whole = "0".repeat(5000) + &"1".repeat(5000);
    assert_eq!(coupling.run("cat ck.1"), whole);
    is_clean(&place);
}

#[test]
fn what_one_rank_begins_anew_is_not_complete_before_the_others_know_of_the_loss() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    let mut ranks = Ranks::start(&coupling);
    ranks.each(&[(0, "make", "done"), (0, "write", "done")]);
    coupling.kill_agent();
    ranks.each(&[(0, "close", LOST), (0, "make", "done"), (0, "write", "done")]);
    // This rank joins the lost generation: its bytes do not belong to the new one.
    ranks.each(&[(1, "join", LOST), (0, "close", "Input/output error")]);
    drop(ranks);
    let ended = coupling.start("cat ck.1").ends_within(SOON);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    is_clean(&place);
}
