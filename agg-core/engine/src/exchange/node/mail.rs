//! A queue of messages under way, used in order and polled together with other work.

use aggio_comm::task::{BoxFuture, poll_again};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

/// Started sends or receives, in the order in which they are used.
pub(super) struct Mail<'a, T>(VecDeque<Item<'a, T>>);

enum Item<'a, T> {
    UnderWay(BoxFuture<'a, T>),
    Ended(T),
}

impl<'a, T> Mail<'a, T> {
    pub(super) fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a started message behind the others.
    pub(super) fn push(&mut self, message: BoxFuture<'a, T>) {
        self.0.push_back(Item::UnderWay(message));
    }

    /// Waits until the first message has ended; `None` if there is none.
    pub(super) async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|context| {
            self.poll(context);
            match self.take_ended() {
                Some(ended) => Poll::Ready(Some(ended)),
                None if self.0.is_empty() => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Adds a started message, if there is one.
    pub(super) fn extend(&mut self, message: Option<BoxFuture<'a, T>>) {
        message.into_iter().for_each(|message| self.push(message));
    }

    /// Waits for `work`, and gives `each` the messages that end meanwhile.
    pub(super) async fn attend<W>(
        &mut self,
        work: impl Future<Output = W>,
        mut each: impl FnMut(T),
    ) -> W {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            self.poll(context);
            while let Some(ended) = self.take_ended() {
                each(ended);
            }
            work.as_mut().poll(context)
        })
        .await
    }

    /// Waits for `work` while the messages get on.
    pub(super) async fn during<W>(&mut self, work: impl Future<Output = W>) -> W {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            self.poll(context);
            work.as_mut().poll(context)
        })
        .await
    }

    /// The first message if it has ended.
    fn take_ended(&mut self) -> Option<T> {
        match self.0.pop_front()? {
            Item::Ended(value) => Some(value),
            under_way => {
                self.0.push_front(under_way);
                None
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        for item in &mut self.0 {
            let Item::UnderWay(message) = item else { continue };
            match message.as_mut().poll(context) {
                Poll::Ready(value) => *item = Item::Ended(value),
                Poll::Pending => poll_again(),
            }
        }
    }
}
