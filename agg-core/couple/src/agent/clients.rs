//! The connected processes: their names, and how they end.

use super::Agent;
use super::poll::poll;
use crate::registry::{Process, Who};
use aggio_base::os;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A process that has called.
#[derive(Debug)]
pub(super) struct ClientProcess {
    pub(super) pid: i32,
    pub(super) start: u64,
    life: OwnedFd,
    /// It has said that it ends in order, or that is all that can be known.
    pub(super) orderly: bool,
}

impl ClientProcess {
    /// The process `pid`, and its session.
    ///
    /// # Errors
    /// It cannot be seen from here.
    pub(super) fn of(pid: i32) -> io::Result<(Self, i32)> {
        let life = os::open_process(pid)?;
        let Facts { session, start, .. } = facts(pid)?;
        Ok((Self { pid, start, life, orderly: false }, session))
    }

    /// Whether it is another program now that has no connection: how that ends tells nobody.
    pub(super) fn goes_on(&self) -> bool {
        facts(self.pid).is_ok_and(|facts| facts.flags & EXITING == 0)
    }

    /// Whether it is ending, or has ended, without having said so.
    fn dies(&self) -> bool {
        let lives = |facts: Facts| facts.start == self.start && facts.flags & EXITING == 0;
        !self.orderly && !facts(self.pid).is_ok_and(lives)
    }
}

/// The processes of this node that are connected, or were and have not ended.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: BTreeMap<Process, ClientProcess>,
    /// Numbers of programs and of families of programs.
    pub(super) jobs: Numbers,
}

impl Clients {
    pub(super) fn add(&mut self, process: Process, client: ClientProcess) {
        self.all.insert(process, client);
    }

    pub(super) fn remove(&mut self, process: Process) -> Option<ClientProcess> {
        self.all.remove(&process)
    }

    pub(super) fn get(&self, process: Process) -> Option<&ClientProcess> {
        self.all.get(&process)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of the process `pid` that began at `start`.
    pub(super) fn find(&self, pid: i32, start: u64) -> Option<Process> {
        let found = self.all.iter().find(|(_, one)| (one.pid, one.start) == (pid, start));
        found.map(|(process, _)| *process)
    }

    /// Notes whether a process ends in order from now on; true if that is new.
    pub(super) fn set_orderly(&mut self, process: Process, orderly: bool) -> bool {
        let client = self.all.get_mut(&process);
        client.is_some_and(|one| std::mem::replace(&mut one.orderly, orderly) != orderly)
    }

    /// Whether one of these processes is ending without having said so.
    pub(super) fn any_dies(&self, processes: &BTreeSet<Process>) -> bool {
        processes.iter().filter_map(|process| self.all.get(process)).any(ClientProcess::dies)
    }

    /// All processes, with descriptors that are readable when they have ended.
    pub(super) fn lives(&self) -> impl Iterator<Item = (Process, RawFd)> {
        self.all.iter().map(|(process, client)| (*process, client.life.as_raw_fd()))
    }

    /// The processes that have ended by now.
    pub(super) fn ended(&self) -> Vec<Process> {
        poll(self.lives(), Some(Duration::ZERO)).unwrap_or_default()
    }
}

/// Numbers that stand for texts.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    numbers: BTreeMap<String, u64>,
    texts: BTreeMap<u64, String>,
    last: u64,
}

impl Numbers {
    pub(super) fn of(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.last += 1;
        self.numbers.insert(text.to_owned(), self.last);
        self.texts.insert(self.last, text.to_owned());
        self.last
    }

    /// The text that a number stands for.
    pub(super) fn text(&self, number: u64) -> &str {
        self.texts.get(&number).map_or("", |text| text)
    }

    /// The process that is a program of its own has ended: nobody has this text again.
    pub(super) fn forget_process(&mut self, number: u64) {
        // Those of other nodes have the node before them.
        let text = self.text(number);
        let text = text.split_once(": ").map_or(text, |(_, text)| text);
        if text.starts_with(ALONE)
            && let Some(text) = self.texts.remove(&number)
        {
            self.numbers.remove(&text);
        }
    }
}

/// How the text of a process begins that is a program of its own.
const ALONE: &str = "process ";

/// Facts of a process from `/proc`.
struct Facts {
    session: i32,
    flags: u64,
    start: u64,
}

fn facts(pid: i32) -> io::Result<Facts> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    // The name in parentheses may hold anything; fields are counted from behind it.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(bad)?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |index: usize| fields.get(index).copied().ok_or_else(bad);
    Ok(Facts {
        session: field(3)?.parse().map_err(|_| bad())?,
        flags: field(6)?.parse().map_err(|_| bad())?,
        start: field(19)?.parse().map_err(|_| bad())?,
    })
}

/// The kernel's mark of a process that is ending.
const EXITING: u64 = 4;

/// Bytes of a text of a process about itself, at most.
const WORDS: usize = 200;

/// The first message of a program, about itself.
pub(super) struct Hello {
    pub(super) job: String,
    pub(super) ranks: u32,
    pub(super) rank: u32,
    pub(super) command: String,
}

impl Hello {
    /// The process `client` of a session, as it says.
    fn who(&self, client: &ClientProcess, session: i32, jobs: &mut Numbers) -> Who {
        let printable = |c: &char| !c.is_control();
        let command: String = self.command.chars().filter(printable).take(WORDS).collect();
        let ClientProcess { pid, start, .. } = client;
        if self.job.is_empty() {
            let leader = facts(session).map_or(0, |facts| facts.start);
            return Who {
                job: jobs.of(&format!("{ALONE}{pid} {start}")),
                ranks: 1,
                family: jobs.of(&format!("session {session} {leader}")),
                label: format!("{command} (process {pid})"),
            };
        }
        let job = jobs.of(&format!("job {}", self.job));
        let (rank, ranks) = (self.rank, self.ranks);
        let label = format!("{command} (process {pid}, rank {rank} of {ranks})");
        Who { job, ranks: ranks.max(1), family: job, label }
    }
}

impl Agent {
    /// The process at the other end of a connection names itself.
    ///
    /// # Errors
    /// The process cannot be seen from here, as from another container.
    pub(super) fn greet(&mut self, link: u64, hello: &Hello) -> io::Result<()> {
        let pid = self.links.peer(link)?;
        let (client, session) = ClientProcess::of(pid)?;
        let process = match self.clients.find(pid, client.start) {
            Some(process) => process,
            None => {
                let process = self.own.registry.numbers.next();
                let who = hello.who(&client, session, &mut self.clients.jobs);
                self.own.registry.join(process, who);
                self.clients.add(process, client);
                process
            }
        };
        if self.clients.set_orderly(process, false) {
            // It may have become another program, which is served as well.
            self.own.registry.touch_written_by(process);
        }
        self.lifetime.stays = false;
        self.links.belongs_to(link, process);
        Ok(())
    }

    /// A connection has ended.
    pub(super) fn hang_up(&mut self, link: u64) {
        let Some(left) = self.links.end(link) else { return };
        self.waits.take(&mut self.own.registry, |one| one.link == link);
        self.steps.cancel(link);
        self.act_on(|peers| peers.cancel(link));
        self.peers.iter_mut().for_each(|peers| peers.requests.hang_up(link));
        let Some(process) = left else { return };
        if self.clients.get(process).is_some_and(ClientProcess::goes_on) {
            self.take_leave(process);
            // One that has only looked is as good as gone; it may come again.
            let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
            let uses = replicas.is_some_and(|all| !all.used_by(process).is_empty());
            if self.own.registry.has_no_part(process) && !uses {
                self.lose(process);
            }
        }
    }

    /// A process ends in order from now on.
    pub(super) fn take_leave(&mut self, process: Process) {
        self.clients.set_orderly(process, true);
        self.own.registry.touch_written_by(process);
    }

    /// A process has ended.
    pub(super) fn lose(&mut self, process: Process) {
        // Earlier messages come first.
        for link in self.links.of(process) {
            self.hear(link);
            self.hang_up(link);
        }
        let Some(client) = self.clients.remove(process) else { return };
        let job = self.own.registry.processes.get(&process).map(|who| who.job);
        self.own.registry.end(process, client.orderly);
        // Nobody needs the answers to its requests any more.
        if let Some(peers) = &mut self.peers {
            let (used, actions) = peers.leave(process, client.orderly);
            self.act(actions);
            used.into_iter().for_each(|key| self.look_away(key));
        }
        job.into_iter().for_each(|job| self.clients.jobs.forget_process(job));
        self.settle();
    }

    /// Hears which processes have ended by now.
    pub(super) fn lose_the_dead(&mut self) {
        self.clients.ended().into_iter().for_each(|process| self.lose(process));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_a_number_each_as_long_as_somebody_may_have_them_again() {
        let mut numbers = Numbers::default();
        let job = numbers.of("job 7");
        let process = numbers.of("process 12 99");
        assert_eq!((numbers.of("job 7"), numbers.text(process)), (job, "process 12 99"));
        numbers.forget_process(process);
        numbers.forget_process(job);
        let away = numbers.of("node2: process 12 99");
        numbers.forget_process(away);
        assert_eq!(numbers.text(away), "");
        assert_eq!((numbers.text(process), numbers.text(job)), ("", "job 7"));
        let other = numbers.of("process 13 99");
        assert!(other != job && other != process, "numbers are not used again");
        assert_eq!((numbers.numbers.len(), numbers.texts.len()), (2, 2));
    }
}
