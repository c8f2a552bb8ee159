//! Answers of the agent.

use super::codec::{bad, fields, variants};
use super::{decode, encode};
use crate::client::Stat;
use std::io;

/// An answer; that of an open comes with a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It is done.
    Done,
    /// The number of the error, and a text about it, if any.
    Failed(i32, String),
    /// The handle and the generation.
    Opened(u64, u64),
    /// The file on disk is meant.
    OnDisk(String),
    /// The answer is yet to come: a text for the log.
    Waits(String),
    /// The attributes of the file of a name, if there is one.
    Stat(Option<Stat>),
    /// Names, and whether more follow.
    Names(Vec<Vec<u8>>, bool),
    /// A part of a text, and how many bytes all of it has.
    Text(Vec<u8>, u64),
    /// The number of records that may be read, and the width of that number in bytes; `None` if all
    /// bytes of the file may be read.
    Records(Option<(u64, u64)>),
    /// All bytes of the file are there.
    Whole,
    /// The bytes before this one are there, and those behind may be.
    Until(u64),
}

impl From<&io::Error> for Reply {
    fn from(error: &io::Error) -> Self {
        Self::Failed(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
}

impl Reply {
    /// The answer to a request about an open of an earlier agent.
    pub(crate) fn unknown() -> Self {
        let text = "the agent that knew an open file has ended, and with it what was written";
        Self::Failed(libc::ESTALE, text.into())
    }

    /// The message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// `InvalidData` for an answer that no agent of this version sends.
    pub(crate) fn decode(message: &[u8]) -> io::Result<Self> {
        match decode(message)? {
            Reply::Records(Some((_, width))) if width != 4 && width != 8 => {
                Err(bad("no number of records is so wide"))
            }
            reply => Ok(reply),
        }
    }
}

fields!(Stat { device, inode, mode, size, blocks, modified, generation, area });
variants!(Reply {
    0 Done,
    1 Failed(number, text),
    2 Opened(handle, generation),
    3 OnDisk(text),
    4 Waits(text),
    5 Stat(found),
    6 Names(names, more),
    7 Text(part, total),
    8 Records(found),
    9 Whole,
    10 Until(end),
});
