//! A local socket of packets that carry descriptors, and the process at its other end.

use super::MOST;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The ancillary data of one descriptor, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Packets(OwnedFd);

/// A message, and the descriptor that came with it.
pub(crate) type Packet = (Vec<u8>, Option<OwnedFd>);

/// Two connected ends.
pub(crate) fn pair() -> io::Result<(Packets, Packets)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two numbers into the local array.
    let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new and belong to nobody else.
    let [one, other] = ends.map(|fd| Packets(unsafe { OwnedFd::from_raw_fd(fd) }));
    Ok((one, other))
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

impl Packets {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Process and user at the other end, as they were when it connected.
    pub(crate) fn peer(&self) -> io::Result<(i32, u32)> {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into the local value.
        let result = unsafe {
            let value = (&raw mut peer).cast();
            libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut len)
        };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok((peer.pid, peer.uid)) }
    }

    /// Sends one packet, with a descriptor if there is one. Never raises SIGPIPE.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room and `wait` is false; the other end is closed.
    pub(crate) fn send(&self, message: &[u8], fd: Option<RawFd>, wait: bool) -> io::Result<()> {
        let mut vector =
            libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
        let mut space = Ancillary([0; 64]);
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
        if let Some(fd) = fd {
            header.msg_control = space.0.as_mut_ptr().cast();
            let len = size_of::<RawFd>() as u32;
            // SAFETY: the space is aligned and larger than one descriptor needs, so that the first
            // header and its data lie inside.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(len) as _;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(len) as _;
                libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(fd);
            }
        }
        let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
        loop {
            // SAFETY: the header refers to memory that lives here, which the kernel reads.
            let sent = unsafe { libc::sendmsg(self.fd(), &raw const header, flags) };
            match usize::try_from(sent) {
                Ok(_) => return Ok(()),
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
    }

    /// Whether the other end has received all that was sent.
    pub(crate) fn is_drained(&self) -> bool {
        let mut waiting: libc::c_int = 0;
        // SAFETY: the kernel writes one number into the local value.
        let told = unsafe { libc::ioctl(self.fd(), libc::TIOCOUTQ, &raw mut waiting) };
        told == 0 && waiting == 0
    }

    /// The next packet and the descriptor that came with it; `None` if the other end is closed.
    ///
    /// # Errors
    /// `WouldBlock` if there is none and `wait` is false; `InvalidData` if it is too long.
    pub(crate) fn receive(&self, wait: bool) -> io::Result<Option<Packet>> {
        loop {
            match self.receive_once(wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => return received,
            }
        }
    }

    /// As [`receive`](Self::receive), unless a signal handler comes in between.
    ///
    /// # Errors
    /// `Interrupted`, too.
    pub(crate) fn receive_once(&self, wait: bool) -> io::Result<Option<Packet>> {
        let mut bytes = vec![0u8; MOST];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MOST };
        let mut space = Ancillary([0; 64]);
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
        header.msg_control = space.0.as_mut_ptr().cast();
        header.msg_controllen = space.0.len() as _;
        let flags = libc::MSG_CMSG_CLOEXEC | if wait { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the header refers to memory that lives here, and has its sizes.
        let received = unsafe { libc::recvmsg(self.fd(), &raw mut header, flags) };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let fd = descriptors(&header);
        if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is too long"));
        }
        bytes.truncate(received);
        Ok((received > 0).then_some((bytes, fd)))
    }
}

/// The first descriptor that came with a packet; further ones are closed.
fn descriptors(header: &libc::msghdr) -> Option<OwnedFd> {
    let mut first = None;
    // SAFETY: the kernel filled the header and the ancillary data that it refers to; the macros
    // stay inside of it, and every descriptor there is new and belongs to nobody else.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while let Some(one) = at.as_ref() {
            if (one.cmsg_level, one.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = one.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(at).cast::<RawFd>();
                for index in 0..bytes / size_of::<RawFd>() {
                    let fd = OwnedFd::from_raw_fd(data.add(index).read_unaligned());
                    first.get_or_insert(fd);
                }
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    first
}
