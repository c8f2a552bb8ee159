//! The connected processes: their names, and how they end.

use crate::peers::RemoteProcess;
use crate::poll::poll;
use crate::registry::{Process, Registry, Who};
use aggio_base::os;
use aggio_link::Peer;
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

    /// Whether one of these processes is ending without having said so.
    pub(super) fn any_dies(&self, processes: &BTreeSet<Process>) -> bool {
        processes.iter().filter_map(|process| self.all.get(process)).any(ClientProcess::dies)
    }

    /// All processes, with descriptors that are readable when they have ended.
    pub(super) fn lives(&self) -> impl Iterator<Item = (Process, RawFd)> {
        self.all.iter().map(|(process, client)| (*process, client.life.as_raw_fd()))
    }

    /// A process of this node names itself. Returns its number.
    ///
    /// # Errors
    /// The process cannot be seen from here, as from another container.
    pub(super) fn greet(
        &mut self,
        pid: i32,
        hello: &Hello,
        registry: &mut Registry,
    ) -> io::Result<Process> {
        let (client, session) = ClientProcess::of(pid)?;
        let process = self.find(pid, client.start).unwrap_or_else(|| {
            let process = registry.numbers.next();
            registry.join(process, hello.who(&client, session, &mut self.jobs));
            self.add(process, client);
            process
        });
        // It may have become another program, which is served as well.
        self.end_in_order(process, false, registry);
        Ok(process)
    }

    /// A process ends in order from now on, or does no more.
    pub(super) fn end_in_order(&mut self, process: Process, is: bool, registry: &mut Registry) {
        let client = self.all.get_mut(&process);
        if client.is_some_and(|one| std::mem::replace(&mut one.orderly, is) != is) || is {
            registry.touch_written_by(process);
        }
    }

    /// A process of this node, as other nodes are told of it.
    pub(super) fn remote(
        &self,
        process: Process,
        host: &str,
        registry: &Registry,
    ) -> Option<RemoteProcess> {
        let who = registry.processes.get(&process)?;
        let global = |number| match self.jobs.text(number) {
            text if is_global(text) => text.to_owned(),
            text => format!("{host}: {text}"),
        };
        let label = format!("{} on {host}", who.label);
        Some(RemoteProcess {
            job: global(who.job),
            family: global(who.family),
            ranks: who.ranks,
            label,
        })
    }

    /// A process of another node will ask. Returns its number.
    pub(super) fn greet_remote(
        &mut self,
        peer: Peer,
        who: &RemoteProcess,
        registry: &mut Registry,
    ) -> Process {
        let process = registry.numbers.next();
        let label = who.label.chars().filter(|c| !c.is_control()).take(REMOTE_WORDS).collect();
        let (job, family) = (self.jobs.of(&who.job), self.jobs.of(&who.family));
        registry.join(process, Who { job, ranks: who.ranks.max(1), family, label });
        registry.processes.lives_on(process, peer.0);
        process
    }

    /// A process of any node has ended.
    pub(super) fn end(&mut self, process: Process, orderly: bool, registry: &mut Registry) {
        let job = registry.processes.get(&process).map(|who| who.job);
        registry.end(process, orderly);
        job.into_iter().for_each(|job| self.jobs.forget_process(job));
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

/// Whether a job has the same name on all nodes.
fn is_global(job: &str) -> bool {
    job.starts_with("job ") && !job.starts_with("job launcher")
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

/// Characters of a text of another node about a process, at most.
const REMOTE_WORDS: usize = 600;

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
