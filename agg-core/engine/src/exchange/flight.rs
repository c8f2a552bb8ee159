//! Messages under way, bounded in bytes and, for each partner, in number.

use aggio_comm::task::BoxFuture;
use std::task::Poll;

/// Messages under way at most, to or from one partner.
const PER_PARTNER: usize = 2;

/// Started sends or receives that have not ended.
///
/// The caller starts messages in one global order (window, then domain, then rank), and waits for
/// room rather than skip a message. The first message in that order that has not ended therefore
/// always has room on both sides, so no cycle of waiting ranks can arise.
pub(super) struct Flight<'a, T> {
    most: usize,
    bytes: usize,
    running: Vec<(usize, usize, BoxFuture<'a, T>)>,
}

impl<'a, T> Flight<'a, T> {
    /// Room for `most` bytes; a single message always has room, also if it is larger.
    pub(super) fn new(most: usize) -> Self {
        Self { most, bytes: 0, running: Vec::new() }
    }

    /// Whether a message of `len` bytes to or from `partner` may start now.
    pub(super) fn has_room(&self, partner: usize, len: usize) -> bool {
        let of_partner = self.running.iter().filter(|(_, other, _)| *other == partner).count();
        let fits = self.bytes.checked_add(len).is_some_and(|bytes| bytes <= self.most);
        self.running.is_empty() || (fits && of_partner < PER_PARTNER)
    }

    /// Adds a started message.
    pub(super) fn add(&mut self, partner: usize, len: usize, message: BoxFuture<'a, T>) {
        self.bytes = self.bytes.saturating_add(len);
        self.running.push((len, partner, message));
    }

    /// Waits until one of the messages has ended; `None` if there is none.
    pub(super) async fn next(&mut self) -> Option<T> {
        if self.running.is_empty() {
            return None;
        }
        let (at, value) = std::future::poll_fn(|context| {
            for (at, (_, _, message)) in self.running.iter_mut().enumerate() {
                if let Poll::Ready(value) = message.as_mut().poll(context) {
                    return Poll::Ready((at, value));
                }
            }
            Poll::Pending
        })
        .await;
        let (len, _, _) = self.running.swap_remove(at);
        self.bytes = self.bytes.saturating_sub(len);
        Some(value)
    }
}
