//! Pending bytes as writes: a view that shows where the bytes belong, and a description of the
//! memory that holds them.

use super::Pending;
use super::part::Part;
use super::pieces;
use super::run::Run;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};

impl Pending {
    /// One write for all of them: a view that shows the bytes they cover, in ascending order, and
    /// the memory of their content; of writes that overlap, the later one counts.
    ///
    /// The memory may be used as long as this value is not changed.
    ///
    /// # Errors
    /// `NoMem` or `Arg` if there are more pieces than can be described.
    pub fn as_one_write(&self) -> Result<(View, Memory)> {
        self.as_write_of(&pieces::ascending(self.runs.iter().copied()))
    }

    /// As [`Pending::as_one_write`], without the bytes of `left`, in two writes: all bytes that are
    /// not in `last`, then those that are.
    ///
    /// # Errors
    /// As [`Pending::as_one_write`].
    pub fn as_two_writes(&self, last: Extent, left: Extent) -> Result<[(View, Memory); 2]> {
        let mut runs = pieces::ascending(self.runs.iter().copied());
        if !left.is_empty() {
            runs = pieces::outside(&runs, left);
        }
        let (others, last) = pieces::apart(&runs, last);
        Ok([self.as_write_of(&others)?, self.as_write_of(&last)?])
    }

    /// A write of these.
    pub(super) fn as_write_of(&self, runs: &[Run]) -> Result<(View, Memory)> {
        let addresses = self.addresses();
        let in_memory = blocks(runs, |run| {
            let (first, start) = addresses[part_of(&addresses, run.position)];
            start + (run.position - first)
        });
        let byte = Datatype::bytes(1);
        let view = View::new(0, byte.clone(), filetype(runs)?, Representation::Native, false)?;
        let datatype = Datatype::hindexed(&in_memory, &byte)?;
        // SAFETY: all addresses are of bytes in `self.parts`, which stay where they are and are not
        // written to while this value is borrowed or left alone; an absolute address is a
        // displacement from null.
        let memory = unsafe { Memory::new(std::ptr::null_mut(), datatype, 1) };
        Ok((view, memory))
    }

    /// The position and the address of the first byte of each part.
    fn addresses(&self) -> Vec<(u64, u64)> {
        let mut position = 0;
        let place = |part: &Part| {
            let first = position;
            position += part.used() as u64;
            (first, part.address() as u64)
        };
        self.parts.iter().map(place).collect()
    }
}

/// The part that has the byte at `position`; `addresses` are those of all parts.
fn part_of(addresses: &[(u64, u64)], position: u64) -> usize {
    addresses.partition_point(|(first, _)| *first <= position) - 1
}

/// The places of runs in the file, which are in order; regular runs stay regular.
fn filetype(runs: &[Run]) -> Result<Datatype> {
    let byte = Datatype::bytes(1);
    let mut fields = Vec::new();
    for together in runs.chunk_by(|one, next| one.is_one() && next.is_one()) {
        match together {
            [Run { strip, .. }] if strip.count > 1 => {
                let rows = Datatype::hvector(strip.count, strip.length, strip.stride, &byte)?;
                fields.push((1, strip.start as i64, rows));
            }
            pieces => {
                let places = blocks(pieces, |run| run.strip.start);
                fields.push((1, 0, Datatype::hindexed(&places, &byte)?));
            }
        }
    }
    match &fields[..] {
        [(1, 0, alone)] => Ok(alone.clone()),
        _ => Datatype::structure(&fields),
    }
}

/// Lengths and places of runs that have all their bytes there, neighbours joined.
fn blocks(runs: &[Run], place: impl Fn(&Run) -> u64) -> Vec<(u64, i64)> {
    let mut blocks: Vec<(u64, i64)> = Vec::new();
    for run in runs {
        let start = place(run) as i64;
        match blocks.last_mut() {
            Some((len, before)) if *before + *len as i64 == start => *len += run.len(),
            _ => blocks.push((run.len(), start)),
        }
    }
    blocks
}
