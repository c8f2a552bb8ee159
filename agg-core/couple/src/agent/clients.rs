//! The processes that are connected: who they are, and how they end.

use super::Agent;
use crate::registry::{Process, Who};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

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
        let life = life_of(pid)?;
        let Facts { session, start, .. } = facts(pid)?;
        Ok((Self { pid, start, life, orderly: false }, session))
    }

    /// Readable when the process has ended.
    pub(super) fn life(&self) -> RawFd {
        self.life.as_raw_fd()
    }

    /// Whether it is ending, or has ended, without having said so.
    pub(super) fn dies(&self) -> bool {
        let lives = |facts: Facts| facts.start == self.start && facts.flags & EXITING == 0;
        !self.orderly && !facts(self.pid).is_ok_and(lives)
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

/// What `/proc` tells of a process.
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

/// Bytes of what a process says of itself, at most.
const WORDS: usize = 200;

fn life_of(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match RawFd::try_from(fd) {
        // SAFETY: the descriptor is new and belongs to nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a program says of itself.
pub(super) struct Hello {
    pub(super) job: String,
    pub(super) ranks: u32,
    pub(super) rank: u32,
    pub(super) command: String,
}

impl Agent {
    /// The process at the other end of a connection says who it is.
    ///
    /// # Errors
    /// The process cannot be seen from here, as from another container.
    pub(super) fn greet(&mut self, link: u64, hello: &Hello) -> io::Result<()> {
        let Some(found) = self.links.get(&link) else { return Ok(()) };
        let (pid, _) = found.packets.peer()?;
        let (client, session) = ClientProcess::of(pid)?;
        let start = client.start;
        let known = self.clients.iter().find(|(_, one)| (one.pid, one.start) == (pid, start));
        let process = match known {
            Some((process, _)) => *process,
            None => {
                self.last += 1;
                let who = self.who(pid, start, session, hello);
                self.registry.join(self.last, who);
                self.clients.insert(self.last, client);
                self.last
            }
        };
        if let Some(client) = self.clients.get_mut(&process)
            && std::mem::replace(&mut client.orderly, false)
        {
            // It may have become another program, which is served as well.
            self.touch_written_by(process);
        }
        self.stays = false;
        if let Some(found) = self.links.get_mut(&link) {
            found.process = Some(process);
        }
        Ok(())
    }

    fn who(&mut self, pid: i32, start: u64, session: i32, hello: &Hello) -> Who {
        let printable = |c: &char| !c.is_control();
        let command: String = hello.command.chars().filter(printable).take(WORDS).collect();
        if hello.job.is_empty() {
            let leader = facts(session).map_or(0, |facts| facts.start);
            return Who {
                job: self.jobs.of(&format!("{ALONE}{pid} {start}")),
                ranks: 1,
                family: self.jobs.of(&format!("session {session} {leader}")),
                label: format!("{command} (process {pid})"),
            };
        }
        let job = self.jobs.of(&format!("job {}", hello.job));
        let (rank, ranks) = (hello.rank, hello.ranks);
        let label = format!("{command} (process {pid}, rank {rank} of {ranks})");
        Who { job, ranks: ranks.max(1), family: job, label }
    }

    /// A connection has ended.
    pub(super) fn hang_up(&mut self, link: u64) {
        let Some(ended) = self.links.remove(&link) else { return };
        let waits: Vec<u64> =
            self.waits.iter().filter(|(_, w)| w.link == link).map(|(wait, _)| *wait).collect();
        for wait in waits {
            self.waits.remove(&wait);
            self.registry.forget_wait(wait);
        }
        self.forget_records(link);
        self.cancel_away(link);
        self.peers.iter_mut().for_each(|peers| _ = peers.listings.remove(&link));
        let Some(process) = ended.process else { return };
        let is_last = !self.links.values().any(|link| link.process == Some(process));
        let Some(client) = self.clients.get_mut(&process).filter(|_| is_last) else { return };
        // Without connection and not ending: it is another program now. How that ends tells nobody.
        if facts(client.pid).is_ok_and(|facts| facts.flags & EXITING == 0) {
            client.orderly = true;
            self.touch_written_by(process);
            // One that has only looked is as good as gone; it may come again.
            if self.registry.has_no_part(process) && !self.uses_copies(process) {
                self.lose(process);
            }
        }
    }

    fn uses_copies(&self, process: Process) -> bool {
        self.peers.as_ref().is_some_and(|peers| !peers.copies.used_by(process).is_empty())
    }

    /// A process has ended.
    pub(super) fn lose(&mut self, process: Process) {
        let own = |link: &super::Link| link.process == Some(process);
        let links: Vec<u64> =
            self.links.iter().filter(|(_, link)| own(link)).map(|(link, _)| *link).collect();
        // What it said before comes first.
        for link in links {
            self.hear(link);
            self.hang_up(link);
        }
        let Some(client) = self.clients.remove(&process) else { return };
        let job = self.registry.processes.get(&process).map(|who| who.job);
        self.registry.end(process, client.orderly);
        // What it asked for and has not been asked yet is asked for no more.
        self.leave(process, client.orderly);
        self.lost.retain(|_, (whose, _)| *whose != process);
        job.into_iter().for_each(|job| self.jobs.forget_process(job));
        self.settle();
    }

    /// Whether one of these processes is ending without having said so.
    pub(super) fn any_dies(&self, processes: &BTreeSet<Process>) -> bool {
        processes.iter().filter_map(|process| self.clients.get(process)).any(ClientProcess::dies)
    }

    /// Finds out which processes have ended by now.
    pub(super) fn lose_the_dead(&mut self) {
        let watch = |client: &ClientProcess| libc::pollfd {
            fd: client.life(),
            events: libc::POLLIN,
            revents: 0,
        };
        let clients: Vec<Process> = self.clients.keys().copied().collect();
        let mut polled: Vec<libc::pollfd> = self.clients.values().map(watch).collect();
        // SAFETY: the kernel reads and writes the entries of the local vector.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
        let dead = clients.iter().zip(&polled).filter(|(_, polled)| polled.revents != 0);
        dead.for_each(|(process, _)| self.lose(*process));
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
