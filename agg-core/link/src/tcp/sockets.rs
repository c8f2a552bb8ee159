//! The system calls of TCP that the standard library lacks.

use crate::wire::Line;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Reports the descriptors that are ready.
pub(super) struct Epoll(OwnedFd);

impl Epoll {
    /// Most descriptors that are reported at once.
    const EVENTS: usize = 64;

    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved; the descriptor is new.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn control(&self, what: libc::c_int, fd: RawFd, line: Line, room: bool) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLRDHUP | if room { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: events as u32, u64: line };
        // SAFETY: the kernel reads the local value.
        checked(unsafe { libc::epoll_ctl(self.descriptor(), what, fd, &raw mut event) }).map(drop)
    }

    /// Watches `fd` for bytes to read, and for room if `room`.
    pub(super) fn add(&self, fd: RawFd, line: Line, room: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, line, room)
    }

    /// The same for a descriptor that is watched already.
    pub(super) fn change(&self, fd: RawFd, line: Line, room: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, line, room)
    }

    /// Which have something to do now, and whether each has room or an error.
    pub(super) fn wait(&self) -> io::Result<Vec<(Line, bool)>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; Self::EVENTS];
        let (place, most) = (events.as_mut_ptr(), Self::EVENTS as libc::c_int);
        // SAFETY: the kernel fills at most as many events as there is room for.
        let n = match checked(unsafe { libc::epoll_wait(self.descriptor(), place, most, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        let room = (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32;
        Ok(events[..n as usize].iter().map(|event| (event.u64, event.events & room != 0)).collect())
    }
}

/// Sends as much of `slices` as there is room for.
pub(super) fn send(fd: RawFd, slices: &[&[u8]]) -> io::Result<usize> {
    let vector = |slice: &&[u8]| libc::iovec {
        iov_base: slice.as_ptr().cast_mut().cast(),
        iov_len: slice.len(),
    };
    let mut vectors: Vec<libc::iovec> = slices.iter().map(vector).collect();
    // SAFETY: all-zero bytes are a valid message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len() as _;
    // SAFETY: the kernel reads the borrowed slices.
    let n = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// A socket that can connect to `address`.
pub(super) fn unconnected(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: only numbers; the descriptor is new.
    Ok(unsafe { TcpStream::from_raw_fd(checked(libc::socket(family, kind, 0))?) })
}

/// Begins to connect a socket; epoll reports when it has room, or has failed.
pub(super) fn begin_to_connect(socket: &TcpStream, address: SocketAddr) -> io::Result<()> {
    let (storage, len) = raw(address);
    // SAFETY: the kernel reads `len` bytes of the local value.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const storage).cast(), len) };
    match checked(result) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// The system's form of an address.
pub(crate) fn raw(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid address of no family.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    let len = match address {
        SocketAddr::V4(address) => {
            let (family, port) = (libc::AF_INET as _, address.port().to_be());
            let number = libc::in_addr { s_addr: u32::from(*address.ip()).to_be() };
            let whole = libc::sockaddr_in {
                sin_family: family,
                sin_port: port,
                sin_addr: number,
                sin_zero: [0; 8],
            };
            // SAFETY: `sockaddr_storage` has room and alignment for every address.
            unsafe { place.cast::<libc::sockaddr_in>().write(whole) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let whole = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(whole) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

/// The address by which other nodes reach this one: that of its host name. Without one, or if that
/// is loopback, only this node itself can connect.
pub fn own_address() -> IpAddr {
    let name = String::from_utf8(aggio_base::host::name()).ok();
    let found = name.as_deref().and_then(|name| (name, 0).to_socket_addrs().ok());
    let mut found = found.into_iter().flatten().map(|address| address.ip());
    found.find(|address| !address.is_loopback()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}
