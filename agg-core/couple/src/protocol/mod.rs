//! The messages between programs and their agent: bounded, versioned, each in one packet.

mod codec;
mod options;
mod reply;
mod socket;

#[cfg(test)]
mod tests;

use crate::registry::{Ask, Directory, Options};
use aggio_base::Extent;
pub(crate) use codec::{Field, Reader, Writer, bad, fields, variants};
use std::io;

pub(crate) use reply::Reply;
pub(crate) use socket::{Packet, Packets, address, pair};

/// Bytes of a message at most.
pub(crate) const MOST: usize = 32 << 10;

/// Begins every message: a mark, and the version of the protocol.
const BEGINNING: [u8; 4] = *b"AGC\x0e";

/// A message from a program to its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The first message: the process names itself. The kernel tells its number.
    Hello {
        /// The launcher's name of the program; empty for a process alone.
        job: String,
        /// Processes of that program.
        ranks: u32,
        /// Its rank.
        rank: u32,
        /// The name of the process in messages.
        command: String,
        /// Directories of its rules that have generations which survive agents.
        spools: Vec<Directory>,
    },
    /// [`super::Client::open`]
    Open {
        /// The name, and how to open it.
        ask: Ask,
        /// Data may be read.
        read: bool,
        /// Each write goes to the end.
        append: bool,
        /// It may be made to wait.
        blocking: bool,
        /// The program fetches the bytes that it reads, so that not all need to be there.
        parts: bool,
        /// Permissions of a new file.
        mode: u32,
    },
    /// [`super::Client::adopt`]: device and inode of a descriptor, whether it may write, whether
    /// the process will say which bytes it wrote, and a key.
    Adopt(u64, u64, [bool; 2], u64),
    /// [`super::Client::close`]: the handle, bytes that were moved.
    Close(u64, u64),
    /// [`super::Client::sync`]
    Sync(u64),
    /// [`super::Client::truncate`] to no bytes.
    Empty(Vec<u8>),
    /// [`super::Client::unlink`]
    Unlink(Vec<u8>, Options),
    /// [`super::Client::rename`], where both names are coupled.
    Rename(Vec<u8>, Vec<u8>, Options),
    /// [`super::Client::stat`]
    Stat(Vec<u8>, Options),
    /// [`super::Client::list`], from this name on; whether all names that may be viewed are meant.
    List(Vec<u8>, Vec<u8>, bool),
    /// [`super::Client::goodbye`]
    Goodbye,
    /// Asks for the state of the agent as JSON, from this byte on.
    Status(u64),
    /// Gives up all complete generations of a file.
    Drop(Vec<u8>),
    /// [`super::Client::check`]: the handle, bytes that were moved.
    Check(u64, u64),
    /// Ends the agent if no program is connected.
    Quit,
    /// [`super::Client::withdraw`]
    Withdraw(u64),
    /// The open that this connection waits for is not wanted any more. It is answered, unless that
    /// has happened; this message itself is not.
    Cancel,
    /// [`super::Client::records`]: the handle, and one more than the number that was told last.
    Records(u64, u64),
    /// [`super::Client::announce`]: the handle, and the bytes that were written before.
    Announce(u64, Before),
    /// [`super::Client::spoil`]
    Spoil(u64),
    /// [`super::Client::renew`]
    Renew(u64),
    /// [`super::Client::resize`]: the handle, the size.
    Resize(u64, u64),
    /// [`super::Client::lose_child`]
    ChildLost(u64),
    /// [`super::Client::wrote`]: the handle, and which bytes.
    Wrote(u64, Vec<Extent>),
    /// [`super::Client::fetch`]: the handle, which bytes, and how many behind them.
    Fetch(u64, Vec<Extent>, u64),
    /// [`super::Client::reach`]: the handle, and the end of the bytes.
    Reach(u64, u64),
}

/// The parts of a netCDF file that were written before the number of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// All records but the last one.
    Others,
    /// One variable of the last record, too.
    Variable,
    /// All of them.
    All,
}

impl Request {
    /// The name that a request is about, and whether it makes its node the owner.
    pub(crate) fn name(&self) -> Option<(&[u8], bool)> {
        match self {
            Request::Open { ask, .. } => Some((&ask.path, !ask.view)),
            Request::Empty(path)
            | Request::Unlink(path, _)
            | Request::Rename(path, _, _)
            | Request::Stat(path, _) => Some((path, false)),
            _ => None,
        }
    }

    /// The open file that the request is about.
    pub(crate) fn handle(&self) -> Option<u64> {
        match self {
            Request::Close(handle, _)
            | Request::Check(handle, _)
            | Request::Sync(handle)
            | Request::Renew(handle)
            | Request::Resize(handle, _)
            | Request::Announce(handle, _)
            | Request::Records(handle, _)
            | Request::Withdraw(handle)
            | Request::Spoil(handle)
            | Request::ChildLost(handle)
            | Request::Wrote(handle, _)
            | Request::Fetch(handle, ..)
            | Request::Reach(handle, _) => Some(*handle),
            _ => None,
        }
    }

    /// The message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Whether it may be sent again to another agent, if the outcome of the first is unknown.
    pub(crate) fn may_be_repeated(&self) -> bool {
        !matches!(
            self,
            Request::Empty(_)
                | Request::Unlink(..)
                | Request::Rename(..)
                | Request::Drop(_)
                | Request::Quit
        )
    }

    /// Whether its file may survive an agent.
    pub(crate) fn may_survive(&self) -> bool {
        match self {
            Request::Open { ask: Ask { options, .. }, .. }
            | Request::Unlink(_, options)
            | Request::Rename(_, _, options)
            | Request::Stat(_, options) => options.survives,
            _ => true,
        }
    }

    /// The file that it is about, as messages name it.
    pub(crate) fn subject(&self) -> String {
        match self {
            Request::Open { ask: Ask { path, .. }, .. }
            | Request::Empty(path)
            | Request::Unlink(path, _)
            | Request::Rename(path, _, _)
            | Request::Stat(path, _)
            | Request::List(path, _, _)
            | Request::Drop(path) => String::from_utf8_lossy(path).into_owned(),
            _ => "coupled files".into(),
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// `InvalidData` for a message that no program of this version sends.
    pub(crate) fn decode(message: &[u8]) -> io::Result<Self> {
        decode(message)
    }
}

fields!(Ask { path, write, create, exclusive, truncate, view, key, tells, options });
variants!(Before { 0 Others, 1 Variable, 2 All, });
variants!(Request {
    0 Hello { job, ranks, rank, command, spools },
    1 Open { ask, read, append, blocking, parts, mode },
    2 Adopt(device, inode, how, key),
    3 Close(handle, moved),
    4 Sync(handle),
    5 Empty(path),
    6 Unlink(path, options),
    7 Rename(old, new, options),
    8 Stat(path, options),
    9 List(dir, after, view),
    10 Goodbye,
    11 Status(start),
    12 Drop(path),
    13 Quit,
    14 Check(handle, moved),
    15 Withdraw(handle),
    16 Cancel,
    17 Records(handle, told),
    18 Announce(handle, before),
    19 Spoil(handle),
    20 Renew(handle),
    21 Resize(handle, size),
    22 ChildLost(handle),
    23 Fetch(handle, extents, ahead),
    24 Wrote(handle, extents),
    25 Reach(handle, end),
});

/// A message with its beginning.
fn encode(message: &impl Field) -> Vec<u8> {
    let mut out = Writer(BEGINNING.to_vec());
    message.write(&mut out);
    out.0
}

/// A message with its beginning, and nothing behind it.
fn decode<T: Field>(message: &[u8]) -> io::Result<T> {
    let mut from = Reader(body(message)?);
    let message = T::read(&mut from)?;
    from.end()?;
    Ok(message)
}

/// Returns the message without its beginning.
fn body(message: &[u8]) -> io::Result<&[u8]> {
    match message.split_at_checked(BEGINNING.len()) {
        Some((beginning, body)) if beginning == BEGINNING => Ok(body),
        Some((beginning, _)) if beginning[..3] == BEGINNING[..3] => {
            Err(bad("it is of another version of aggio; end its programs, then start them again"))
        }
        _ => Err(bad("it does not begin as one")),
    }
}
