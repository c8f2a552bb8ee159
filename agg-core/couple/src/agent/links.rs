//! Connections of programs: taken, heard, answered and refused.

use super::Agent;
use crate::peers::{Message, Ticket};
use crate::place;
use crate::protocol::{Packets, Reply, Request};
use crate::registry::Process;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Connections of all programs together at most.
const CONNECTIONS: usize = 8192;

/// How long no connection is taken if there are no descriptors.
const RESTS: Duration = Duration::from_millis(100);

/// A connection, and whose it is.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) packets: Packets,
    pub(super) process: Option<Process>,
    /// The open that it waits for.
    pub(super) waits: bool,
    /// The text of which it asks for one part after the other.
    pub(super) text: Vec<u8>,
}

impl Link {
    pub(super) fn new(packets: Packets) -> Self {
        Self { packets, process: None, waits: false, text: Vec::new() }
    }
}

/// Where programs connect.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    /// A descriptor that is given up to refuse a connection if there is no other.
    spare: Option<OwnedFd>,
    /// No connection is taken until then.
    pub(super) rests: Option<Instant>,
    told: bool,
}

impl Listener {
    /// A socket that takes connections under this name.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        Ok(Self { socket: listen(name)?, spare: spare(), rests: None, told: false })
    }

    /// Readable when connections wait; -1 while none are taken.
    pub(super) fn events(&mut self) -> RawFd {
        if self.rests.is_some_and(|until| until <= Instant::now()) {
            self.rests = None;
        }
        if self.rests.is_some() { -1 } else { self.socket.as_raw_fd() }
    }

    fn take(&self) -> io::Result<OwnedFd> {
        let (socket, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(socket, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
        match fd {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the descriptor is new and belongs to nobody else.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
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
    let fd = aggio_base::os::open(c"/dev/null", libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
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

impl Agent {
    /// Takes all connections that wait.
    pub(super) fn accept(&mut self) {
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
            if self.links.len() >= CONNECTIONS {
                log!(Level::Warn, "agent: more than {CONNECTIONS} connections; one was refused");
                continue;
            }
            self.links.insert(self.registry.number(), Link::new(packets));
        }
    }

    /// Reads what a connection says.
    pub(super) fn hear(&mut self, link: u64) {
        while let Some(found) = self.links.get(&link) {
            match found.packets.receive(false) {
                Ok(Some((message, _))) => match Request::decode(&message) {
                    Ok(request) => self.serve(link, request),
                    Err(error) => self.refuse(link, &error),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.refuse(link, &error);
                }
                Ok(None) | Err(_) => self.hang_up(link),
            }
        }
    }

    /// Ends a connection that does not speak the protocol.
    pub(super) fn refuse(&mut self, link: u64, error: &io::Error) {
        let who = self.links.get(&link).and_then(|link| link.packets.peer().ok());
        log!(
            Level::Warn,
            "agent: a connection of process {} ends: {error}",
            who.unwrap_or_default().0
        );
        self.reply(link, &Reply::Failed(libc::EPROTO, error.to_string()), None);
        self.hang_up(link);
    }

    /// Sends an answer, and says whether it is on its way. A program that does not take it loses
    /// its connection.
    ///
    /// What it tells survives this agent from then on. A program that was not told of its open asks
    /// the next agent for it again, by the same key.
    pub(super) fn reply(&mut self, link: u64, reply: &Reply, fd: Option<RawFd>) -> bool {
        self.save();
        self.send(link, reply, fd)
    }

    fn send(&mut self, link: u64, reply: &Reply, fd: Option<RawFd>) -> bool {
        if let Some(told) = self.reply_away(link, reply, fd) {
            return told;
        }
        let Some(found) = self.links.get_mut(&link) else { return false };
        if matches!(reply, Reply::Waits(_)) {
            // One that stands still needs to be told once, and room for its answer.
            if !found.packets.is_drained() {
                return false;
            }
        } else {
            found.waits = false;
        }
        let sent = found.packets.send(&reply.encode(), fd, false).is_ok();
        if !sent {
            self.hang_up(link);
        }
        sent
    }

    /// An open that waits is not wanted any more.
    pub(super) fn cancel(&mut self, link: u64) {
        if self.steps.cancel(link) {
            self.reply(link, &Reply::Failed(libc::EINTR, String::new()), None);
            return;
        }
        if self.waits.take(&mut self.registry, |one| one.link == link).is_empty() {
            return self.cancel_away(link);
        }
        self.reply(link, &Reply::Failed(libc::EINTR, String::new()), None);
    }

    /// An open that an owner was asked for, and has not answered, is not wanted any more.
    pub(super) fn cancel_away(&mut self, link: u64) {
        let Some(peers) = &mut self.peers else { return };
        let is_it = |kept: &Ticket| kept.link == link && kept.opened.is_none();
        let waiting = peers.tickets.iter().filter(|(_, kept)| is_it(kept));
        let waiting: Vec<(u64, Peer, Process)> =
            waiting.map(|(ticket, kept)| (*ticket, kept.peer, kept.process)).collect();
        for (ticket, peer, process) in waiting {
            let request = Request::Cancel.encode();
            // A connection that has ended is told soon, with all its tickets.
            let _ = peers.say(peer, &Message::Ask { process, ticket, request }, Body::None);
        }
    }
}

/// A socket that takes connections under this name.
fn listen(name: &str) -> io::Result<OwnedFd> {
    let address = address(name)?;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let checked = |result: i32| match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    };
    // SAFETY: no memory is involved.
    let fd = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the kernel reads the local address.
    checked(unsafe { libc::bind(fd, (&raw const address).cast(), len) })?;
    // SAFETY: no memory is involved.
    checked(unsafe { libc::listen(fd, 4096) })?;
    Ok(socket)
}

/// The address of a local socket.
pub(crate) fn address(name: &str) -> io::Result<libc::sockaddr_un> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if name.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(address)
}
