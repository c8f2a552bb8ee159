//! The request of a client to the agent of a host: a command with its directory, environment and
//! standard streams.

use std::ffi::{OsStr, OsString};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Standard input, output and error.
const STREAMS: usize = 3;

/// Space for a control message with the descriptors, aligned like its header.
type Control = [u64; 8];

/// A command to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The directory it starts in.
    pub(super) directory: PathBuf,
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// Its whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Request {
    /// Sends the request together with this process' standard streams.
    ///
    /// # Errors
    ///
    /// If the connection fails.
    pub(super) fn send(&self, connection: &UnixStream) -> io::Result<()> {
        send_streams(connection, [0, 1, 2])?;
        let mut bytes = Vec::new();
        put_list(&mut bytes, [self.directory.as_os_str()]);
        put_list(&mut bytes, self.words.iter().map(OsString::as_os_str));
        let pairs = self.environment.iter().flat_map(|(name, value)| [&**name, &**value]);
        put_list(&mut bytes, pairs);
        let mut connection = connection;
        connection.write_all(&bytes)
    }

    /// Receives a request and the streams that came with it.
    ///
    /// # Errors
    ///
    /// If the connection fails or sends something else.
    pub(super) fn receive(connection: &UnixStream) -> io::Result<(Self, [OwnedFd; STREAMS])> {
        let streams = receive_streams(connection)?;
        let directory = take_list(connection)?.pop().unwrap_or_default().into();
        let words = take_list(connection)?;
        let pairs = take_list(connection)?;
        let environment =
            pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        Ok((Request { directory, words, environment }, streams))
    }
}

fn put_list<'a>(bytes: &mut Vec<u8>, list: impl IntoIterator<Item = &'a OsStr>) {
    let list: Vec<_> = list.into_iter().collect();
    bytes.extend(list.len().to_le_bytes());
    for text in list {
        bytes.extend(text.len().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
}

fn take_list(connection: &UnixStream) -> io::Result<Vec<OsString>> {
    let count = take_number(connection)?;
    (0..count)
        .map(|_| {
            let mut text = vec![0; take_number(connection)?];
            let mut connection = connection;
            connection.read_exact(&mut text)?;
            Ok(OsString::from_vec(text))
        })
        .collect()
}

fn take_number(connection: &UnixStream) -> io::Result<usize> {
    let mut bytes = [0; size_of::<usize>()];
    let mut connection = connection;
    connection.read_exact(&mut bytes)?;
    Ok(usize::from_le_bytes(bytes))
}

/// A message of one byte, to which descriptors can be attached.
fn message(byte: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zeros is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = byte;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>();
    header
}

fn send_streams(connection: &UnixStream, streams: [RawFd; STREAMS]) -> io::Result<()> {
    let (mut control, mut byte) = ([0; 8], [0u8]);
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut header = message(&mut part, &mut control);
    let length = size_of_val(&streams) as u32;
    // SAFETY: `control` has space for one control message with three descriptors; CMSG_FIRSTHDR and
    // CMSG_DATA return pointers to its header and data. Everything outlives the call.
    let sent = unsafe {
        header.msg_controllen = libc::CMSG_SPACE(length) as usize;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(length) as usize;
        libc::CMSG_DATA(first).cast::<[RawFd; STREAMS]>().write_unaligned(streams);
        libc::sendmsg(connection.as_raw_fd(), &raw const header, 0)
    };
    if sent == 1 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn receive_streams(connection: &UnixStream) -> io::Result<[OwnedFd; STREAMS]> {
    let (mut control, mut byte) = ([0; 8], [0u8]);
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut header = message(&mut part, &mut control);
    // SAFETY: the header describes buffers that outlive the call. A control message of the length
    // tested for holds three descriptors, new in this process, that no other code owns.
    unsafe {
        let flags = libc::MSG_CMSG_CLOEXEC;
        if libc::recvmsg(connection.as_raw_fd(), &raw mut header, flags) != 1 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "no request"));
        }
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        let length = size_of::<[RawFd; STREAMS]>() as u32;
        if first.is_null() || (*first).cmsg_len != libc::CMSG_LEN(length) as usize {
            return Err(Error::new(ErrorKind::InvalidData, "no standard streams"));
        }
        let streams = libc::CMSG_DATA(first).cast::<[RawFd; STREAMS]>().read_unaligned();
        Ok(streams.map(|fd| OwnedFd::from_raw_fd(fd)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_as_it_was_sent_with_three_streams() {
        let request = Request {
            directory: "/somewhere".into(),
            words: vec!["echo".into(), "".into(), "a b\nc".into()],
            environment: vec![("NAME".into(), "".into()), ("OTHER".into(), "x=y".into())],
        };
        let (one, other) = UnixStream::pair().unwrap();
        request.send(&one).unwrap();
        let (received, streams) = Request::receive(&other).unwrap();
        assert_eq!(received, request);
        assert!(streams.iter().all(|stream| stream.as_raw_fd() > 2));
    }

    #[test]
    fn a_connection_without_a_request_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        drop(one);
        assert!(Request::receive(&other).is_err());
    }
}
