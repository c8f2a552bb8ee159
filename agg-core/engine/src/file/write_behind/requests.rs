//! Flush on demand: before a rank reads or writes independently, through any handle, the other
//! ranks store their buffered writes of the file.
//!
//! The meeting of a collective write shows the ranks of all nodes where its buffered bytes belong.
//! So a rank that needs none of them asks only the first rank of another node, which may have
//! buffered independent writes.

use super::buffer::Buffer;
use crate::file::split::SplitCall;
use crate::file::storage::Storage;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_comm::asks::{Answer, NodeAsks, Question};
use aggio_comm::node::Pulse;
use aggio_comm::task;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an aborting job waits for buffered writes of ranks.
const SOON: Duration = Duration::from_secs(5);

/// The requests of one rank for flushes of the others.
pub(super) struct FlushRequests {
    storage: Arc<Storage>,
    /// It proceeds while this rank waits for others.
    split: Arc<SplitCall>,
    /// The connection to other nodes, if there are any.
    asks: Option<NodeAsks>,
}

impl FlushRequests {
    /// The way to the other ranks of a file just opened.
    pub(super) fn new(
        storage: Arc<Storage>,
        split: Arc<SplitCall>,
        asks: Option<NodeAsks>,
    ) -> Self {
        Self { storage, split, asks }
    }

    /// Whether ranks are on several nodes.
    pub(super) fn reach_nodes(&self) -> bool {
        self.asks.is_some()
    }

    /// Makes other ranks store their buffered writes before this one alone reads `span` (the entire
    /// file and its size if `None`) or writes.
    ///
    /// # Errors
    /// `Io` if another rank could not store its buffered writes, `Other` if its process has ended.
    pub(super) async fn send(&self, buffer: &Buffer, span: Option<Extent>) -> Result<()> {
        match &self.asks {
            Some(asks) => self.ask_nodes(buffer, asks, span).await,
            None => self.ask_node(buffer, span).await,
        }
    }

    /// Asks the ranks of the only node.
    async fn ask_node(&self, buffer: &Buffer, span: Option<Extent>) -> Result<()> {
        let holders = buffer.holders();
        let hull = buffer.lock().hull;
        let alone = holders.alone();
        let touches = |span: Extent, held: Extent| !held.intersect(span).is_empty();
        let concerns = |span| {
            touches(span, hull) || touches(span, alone) || self.storage.ends_before(hull, span)
        };
        let own = || u32::from(buffer.lock().hold().is_some());
        let is_awaited = || buffer.is_ahead() || holders.count() > own();
        if !is_awaited() || !span.is_none_or(concerns) {
            return Ok(());
        }
        let _ask = holders.ask(true);
        let mut pulse = Pulse::default();
        while is_awaited() {
            if holders.have_failed() {
                let text = "another rank could not store what it has written before";
                return Err(Error::new(ErrorClass::Io, text));
            }
            self.storage.transport().node().map_or(Ok(()), |node| pulse.look(node))?;
            self.split.progress();
            task::pause().await;
        }
        Ok(())
    }

    /// Asks the ranks of all nodes.
    async fn ask_nodes(
        &self,
        buffer: &Buffer,
        asks: &NodeAsks,
        span: Option<Extent>,
    ) -> Result<()> {
        let (hull, done, asked) = {
            let waiting = buffer.lock();
            (waiting.hull, waiting.done, waiting.asked)
        };
        if hull.is_empty() && !buffer.is_ahead() {
            return Ok(());
        }
        let concerns =
            |span: Extent| !span.intersect(hull).is_empty() || self.storage.ends_before(hull, span);
        let is_known = asked == Some(done) || !span.is_none_or(concerns);
        let span = span.unwrap_or(Extent::between(0, u64::MAX));
        if is_known && self.storage.transport().rank() == 0 {
            return Ok(());
        }
        if is_known && answered(asks.ask(Question::IsAlone(span)).await)? == Answer::Nothing {
            return Ok(());
        }
        // Bytes that must be stored last are stored when no node has other buffered writes.
        if answered(asks.ask(Question::StoreFirst(done)).await)? == Answer::Something {
            answered(asks.ask(Question::StoreAll(done)).await)?;
        }
        buffer.lock().asked = Some(done);
        self.storage.driver().renew();
        Ok(())
    }

    /// Requests the workers of all ranks, including this one, to store their buffered writes, and
    /// waits a limited time.
    ///
    /// # Errors
    /// `Io` if buffered writes remain.
    pub(super) fn hurry(&self, buffer: &Buffer) -> Result<()> {
        let since = Instant::now();
        if let Some(asks) = &self.asks {
            return hurry_nodes(buffer, asks, since + SOON).map_err(|_| lost());
        }
        let holders = buffer.holders();
        let _ask = holders.ask(true);
        while !holders.can_store_no_more() && since.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(1));
        }
        if holders.count() == 0 {
            return Ok(());
        }
        Err(lost())
    }

    /// No thread of this rank serves other nodes any more when this returns.
    pub(super) fn stop_serving_nodes(&self) {
        self.asks.iter().for_each(NodeAsks::stop);
    }
}

/// Requests the workers of all nodes, including this one, to store their buffered writes, until
/// `end`.
///
/// # Errors
/// `Io` if buffered writes may remain.
fn hurry_nodes(buffer: &Buffer, asks: &NodeAsks, end: Instant) -> Result<()> {
    let done = buffer.lock().done;
    let all = [Question::StoreFirst(done), Question::StoreAll(done)];
    all.into_iter().try_for_each(|one| answered(asks.ask_until(one, end)).map(drop))
}

fn lost() -> Error {
    let text = "what ranks have written and could not store in time is lost";
    Error::new(ErrorClass::Io, text)
}

fn answered(answer: Answer) -> Result<Answer> {
    match answer {
        Answer::Failed => {
            let text = "another rank could not store what it has written before, \
                or its node could not be asked";
            Err(Error::new(ErrorClass::Io, text))
        }
        answer => Ok(answer),
    }
}
