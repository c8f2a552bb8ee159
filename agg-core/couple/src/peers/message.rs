//! Messages between agents of different nodes.

use crate::protocol::{Field, Reader, Writer, fields, variants};
use std::io;

/// A process of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteProcess {
    /// Its program, the same word on all nodes.
    pub(crate) job: String,
    /// Which earlier processes it follows, the same word on all nodes.
    pub(crate) family: String,
    /// How many processes its program has.
    pub(crate) ranks: u32,
    /// How messages name it.
    pub(crate) label: String,
}

/// A file that was opened for a process of another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) handle: u64,
    pub(crate) generation: u64,
    /// The owner's number of its memory.
    pub(crate) area: u64,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    /// Programs of other nodes write it as well.
    pub(crate) shared: bool,
    /// Readers may have it before it is complete.
    pub(crate) early: bool,
    /// The bytes that the process writes stay on its node.
    pub(crate) keeps: bool,
}

impl Away {
    /// Whether its copy gets and sends differences while it is written.
    pub(crate) fn is_renewed(&self) -> bool {
        self.shared || self.early
    }
}

/// One message. The first group goes to the owner of a name, the second comes from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The name of the sender: the agent that has made this connection.
    Caller(String),
    /// A process of the sender's node will ask.
    Join(u64, RemoteProcess),
    /// A request of that process, as it came; the answer carries this ticket.
    Ask { process: u64, ticket: u64, request: Vec<u8> },
    /// A process holds a descriptor of this memory that another one of its node opened.
    Adopt { process: u64, ticket: u64, area: u64, write: bool, tells: bool },
    /// It has ended, in order or not.
    Left(u64, bool),
    /// Asks for the nodes that have parts of a generation; the body has the places.
    Locate(u64),
    /// The receiver knows all that was written to a memory by so many opens for writing, which
    /// have ended, and the sender has announced its bytes to the subscribers of this series.
    Stored(u64, u64, Vec<u8>),
    /// The sender's programs have let this memory have so many bytes: more than before, or fewer if
    /// they have cut it.
    Size(u64, u64, bool),
    /// The body is the difference in this memory from the last bytes of the sender.
    Differ(u64),
    /// Asks for the size of this memory.
    Look(u64),
    /// Wants bytes that several nodes write, unless they have this digest: memory, offset,
    /// length.
    Renew(u64, u64, u64, [u64; 2]),
    /// The sender's programs have written something here, of which what differs is sent: memory,
    /// offset, length.
    Memory(u64, u64, u64),
    /// A `Cut` of this memory, if that is true, was carried out. If not, a `Share` or a `Gather`
    /// was: all bytes written so far were sent, and differences follow.
    Acknowledged(u64, bool),

    /// The request with this ticket is for another agent: its name has another owner now.
    Moved(u64),
    /// The answer with this ticket.
    Answer(u64, Vec<u8>),
    /// The open with this ticket has succeeded; the body is as for `Where`, or empty.
    Opened(u64, Away),
    /// Bytes that were wanted of memory that several nodes write: memory, offset, length. The body
    /// has those that the receiver does not keep itself.
    Data(u64, u64, u64),
    /// Nobody needs this memory any more.
    Free(u64),
    /// The file of this memory, which the receiver's node writes, has so many bytes from now on.
    Cut(u64, u64),
    /// Another node writes this memory as well.
    Share(u64),
    /// The size of a memory.
    Looked(u64, u64),
    /// The wanted bytes have this digest: memory, offset.
    Same(u64, u64),
    /// This memory, which programs of the receiver's node have open, has other bytes than before.
    News(u64),
    /// Bytes that the receiver's node has written are to be sent, as far as they lie before
    /// the first offset, or end behind the second one: memory, offsets.
    Gather(u64, u64, u64),
    /// The sender keeps bytes of this memory that its programs have written; the body says which.
    /// The number of the report follows.
    Keeps(u64, u64),
    /// The body names the nodes that have parts of this memory.
    Where(u64),
    /// Wants bytes that the receiver keeps for an owner, by the words and the number of that; the
    /// body has their places, and the answers carry this tag.
    Take { tag: u64, owner: String, area: u64 },
    /// The body is bytes from this offset on, which the sender has announced by this tag, or which
    /// were wanted by it.
    Part { tag: u64, pushed: bool, offset: u64 },
    /// The same of several parts; the body has their places.
    Parts { tag: u64, pushed: bool },
    /// The sender does not keep all bytes that were wanted by this tag.
    NotKept(u64),
    /// The sender needs no bytes of this memory any more that the receiver keeps.
    Released(u64),
    /// Bytes of this memory that the receiver keeps are to move to a directory.
    Spill(u64, String),
    /// They have, or the number of the error.
    Spilled(u64, i32),
    /// The sender's programs read places of each generation of a series of files: those of the
    /// body, or those with this number that an earlier one had. It accepts so many generations.
    Subscribe { owner: String, series: Vec<u8>, number: u64, credit: u32 },
    /// The subscription is noted. So many generations after the one with this number will be
    /// announced by `Push`.
    Subscribed { owner: String, series: Vec<u8>, number: u64, credit: u32, after: u64 },
    /// The sender's part of a generation is complete. Parts with this tag follow for all places of
    /// the subscription with this number, or nothing if the tag is 0.
    Push { owner: String, series: Vec<u8>, number: u64, area: u64, report: u64, tag: u64 },
}

impl Message {
    /// The head of its frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.write(&mut out);
        out.0
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// `InvalidData` for a head that no agent of this version sends.
    pub(crate) fn decode(head: &[u8]) -> io::Result<Self> {
        let mut from = Reader(head);
        let message = Self::read(&mut from)?;
        from.end()?;
        Ok(message)
    }
}

fields!(RemoteProcess { job, family, ranks, label });
fields!(Away { handle, generation, area, size, mode, shared, early, keeps });
variants!(Message {
    0 Join(process, who),
    1 Ask { process, ticket, request },
    2 Adopt { process, ticket, area, write, tells },
    3 Left(process, orderly),
    4 Locate(area),
    5 Caller(caller),
    6 Moved(ticket),
    7 Stored(area, opens, series),
    8 Answer(ticket, reply),
    9 Opened(ticket, away),
    10 Data(area, offset, len),
    11 Free(area),
    12 Cut(area, size),
    13 Share(area),
    14 Looked(area, size),
    15 Same(area, offset),
    16 Size(area, size, cut),
    17 Differ(area),
    18 Look(area),
    19 Renew(area, offset, len, digest),
    20 Acknowledged(area, cut),
    21 News(area),
    22 Memory(area, offset, len),
    23 Gather(area, head, start),
    24 Keeps(area, report),
    25 Where(area),
    26 Take { tag, owner, area },
    27 Part { tag, pushed, offset },
    28 Parts { tag, pushed },
    29 NotKept(tag),
    30 Released(area),
    31 Spill(area, directory),
    32 Spilled(area, error),
    33 Subscribe { owner, series, number, credit },
    34 Subscribed { owner, series, number, credit, after },
    35 Push { owner, series, number, area, report, tag },
});

#[cfg(test)]
mod tests;
