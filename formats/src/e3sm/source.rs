//! The data of the file that a set of blobs stands for.

use super::coverage::Covered;
use super::scatter::{Part, scatter};
use super::set::{Data, Member};
use super::tables::Run;
use crate::cdf::Endian;
use crate::error::{Error, Result};
use crate::gather::Gather;
use crate::logical::{Coverage, Description, FileFacts, Holes, Parts, Slab, Source, Writers};
use std::ops::Range;

/// Bytes of a variable that are assembled at a time, at least.
const TILE: u64 = if cfg!(test) { 50 } else { 8 << 20 };

impl Data {
    fn wrong(&self, slab: Slab) -> Error {
        let name = self.header.variables.get(slab.variable);
        let name = name.map_or_else(String::new, |variable| variable.name.to_string());
        Error::corrupt(self.files.name(0), format!("the place of {name} is no number"))
    }

    /// Fills a buffer as elements that were never written.
    fn fill_holes(&self, variable: usize, out: &mut [u8]) {
        let variable = &self.header.variables[variable];
        let told = variable.attribute("_FillValue").filter(|told| {
            told.kind == variable.kind && told.values.len() as u64 == variable.kind.size()
        });
        let value = told.map_or_else(|| variable.kind.fill(), |told| told.values.clone());
        match self.holes {
            Holes::Zero => out.fill(0),
            Holes::Fill => out.chunks_mut(value.len()).for_each(|element| {
                element.copy_from_slice(&value[..element.len()]);
            }),
        }
    }

    /// A variable that every subfile has: that of the first.
    fn whole(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        let member = &self.members[0];
        let stored = &self.stored[slab.variable];
        let begin = member.storage.whole(stored.variable, slab.record, &member.tables);
        let from = begin.and_then(|begin| begin.checked_add(start));
        let element = self.header.variables[slab.variable].kind.size();
        let mut gather = Gather::new(&*self.files, out);
        gather.begin(member.file, member.endian, element)?;
        gather.whole(from.ok_or_else(|| self.wrong(slab))?)
    }

    fn decomposed(&self, k: usize, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        let stored = &self.stored[slab.variable];
        let size = self.header.variables[slab.variable].kind.size();
        let range = start / size..(start + out.len() as u64) / size;
        if self.covered[k].gaps > 0 {
            self.fill_holes(slab.variable, out);
        }
        let mut sorted = Vec::new();
        let mut gather = Gather::new(&*self.files, out);
        for member in &self.members {
            gather.begin(member.file, member.endian, size)?;
            for (index, blob) in member.tables[k].blobs.iter().enumerate() {
                let runs = blob.among(&range);
                if runs.is_empty() {
                    continue;
                }
                let (variable, record) = (stored.variable, slab.record);
                let begin = member.storage.decomposed(variable, record, index, &member.tables, k);
                let begin = begin.ok_or_else(|| self.wrong(slab))?;
                if blob.sorted {
                    sorted.push(Part { file: member.file, endian: member.endian, begin, runs });
                } else {
                    gather_runs(&mut gather, runs, begin, &range, size)?;
                }
            }
        }
        gather.flush()?;
        drop(gather);
        scatter(&*self.files, &sorted, &range, size, out)
    }
}

/// Runs of a blob in any order, one by one.
fn gather_runs(
    gather: &mut Gather<'_>,
    runs: &[Run],
    begin: u64,
    range: &Range<u64>,
    size: u64,
) -> Result<()> {
    for run in runs {
        let first = u64::from(run.to).max(range.start);
        let last = (u64::from(run.to) + u64::from(run.len)).min(range.end);
        if first < last {
            let skipped = run.at + (first - u64::from(run.to));
            let (to, len) = ((first - range.start) * size, (last - first) * size);
            // All of it lies in the buffer.
            gather.push(begin + skipped * size, to as usize, len as usize)?;
        }
    }
    Ok(())
}

impl Source for Data {
    fn fill(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        match self.stored[slab.variable].decomposition {
            Some(k) => self.decomposed(k, slab, start, out),
            None => self.whole(slab, start, out),
        }
    }

    fn is_direct(&self, variable: usize) -> bool {
        let whole = self.stored.get(variable).is_some_and(|stored| stored.decomposition.is_none());
        whole && self.members.first().is_some_and(|member| member.endian == Endian::Big)
    }

    /// Each blob's part of a request should be worth a read.
    fn tile(&self) -> u64 {
        if cfg!(test) { TILE } else { (self.processes * (16 << 10)).clamp(TILE, 64 << 20) }
    }

    fn is_unchanged(&self) -> bool {
        self.files.is_unchanged()
    }

    fn writers(&self) -> Option<Writers> {
        let mut next = 0;
        let group = |member: &Member| {
            // Without decompositions only the first blob has anything.
            let count = member.tables.first().map_or(1, |table| table.blobs.len() as u32);
            let first = next;
            next += count;
            (first..next).collect()
        };
        let groups = self.members.iter().map(group).collect();
        let parts = (0..self.decompositions.len()).map(|k| {
            let blobs = self.members.iter().flat_map(|member| &member.tables[k].blobs);
            let runs = (0..).zip(blobs).flat_map(|(writer, blob)| {
                let range = |run: &Run| u64::from(run.to)..u64::from(run.to) + u64::from(run.len);
                blob.runs.iter().map(move |run| (range(run), writer))
            });
            let mut parts: Parts = runs.collect();
            parts.sort_unstable_by_key(|(range, _)| range.start);
            parts
        });
        let used = self.stored.iter().map(|stored| stored.decomposition).collect();
        Some(Writers { groups, parts: parts.collect(), used })
    }

    fn describe(&self) -> Description {
        let facts = |member: &Member| FileFacts {
            name: self.files.name(member.file),
            size: self.files.size(member.file).unwrap_or(0),
            blobs: member.tables.first().map_or(0, |table| table.blobs.len() as u64),
            records: member.records,
        };
        let coverage = |(k, covered): (usize, &Covered)| {
            let decomposition = &self.decompositions[k];
            let using = self.stored.iter().zip(&self.header.variables);
            let names = |ids: &[usize]| {
                ids.iter().map(|id| self.header.dimensions[*id].name.to_string()).collect()
            };
            Coverage {
                name: format!("D{}", k + 1),
                dimensions: names(&decomposition.dimensions),
                elements: decomposition.elements,
                written: covered.written,
                requests: self.members.iter().map(|member| member.tables[k].requests).sum(),
                variables: using
                    .filter(|(stored, _)| stored.decomposition == Some(k))
                    .map(|(_, variable)| variable.name.to_string())
                    .collect(),
                gaps: covered.gaps,
                first_gaps: covered.first_gaps.clone(),
            }
        };
        Description {
            kind: self.kind,
            files: self.members.iter().map(facts).collect(),
            processes: self.processes,
            coverage: self.covered.iter().enumerate().map(coverage).collect(),
            notes: self.notes.clone(),
        }
    }
}
