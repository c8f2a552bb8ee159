//! The messages between programs and their agent: bounded, versioned, each in one packet.

mod codec;
mod options;
mod reply;
mod socket;

#[cfg(test)]
mod tests;

use crate::registry::{Ask, Options};
use aggio_base::Extent;
pub(crate) use codec::{Reader, Writer, bad, flags};
pub(crate) use options::{read_options, write_options};
use std::io;

pub(crate) use reply::Reply;
pub(crate) use socket::{Packet, Packets, address, pair};

/// Bytes of a message at most.
pub(crate) const MOST: usize = 32 << 10;

/// Begins every message: a mark, and the version of the protocol.
const BEGINNING: [u8; 4] = *b"AGC\x0c";

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
        spools: Vec<String>,
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
            | Request::Fetch(handle, ..) => Some(*handle),
            _ => None,
        }
    }

    /// The message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(BEGINNING.to_vec());
        match self {
            Request::Hello { job, ranks, rank, command, spools } => {
                out.byte(0).bytes(job.as_bytes()).number(u64::from(*ranks));
                out.number(u64::from(*rank)).bytes(command.as_bytes());
                out.list(spools, |out, spool| _ = out.text(spool));
            }
            Request::Open { ask, read, append, blocking, parts, mode } => {
                let how = [ask.write, ask.create, ask.exclusive, ask.truncate];
                out.byte(1).bytes(&ask.path).byte(flags(&how));
                let how = [*read, *append, *blocking, ask.view, *parts];
                out.byte(flags(&how)).number(u64::from(*mode));
                out.number(ask.key);
                write_options(&mut out, &ask.options);
            }
            Request::Adopt(device, inode, how, key) => {
                _ = out.byte(2).number(*device).number(*inode).byte(flags(how)).number(*key)
            }
            Request::Close(handle, moved) => _ = out.byte(3).number(*handle).number(*moved),
            Request::Sync(handle) => _ = out.byte(4).number(*handle),
            Request::Empty(path) => _ = out.byte(5).bytes(path),
            Request::Unlink(path, options) => write_options(out.byte(6).bytes(path), options),
            Request::Rename(from, to, options) => {
                write_options(out.byte(7).bytes(from).bytes(to), options);
            }
            Request::Stat(path, options) => write_options(out.byte(8).bytes(path), options),
            Request::List(dir, after, view) => {
                _ = out.byte(9).bytes(dir).bytes(after).byte(flags(&[*view]))
            }
            Request::Goodbye => _ = out.byte(10),
            Request::Status(from) => _ = out.byte(11).number(*from),
            Request::Drop(path) => _ = out.byte(12).bytes(path),
            Request::Quit => _ = out.byte(13),
            Request::Check(handle, moved) => _ = out.byte(14).number(*handle).number(*moved),
            Request::Withdraw(handle) => _ = out.byte(15).number(*handle),
            Request::Cancel => _ = out.byte(16),
            Request::Announce(handle, before) => {
                _ = out.byte(18).number(*handle).byte(*before as u8)
            }
            Request::Spoil(handle) => _ = out.byte(19).number(*handle),
            Request::Renew(handle) => _ = out.byte(20).number(*handle),
            Request::Resize(handle, size) => _ = out.byte(21).number(*handle).number(*size),
            Request::ChildLost(handle) => _ = out.byte(22).number(*handle),
            Request::Wrote(handle, extents) => {
                write_extents(out.byte(24).number(*handle), extents);
            }
            Request::Fetch(handle, extents, ahead) => {
                write_extents(out.byte(23).number(*handle).number(*ahead), extents);
            }
            Request::Records(handle, told) => _ = out.byte(17).number(*handle).number(*told),
        }
        out.0
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
        let mut from = Reader(body(message)?);
        let small = |number: u64| u32::try_from(number).map_err(|_| bad("a number is too large"));
        let request = match from.byte()? {
            0 => Request::Hello {
                job: from.text()?,
                ranks: small(from.number()?)?,
                rank: small(from.number()?)?,
                command: from.text()?,
                spools: from.list(directory)?,
            },
            1 => open(&mut from)?,
            2 => {
                let (device, inode, how) = (from.number()?, from.number()?, from.flags()?);
                Request::Adopt(device, inode, how, from.number()?)
            }
            3 => Request::Close(from.number()?, from.number()?),
            4 => Request::Sync(from.number()?),
            5 => Request::Empty(from.bytes()?),
            6 => Request::Unlink(from.bytes()?, read_options(&mut from)?),
            7 => Request::Rename(from.bytes()?, from.bytes()?, read_options(&mut from)?),
            8 => Request::Stat(from.bytes()?, read_options(&mut from)?),
            9 => {
                let (dir, after, [view]) = (from.bytes()?, from.bytes()?, from.flags()?);
                Request::List(dir, after, view)
            }
            10 => Request::Goodbye,
            11 => Request::Status(from.number()?),
            12 => Request::Drop(from.bytes()?),
            13 => Request::Quit,
            14 => Request::Check(from.number()?, from.number()?),
            15 => Request::Withdraw(from.number()?),
            16 => Request::Cancel,
            18 => {
                let (handle, before) = (from.number()?, from.byte()?);
                let all = [Before::Others, Before::Variable, Before::All];
                let before = all.get(usize::from(before));
                Request::Announce(handle, *before.ok_or_else(|| bad("it announces nothing"))?)
            }
            17 => Request::Records(from.number()?, from.number()?),
            19 => Request::Spoil(from.number()?),
            20 => Request::Renew(from.number()?),
            21 => Request::Resize(from.number()?, from.number()?),
            22 => Request::ChildLost(from.number()?),
            24 => Request::Wrote(from.number()?, read_extents(&mut from)?),
            23 => {
                let (handle, ahead) = (from.number()?, from.number()?);
                Request::Fetch(handle, read_extents(&mut from)?, ahead)
            }
            _ => return Err(bad("it is of no known kind")),
        };
        from.end()?;
        Ok(request)
    }
}

fn write_extents(out: &mut Writer, extents: &[Extent]) {
    out.list(extents, |out, extent| _ = out.number(extent.offset).number(extent.len));
}

fn read_extents(from: &mut Reader<'_>) -> io::Result<Vec<Extent>> {
    from.list(|from| {
        let (offset, len) = (from.number()?, from.number()?);
        let extent = Extent::new(offset, len);
        if extent.len == len { Ok(extent) } else { Err(bad("a range is longer than any file")) }
    })
}

fn directory(from: &mut Reader<'_>) -> io::Result<String> {
    let path = from.text()?;
    if path.starts_with('/') { Ok(path) } else { Err(bad("a directory has no absolute name")) }
}

fn open(from: &mut Reader<'_>) -> io::Result<Request> {
    let path = from.bytes()?;
    let [write, create, exclusive, truncate] = from.flags()?;
    let [read, append, blocking, view, parts] = from.flags()?;
    let mode = u32::try_from(from.number()?).map_err(|_| bad("a mode is too large"))?;
    let (key, options) = (from.number()?, read_options(from)?);
    let tells = false;
    let ask = Ask { path, write, create, exclusive, truncate, view, key, tells, options };
    Ok(Request::Open { ask, read, append, blocking, parts, mode })
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
