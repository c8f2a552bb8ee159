//! What a rank sees of a file's head, and what all ranks know of it.
//!
//! A rank sees its own writes and reads alone. What is new in them it tells the others in a
//! collective operation that meets them in any case: there a bit says that somebody has news, and
//! only then these travel. So all ranks know the same head after the same operation, and whatever
//! plans depend on is equal on all of them.

use super::head::Head;
use super::{Formats, Map, Recognised};
use aggio_base::Extent;
use std::sync::Arc;

/// Headers with more bytes are not understood.
const MOST: u64 = 1 << 20;

/// Bytes that a rank looks at while it does not know how the file begins.
pub const LOOK: u64 = 64 << 10;

/// Shorter runs that do not follow what is known are no part of a header.
const RUN: u64 = 256;

/// So many bytes tell that a file has none of the formats.
const MAGIC: usize = 8;

/// What one rank knows of the head of an open file.
#[derive(Debug)]
pub struct Watch {
    formats: Formats,
    /// What all ranks know.
    agreed: Head,
    /// What this rank has written or read since, and the others do not know.
    own: Head,
    /// Both.
    all: Head,
    found: Recognised,
    /// Whether what all ranks know made a map.
    had_map: bool,
}

impl Watch {
    /// Of a file that begins with `head`, as all ranks know; nothing is known if that is empty.
    #[inline]
    pub fn new(head: &[u8], formats: Formats) -> Self {
        let mut agreed = Head::default();
        agreed.put(0, head, MOST);
        let found = formats.recognise(agreed.prefix());
        let had_map = matches!(found, Recognised::Map(_));
        Self { formats, own: Head::default(), all: agreed.clone(), agreed, found, had_map }
    }

    /// Bytes of the file behind this one tell nothing.
    #[inline]
    pub fn below(&self) -> u64 {
        match &self.found {
            Recognised::Map(map) => map.header(),
            Recognised::Unclear => MOST,
            Recognised::Other if self.all.prefix().len() < MAGIC => LOOK,
            Recognised::Other => MAGIC as u64,
        }
    }

    /// Whether nothing is known of how the file begins.
    #[inline]
    pub fn is_blank(&self) -> bool {
        self.all.prefix().is_empty()
    }

    /// Whether a run of `len` bytes at `offset` may tell anything: before there is a header, only
    /// what goes on where the known beginning ends, or is long, is part of one.
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

    /// Whether the other ranks should know what this one has seen.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.own.is_empty() && (self.had_map || !matches!(self.found, Recognised::Other))
    }

    /// What this rank has seen and the others do not know; they do from now on.
    #[inline]
    pub fn tell(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.own).to_bytes()
    }

    /// All ranks have told this, in rank order; the map that all of them have now.
    #[inline]
    pub fn hear(&mut self, all: &[u8]) -> Option<Arc<dyn Map>> {
        if self.agreed.put_bytes(all, MOST).is_none() {
            self.agreed = Head::default();
        }
        self.renew()
    }

    /// The file was cut off at `size`, as all ranks know; the map that all of them have now.
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

/// Puts what several ranks tell in a row; more than a header has is not passed on.
#[inline]
pub fn combine(left: &[u8], right: &[u8]) -> Vec<u8> {
    let all = [left, right].concat();
    if all.len() as u64 > 2 * MOST { left.to_vec() } else { all }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FORMATS, head_of};
    use super::*;

    /// What a rank tells, put together, and heard by all.
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
