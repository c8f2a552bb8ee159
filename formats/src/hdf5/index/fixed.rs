//! Arrays of fixed size. Their elements may lie in pages.

use super::entry::Entry;
use crate::error::Result;
use crate::hdf5::reader::Reader;

/// The header of an array.
struct Header {
    filtered: bool,
    entry: u64,
    page_bits: u8,
    count: u64,
    block: Option<u64>,
}

fn header(reader: &Reader<'_>, address: u64) -> Result<Header> {
    let widths = reader.widths;
    let count = 12 + widths.length + widths.offset;
    let bytes = reader.block("fixed array", address, count as u64, b"FAHD")?;
    let mut cursor = reader.cursor(&bytes);
    let mut fields = || {
        let (_version, client) = (cursor.byte()?, cursor.byte()?);
        let (entry, page_bits) = (cursor.byte()?.into(), cursor.byte()?);
        let (count, block) = (cursor.length()?, cursor.address()?);
        let valid = client <= 1 && entry >= widths.offset as u64 && page_bits < 64;
        valid.then_some(Header { filtered: client == 1, entry, page_bits, count, block })
    };
    fields().ok_or_else(|| reader.corrupt(format!("the fixed array at {address} is malformed")))
}

/// Calls `visit` with the number and the entry of each element.
pub(super) fn read(
    reader: &Reader<'_>,
    address: u64,
    visit: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    const WHAT: &str = "data block of a fixed array";
    let header = header(reader, address)?;
    let Some(block) = header.block else { return Ok(()) };
    let head = 6 + reader.widths.offset as u64;
    let elements = |count: u64| count.checked_mul(header.entry);
    let endless = || reader.corrupt(format!("the size of the fixed array at {address} overflows"));
    let mut each = |first: u64, bytes: &[u8]| {
        for (number, entry) in (first..).zip(bytes.chunks_exact(header.entry as usize)) {
            let found = Entry::parse(reader.cursor(entry), header.filtered);
            let wrong = || reader.corrupt(format!("element {number} of the array at {address}"));
            visit(number, found.ok_or_else(wrong)?)?;
        }
        Ok(())
    };
    let page = 1_u64 << header.page_bits;
    if header.count <= page {
        let all = elements(header.count).and_then(|all| all.checked_add(head + 4));
        let bytes = reader.block(WHAT, block, all.ok_or_else(endless)?, b"FADB")?;
        return each(0, &bytes[head as usize - 4..]);
    }
    let pages = header.count.div_ceil(page);
    let all = head + pages.div_ceil(8) + 4;
    let bytes = reader.block(WHAT, block, all, b"FADB")?;
    let made = &bytes[head as usize - 4..];
    let mut place = block.checked_add(all).ok_or_else(endless)?;
    let full = elements(page).and_then(|all| all.checked_add(4)).ok_or_else(endless)?;
    for number in 0..pages {
        let first = number * page;
        let count = page.min(header.count - first) * header.entry;
        if is_set(made, number) {
            each(first, &super::extensible::checked(reader, WHAT, place, count)?)?;
        }
        reader.note(place, count + 4);
        reader.step(0)?;
        place = place.checked_add(full).ok_or_else(endless)?;
    }
    Ok(())
}

/// Whether a bit is set; the highest bit of a byte is the first one.
pub(super) fn is_set(bits: &[u8], at: u64) -> bool {
    bits.get((at / 8) as usize).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
}
