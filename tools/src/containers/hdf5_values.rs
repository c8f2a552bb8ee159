//! The elements of an HDF5 dataset of any layout.

use super::hdf5_filters;
use aggio_formats::hdf5::{Chunks, Dataset, Details, Fill, Layout, Source};

/// A part of a dataset: the first element and the number of elements along each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: Vec<u64>,
    pub(super) count: Vec<u64>,
}

/// A dataset that is read in parts.
pub(super) struct Values<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) dataset: &'a Dataset,
    pub(super) chunks: &'a Chunks,
    element: usize,
    /// The elements of a dataset that lies in its header.
    compact: Option<Vec<u8>>,
    /// The chunk that was decoded last.
    last: Option<(Vec<u64>, Vec<u8>)>,
}

/// The number of bytes of something that must fit into memory.
fn bytes(count: u64, element: usize) -> Result<usize, String> {
    let all = count.checked_mul(element as u64).filter(|all| *all <= 1 << 31);
    all.map(|all| all as usize).ok_or_else(|| "a chunk of more than 2 GiB".into())
}

impl<'a> Values<'a> {
    pub(super) fn of(
        source: &'a dyn Source,
        details: &Details<'_>,
        dataset: &'a Dataset,
        chunks: &'a Chunks,
    ) -> Result<Self, String> {
        let compact = match &dataset.layout {
            Layout::Compact { .. } => Some(details.compact().map_err(|why| why.to_string())?),
            _ => None,
        };
        let element = dataset.datatype.size as usize;
        Ok(Values { source, dataset, chunks, element, compact, last: None })
    }

    /// The element that stands where nothing was written.
    pub(super) fn fill(&self) -> Vec<u8> {
        match &self.dataset.filling.value {
            Fill::Value(value) if value.len() == self.element => value.clone(),
            _ => vec![0; self.element],
        }
    }

    /// The elements of a part, the last dimension fastest.
    pub(super) fn read(&mut self, part: &Part) -> Result<Vec<u8>, String> {
        let all = bytes(part.count.iter().product(), self.element)?;
        let fill = self.fill();
        let mut found: Vec<u8> = fill.iter().copied().cycle().take(all).collect();
        match &self.dataset.layout {
            Layout::Chunked(_) => self.read_chunks(part, &mut found)?,
            Layout::Contiguous { address: Some(begin), .. } => {
                let shape = self.dataset.space.shape();
                let whole = Part { start: vec![0; shape.len()], count: shape.to_vec() };
                let (source, element) = (self.source, self.element as u64);
                rows(part, &whole, part, &mut |from, to, count| {
                    let range = to as usize * self.element..(to + count) as usize * self.element;
                    source
                        .read(&mut found[range], begin + from * element)
                        .map_err(|why| why.to_string())
                })?;
            }
            Layout::Contiguous { address: None, .. } => {}
            Layout::Compact { .. } => {
                let shape = self.dataset.space.shape();
                let whole = Part { start: vec![0; shape.len()], count: shape.to_vec() };
                copy(part, &whole, self.compact.as_deref(), &mut found, self.element)?;
            }
        }
        Ok(found)
    }

    fn read_chunks(&mut self, part: &Part, found: &mut [u8]) -> Result<(), String> {
        let Layout::Chunked(chunked) = &self.dataset.layout else { return Ok(()) };
        let shape = chunked.shape.clone();
        let first: Vec<u64> = part.start.iter().zip(&shape).map(|(at, of)| at / of * of).collect();
        let ends: Vec<u64> = part.start.iter().zip(&part.count).map(|(a, c)| a + c).collect();
        let mut at = first.clone();
        loop {
            if let Some(bytes) = self.chunk(&at)? {
                let chunk = Part { start: at.clone(), count: shape.clone() };
                let common = common(part, &chunk);
                copy_between(&common, &chunk, &bytes, part, found, self.element)?;
                self.last = Some((at.clone(), bytes));
            }
            let Some(turn) = (0..at.len()).rev().find(|d| at[*d] + shape[*d] < ends[*d]) else {
                return Ok(());
            };
            at[turn] += shape[turn];
            at[turn + 1..].copy_from_slice(&first[turn + 1..]);
        }
    }

    /// The elements of the chunk at an offset; none if it is not there.
    fn chunk(&mut self, offset: &[u64]) -> Result<Option<Vec<u8>>, String> {
        if let Some((at, bytes)) = self.last.take()
            && at == offset
        {
            return Ok(Some(bytes));
        }
        let Layout::Chunked(chunked) = &self.dataset.layout else { return Ok(None) };
        let Some(chunk) = self.chunks.at(offset) else { return Ok(None) };
        let mut stored = vec![0; bytes(chunk.stored, 1)?];
        self.source.read(&mut stored, chunk.place).map_err(|why| why.to_string())?;
        let size = bytes(chunked.shape.iter().product(), self.element)?;
        let is_filtered = chunked.is_filtered(offset, self.dataset.space.shape());
        let filters = if is_filtered { &self.dataset.filters[..] } else { &[] };
        let undone = hdf5_filters::undo(stored, chunk.mask, filters, size);
        undone.map(Some).map_err(|why| format!("the chunk at {offset:?}: {why}"))
    }
}

/// The intersection of two parts that overlap.
fn common(one: &Part, other: &Part) -> Part {
    let each = one.start.iter().zip(&one.count).zip(other.start.iter().zip(&other.count));
    let (start, count) = each
        .map(|((a, m), (b, n))| {
            let start = *a.max(b);
            (start, (a + m).min(b + n).saturating_sub(start))
        })
        .unzip();
    Part { start, count }
}

/// Calls `each` with the first element of every row of `part` in `from` and in `to`, and its
/// length; all are counted in elements.
fn rows(
    part: &Part,
    from: &Part,
    to: &Part,
    each: &mut dyn FnMut(u64, u64, u64) -> Result<(), String>,
) -> Result<(), String> {
    if part.count.contains(&0) {
        return Ok(());
    }
    let position = |of: &Part, at: &[u64]| {
        let along = at.iter().zip(&of.start).zip(&of.count);
        along.fold(0, |all: u64, ((at, start), count)| all * count + (at - start))
    };
    let length = part.count.last().copied().unwrap_or(1);
    let mut at = part.start.clone();
    let outer = at.len().saturating_sub(1);
    loop {
        each(position(from, &at), position(to, &at), length)?;
        let turn = (0..outer).rev().find(|d| at[*d] + 1 < part.start[*d] + part.count[*d]);
        let Some(turn) = turn else { return Ok(()) };
        at[turn] += 1;
        at[turn + 1..].copy_from_slice(&part.start[turn + 1..]);
    }
}

fn copy_between(
    part: &Part,
    from: &Part,
    bytes: &[u8],
    to: &Part,
    found: &mut [u8],
    element: usize,
) -> Result<(), String> {
    rows(part, from, to, &mut |from, to, count| {
        let (from, to, count) =
            (from as usize * element, to as usize * element, count as usize * element);
        let there = bytes.get(from..from + count).ok_or("its elements end too early")?;
        found[to..to + count].copy_from_slice(there);
        Ok(())
    })
}

fn copy(
    part: &Part,
    whole: &Part,
    bytes: Option<&[u8]>,
    found: &mut [u8],
    element: usize,
) -> Result<(), String> {
    copy_between(part, whole, bytes.unwrap_or_default(), part, found, element)
}
