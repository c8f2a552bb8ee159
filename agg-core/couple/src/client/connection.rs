//! Connections of one process to its agent: as many as it has requests at a time.

use super::failure::Failure;
use super::identity;
use super::start;
use super::timeouts::{self, ANSWERS, SILENCE};
use crate::fd::{checked, owned};
use crate::place::{self, Place};
use crate::protocol::{Packet, Packets, Reply, Request};
use crate::registry::Directory;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::os;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

/// Connections that are kept for later requests at most.
const KEPT: usize = 8;

/// How often a request is repeated with another agent, at most.
const REPEATS: usize = 2 * KEPT;

/// Time that an agent may take to accept a connection, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Numbers of descriptors from here on are out of the way of the program's own.
const HIGH: i32 = 600;

/// Marks a slot that a thread is changing; no process and descriptor have this value.
const BUSY: u64 = u64::MAX;

/// A connection that nobody uses at the moment: no lock, because a fork may happen at any time.
#[derive(Debug, Default)]
struct Slot {
    /// Process in the upper half, descriptor plus one in the lower; 0 if there is none, [`BUSY`]
    /// while a thread changes it.
    held: AtomicU64,
    /// The socket's inode: programs close descriptors that are not theirs.
    inode: AtomicU64,
}

impl Slot {
    /// Whether this thread has made `new` of `old`.
    fn is_changed(&self, old: u64, new: u64) -> bool {
        self.held.compare_exchange(old, new, Acquire, Relaxed).is_ok()
    }
}

/// All connections of a process.
#[derive(Debug)]
pub(super) struct Connections {
    dir: String,
    agent: String,
    /// The process that has spoken to an agent; 0 before.
    spoken: AtomicU64,
    /// The process that has not been told that an agent ended; 0 if all was told.
    untold: AtomicU64,
    slots: [Slot; KEPT],
    /// Directories of files that survive an agent.
    spools: Vec<Directory>,
    /// The process that went on with another agent, and has not been told of files that did not
    /// survive the one before.
    moved_on: AtomicU64,
    /// The last number of an open.
    keys: AtomicU64,
}

/// Returns the first number of an open. A program that replaces another one (`execve`) has the same
/// process, and must use other numbers.
fn first_key() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |since| since.as_nanos() as u64);
    nanoseconds.wrapping_shl(4).max(1)
}

fn process() -> u64 {
    u64::from(std::process::id())
}

impl Connections {
    pub(super) fn new(dir: &str, agent: &str, spools: Vec<Directory>) -> Self {
        Self {
            dir: dir.into(),
            agent: agent.into(),
            spoken: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            slots: Default::default(),
            spools,
            moved_on: AtomicU64::new(0),
            keys: AtomicU64::new(first_key()),
        }
    }

    /// A connection that is kept, if there is one of this process.
    fn take(&self) -> Option<Packets> {
        for slot in &self.slots {
            let held = slot.held.load(Relaxed);
            if held == 0 || held == BUSY || !slot.is_changed(held, BUSY) {
                continue;
            }
            let fd = (held as u32).wrapping_sub(1).cast_signed();
            let inode = slot.inode.load(Relaxed);
            slot.held.store(0, Release);
            if !os::fstat(fd).is_ok_and(|facts| facts.st_ino == inode) {
                continue;
            }
            let packets = Packets::new(owned(fd));
            // A parent's connection is not the child's; dropping closes the copy.
            if held >> 32 == process() {
                return Some(packets);
            }
        }
        None
    }

    fn put_back(&self, packets: Packets) {
        let Ok(facts) = os::fstat(packets.fd()) else { return };
        for slot in &self.slots {
            if slot.is_changed(0, BUSY) {
                let fd = packets.into_fd().into_raw_fd();
                slot.inode.store(facts.st_ino, Relaxed);
                let new = process() << 32 | u64::from(fd.cast_unsigned() + 1);
                slot.held.store(new, Release);
                return;
            }
        }
    }

    /// Whether there is an agent, or one of another node that owns files, without starting one.
    pub(super) fn knows_files(&self) -> io::Result<bool> {
        let place = Place::open(&self.dir)?;
        Ok(connect_to(&place)?.is_some() || place.has_names()?)
    }

    /// Whether agents of other nodes can be there.
    pub(super) fn is_between_nodes(&self) -> bool {
        !self.dir.is_empty()
    }

    /// Descriptors of connections that nobody uses at the moment.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let held = self.slots.iter().map(|slot| slot.held.load(Relaxed));
        let own = held.filter(|held| *held != BUSY && held >> 32 == process());
        own.map(|held| (held as u32).wrapping_sub(1).cast_signed()).collect()
    }

    /// The program is to be told by its next open that an agent ended.
    pub(super) fn tell_later(&self) {
        self.untold.store(process(), Relaxed);
    }

    /// Whether that is still to be told.
    pub(super) fn is_untold(&self) -> bool {
        self.untold.swap(0, Relaxed) == process()
    }

    /// A number for an open that no other open of this process has.
    pub(super) fn key(&self) -> u64 {
        // A child that was forked goes on counting where its parent was.
        (self.keys.fetch_add(1, Relaxed) ^ process() << 40).max(1)
    }

    /// This process goes on with another agent than before.
    pub(super) fn go_on(&self) {
        self.moved_on.store(process(), Relaxed);
    }

    /// Whether this process has gone on with another agent since the last call.
    pub(super) fn has_moved_on(&self) -> bool {
        self.moved_on.swap(0, Relaxed) == process()
    }

    /// Makes sure that there is an agent.
    pub(super) fn reach(&self) -> io::Result<()> {
        let packets = self.connect()?;
        self.put_back(packets);
        Ok(())
    }

    /// Asks the agent, and waits for the answer. One that has ended without an answer is followed
    /// by another one, which is asked again if it can know as much.
    pub(super) fn call(&self, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
        // All connections that are kept may be those of the agent that has ended.
        for _ in 0..REPEATS {
            match self.ask(request) {
                Err(failure) if self.may_repeat(request, &failure) => {
                    self.go_on();
                    log!(Level::Warn, "the agent of coupled files has ended; another one is asked");
                }
                other => return other.map_err(Failure::into),
            }
        }
        self.ask(request).map_err(Failure::into)
    }

    fn may_repeat(&self, request: &Request, failure: &Failure) -> bool {
        let may_repeat = match failure {
            Failure::Unheard(_) => true,
            Failure::Gone(_) => request.may_be_repeated(),
            Failure::Other(_) => false,
        };
        may_repeat && !self.spools.is_empty() && request.may_survive()
    }

    fn ask(&self, request: &Request) -> Result<(Reply, Option<OwnedFd>), Failure> {
        let message = request.encode();
        if message.len() > crate::protocol::MOST {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG).into());
        }
        let packets = match self.take() {
            Some(packets) => packets,
            None => self.connect()?,
        };
        packets.send(&message, None, true).map_err(Failure::Unheard)?;
        let began = Instant::now();
        let silent = || {
            let (seconds, agent) = (began.elapsed().as_secs(), timeouts::agent_of(&packets));
            let (what, own) = (request.subject(), std::process::id());
            let text = format!("{what}: process {own} has waited {seconds} s for {agent}");
            log!(Level::Warn, "{text}, which has not answered");
        };
        let mut may_be_cancelled = matches!(request, Request::Open { .. } | Request::Records(..));
        loop {
            let received = match timeouts::receive(&packets, SILENCE, silent) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    // An open that waits is answered at once then, here or on another node; one
                    // that was answered meanwhile has succeeded.
                    if std::mem::take(&mut may_be_cancelled) {
                        let cancel = Request::Cancel.encode();
                        packets.send(&cancel, None, true).map_err(Failure::Gone)?;
                    }
                    continue;
                }
                received => received.map_err(Failure::Gone)?,
            };
            let Some((message, fd)) = received else {
                return Err(Failure::Gone(io::ErrorKind::UnexpectedEof.into()));
            };
            match Reply::decode(&message)? {
                Reply::Waits(text) => log!(Level::Warn, "{text}"),
                reply => {
                    self.put_back(packets);
                    return Ok((reply, fd));
                }
            }
        }
    }

    /// Connects to the agent, and starts one if there is none.
    fn connect(&self) -> io::Result<Packets> {
        let place = Place::open(&self.dir)?;
        let (began, mut refused) = (Instant::now(), 0);
        loop {
            match connect_to(&place)? {
                Some(packets) => {
                    if self.greet(&packets)? {
                        self.spoken.store(process(), Relaxed);
                        return Ok(packets);
                    }
                    refused += 1;
                }
                None => start::start_if_needed(&place, &self.agent, false)?,
            }
            if began.elapsed() > PATIENCE {
                let (dir, seconds) = (place.path().display(), PATIENCE.as_secs());
                let text = format!(
                    "the agent of {dir} has not come for {seconds} s; {refused} connections ended"
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// One more connection to an agent that is there.
    fn another(&self) -> Option<Packets> {
        let packets = connect_to(&Place::open(&self.dir).ok()?).ok()??;
        self.greet(&packets).is_ok_and(|greeted| greeted).then_some(packets)
    }

    /// Tells the agent, if this process has ever spoken to it, that it ends in order.
    pub(super) fn goodbye(&self) {
        if self.spoken.load(Relaxed) != process() {
            return;
        }
        // Threads that wait have the others. Those of an agent that has ended tell nobody.
        while let Some(packets) = self.take() {
            if self.is_taken_leave(packets) {
                return;
            }
        }
        let _ = self.another().is_some_and(|packets| self.is_taken_leave(packets));
    }

    /// Whether an agent knows now that this process ends in order.
    fn is_taken_leave(&self, packets: Packets) -> bool {
        if packets.send(&Request::Goodbye.encode(), None, true).is_err() {
            return false;
        }
        match timeouts::receive_within(&packets, ANSWERS) {
            Ok(Some(_)) => {
                self.put_back(packets);
                true
            }
            // It is heard before the end of this process, also without an answer.
            Err(error) => error.kind() == io::ErrorKind::TimedOut,
            Ok(None) => false,
        }
    }

    /// Names this process; false if the agent has just ended. The agent's answer may take any time,
    /// and the log tells of that.
    fn greet(&self, packets: &Packets) -> io::Result<bool> {
        let began = Instant::now();
        let silent = || {
            let (seconds, agent) = (began.elapsed().as_secs(), timeouts::agent_of(packets));
            let own = std::process::id();
            let text = format!("process {own} has waited {seconds} s for {agent}");
            log!(Level::Warn, "{text}, which has not taken its connection");
        };
        greet_by(packets, &self.spools, || {
            loop {
                match timeouts::receive(packets, SILENCE, silent) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    received => return received,
                }
            }
        })
    }
}

/// A connection to the agent; `None` if there is none.
pub(super) fn connect_to(place: &Place) -> io::Result<Option<Packets>> {
    let address = crate::protocol::address(&place.file("sock"))?;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved.
    let socket = high(checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?);
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    let began = Instant::now();
    loop {
        // SAFETY: the kernel reads the local address.
        let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) };
        if result == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ECONNREFUSED) => return Ok(None),
            // More connections wait than the system keeps.
            Some(libc::EAGAIN) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
    // SAFETY: no memory is involved.
    if unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, 0) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let packets = Packets::new(socket);
    match packets.peer()? {
        (_, user) if user == place::user() => Ok(Some(packets)),
        (process, user) => {
            let text = format!("process {process} of user {user} is no agent of this user");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

/// Duplicates a descriptor to a high number, which programs do not expect.
fn high(fd: OwnedFd) -> OwnedFd {
    // SAFETY: no memory is involved.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH) };
    checked(copy).unwrap_or(fd)
}

pub(super) fn greet_by(
    packets: &Packets,
    spools: &[Directory],
    hear: impl FnOnce() -> io::Result<Option<Packet>>,
) -> io::Result<bool> {
    let variable = |name: &str| aggio_config::settings::process_variable(name);
    let hello = identity::hello(&variable, spools);
    if packets.send(&hello.encode(), None, true).is_err() {
        return Ok(false);
    }
    match hear() {
        Ok(Some((message, _))) => match Reply::decode(&message)? {
            Reply::Done => Ok(true),
            other => Err(super::failure(other, &hello)),
        },
        Ok(None) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::pair;

    #[test]
    fn connections_that_threads_take_and_put_back_are_kept_or_closed() {
        let connections = Connections::new("", "", Vec::new());
        let work = || {
            let mut ends = Vec::new();
            for _ in 0..2000 {
                let packets = connections.take().unwrap_or_else(|| {
                    let (one, other) = pair().unwrap();
                    ends.push(other);
                    one
                });
                connections.put_back(packets);
            }
            ends
        };
        let ends: Vec<Packets> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..12).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(connections.descriptors().len() <= KEPT);
        while connections.take().is_some() {}
        // A child that another test has just forked has copies of them until its program begins.
        let open = || ends.iter().filter(|end| end.receive(false).is_err()).count();
        let began = Instant::now();
        while open() > 0 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(open(), 0, "connections of {} are neither kept nor closed", ends.len());
    }
}
