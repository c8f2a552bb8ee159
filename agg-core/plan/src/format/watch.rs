//! Detection of a file's format: the head as one rank sees it, and as all ranks agree on it.
//!
//! A rank sees only its own writes and reads. It sends new findings to the others in a collective
//! operation in which all ranks meet in any case: a bit there says that a rank has new findings,
//! and only then they are sent. So all ranks have the same head after the same operation, and plans
//! that depend on it are equal on all ranks.

use super::head::Head;
use super::{Formats, Map, Recognised};
use aggio_base::Extent;
use std::sync::Arc;

/// Headers with more bytes are not understood.
const MOST: u64 = 1 << 20;

/// Number of bytes that a rank inspects while the beginning of the file is unknown.
pub const LOOK: u64 = 64 << 10;

/// A shorter run that does not follow the known bytes is not part of a header.
const RUN: u64 = 256;

/// Number of first bytes that rule out all formats.
const MAGIC: usize = 8;

/// One rank's view of the head of an open file.
#[derive(Debug)]
pub struct Watch {
    formats: Formats,
    /// The head that all ranks agree on.
    agreed: Head,
    /// Bytes that this rank has written or read since, and that the others do not have.
    own: Head,
    /// Both.
    all: Head,
    found: Recognised,
    /// Whether the agreed head made a map.
    had_map: bool,
}

impl Watch {
    /// For a file that begins with `head`, on all ranks; empty if its beginning is unknown.
    #[inline]
    pub fn new(head: &[u8], formats: Formats) -> Self {
        let mut agreed = Head::default();
        agreed.put(0, head, MOST);
        let found = formats.recognise(agreed.prefix());
        let had_map = matches!(found, Recognised::Map(_));
        Self { formats, own: Head::default(), all: agreed.clone(), agreed, found, had_map }
    }

    /// The offset from which on bytes are irrelevant for the format.
    #[inline]
    pub fn below(&self) -> u64 {
        match &self.found {
            Recognised::Map(map) => map.header(),
            Recognised::Unclear => MOST,
            Recognised::Other if self.all.prefix().len() < MAGIC => LOOK,
            Recognised::Other => MAGIC as u64,
        }
    }

    /// Whether the beginning of the file is unknown.
    #[inline]
    pub fn is_blank(&self) -> bool {
        self.all.prefix().is_empty()
    }

    /// Whether a run of `len` bytes at `offset` may be relevant: before there is a header, only a
    /// run that continues the known beginning, or is long, is part of one.
    #[inline]
    pub fn cares_for(&self, offset: u64, len: u64) -> bool {
        let follows = offset <= self.all.prefix().len() as u64;
        matches!(self.found, Recognised::Map(_)) || follows || len >= RUN
    }

    /// The map of the file as this rank sees it.
    #[inline]
    pub fn map(&self) -> Option<Arc<dyn Map>> {
        match &self.found {
            Recognised::Map(map) => Some(map.clone()),
            _ => None,
        }
    }

    /// This rank writes `bytes` at `offset`, or has read them there.
    #[inline]
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let extent = Extent::new(offset, bytes.len() as u64);
        let concerns = match &self.found {
            Recognised::Map(map) => map.depends_on(extent.intersect(Extent::new(0, map.header()))),
            _ => true,
        };
        if !concerns || self.all.holds(offset, bytes, MOST) {
            return;
        }
        self.own.put(offset, bytes, MOST);
        self.all.put(offset, bytes, MOST);
        self.found = self.formats.recognise(self.all.prefix());
    }

    /// Whether this rank has findings that the other ranks should receive.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.own.is_empty() && (self.had_map || !matches!(self.found, Recognised::Other))
    }

    /// The new findings of this rank as a message; from now on they count as sent.
    #[inline]
    pub fn tell(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.own).to_bytes()
    }

    /// Takes the messages of all ranks, in rank order; returns the map that all of them have now.
    #[inline]
    pub fn hear(&mut self, all: &[u8]) -> Option<Arc<dyn Map>> {
        if self.agreed.put_bytes(all, MOST).is_none() {
            self.agreed = Head::default();
        }
        self.renew()
    }

    /// Truncates to `size`, on all ranks; returns the map that all of them have now.
    #[inline]
    pub fn truncate(&mut self, size: u64) -> Option<Arc<dyn Map>> {
        self.own.truncate(size);
        self.agreed.truncate(size);
        self.renew()
    }

    fn renew(&mut self) -> Option<Arc<dyn Map>> {
        let agreed = self.formats.recognise(self.agreed.prefix());
        self.had_map = matches!(agreed, Recognised::Map(_));
        self.all = self.agreed.clone();
        self.all.put_all(&self.own, MOST);
        self.found = match self.own.is_empty() {
            true => agreed.clone(),
            false => self.formats.recognise(self.all.prefix()),
        };
        match agreed {
            Recognised::Map(map) => Some(map),
            _ => None,
        }
    }
}

/// Concatenates the messages of several ranks; drops the right one if they exceed the size of a
/// header.
#[inline]
pub fn combine(left: &[u8], right: &[u8]) -> Vec<u8> {
    let all = [left, right].concat();
    if all.len() as u64 > 2 * MOST { left.to_vec() } else { all }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FORMATS, head_of};
    use super::*;

    /// Combines the messages of all ranks and passes them to all; returns the headers of their
    /// maps.
    fn meet(ranks: &mut [Watch]) -> Vec<Option<u64>> {
        let told: Vec<Vec<u8>> = ranks.iter_mut().map(Watch::tell).collect();
        let all = told.iter().fold(Vec::new(), |all, one| combine(&all, one));
        ranks.iter_mut().map(|rank| rank.hear(&all).map(|map| map.header())).collect()
    }

    #[test]
    fn a_header_that_two_ranks_write_in_parts_is_known_to_all_when_they_have_met() {
        let head = head_of(200, 50);
        let mut ranks = [(); 3].map(|()| Watch::new(&[], FORMATS));
        ranks[1].put(120, &head[120..]);
        ranks[0].put(0, &head[..30]);
        ranks[0].put(30, &head[30..120]);
        assert_eq!(ranks.each_ref().map(Watch::has_news), [true, false, false]);
        assert_eq!(meet(&mut ranks), [Some(200); 3]);
        assert_eq!(ranks.each_ref().map(Watch::has_news), [false; 3]);
        assert!(ranks.iter().all(|rank| rank.below() == 200));
    }

    #[test]
    fn a_file_without_a_format_is_no_news_and_no_longer_looked_at() {
        let mut rank = Watch::new(&[], FORMATS);
        assert_eq!(rank.below(), LOOK);
        rank.put(0, b"something else");
        assert!(!rank.has_news() && rank.below() == 8 && rank.map().is_none());
    }

    #[test]
    fn small_pieces_of_data_are_not_looked_at_one_by_one() {
        let mut rank = Watch::new(&[], FORMATS);
        assert!(rank.cares_for(0, 8) && rank.cares_for(4096, 4096) && !rank.cares_for(24, 8));
        let head = head_of(200, 50);
        rank.put(0, &head[..24]);
        assert!(rank.cares_for(24, 8) && !rank.cares_for(32, 8), "the header goes on");
        rank.put(24, &head[24..]);
        assert!(rank.cares_for(100, 4), "any byte of a header");
    }

    #[test]
    fn bytes_that_change_nothing_are_no_news() {
        let head = head_of(200, 50);
        let mut rank = Watch::new(&head, FORMATS);
        rank.put(0, &head);
        rank.put(10, &head[10..20]);
        assert!(!rank.has_news(), "the same again");
        rank.put(4, &[9; 4]);
        assert!(!rank.has_news(), "a number of records");
        rank.put(500, &[1; 100]);
        assert!(!rank.has_news(), "data");
    }

    #[test]
    fn a_header_that_grows_or_is_destroyed_is_news_again() {
        let mut ranks = [(); 2].map(|()| Watch::new(&head_of(200, 50), FORMATS));
        ranks[1].put(0, &head_of(400, 50));
        assert!(ranks[1].has_news() && !ranks[0].has_news());
        assert_eq!(meet(&mut ranks), [Some(400); 2]);
        ranks[0].put(0, b"no header any more");
        assert!(ranks[0].has_news());
        assert_eq!(meet(&mut ranks), [None; 2]);
        assert!(ranks.iter().all(|rank| !rank.has_news() && rank.below() == 8));
    }

    #[test]
    fn a_file_that_was_cut_off_inside_its_header_has_no_map() {
        let mut rank = Watch::new(&head_of(200, 50), FORMATS);
        assert!(rank.truncate(200).is_some());
        assert!(rank.truncate(199).is_none() && rank.map().is_none());
    }

    #[test]
    fn no_more_than_a_header_is_passed_on() {
        let (some, much) = (vec![1; 10], vec![2; 2 * MOST as usize]);
        assert_eq!(combine(&some, &much), some);
        assert_eq!(combine(&some, &some).len(), 20);
    }
}
