//! Arrays that grow: elements in the index block, in data blocks, and in those of super blocks.

use super::entry::Entry;
use super::fixed::is_set;
use crate::error::Result;
use crate::hdf5::cursor::Cursor;
use crate::hdf5::reader::Reader;

const SHORT: &str = "its index block is too short";
const BLOCK: &str = "data block of an extensible array";

/// An array with its header, and the function that takes its elements.
struct Array<'a> {
    reader: &'a Reader<'a>,
    address: u64,
    filtered: bool,
    entry: u64,
    /// Bytes of an element's number.
    number_bytes: u64,
    super_blocks: u64,
    in_index: u64,
    least: u64,
    least_pointers: u64,
    page: u64,
    /// Elements that were ever set lie before this number.
    end: u64,
    index: Option<u64>,
    visit: &'a mut dyn FnMut(u64, Entry) -> Result<()>,
}

/// Calls `visit` with the number and the entry of each element.
pub(super) fn read(
    reader: &Reader<'_>,
    address: u64,
    visit: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    let widths = reader.widths;
    let count = 16 + 6 * widths.length + widths.offset;
    let bytes = reader.block("extensible array", address, count as u64, b"EAHD")?;
    let array = open(reader, address, reader.cursor(&bytes), visit);
    let wrong = || reader.corrupt(format!("the extensible array at {address} is malformed"));
    array.ok_or_else(wrong)?.read()
}

/// The fields of a header.
fn open<'a>(
    reader: &'a Reader<'a>,
    address: u64,
    mut cursor: Cursor<'_>,
    visit: &'a mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Option<Array<'a>> {
    let (_version, client) = (cursor.byte()?, cursor.byte()?);
    let entry: u64 = cursor.byte()?.into();
    let (bits, in_index, least) = (cursor.byte()?, cursor.byte()?, cursor.byte()?);
    let (pointers, page_bits) = (cursor.byte()?, cursor.byte()?);
    let statistics: Vec<u64> = (0..6).map(|_| cursor.length()).collect::<Option<_>>()?;
    let index = cursor.address()?;
    let valid = client <= 1
        && entry >= reader.widths.offset as u64
        && (1..=64).contains(&bits)
        && least.is_power_of_two()
        && pointers.is_power_of_two()
        && page_bits < 64;
    let super_blocks = (1 + u64::from(bits)).checked_sub(least.checked_ilog2()?.into())?;
    let array = Array {
        reader,
        address,
        filtered: client == 1,
        entry,
        number_bytes: u64::from(bits).div_ceil(8),
        super_blocks,
        in_index: in_index.into(),
        least: least.into(),
        least_pointers: pointers.into(),
        page: 1_u64.checked_shl(page_bits.into())?,
        end: statistics[4],
        index,
        visit,
    };
    valid.then_some(array)
}

/// Bytes that a checksum follows.
pub(super) fn checked(
    reader: &Reader<'_>,
    what: &str,
    address: u64,
    count: u64,
) -> Result<Vec<u8>> {
    let mut bytes = reader.bytes(what, address, count.saturating_add(4))?;
    let sum = bytes.split_off(count as usize);
    reader.verify(what, address, &bytes, &sum)?;
    Ok(bytes)
}

impl Array<'_> {
    fn wrong(&self, what: &str) -> crate::Error {
        self.reader.corrupt(format!("the extensible array at {}: {what}", self.address))
    }

    /// Signature, version, type and the header's address.
    fn head(&self) -> u64 {
        6 + self.reader.widths.offset as u64
    }

    /// Elements of each data block of a super block.
    fn elements(&self, super_block: u64) -> Option<u64> {
        self.least.checked_shl(super_block.div_ceil(2) as u32)
    }

    /// The index block, and all that hangs on it.
    fn read(mut self) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        let offset = self.reader.widths.offset as u64;
        let direct = 2 * (self.least_pointers - 1);
        let first_super = 2 * u64::from(self.least_pointers.ilog2());
        let supers = self.super_blocks.saturating_sub(first_super);
        let elements = self.in_index * self.entry;
        let count = self.head() + elements + (direct + supers) * offset + 4;
        let what = "index block of an extensible array";
        let bytes = self.reader.block(what, index, count, b"EAIB")?;
        let (own, pointers) = bytes[self.head() as usize - 4..].split_at(elements as usize);
        self.each(0, own)?;
        let mut cursor = self.reader.cursor(pointers);
        let mut first = self.in_index;
        for super_block in 0..self.super_blocks {
            if first >= self.end {
                return Ok(());
            }
            let blocks = 1_u64.checked_shl(super_block as u32 / 2);
            let each = self.elements(super_block);
            let sizes = blocks.zip(each).and_then(|(blocks, each)| {
                Some((blocks, each, first.checked_add(blocks.checked_mul(each)?)?))
            });
            let (blocks, each, end) = sizes.ok_or_else(|| self.wrong("its size overflows"))?;
            if super_block < first_super {
                for number in 0..blocks {
                    let address = cursor.address().ok_or_else(|| self.wrong(SHORT))?;
                    self.data_block(address, first + number * each, each, None)?;
                }
            } else if let Some(address) = cursor.address().ok_or_else(|| self.wrong(SHORT))? {
                self.super_block(address, first, blocks, each)?;
            }
            first = end;
        }
        Ok(())
    }

    /// A super block: the addresses of data blocks, and which of their pages were made.
    fn super_block(&mut self, address: u64, first: u64, blocks: u64, each: u64) -> Result<()> {
        let offset = self.reader.widths.offset as u64;
        let pages = if each > self.page { each / self.page } else { 0 };
        let bitmap = blocks.saturating_mul(pages.div_ceil(8));
        let addresses = blocks.saturating_mul(offset);
        let head = self.head() + self.number_bytes;
        let count = head.saturating_add(bitmap).saturating_add(addresses).saturating_add(4);
        let what = "super block of an extensible array";
        let bytes = self.reader.block(what, address, count, b"EASB")?;
        let (made, pointers) = bytes[head as usize - 4..].split_at(bitmap as usize);
        let mut cursor = self.reader.cursor(pointers);
        for number in 0..blocks {
            let begin = first + number * each;
            if begin >= self.end {
                break;
            }
            let address = cursor.address().ok_or_else(|| self.wrong("a super block"))?;
            let pages = (pages > 0).then_some((made, number * pages));
            self.data_block(address, begin, each, pages)?;
        }
        Ok(())
    }

    /// A data block; `pages` are the bits of all pages of its super block, and its own first one.
    fn data_block(
        &mut self,
        address: Option<u64>,
        first: u64,
        count: u64,
        pages: Option<(&[u8], u64)>,
    ) -> Result<()> {
        self.reader.step(0)?;
        let Some(address) = address else { return Ok(()) };
        let head = self.head() + self.number_bytes;
        let endless = || self.wrong("the size of a data block overflows");
        let Some((made, first_page)) = pages else {
            let all = count.checked_mul(self.entry).and_then(|all| all.checked_add(head + 4));
            let all = all.ok_or_else(endless)?;
            let bytes = self.reader.block(BLOCK, address, all, b"EADB")?;
            return self.each(first, &bytes[head as usize - 4..]);
        };
        self.reader.block(BLOCK, address, head + 4, b"EADB")?;
        let page = self.page.checked_mul(self.entry).ok_or_else(endless)?;
        let mut place = address.saturating_add(head + 4);
        for number in 0..count / self.page {
            self.reader.step(0)?;
            if is_set(made, first_page + number) {
                let bytes = checked(self.reader, BLOCK, place, page)?;
                self.each(first + number * self.page, &bytes)?;
            }
            self.reader.note(place, page.saturating_add(4));
            place = place.saturating_add(page).saturating_add(4);
        }
        Ok(())
    }

    fn each(&mut self, first: u64, bytes: &[u8]) -> Result<()> {
        for (number, entry) in (first..self.end).zip(bytes.chunks_exact(self.entry as usize)) {
            let found = Entry::parse(self.reader.cursor(entry), self.filtered);
            let found = found.ok_or_else(|| self.wrong(&format!("element {number}")))?;
            (self.visit)(number, found)?;
        }
        Ok(())
    }
}
