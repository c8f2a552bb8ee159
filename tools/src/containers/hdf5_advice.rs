//! Advice on the layout of HDF5 files: the waste of time or space, and the call that avoids it.

use aggio_formats::hdf5::{Allocation, Chunked, Chunks, Contents, Dataset, Fill, Layout, What};

/// Chunks below this many bytes cost more requests than they save; smaller datasets are not worth
/// a word.
const SMALL: u64 = 16 << 10;
/// Datasets with fewer chunks are not worth a word.
const MANY: u64 = 1000;
/// Of more chunks these are looked at.
const MOST: u64 = 1 << 20;
/// Units below this size belong to local file systems, where alignment gains nothing.
const LEAST_UNIT: u64 = 64 << 10;
/// Fewer bytes of fill values are not worth a word.
const FILLED: u64 = 1 << 20;

/// Each piece of advice, with the path of the dataset in front.
///
/// `unit` is the number of bytes that the file system moves at a time: the stripe of a parallel
/// one.
pub(super) fn all(found: &Contents, unit: u64) -> Vec<String> {
    let mut advice = Vec::new();
    for object in &found.objects {
        let What::Dataset(dataset, chunks) = &object.what else { continue };
        let Layout::Chunked(chunked) = &dataset.layout else { continue };
        let each = [
            small(chunked, chunks),
            filters(dataset, chunked, chunks),
            straddling(dataset, chunked, chunks, unit),
            filled(dataset, chunked, chunks),
        ];
        advice.extend(each.into_iter().flatten().map(|text| format!("{}: {text}", object.path)));
    }
    if found.superblock.version < 2 && found.objects.len() as u64 > MANY {
        let text = "many objects in the oldest format: use H5Pset_libver_bounds(..., \
                    H5F_LIBVER_V110, H5F_LIBVER_V110), which makes their metadata smaller";
        advice.push(text.into());
    }
    advice
}

/// Many small chunks.
fn small(chunked: &Chunked, chunks: &Chunks) -> Option<String> {
    let bytes = chunked.bytes().filter(|bytes| *bytes < SMALL && chunks.len() >= MANY)?;
    let count = chunks.len();
    Some(format!(
        "{count} chunks of {bytes} bytes: each needs an index entry and a request of its own; use \
         H5Pset_chunk with chunks of 64 KiB to 4 MiB"
    ))
}

/// Filters that make chunks larger.
fn filters(dataset: &Dataset, chunked: &Chunked, chunks: &Chunks) -> Option<String> {
    let before = chunked.bytes()?.checked_mul(chunks.len())?;
    let after = chunks.stored();
    let compresses = dataset.filters.iter().any(|filter| ![2, 3].contains(&filter.id));
    (compresses && before >= SMALL && after > before).then(|| {
        format!("filters increase {before} bytes to {after}: use larger chunks or no filters")
    })
}

/// Chunks that begin or end within a unit that another one has a part of.
fn straddling(dataset: &Dataset, chunked: &Chunked, chunks: &Chunks, unit: u64) -> Option<String> {
    let bytes = chunked.bytes().filter(|bytes| *bytes >= unit && unit >= LEAST_UNIT)?;
    let looked_at = chunks.len().min(MOST);
    let straddling = chunks.iter().take(MOST as usize).filter(|chunk| chunk.place % unit != 0);
    let straddling = straddling.count();
    (dataset.filters.is_empty() && straddling > 0).then(|| {
        format!(
            "{straddling} of {looked_at} chunks of {bytes} bytes do not begin at a multiple of \
             {unit} bytes, the unit of the file system: use H5Pset_alignment(..., {unit}, {unit})"
        )
    })
}

/// A fill value that was written before the data, and that is not left out as zeros are.
fn filled(dataset: &Dataset, chunked: &Chunked, chunks: &Chunks) -> Option<String> {
    let filling = &dataset.filling;
    let Fill::Value(value) = &filling.value else { return None };
    let is_written = filling.allocation == Allocation::Early && !filling.never;
    let bytes = chunked.bytes()?.checked_mul(chunks.len()).filter(|bytes| *bytes >= FILLED)?;
    let is_zero = value.iter().all(|byte| *byte == 0);
    (is_written && !is_zero && dataset.filters.is_empty()).then(|| {
        format!(
            "the fill value was written to all {bytes} bytes before the data: if the program \
             writes all of them, use H5Pset_fill_time(..., H5D_FILL_TIME_NEVER)"
        )
    })
}
