//! The record of a file with generations that survive the agent: one agent writes it, the next one
//! reads it.

use crate::protocol::{Field, Reader, Writer, bad, fields};
use crate::registry::{Area, Handle, Options, Path, Position};
use aggio_base::checksum::crc32c;
use std::io;

/// Begins every record: a mark, and the version of the format.
const BEGINNING: [u8; 8] = *b"AGCREC\x05\n";

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
    /// The last number that was given, and the newest ones that were given up, stored, and given
    /// up for the writer.
    pub(crate) numbers: [u64; 4],
    /// Those that were lost although others follow them.
    pub(crate) missing: Vec<u64>,
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
        self.write(&mut out);
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
        let record = Self::read(&mut from)?;
        from.end()?;
        if record.own_numbers().any(|number| number >= NUMBERS) {
            return Err(bad("a number is too large"));
        }
        Ok(record)
    }

    /// All numbers that an agent has given.
    fn own_numbers(&self) -> impl Iterator<Item = u64> {
        let pairs = self.ended.iter().chain(&self.removed).map(|(_, number)| *number);
        let kept = self.generations.iter();
        let kept = kept.flat_map(|one| one.handles.iter().copied().chain([one.area, one.number]));
        let processes = self.readers.iter().chain(&self.writers).flat_map(|one| {
            let opens = one.opens.iter().flat_map(|open| [open.handle, open.area]);
            opens.chain([one.position.at, one.position.finished])
        });
        let aborted = self.aborted.iter();
        let aborted =
            aborted.flat_map(|one| one.opens.iter().map(|(handle, _)| *handle).chain([one.number]));
        let dead = self.dead.iter().map(|(number, _)| *number);
        self.numbers
            .into_iter()
            .chain(self.missing.iter().copied())
            .chain(dead)
            .chain(pairs)
            .chain(kept)
            .chain(processes)
            .chain(aborted)
    }
}

fields!(Written { job, number, maker, opens });
fields!(Kept {
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
});
fields!(Position { at, open, seen, finished });
fields!(Held { handle, area, key, is_part });
fields!(ProcessRecord { pid, start, job, ranks, family, label, position, opens });
fields!(Record {
    boot,
    path,
    options,
    numbers,
    missing,
    emptied,
    dead,
    writer,
    ended,
    removed,
    generations,
    readers,
    writers,
    aborted,
});

#[cfg(test)]
mod tests;
