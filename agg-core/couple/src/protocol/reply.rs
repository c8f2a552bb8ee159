//! Answers of the agent.

use super::codec::{Reader, Writer, bad};
use super::{BEGINNING, body};
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
        let mut out = Writer(BEGINNING.to_vec());
        match self {
            Reply::Done => {
                out.byte(0);
            }
            Reply::Failed(number, text) => {
                out.byte(1).number(u64::from(number.unsigned_abs())).bytes(text.as_bytes());
            }
            Reply::Opened(handle, generation) => {
                out.byte(2).number(*handle).number(*generation);
            }
            Reply::OnDisk(text) => {
                out.byte(3).bytes(text.as_bytes());
            }
            Reply::Waits(text) => {
                out.byte(4).bytes(text.as_bytes());
            }
            Reply::Stat(None) => {
                out.byte(5);
            }
            Reply::Stat(Some(stat)) => {
                let (seconds, nanoseconds) = stat.modified;
                out.byte(6).number(stat.device).number(stat.inode).number(stat.mode.into());
                out.number(stat.size).number(stat.blocks).number(seconds.cast_unsigned());
                out.number(nanoseconds.cast_unsigned()).number(stat.generation);
                out.number(stat.area);
            }
            Reply::Names(names, more) => {
                out.byte(7).byte((*more).into()).number(names.len() as u64);
                names.iter().for_each(|name| {
                    out.bytes(name);
                });
            }
            Reply::Text(part, total) => {
                out.byte(8).bytes(part).number(*total);
            }
            Reply::Records(None) => {
                out.byte(9);
            }
            Reply::Records(Some((records, width))) => {
                out.byte(10).number(*records).number(*width);
            }
            Reply::Whole => _ = out.byte(11),
        }
        out.0
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// `InvalidData` for an answer that no agent of this version sends.
    pub(crate) fn decode(message: &[u8]) -> io::Result<Self> {
        let mut from = Reader(body(message)?);
        let reply = match from.byte()? {
            0 => Reply::Done,
            1 => {
                let number = i32::try_from(from.number()?);
                Reply::Failed(number.map_err(|_| bad("no error has its number"))?, from.text()?)
            }
            2 => Reply::Opened(from.number()?, from.number()?),
            3 => Reply::OnDisk(from.text()?),
            4 => Reply::Waits(from.text()?),
            5 => Reply::Stat(None),
            6 => Reply::Stat(Some(stat(&mut from)?)),
            7 => {
                let ([more], count) = (from.flags()?, from.number()?);
                let names = (0..count).map(|_| from.bytes()).collect::<io::Result<_>>()?;
                Reply::Names(names, more)
            }
            8 => Reply::Text(from.bytes()?, from.number()?),
            9 => Reply::Records(None),
            10 => match (from.number()?, from.number()?) {
                (records, width @ (4 | 8)) => Reply::Records(Some((records, width))),
                _ => return Err(bad("no number of records is so wide")),
            },
            11 => Reply::Whole,
            _ => return Err(bad("it is of no known kind")),
        };
        from.end()?;
        Ok(reply)
    }
}

fn stat(from: &mut Reader<'_>) -> io::Result<Stat> {
    Ok(Stat {
        device: from.number()?,
        inode: from.number()?,
        mode: u32::try_from(from.number()?).map_err(|_| bad("a mode is too large"))?,
        size: from.number()?,
        blocks: from.number()?,
        modified: (from.number()?.cast_signed(), from.number()?.cast_signed()),
        generation: from.number()?,
        area: from.number()?,
    })
}
