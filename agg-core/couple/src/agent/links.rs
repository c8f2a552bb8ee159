//! Links of programs: taken, heard, answered and refused.

use crate::fd::checked;
use crate::place;
use crate::protocol::{Packet, Packets, Reply, address};
use crate::registry::{Process, Registry};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Links of all programs together at most.
const CONNECTIONS: usize = 8192;

/// How long no connection is taken if there are no descriptors.
const RESTS: Duration = Duration::from_millis(100);

/// Bytes of a text in one answer at most.
const PART: usize = 16 << 10;

/// A connection, and its process.
#[derive(Debug)]
struct Connection {
    packets: Packets,
    process: Option<Process>,
    /// It waits for an answer.
    waits: bool,
    /// The text that it asks for, one part after the other.
    text: Vec<u8>,
}

/// Where programs connect.
#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    /// A descriptor that is given up to refuse a connection if there is no other.
    spare: Option<OwnedFd>,
    /// No connection is taken until then.
    rests: Option<Instant>,
    told: bool,
}

impl Listener {
    fn new(name: &str) -> io::Result<Self> {
        Ok(Self { socket: listen(name)?, spare: spare(), rests: None, told: false })
    }

    /// Readable when connections wait; -1 while none are taken.
    fn events(&mut self) -> RawFd {
        if self.rests.is_some_and(|until| until <= Instant::now()) {
            self.rests = None;
        }
        if self.rests.is_some() { -1 } else { self.socket.as_raw_fd() }
    }

    fn take(&self) -> io::Result<OwnedFd> {
        let (socket, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: no address is asked for.
        checked(unsafe { libc::accept4(socket, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC) })
    }

    /// The next connection, if one waits. Without descriptors it is refused, so that its program
    /// learns it, and does not wait for ever.
    fn next(&mut self) -> Option<OwnedFd> {
        loop {
            let error = match self.take() {
                Ok(socket) => return Some(socket),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR | libc::ECONNABORTED) => continue,
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {}
                _ => return None,
            }
            if !std::mem::replace(&mut self.told, true) {
                log!(Level::Error, "agent: connections are refused: {error}");
            }
            let refused = self.spare.take().and_then(|spare| {
                drop(spare);
                self.take().ok()
            });
            let was_refused = refused.is_some();
            drop(refused);
            self.spare = spare();
            if !was_refused {
                self.rests = Some(Instant::now() + RESTS);
                return None;
            }
        }
    }
}

/// A descriptor of nothing.
fn spare() -> Option<OwnedFd> {
    File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Raises how many descriptors this process may have to what the system allows: each generation
/// needs two, each program as many.
pub(super) fn allow_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls write and read the local value.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// All connections, each with a number.
#[derive(Debug)]
pub(super) struct Links {
    listener: Listener,
    all: BTreeMap<u64, Connection>,
}

impl Links {
    /// Takes connections under this name of a socket.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        Ok(Self { listener: Listener::new(name)?, all: BTreeMap::new() })
    }

    /// Readable when connections wait to be taken; -1 while none are.
    pub(super) fn events(&mut self) -> RawFd {
        self.listener.events()
    }

    /// When connections are taken again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.listener.rests
    }

    /// All connections, with descriptors that are readable when they have said something.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, RawFd)> {
        self.all.iter().map(|(link, one)| (*link, one.packets.fd()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn has(&self, link: u64) -> bool {
        self.all.contains_key(&link)
    }

    /// Takes all connections that wait.
    pub(super) fn accept(&mut self, registry: &mut Registry) {
        while let Some(socket) = self.listener.next() {
            let packets = Packets::new(socket);
            match packets.peer() {
                Ok((_, user)) if user == place::user() => {}
                Ok((process, user)) => {
                    log!(Level::Warn, "agent: process {process} of user {user} was refused");
                    continue;
                }
                Err(_) => continue,
            }
            if self.all.len() >= CONNECTIONS {
                log!(Level::Warn, "agent: more than {CONNECTIONS} connections; one was refused");
                continue;
            }
            self.add(registry.numbers.next(), packets, None);
        }
    }

    pub(super) fn add(&mut self, link: u64, packets: Packets, process: Option<Process>) {
        self.all.insert(link, Connection { packets, process, waits: false, text: Vec::new() });
    }

    /// The number of the process at the other end.
    ///
    /// # Errors
    /// The connection has ended, or the system does not say.
    pub(super) fn peer(&self, link: u64) -> io::Result<i32> {
        let found = self.all.get(&link).ok_or(io::ErrorKind::NotConnected)?;
        found.packets.peer().map(|(process, _)| process)
    }

    /// A process has said that a connection is its own.
    pub(super) fn belongs_to(&mut self, link: u64, process: Process) {
        self.all.entry(link).and_modify(|found| found.process = Some(process));
    }

    /// The connections of a process.
    pub(super) fn of(&self, process: Process) -> Vec<u64> {
        let own = self.all.iter().filter(|(_, one)| one.process == Some(process));
        own.map(|(link, _)| *link).collect()
    }

    /// Returns the process of a connection, unless it waits for an answer.
    pub(super) fn caller(&self, link: u64) -> Option<Process> {
        self.all.get(&link).filter(|found| !found.waits)?.process
    }

    /// The program of a connection is answered later.
    pub(super) fn let_wait(&mut self, link: u64) {
        self.all.entry(link).and_modify(|found| found.waits = true);
    }

    /// The next message of a connection; `None` if there is no such connection.
    pub(super) fn receive(&self, link: u64) -> Option<io::Result<Option<Packet>>> {
        self.all.get(&link).map(|found| found.packets.receive(false))
    }

    /// Sends an answer, and says whether it is on its way.
    ///
    /// # Errors
    /// The program does not take it.
    pub(super) fn send(&mut self, link: u64, reply: &Reply, fd: Option<RawFd>) -> io::Result<bool> {
        let Some(found) = self.all.get_mut(&link) else { return Ok(false) };
        if matches!(reply, Reply::Waits(_)) {
            // One that stands still needs to be told once, and room for its answer.
            if !found.packets.is_drained() {
                return Ok(false);
            }
        } else {
            found.waits = false;
        }
        found.packets.send(&reply.encode(), fd, false).map(|()| true)
    }

    /// A part of a text from a byte on. All parts that a connection asks for one after the other
    /// are of the text that there was when it asked for the first: the `fresh` one.
    pub(super) fn part(&mut self, link: u64, from: u64, fresh: Option<Vec<u8>>) -> Option<Reply> {
        let text = &mut self.all.get_mut(&link)?.text;
        fresh.into_iter().for_each(|fresh| *text = fresh);
        let start = usize::try_from(from).unwrap_or(usize::MAX).min(text.len());
        let part: Vec<u8> = text[start..].iter().copied().take(PART).collect();
        let total = text.len();
        if start + part.len() == total {
            *text = Vec::new();
        }
        Some(Reply::Text(part, total as u64))
    }

    /// A connection has ended; `None` if there is none. The process that has no other one, if any.
    pub(super) fn end(&mut self, link: u64) -> Option<Option<Process>> {
        let process = self.all.remove(&link)?.process;
        Some(process.filter(|process| self.of(*process).is_empty()))
    }
}

/// A socket that takes connections under this name.
fn listen(name: &str) -> io::Result<OwnedFd> {
    let address = address(name)?;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved.
    let socket = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the kernel reads the local address.
    let result = unsafe {
        match libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) {
            0 => libc::listen(socket.as_raw_fd(), 4096),
            failed => failed,
        }
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::pair;

    #[test]
    fn a_program_that_waits_asks_for_nothing_until_it_is_answered() {
        let scratch = tempfile::tempdir().unwrap();
        let mut links = Links::new(scratch.path().join("sock").to_str().unwrap()).unwrap();
        let ends = [7, 8].map(|link| {
            let (packets, end) = pair().unwrap();
            links.add(link, packets, None);
            end
        });
        assert_eq!(links.caller(7), None, "nobody knows the process");
        [7, 8].into_iter().for_each(|link| links.belongs_to(link, 1));
        assert_eq!((links.of(1), links.caller(7)), (vec![7, 8], Some(1)));
        links.let_wait(7);
        assert_eq!(links.caller(7), None);
        let reminder = Reply::Waits("it waits".into());
        assert!(links.send(7, &reminder, None).unwrap());
        assert_eq!(links.caller(7), None, "it was only told that it waits");
        assert!(!links.send(7, &reminder, None).unwrap(), "it has not read the one before");
        assert!(links.send(7, &Reply::Done, None).unwrap());
        assert_eq!(links.caller(7), Some(1));
        assert!(!links.send(9, &Reply::Done, None).unwrap(), "there is no such connection");
        drop(ends);
        assert!(links.send(7, &Reply::Done, None).is_err());
        assert_eq!((links.end(7), links.end(7)), (Some(None), None));
        assert_eq!(links.end(8), Some(Some(1)), "it was the last one of its process");
        assert!(links.is_empty());
    }
}
