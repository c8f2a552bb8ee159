//! Undoes the filters of HDF5 chunks.

use aggio_formats::hdf5::Filter;
use flate2::read::ZlibDecoder;
use std::io::Read;

const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;

/// The first filter that cannot be undone here.
pub(super) fn unknown(filters: &[Filter]) -> Option<String> {
    let known = [DEFLATE, SHUFFLE, FLETCHER32];
    filters.iter().find(|filter| !known.contains(&filter.id)).map(Filter::title)
}

/// The bytes of a chunk before its filters, `size` of them; bits of `mask` are filters that it did
/// not pass through.
pub(super) fn undo(
    mut bytes: Vec<u8>,
    mask: u32,
    filters: &[Filter],
    size: usize,
) -> Result<Vec<u8>, String> {
    for (number, filter) in filters.iter().enumerate().rev() {
        if number < 32 && mask >> number & 1 != 0 {
            continue;
        }
        bytes = match filter.id {
            // Checksums behind the data are all that filters add before this one.
            DEFLATE => inflate(&bytes, size + 4 * filters.len())?,
            SHUFFLE => unshuffle(&bytes, filter.parameters.first().map_or(1, |of| *of as usize)),
            FLETCHER32 => verified(bytes)?,
            _ => return Err(format!("filter {} cannot be undone", filter.title())),
        };
    }
    if bytes.len() == size {
        return Ok(bytes);
    }
    Err(format!("a chunk has {} bytes before its filters, not {size}", bytes.len()))
}

fn inflate(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut found = Vec::new();
    let mut decoder = ZlibDecoder::new(bytes).take(most as u64 + 1);
    decoder.read_to_end(&mut found).map_err(|why| format!("deflate: {why}"))?;
    if found.len() > most { Err("deflate: more bytes than a chunk".into()) } else { Ok(found) }
}

/// Undoes the shuffle filter: bytes of equal rank in their elements stand together; an incomplete
/// element at the end is unchanged.
fn unshuffle(bytes: &[u8], element: usize) -> Vec<u8> {
    let count = bytes.len().checked_div(element).unwrap_or(0);
    let mut found = bytes.to_vec();
    for (rank, plane) in bytes.chunks_exact(count.max(1)).take(element).enumerate() {
        for (number, byte) in plane.iter().take(count).enumerate() {
            found[number * element + rank] = *byte;
        }
    }
    found
}

fn verified(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let end = bytes.len().checked_sub(4).ok_or("a chunk is shorter than its checksum")?;
    let stored = bytes.split_off(end);
    // HDF5 before 1.6.3 swapped the bytes of each half on some machines.
    let sum = fletcher32(&bytes).to_le_bytes();
    let swapped = [sum[1], sum[0], sum[3], sum[2]];
    if stored == sum || stored == swapped {
        Ok(bytes)
    } else {
        Err("fletcher32: a chunk's checksum is wrong".into())
    }
}

/// Sums of the bytes two by two, the first the higher one.
fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut one, mut two) = (0_u32, 0_u32);
    for pair in bytes.chunks(2) {
        one += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        one = (one & 0xFFFF) + (one >> 16);
        two += one;
        two = (two & 0xFFFF) + (two >> 16);
    }
    two << 16 | one
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn filter(id: u16, parameters: Vec<u32>) -> Filter {
        Filter { id, name: String::new(), optional: false, parameters }
    }

    #[test]
    fn what_went_through_filters_comes_out_again() {
        let data: Vec<u8> = (0..=40).collect();
        let shuffled = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 16];
        assert_eq!(unshuffle(&shuffled, 4), data[..17]);
        let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        deflated.write_all(&data).expect("memory");
        let mut stored = deflated.finish().expect("memory");
        let filters = [filter(DEFLATE, vec![6]), filter(FLETCHER32, vec![])];
        stored.extend(fletcher32(&stored).to_le_bytes());
        assert_eq!(undo(stored.clone(), 0, &filters, 41), Ok(data.clone()));
        assert!(undo(stored.clone(), 0, &filters, 40).is_err());
        stored[3] ^= 1;
        assert!(undo(stored, 0, &filters, 41).expect_err("damaged").contains("fletcher32"));
        assert_eq!(undo(data.clone(), 3, &filters, 41), Ok(data));
        assert_eq!(unknown(&[filter(1, vec![]), filter(4, vec![])]), Some("szip".into()));
    }
}
