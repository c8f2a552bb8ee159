//! Bytes of a generation that are fetched from other nodes, and the actions that wait for them.

use crate::peers::{Holder, PIECE, gaps};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use std::collections::{BTreeMap, VecDeque};

/// Requests under way of one generation.
const WINDOW: usize = 16;

/// The fetching of one generation.
#[derive(Debug)]
pub(crate) struct Pull<T> {
    rest: VecDeque<(Extent, Holder)>,
    /// Requests under way, by their tags.
    open: BTreeMap<u64, (Extent, Holder)>,
    /// All bytes that have not arrived.
    missing: Overlay<Holder>,
    after: Vec<T>,
    failed: Option<String>,
}

/// A fetching that is over.
#[derive(Debug)]
pub(crate) struct Pulled<T> {
    /// Requests under way, which nobody needs any more.
    pub(crate) tags: Vec<u64>,
    pub(crate) after: Vec<T>,
    /// The text of the error.
    pub(crate) failed: Option<String>,
}

impl<T> Default for Pull<T> {
    fn default() -> Self {
        let (rest, open, missing) = (VecDeque::new(), BTreeMap::new(), Overlay::default());
        Self { rest, open, missing, after: Vec::new(), failed: None }
    }
}

impl<T> Pull<T> {
    /// Bytes of a holder are to come, unless they are on their way.
    pub(super) fn want(&mut self, part: Extent, holder: Holder) {
        let coming = self.missing.within(part).filter(|(_, of)| *of == holder);
        let coming: Vec<Extent> = coming.map(|(known, _)| known).collect();
        for gap in gaps(part, &coming) {
            self.missing.put(gap, holder);
            let starts = (gap.offset..gap.end()).step_by(PIECE as usize);
            let pieces = starts.map(|at| Extent::between(at, gap.end().min(at + PIECE)));
            self.rest.extend(pieces.map(|piece| (piece, holder)));
        }
    }

    /// An action follows the last byte.
    pub(super) fn hold(&mut self, after: T) {
        self.after.push(after);
    }

    /// The next part that is to be requested now.
    pub(crate) fn next(&mut self) -> Option<(Extent, Holder)> {
        let has_room = self.failed.is_none() && self.open.len() < WINDOW;
        if has_room { self.rest.pop_front() } else { None }
    }

    /// It is requested by this tag.
    pub(crate) fn sent(&mut self, tag: u64, part: Extent, holder: Holder) {
        self.open.insert(tag, (part, holder));
    }

    /// A requested part has arrived.
    pub(super) fn came(&mut self, tag: u64) -> Option<(Extent, Holder)> {
        let came = self.open.remove(&tag);
        came.into_iter().for_each(|(part, _)| self.missing.take(part));
        came
    }

    /// Requested bytes do not arrive.
    pub(crate) fn fail(&mut self, text: String) {
        self.failed = Some(text);
    }

    pub(super) fn is_over(&self) -> bool {
        self.failed.is_some() || self.rest.is_empty() && self.open.is_empty()
    }

    pub(crate) fn end(self) -> Pulled<T> {
        let tags = self.open.into_keys().collect();
        Pulled { tags, after: self.after, failed: self.failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_link::Peer;

    fn holder() -> Holder {
        Holder { peer: Peer(1), area: 7 }
    }

    #[test]
    fn each_byte_is_requested_once_and_actions_follow_the_last_one() {
        let mut pull = Pull::default();
        pull.want(Extent::new(0, PIECE + 5), holder());
        pull.want(Extent::new(PIECE, 10), holder());
        pull.hold("action");
        let parts: Vec<Extent> = std::iter::from_fn(|| pull.next()).map(|(part, _)| part).collect();
        let expected = [(0, PIECE), (PIECE, 5), (PIECE + 5, 5)];
        assert_eq!(parts, expected.map(|(offset, len)| Extent::new(offset, len)));
        (1..).zip(&parts).for_each(|(tag, part)| pull.sent(tag, *part, holder()));
        assert_eq!(pull.came(2), Some((parts[1], holder())));
        assert_eq!(pull.came(2), None);
        assert!(pull.came(1).is_some() && !pull.is_over());
        assert!(pull.came(3).is_some() && pull.is_over());
        let Pulled { tags, after, failed } = pull.end();
        assert_eq!((tags, after, failed), (vec![], vec!["action"], None));
    }

    #[test]
    fn no_more_is_requested_than_the_window_allows_and_nothing_after_an_error() {
        let mut pull = Pull::<()>::default();
        pull.want(Extent::new(0, 20 * PIECE), holder());
        for tag in 0..WINDOW as u64 {
            let (part, holder) = pull.next().unwrap();
            pull.sent(tag, part, holder);
        }
        assert_eq!(pull.next(), None);
        pull.came(0);
        assert!(pull.next().is_some());
        pull.fail("it is gone".into());
        assert!(pull.next().is_none() && pull.is_over());
        let Pulled { tags, failed, .. } = pull.end();
        assert_eq!((tags.len(), failed.as_deref()), (WINDOW - 1, Some("it is gone")));
    }
}
