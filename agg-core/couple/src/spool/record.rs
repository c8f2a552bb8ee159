//! The record of a file with generations that survive the agent: one agent writes it, the next one
//! reads it.

use crate::protocol::{Reader, Writer, bad, flags, read_options, write_options};
use crate::registry::{Area, Handle, Options, Path, Position};
use aggio_base::checksum::crc32c;
use std::io;

/// Begins every record: a mark, and the version of the format.
const BEGINNING: [u8; 8] = *b"AGCREC\x03\n";

/// Numbers of generations, openings and files are smaller: a record with larger ones is not from
/// an agent, and would leave none for the next one.
pub(crate) const NUMBERS: u64 = 1 << 62;

/// All that is known under one name. Programs, families and processes are told by their texts:
/// numbers are those of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The time between two starts of the computer in which it was written.
    pub(crate) boot: String,
    pub(crate) path: Path,
    pub(crate) options: Options,
    /// The last number that was given, and the newest ones that were given up, stored, given up
    /// for the writer, and lost without its knowing.
    pub(crate) numbers: [u64; 5],
    pub(crate) emptied: bool,
    /// The newest generation, if its writer died, and that.
    pub(crate) dead: Option<(u64, String)>,
    /// The program that wrote last.
    pub(crate) writer: Option<String>,
    /// The newest generation that each family of readers was done with, and the last that each
    /// removed.
    pub(crate) ended: Vec<(String, u64)>,
    pub(crate) removed: Vec<(String, u64)>,
    pub(crate) generations: Vec<Kept>,
    pub(crate) readers: Vec<ProcessRecord>,
    /// Processes of the program that wrote last.
    pub(crate) writers: Vec<ProcessRecord>,
    /// Generations that are being written, or were lost and not written again, by program.
    pub(crate) aborted: Vec<Written>,
}

/// A generation that a program is writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) job: String,
    pub(crate) number: u64,
    /// The process that began it, as messages name it.
    pub(crate) maker: String,
    /// Opens by which it is written, and by which key each was asked for; 0 for those that are
    /// closed.
    pub(crate) opens: Vec<(Handle, u64)>,
}

/// A complete generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) area: Area,
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) inode: u64,
    /// The time of the last write: seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
    /// The process that began it, as messages name it.
    pub(crate) maker: String,
    /// Programs that wrote it.
    pub(crate) jobs: Vec<String>,
    /// Opens by which it was written.
    pub(crate) handles: Vec<Handle>,
    pub(crate) read: bool,
    pub(crate) unlinked: bool,
    /// It is to be on disk, and is not.
    pub(crate) wanted: bool,
    /// It is on disk.
    pub(crate) stored: bool,
    /// Its bytes have had their name: if they have none, it was given up.
    pub(crate) named: bool,
}

/// A process that reads or writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessRecord {
    pub(crate) pid: u32,
    /// The time of its start.
    pub(crate) start: u64,
    pub(crate) job: String,
    pub(crate) ranks: u32,
    pub(crate) family: String,
    pub(crate) label: String,
    pub(crate) position: Position,
    pub(crate) opens: Vec<Held>,
}

/// An open for reading of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) handle: Handle,
    pub(crate) area: Area,
    /// The process's own number of the open.
    pub(crate) key: u64,
    /// It was not complete when it was opened.
    pub(crate) is_part: bool,
}

impl Record {
    /// The bytes of a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(BEGINNING.to_vec());
        out.text(&self.boot).bytes(&self.path);
        write_options(&mut out, &self.options);
        self.numbers.iter().for_each(|number| _ = out.number(*number));
        out.byte(flags(&[self.emptied, self.dead.is_some(), self.writer.is_some()]));
        if let Some((number, writer)) = &self.dead {
            out.number(*number).text(writer);
        }
        self.writer.iter().for_each(|writer| _ = out.text(writer));
        for pairs in [&self.ended, &self.removed] {
            out.list(pairs, |out, (family, number)| _ = out.text(family).number(*number));
        }
        out.list(&self.generations, |out, one| one.encode(out));
        for all in [&self.readers, &self.writers] {
            out.list(all, |out, one| one.encode(out));
        }
        out.list(&self.aborted, |out, Written { job, number, maker, opens }| {
            out.text(job).number(*number).text(maker);
            out.list(opens, |out, (handle, key)| _ = out.number(*handle).number(*key));
        });
        let sum = crc32c(&out.0);
        out.0.extend(sum.to_le_bytes());
        out.0
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// `InvalidData` for a record that no agent of this version has written.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let (body, sum) = bytes.split_last_chunk().ok_or_else(|| bad("it is cut short"))?;
        let body_of =
            body.strip_prefix(&BEGINNING).ok_or_else(|| bad("it does not begin as one"))?;
        if crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(bad("its checksum is wrong"));
        }
        let mut from = Reader(body_of);
        let (boot, path) = (from.text()?, from.bytes()?);
        let options = read_options(&mut from)?;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = own_number(&mut from)?;
        }
        let [emptied, is_dead, is_written] = from.flags()?;
        let dead = if is_dead { Some((own_number(&mut from)?, from.text()?)) } else { None };
        let writer = if is_written { Some(from.text()?) } else { None };
        let pair = |from: &mut Reader<'_>| Ok((from.text()?, own_number(from)?));
        let (ended, removed) = (from.list(pair)?, from.list(pair)?);
        let generations = from.list(Kept::decode)?;
        let (readers, writers) =
            (from.list(ProcessRecord::decode)?, from.list(ProcessRecord::decode)?);
        let aborted = from.list(|from| {
            let (job, number, maker) = (from.text()?, own_number(from)?, from.text()?);
            let opens = from.list(|from| Ok((own_number(from)?, from.number()?)))?;
            Ok(Written { job, number, maker, opens })
        })?;
        from.end()?;
        Ok(Self {
            boot,
            path,
            options,
            numbers,
            emptied,
            dead,
            writer,
            ended,
            removed,
            generations,
            readers,
            writers,
            aborted,
        })
    }
}

/// A number that an agent has given.
fn own_number(from: &mut Reader<'_>) -> io::Result<u64> {
    match from.number()? {
        number if number < NUMBERS => Ok(number),
        _ => Err(bad("a number is too large")),
    }
}

impl Kept {
    fn encode(&self, out: &mut Writer) {
        out.number(self.area).number(self.number).number(self.size).number(self.mode.into());
        let (seconds, nanoseconds) = self.modified;
        out.number(self.inode).number(seconds.cast_unsigned());
        out.number(nanoseconds.cast_unsigned()).text(&self.maker);
        out.list(&self.jobs, |out, job| _ = out.text(job));
        out.list(&self.handles, |out, handle| _ = out.number(*handle));
        out.byte(flags(&[self.read, self.unlinked, self.wanted, self.stored, self.named]));
    }

    fn decode(from: &mut Reader<'_>) -> io::Result<Self> {
        let (area, number, size) = (own_number(from)?, own_number(from)?, from.number()?);
        let mode = u32::try_from(from.number()?).map_err(|_| bad("a mode is too large"))?;
        let (inode, seconds, nanoseconds) = (from.number()?, from.number()?, from.number()?);
        let modified = (seconds.cast_signed(), nanoseconds.cast_signed());
        let (maker, jobs) = (from.text()?, from.list(Reader::text)?);
        let handles = from.list(own_number)?;
        let [read, unlinked, wanted, stored, named] = from.flags()?;
        Ok(Self {
            area,
            number,
            size,
            mode,
            inode,
            modified,
            maker,
            jobs,
            handles,
            read,
            unlinked,
            wanted,
            stored,
            named,
        })
    }
}

impl ProcessRecord {
    fn encode(&self, out: &mut Writer) {
        out.number(self.pid.into()).number(self.start).text(&self.job).number(self.ranks.into());
        out.text(&self.family).text(&self.label);
        let Position { at, open, seen, finished } = self.position;
        out.number(at).number(open.into()).byte(flags(&[seen])).number(finished);
        out.list(&self.opens, |out, Held { handle, area, key, is_part }| {
            out.number(*handle).number(*area).number(*key).byte(flags(&[*is_part]));
        });
    }

    fn decode(from: &mut Reader<'_>) -> io::Result<Self> {
        let small = |number: u64| u32::try_from(number).map_err(|_| bad("a number is too large"));
        let (pid, start) = (small(from.number()?)?, from.number()?);
        let (job, ranks) = (from.text()?, small(from.number()?)?);
        let (family, label) = (from.text()?, from.text()?);
        let (at, open) = (own_number(from)?, small(from.number()?)?);
        let ([seen], finished) = (from.flags()?, own_number(from)?);
        let position = Position { at, open, seen, finished };
        let opens = from.list(|from| {
            let (handle, area) = (own_number(from)?, own_number(from)?);
            let (key, [is_part]) = (from.number()?, from.flags()?);
            Ok(Held { handle, area, key, is_part })
        })?;
        Ok(Self { pid, start, job, ranks, family, label, position, opens })
    }
}

#[cfg(test)]
mod tests;
