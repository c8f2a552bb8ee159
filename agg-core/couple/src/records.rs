//! Finds the complete records of a netCDF file that is being written, and the bytes that may have
//! changed.

use crate::areas::read_all;
use crate::netcdf_header::{self, Header};
use crate::protocol::Before;
use aggio_base::os;
use std::io;
use std::os::fd::RawFd;

/// Bytes of a header that are read at first.
const FIRST: u64 = 64 << 10;

/// Records that are looked at one by one, at a time.
const LOOKED_AT: u64 = 10_000;

/// The header of a file, if all of it is there.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn header(fd: RawFd) -> io::Result<Option<Header>> {
    let size = os::fstat(fd)?.st_size.unsigned_abs().min(netcdf_header::MOST);
    let mut len = FIRST.min(size);
    loop {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        read_all(fd, &mut bytes, 0)?;
        let found = netcdf_header::parse(&bytes);
        if found.is_some() || len == size || !bytes.starts_with(b"CDF") {
            return Ok(found);
        }
        len = (4 * len).min(size);
    }
}

/// Counts how many of the first `all` records are completely written, of which the first `known`
/// are.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn there(fd: RawFd, header: &Header, known: u64, all: u64) -> io::Result<u64> {
    let slots = |record| header.bytes_of(record).unwrap_or_default();
    if all <= known || slots(0).iter().all(|slot| slot.len == 0) {
        return Ok(all.max(known));
    }
    let size = os::fstat(fd)?.st_size.unsigned_abs();
    let is_there = |from: u64, to: u64| {
        Ok::<_, io::Error>(to <= size && os::next_hole(fd, from)?.is_none_or(|hole| hole >= to))
    };
    let begins = slots(known).iter().map(|slot| slot.offset).min().unwrap_or(0);
    let ends = slots(all - 1).iter().map(|slot| slot.end()).max();
    if let Some(ends) = ends
        && is_there(begins, ends)?
    {
        return Ok(all);
    }
    for record in known..all.min(known + LOOKED_AT) {
        let slots = slots(record);
        let mut whole = !slots.is_empty();
        for slot in slots.iter().filter(|slot| slot.len > 0) {
            whole = whole && is_there(slot.offset, slot.end())?;
        }
        if !whole {
            return Ok(record);
        }
    }
    Ok(all.min(known + LOOKED_AT))
}

/// Returns the number of records that the program has written, as far as it knows when it writes
/// their number.
pub(crate) fn announced(header: &Header, before: Before) -> u64 {
    match before {
        Before::All => header.records,
        Before::Variable if header.has_one_variable() => header.records,
        // Other variables of the last one come later.
        Before::Variable | Before::Others => header.records.saturating_sub(1),
    }
}

/// The bytes of a file that may be news: its first `head`, and those from `from` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) head: u64,
    pub(crate) from: u64,
}

impl News {
    /// All of them.
    pub(crate) const ALL: News = News { head: 0, from: 0 };

    /// The header, and what lies behind so many records.
    pub(crate) fn behind(header: &Header, records: u64) -> Self {
        let slots = header.bytes_of(records).unwrap_or_default();
        let from = slots.iter().map(|slot| slot.offset).min().unwrap_or(0);
        Self { head: (header.rest.len() + header.width) as u64, from }
    }

    /// Whether some of these bytes may be news.
    pub(crate) fn may_be(self, offset: u64, len: u64) -> bool {
        offset < self.head || offset.saturating_add(len) > self.from
    }
}

/// The part of a file that two nodes have in common, while its records are read and written.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// The header that was seen last.
    header: Header,
    records: u64,
}

impl Common {
    /// Returns the bytes of the file `fd` that may have changed, and its header if it is a netCDF
    /// file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn news(&mut self, fd: RawFd) -> io::Result<(News, Option<Header>)> {
        let Some(header) = header(fd)? else { return Ok((News::ALL, None)) };
        if header.rest != self.header.rest {
            *self = Self { header: header.clone(), records: 0 };
            return Ok((News::ALL, Some(header)));
        }
        Ok((News::behind(&header, self.records), Some(header)))
    }

    /// Returns the bytes that may have changed of a file that this node writes and announces
    /// records of. Records that are complete count as common from then on.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn news_of_writer(&mut self, fd: RawFd, before: Before) -> io::Result<News> {
        let (news, header) = self.news(fd)?;
        if let Some(header) = header {
            let all = announced(&header, before);
            self.records = there(fd, &header, self.records, all)?;
        }
        Ok(news)
    }

    /// The end of the bytes that do not change any more: those of records that are in common, and
    /// all before these.
    pub(crate) fn end(&self) -> u64 {
        News::behind(&self.header, self.records).from
    }

    /// So many records are in common.
    pub(crate) fn has(&mut self, records: u64) {
        self.records = self.records.max(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netcdf_header::tests::header as bytes_of_header;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    const BEGIN: u64 = 8192;

    fn file(records: u64, there: u64) -> std::fs::File {
        let file = tempfile::tempfile().unwrap();
        announce(&file, records);
        for record in 0..there {
            file.write_all_at(&[0; 8192], BEGIN + 8192 * record).unwrap();
        }
        file
    }

    fn announce(file: &std::fs::File, records: u64) {
        file.write_all_at(&bytes_of_header(1, records, &[2048, 2048], BEGIN), 0).unwrap();
    }

    #[test]
    fn news_are_the_header_and_what_lies_behind_the_records_that_both_have() {
        let (file, mut common) = (file(3, 2), Common::default());
        let fd = file.as_raw_fd();
        let mut news = || common.news_of_writer(fd, Before::All).unwrap();
        assert_eq!(news(), News::ALL, "the header is one");
        let news = news();
        assert!(news.may_be(0, 100) && news.may_be(BEGIN + 2 * 8192, 1));
        assert!(!news.may_be(4096, 4096) && !news.may_be(BEGIN, 2 * 8192));
        assert!(news.may_be(BEGIN, 2 * 8192 + 1), "the third record is not there");
    }

    #[test]
    fn a_record_of_which_variables_come_later_is_news_again() {
        let (file, mut common) = (file(2, 2), Common::default());
        let mut news = |before| common.news_of_writer(file.as_raw_fd(), before).unwrap();
        news(Before::Others);
        assert!(news(Before::Others).may_be(BEGIN + 8192, 1));
        news(Before::All);
        assert!(!news(Before::Others).may_be(BEGIN, 2 * 8192));
    }

    #[test]
    fn all_of_a_file_is_news_whose_header_is_another_one_or_none() {
        let (file, mut common) = (file(1, 1), Common::default());
        let fd = file.as_raw_fd();
        common.news(fd).unwrap();
        common.has(1);
        assert_ne!(common.news(fd).unwrap().0, News::ALL);
        announce(&file, 2);
        assert_ne!(common.news(fd).unwrap().0, News::ALL, "the number of records is no other one");
        file.write_all_at(&bytes_of_header(1, 2, &[2048], BEGIN), 0).unwrap();
        assert_eq!(common.news(fd).unwrap().0, News::ALL);
        file.set_len(0).unwrap();
        assert_eq!(common.news(fd).unwrap().0, News::ALL);
    }
}
