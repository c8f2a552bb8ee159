//! Plain TCP: one connection a peer, bytes straight from mapped memory.

mod sockets;

use crate::wire::{Line, Piece, Read, Ready, Wire};
use sockets::Epoll;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

pub use sockets::own_address;
pub(crate) use sockets::raw;

/// Pieces that one call sends at most.
const VECTORS: usize = 64;

/// Connections that are accepted before it is the turn of the others.
const ACCEPTED: usize = 16;

/// The time between two attempts to reach a network, if nothing else happens before.
const AGAIN: Duration = Duration::from_millis(200);

/// The listener's number among those of connections.
const LISTENER: Line = 0;

/// Connections over TCP.
pub struct Tcp {
    epoll: Epoll,
    /// `None` if connections are not accepted.
    listener: Option<TcpListener>,
    address: SocketAddr,
    lines: BTreeMap<Line, Stream>,
    /// When to connect again, because the network could not be reached. Epoll does not know these
    /// sockets until then.
    again: BTreeMap<Line, Instant>,
    last: Line,
    /// Closed for a moment if there are no more descriptors, to accept and refuse a waiting
    /// connection.
    spare: Option<File>,
}

struct Stream {
    socket: TcpStream,
    /// The address that it is connecting to.
    connecting: Option<SocketAddr>,
    queue: VecDeque<Piece>,
    /// Bytes of the first piece that are sent.
    begun: usize,
    /// Bytes in the queue, without those.
    waiting: usize,
    /// Whether epoll reports when there is room.
    asks_for_room: bool,
    failed: Option<io::Error>,
}

impl Tcp {
    /// Listens on `address`, on any port that is free.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(address: IpAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(listener.as_raw_fd(), LISTENER, false)?;
        let address = listener.local_addr()?;
        let spare = Some(File::open("/dev/null")?);
        let (lines, again) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { epoll, listener: Some(listener), address, lines, again, last: LISTENER, spare })
    }

    /// Only calls others; its own address is none.
    ///
    /// # Errors
    /// The system's.
    pub fn caller() -> io::Result<Self> {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let (epoll, lines, again) = (Epoll::new()?, BTreeMap::new(), BTreeMap::new());
        Ok(Self { epoll, listener: None, address, lines, again, last: LISTENER, spare: None })
    }

    /// Adds a connection that stands, or is being made to an address.
    fn add(&mut self, socket: TcpStream, connecting: Option<SocketAddr>) -> io::Result<Line> {
        self.epoll.add(socket.as_raw_fd(), self.last + 1, connecting.is_some())?;
        self.insert(socket, connecting)
    }

    /// Adds a connection whose socket epoll knows, or need not know yet.
    fn insert(&mut self, socket: TcpStream, connecting: Option<SocketAddr>) -> io::Result<Line> {
        socket.set_nodelay(true)?;
        self.last += 1;
        let (queue, failed) = (VecDeque::new(), None);
        let (begun, waiting, asks_for_room) = (0, 0, connecting.is_some());
        let stream = Stream { socket, connecting, queue, begun, waiting, asks_for_room, failed };
        self.lines.insert(self.last, stream);
        Ok(self.last)
    }

    /// Begins to connect, now or, if the network cannot be reached, later.
    ///
    /// # Errors
    /// The attempt has failed for another reason.
    fn begin(&mut self, line: Line) -> io::Result<()> {
        let Some(stream) = self.lines.get(&line) else { return Ok(()) };
        let Some(address) = stream.connecting else { return Ok(()) };
        match sockets::begin_to_connect(&stream.socket, address) {
            Ok(()) => self.epoll.add(stream.socket.as_raw_fd(), line, true),
            Err(why) => self.connected(line, Some(why)),
        }
    }

    /// An attempt to connect has ended. A network that cannot be reached is tried again.
    ///
    /// # Errors
    /// The attempt has failed for another reason.
    fn connected(&mut self, line: Line, failed: Option<io::Error>) -> io::Result<()> {
        let Some(stream) = self.lines.get_mut(&line) else { return Ok(()) };
        let Some(address) = stream.connecting else { return Ok(()) };
        if failed.as_ref().is_some_and(is_unreachable) {
            // A socket that has failed is not used again. Closing it takes it out of epoll.
            stream.socket = sockets::unconnected(address)?;
            stream.socket.set_nodelay(true)?;
            self.again.insert(line, Instant::now() + AGAIN);
            return Ok(());
        }
        stream.connecting = None;
        failed.map_or(Ok(()), Err)
    }

    /// Connects again where the network could not be reached.
    fn connect_again(&mut self, ready: &mut Vec<Ready>) {
        let now = Instant::now();
        let due: Vec<Line> =
            self.again.iter().filter(|(_, at)| **at <= now).map(|(line, _)| *line).collect();
        for line in due {
            self.again.remove(&line);
            if let Err(why) = self.begin(line) {
                self.give_up(line, why);
                ready.push(Ready::Active(line));
            }
        }
    }

    /// A connection cannot be made, or is broken.
    fn give_up(&mut self, line: Line, why: io::Error) {
        if let Some(stream) = self.lines.get_mut(&line) {
            stream.connecting = None;
            stream.give_up(why);
        }
    }

    fn accept(&mut self, ready: &mut Vec<Ready>) -> bool {
        let Some(listener) = self.listener.take() else { return false };
        let more = self.accept_from(&listener, ready);
        self.listener = Some(listener);
        more
    }

    fn accept_from(&mut self, listener: &TcpListener, ready: &mut Vec<Ready>) -> bool {
        for _ in 0..ACCEPTED {
            match listener.accept() {
                Ok((socket, from)) => {
                    let made = socket.set_nonblocking(true).and_then(|()| self.add(socket, None));
                    ready.push(match made {
                        Ok(line) => Ready::Accepted(line, from.to_string()),
                        Err(why) => Ready::Failed(why),
                    });
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return false,
                Err(why) => {
                    let full = matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                    if full && self.spare.take().is_some() {
                        drop(listener.accept());
                        self.spare = File::open("/dev/null").ok();
                    }
                    ready.push(Ready::Failed(why));
                    return false;
                }
            }
        }
        true
    }

    /// Sends queued bytes, and registers for an event if the socket has no room for all.
    fn send(&mut self, line: Line) {
        let Some(stream) = self.lines.get_mut(&line) else { return };
        stream.send();
        let wants = stream.connecting.is_some() || !stream.queue.is_empty();
        if wants != stream.asks_for_room {
            match self.epoll.change(stream.socket.as_raw_fd(), line, wants) {
                Ok(()) => stream.asks_for_room = wants,
                Err(why) => stream.give_up(why),
            }
        }
    }
}

/// Whether the next attempt to connect may find the network as it was.
fn is_unreachable(why: &io::Error) -> bool {
    let passing = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ENETDOWN, libc::EHOSTDOWN];
    why.raw_os_error().is_some_and(|number| passing.contains(&number))
}

impl Stream {
    fn give_up(&mut self, why: io::Error) {
        self.queue.clear();
        self.waiting = 0;
        self.failed.get_or_insert(why);
    }

    fn send(&mut self) {
        while self.connecting.is_none() && !self.queue.is_empty() {
            let mut slices = Vec::with_capacity(self.queue.len().min(VECTORS));
            for (at, piece) in self.queue.iter().take(VECTORS).enumerate() {
                slices.push(&piece.bytes()[if at == 0 { self.begun } else { 0 }..]);
            }
            match sockets::send(self.socket.as_raw_fd(), &slices) {
                Ok(n) => self.sent(n),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return self.give_up(why),
            }
        }
    }

    fn sent(&mut self, mut n: usize) {
        self.waiting -= n;
        while let Some(first) = self.queue.front() {
            let rest = first.bytes().len() - self.begun;
            if n < rest {
                self.begun += n;
                return;
            }
            n -= rest;
            self.begun = 0;
            self.queue.pop_front();
        }
    }
}

impl Wire for Tcp {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn descriptor(&self) -> RawFd {
        self.epoll.descriptor()
    }

    fn connect(&mut self, address: &str) -> io::Result<Line> {
        let parsed = address.parse::<SocketAddr>().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("\"{address}\": no address"))
        })?;
        let socket = sockets::unconnected(parsed)?;
        let line = self.insert(socket, Some(parsed))?;
        match self.begin(line) {
            Ok(()) => Ok(line),
            Err(why) => {
                self.close(line);
                Err(why)
            }
        }
    }

    fn poll(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let mut more = false;
        self.connect_again(ready);
        for (line, has_room) in self.epoll.wait()? {
            if line == LISTENER {
                more |= self.accept(ready);
                continue;
            }
            if let Some(stream) = self.lines.get(&line).filter(|_| has_room) {
                if stream.connecting.is_some() {
                    let failed = stream.socket.take_error().unwrap_or_else(Some);
                    if let Err(why) = self.connected(line, failed) {
                        self.give_up(line, why);
                    }
                }
                self.send(line);
            }
            ready.push(Ready::Active(line));
        }
        Ok(more)
    }

    fn read(&mut self, line: Line, into: &mut [u8]) -> io::Result<Read> {
        let Some(stream) = self.lines.get_mut(&line) else { return Ok(Read::Ended) };
        if stream.connecting.is_some() {
            return Ok(Read::Nothing);
        }
        loop {
            return match stream.socket.read(into) {
                // A connection that could not be made ends as well; the reason is known already.
                Ok(0) => stream.failed.take().map_or(Ok(Read::Ended), Err),
                Ok(n) => Ok(Read::Bytes(n)),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => match stream.failed.take() {
                    Some(failed) => Err(failed),
                    None => Ok(Read::Nothing),
                },
                Err(why) => Err(stream.failed.take().unwrap_or(why)),
            };
        }
    }

    fn write(&mut self, line: Line, piece: Piece) {
        let Some(stream) = self.lines.get_mut(&line) else { return };
        if stream.failed.is_none() && !piece.bytes().is_empty() {
            stream.waiting += piece.bytes().len();
            stream.queue.push_back(piece);
            // Otherwise epoll reports when the pieces before it have been sent.
            if stream.queue.len() == 1 {
                self.send(line);
            }
        }
    }

    fn queued(&self, line: Line) -> usize {
        self.lines.get(&line).map_or(0, |stream| stream.waiting)
    }

    fn close(&mut self, line: Line) {
        // The kernel takes a closed socket out of epoll.
        self.lines.remove(&line);
        self.again.remove(&line);
    }
}
