//! Messages between agents of different nodes.

use crate::protocol::{Reader, Writer, bad, flags};
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
    fn encode(&self, out: &mut Writer) {
        out.number(self.handle).number(self.generation);
        out.number(self.area).number(self.size).number(self.mode.into());
        out.byte(flags(&[self.shared, self.early, self.keeps]));
    }

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
    /// All bytes of this memory written so far were sent, and differences follow.
    Shared(u64),
    /// The sender's programs have written something here, of which what differs is sent: memory,
    /// offset, length.
    Memory(u64, u64, u64),
    /// The memory was cut.
    IsCut(u64),

    /// The request with this ticket is for another agent: its name has another owner now.
    Moved(u64),
    /// The answer with this ticket.
    Answer(u64, Vec<u8>),
    /// The open with this ticket has succeeded; the body is as for `Where`, or empty.
    Opened(u64, Away),
    /// The body is the wanted bytes: memory, offset.
    Data(u64, u64),
    /// The receiver's programs will probably open this file, and have not opened it yet.
    /// The body is as for `Where`, or empty.
    Offer(Vec<u8>, Away),
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
    /// The body is bytes that were wanted by this tag, from this offset on.
    Kept(u64, u64),
    /// The sender does not keep all bytes that were wanted by this tag.
    NotKept(u64),
    /// The sender needs no bytes of this memory any more that the receiver keeps.
    Released(u64),
    /// What was wanted of memory that several nodes write, offset and length: the body has all that
    /// the receiver does not keep itself.
    Rest(u64, u64, u64),
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
    /// The sender's part of a generation is complete. `Pushed` with this tag follow for all places
    /// of the subscription with this number, or nothing if the tag is 0.
    Push { owner: String, series: Vec<u8>, number: u64, area: u64, report: u64, tag: u64 },
    /// The body is bytes that the sender has announced by this tag, from this offset on.
    Pushed(u64, u64),
    /// The body is several parts with their places: what was wanted by this tag, or was announced
    /// by it.
    Parts(u64, bool),
}

impl Message {
    /// The head of its frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Message::Join(process, who) => {
                out.byte(0).number(*process).bytes(who.job.as_bytes());
                out.bytes(who.family.as_bytes()).number(who.ranks.into());
                out.bytes(who.label.as_bytes());
            }
            Message::Ask { process, ticket, request } => {
                out.byte(1).number(*process).number(*ticket).bytes(request);
            }
            Message::Adopt { process, ticket, area, write, tells } => {
                out.byte(2).number(*process).number(*ticket).number(*area);
                out.byte(flags(&[*write, *tells]));
            }
            Message::Left(process, orderly) => {
                out.byte(3).number(*process).byte(flags(&[*orderly]));
            }
            Message::Locate(area) => _ = out.byte(4).number(*area),
            Message::Stored(area, opens, series) => {
                out.byte(7).number(*area).number(*opens).bytes(series);
            }
            Message::Answer(ticket, reply) => {
                out.byte(8).number(*ticket).bytes(reply);
            }
            Message::Opened(ticket, away) => {
                away.encode(out.byte(9).number(*ticket));
            }
            Message::Offer(path, away) => {
                away.encode(out.byte(25).bytes(path));
            }
            Message::Data(area, offset) => {
                out.byte(10).number(*area).number(*offset);
            }
            Message::Free(area) => {
                out.byte(11).number(*area);
            }
            Message::Cut(area, size) => {
                out.byte(12).number(*area).number(*size);
            }
            Message::Caller(caller) => _ = out.byte(26).text(caller),
            Message::Moved(ticket) => _ = out.byte(27).number(*ticket),
            other => other.encode_shared(&mut out),
        }
        out.0
    }

    /// The head of a message about memory that several nodes write.
    fn encode_shared(&self, out: &mut Writer) {
        match self {
            Message::Share(area) => _ = out.byte(13).number(*area),
            Message::Looked(area, size) => _ = out.byte(14).number(*area).number(*size),
            Message::Same(area, offset) => _ = out.byte(15).number(*area).number(*offset),
            Message::Size(area, size, cut) => {
                out.byte(16).number(*area).number(*size).byte(flags(&[*cut]));
            }
            Message::Differ(area) => _ = out.byte(17).number(*area),
            Message::Look(area) => _ = out.byte(18).number(*area),
            Message::Renew(area, offset, len, digest) => {
                out.byte(19).number(*area).number(*offset).number(*len);
                out.number(digest[0]).number(digest[1]);
            }
            Message::Shared(area) => _ = out.byte(20).number(*area),
            Message::IsCut(area) => _ = out.byte(21).number(*area),
            Message::News(area) => _ = out.byte(22).number(*area),
            Message::Memory(area, offset, len) => {
                out.byte(23).number(*area).number(*offset).number(*len);
            }
            Message::Gather(area, head, from) => {
                out.byte(24).number(*area).number(*head).number(*from);
            }
            Message::Keeps(area, report) => _ = out.byte(28).number(*area).number(*report),
            Message::Where(area) => _ = out.byte(29).number(*area),
            Message::Take { tag, owner, area } => {
                out.byte(30).number(*tag).text(owner).number(*area);
            }
            Message::Kept(tag, offset) => _ = out.byte(31).number(*tag).number(*offset),
            Message::NotKept(tag) => _ = out.byte(32).number(*tag),
            Message::Released(area) => _ = out.byte(33).number(*area),
            Message::Rest(area, offset, len) => {
                out.byte(34).number(*area).number(*offset).number(*len);
            }
            Message::Spill(area, directory) => _ = out.byte(35).number(*area).text(directory),
            Message::Spilled(area, error) => {
                out.byte(36).number(*area).number(error.unsigned_abs().into());
            }
            other => other.encode_pushes(out),
        }
    }

    /// The head of a message about bytes that nobody asks for.
    fn encode_pushes(&self, out: &mut Writer) {
        match self {
            Message::Subscribe { owner, series, number, credit } => {
                out.byte(37).text(owner).bytes(series).number(*number).number((*credit).into());
            }
            Message::Subscribed { owner, series, number, credit, after } => {
                out.byte(38).text(owner).bytes(series).number(*number).number((*credit).into());
                out.number(*after);
            }
            Message::Push { owner, series, number, area, report, tag } => {
                out.byte(39).text(owner).bytes(series).number(*number).number(*area);
                out.number(*report).number(*tag);
            }
            Message::Pushed(tag, offset) => _ = out.byte(40).number(*tag).number(*offset),
            Message::Parts(tag, pushed) => _ = out.byte(41).number(*tag).byte(flags(&[*pushed])),
            _ => {}
        }
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// `InvalidData` for a head that no agent of this version sends.
    pub(crate) fn decode(head: &[u8]) -> io::Result<Self> {
        let mut from = Reader(head);
        let kind = from.byte()?;
        let message = match kind {
            0 => Message::Join(from.number()?, remote_process(&mut from)?),
            1 => Message::Ask {
                process: from.number()?,
                ticket: from.number()?,
                request: from.bytes()?,
            },
            2 => {
                let (process, ticket, area) = (from.number()?, from.number()?, from.number()?);
                let [write, tells] = from.flags()?;
                Message::Adopt { process, ticket, area, write, tells }
            }
            3 => {
                let (process, [orderly]) = (from.number()?, from.flags()?);
                Message::Left(process, orderly)
            }
            4 => Message::Locate(from.number()?),
            7 => Message::Stored(from.number()?, from.number()?, from.bytes()?),
            8 => Message::Answer(from.number()?, from.bytes()?),
            9 => Message::Opened(from.number()?, away(&mut from)?),
            10 => Message::Data(from.number()?, from.number()?),
            11 => Message::Free(from.number()?),
            12 => Message::Cut(from.number()?, from.number()?),
            13 => Message::Share(from.number()?),
            14 => Message::Looked(from.number()?, from.number()?),
            15 => Message::Same(from.number()?, from.number()?),
            16 => {
                let (area, size, [cut]) = (from.number()?, from.number()?, from.flags()?);
                Message::Size(area, size, cut)
            }
            17 => Message::Differ(from.number()?),
            18 => Message::Look(from.number()?),
            19 => {
                let (area, offset, len) = (from.number()?, from.number()?, from.number()?);
                Message::Renew(area, offset, len, [from.number()?, from.number()?])
            }
            20 => Message::Shared(from.number()?),
            21 => Message::IsCut(from.number()?),
            22 => Message::News(from.number()?),
            23 => Message::Memory(from.number()?, from.number()?, from.number()?),
            24 => Message::Gather(from.number()?, from.number()?, from.number()?),
            25 => Message::Offer(from.bytes()?, away(&mut from)?),
            26 => Message::Caller(from.text()?),
            27 => Message::Moved(from.number()?),
            _ => return Self::decode_kept(kind, from),
        };
        from.end()?;
        Ok(message)
    }

    /// Decodes the rest of a head about bytes that stay where they were written.
    fn decode_kept(kind: u8, mut from: Reader<'_>) -> io::Result<Self> {
        let message = match kind {
            28 => Message::Keeps(from.number()?, from.number()?),
            29 => Message::Where(from.number()?),
            30 => Message::Take { tag: from.number()?, owner: from.text()?, area: from.number()? },
            31 => Message::Kept(from.number()?, from.number()?),
            32 => Message::NotKept(from.number()?),
            33 => Message::Released(from.number()?),
            34 => Message::Rest(from.number()?, from.number()?, from.number()?),
            35 => Message::Spill(from.number()?, from.text()?),
            36 => {
                let (area, error) = (from.number()?, i32::try_from(from.number()?));
                Message::Spilled(area, error.map_err(|_| bad("no error has this number"))?)
            }
            _ => return Self::decode_pushes(kind, from),
        };
        from.end()?;
        Ok(message)
    }

    /// Decodes the rest of a head about bytes that nobody asks for.
    fn decode_pushes(kind: u8, mut from: Reader<'_>) -> io::Result<Self> {
        let message = match kind {
            37 => Message::Subscribe {
                owner: from.text()?,
                series: from.bytes()?,
                number: from.number()?,
                credit: small(from.number()?)?,
            },
            38 => Message::Subscribed {
                owner: from.text()?,
                series: from.bytes()?,
                number: from.number()?,
                credit: small(from.number()?)?,
                after: from.number()?,
            },
            39 => Message::Push {
                owner: from.text()?,
                series: from.bytes()?,
                number: from.number()?,
                area: from.number()?,
                report: from.number()?,
                tag: from.number()?,
            },
            40 => Message::Pushed(from.number()?, from.number()?),
            41 => {
                let (tag, [pushed]) = (from.number()?, from.flags()?);
                Message::Parts(tag, pushed)
            }
            _ => return Err(bad("it is of no known kind")),
        };
        from.end()?;
        Ok(message)
    }
}

fn small(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| bad("a number is too large"))
}

fn remote_process(from: &mut Reader<'_>) -> io::Result<RemoteProcess> {
    let (job, family) = (from.text()?, from.text()?);
    Ok(RemoteProcess { job, family, ranks: small(from.number()?)?, label: from.text()? })
}

fn away(from: &mut Reader<'_>) -> io::Result<Away> {
    let (handle, generation) = (from.number()?, from.number()?);
    let (area, size, mode) = (from.number()?, from.number()?, small(from.number()?)?);
    let [shared, early, keeps] = from.flags()?;
    Ok(Away { handle, generation, area, size, mode, shared, early, keeps })
}

#[cfg(test)]
mod tests;
