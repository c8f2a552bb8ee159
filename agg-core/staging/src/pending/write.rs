//! Pending bytes as writes: a view that shows where the bytes belong, and a description of the
//! memory that holds them.

use super::Pending;
use super::part::Part;
use super::pieces;
use super::run::Run;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use std::ops::Range;

/// Which of the bytes that are kept shall be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// Bytes that are in the file already are written again here; in order, apart.
    pub again: &'a [Extent],
    /// Not here, where other ranks have written later; in order, apart.
    pub without: &'a [Extent],
    /// Nor here.
    pub keep: Extent,
}

impl Pending {
    /// One write for all of them: a view that shows the bytes they cover, in ascending order, and
    /// the memory of their content; of writes that overlap, the later one counts.
    ///
    /// The memory may be used as long as this value is not changed.
    ///
    /// # Errors
    /// `NoMem` or `Arg` if there are more pieces than can be described, `Io` if bytes that were in
    /// files are lost.
    pub fn as_one_write(&self) -> Result<(View, Memory)> {
        let runs = pieces::ascending(self.runs.iter().copied());
        self.check(&runs)?;
        self.as_write_of(&runs)
    }

    /// As [`Pending::as_one_write`], for the bytes that `choice` selects, in two writes: all bytes
    /// that are not in `last`, then those that are.
    ///
    /// # Errors
    /// As [`Pending::as_one_write`].
    pub fn as_two_writes(&self, last: Extent, choice: &Choice<'_>) -> Result<[(View, Memory); 2]> {
        let mut runs = match self.saved.begins_at(choice.again) {
            // Do not walk over saved bytes: a rank that often reads by itself would do so each
            // time.
            Some(position) => pieces::ascending(self.runs_from(position).into_iter()),
            None => {
                let all = pieces::ascending(self.runs.iter().copied());
                pieces::chosen(&all, &self.saved, choice.again)
            }
        };
        if !choice.without.is_empty() {
            runs = pieces::outside(&runs, choice.without);
        }
        if !choice.keep.is_empty() {
            runs = pieces::outside(&runs, &[choice.keep]);
        }
        self.check(&runs)?;
        let (others, last) = pieces::apart(&runs, last);
        Ok([self.as_write_of(&others)?, self.as_write_of(&last)?])
    }

    /// A write of these, which have been checked.
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

    /// Looks whether the bytes of these are those that were put in.
    ///
    /// # Errors
    /// `Io` if a file has lost bytes of a part that has some of them.
    pub(super) fn check(&self, runs: &[Run]) -> Result<()> {
        if self.spilled == 0 {
            return Ok(());
        }
        let addresses = self.addresses();
        let mut needed: Vec<Option<Range<usize>>> = vec![None; addresses.len()];
        for run in runs {
            let part = part_of(&addresses, run.position);
            let first = addresses[part].0;
            let (start, end) = ((run.position - first) as usize, (run.end() - first) as usize);
            let places = needed[part].get_or_insert(start..end);
            *places = places.start.min(start)..places.end.max(end);
        }
        let is_sound = |(part, places): (&Part, Option<Range<usize>>)| {
            places.is_none_or(|places| part.is_sound(places))
        };
        if self.parts.iter().zip(needed).all(is_sound) { Ok(()) } else { Err(lost()) }
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

pub(super) fn lost() -> Error {
    Error::new(
        ErrorClass::Io,
        "the file that keeps bytes until they are written has lost some of them",
    )
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
