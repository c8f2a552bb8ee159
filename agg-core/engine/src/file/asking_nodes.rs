//! Flush on demand among the ranks of several nodes.
//!
//! The meeting of a collective write shows all ranks where its buffered bytes belong. So a rank
//! that needs none of them asks only the first rank, which may have buffered independent writes.

use super::File;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_comm::asks::{Answer, NodeAsks, Question};
use std::time::Instant;

impl File {
    /// As [`File::ask_for`], of all nodes.
    pub(super) async fn ask_nodes(&self, asks: &NodeAsks, span: Option<Extent>) -> Result<()> {
        let Some((hull, done, asked)) =
            self.waiting().map(|waiting| (waiting.hull, waiting.done, waiting.asked))
        else {
            return Ok(());
        };
        if hull.is_empty() && !self.is_ahead() {
            return Ok(());
        }
        let concerns =
            |span: Extent| !span.intersect(hull).is_empty() || self.ends_before(hull, span);
        let is_known = asked == Some(done) || !span.is_none_or(concerns);
        let span = span.unwrap_or(Extent::between(0, u64::MAX));
        if is_known && self.transport.rank() == 0 {
            return Ok(());
        }
        if is_known && answered(asks.ask(Question::IsAlone(span)).await)? == Answer::Nothing {
            return Ok(());
        }
        // Bytes that must be stored last are stored when no node has other buffered writes.
        if answered(asks.ask(Question::StoreFirst(done)).await)? == Answer::Something {
            answered(asks.ask(Question::StoreAll(done)).await)?;
        }
        if let Some(mut waiting) = self.waiting() {
            waiting.asked = Some(done);
        }
        self.driver.renew();
        Ok(())
    }

    /// No thread of this rank serves other nodes any more when this returns.
    pub(super) fn stop_serving_nodes(&self) {
        self.asks.iter().for_each(NodeAsks::stop);
    }

    /// Requests the workers of all nodes, including this one, to store their buffered writes, until
    /// `end`.
    ///
    /// # Errors
    /// `Io` if buffered writes may remain.
    pub(super) fn hurry_nodes(&self, asks: &NodeAsks, end: Instant) -> Result<()> {
        let Some(done) = self.waiting().map(|waiting| waiting.done) else { return Ok(()) };
        let all = [Question::StoreFirst(done), Question::StoreAll(done)];
        all.into_iter().try_for_each(|one| answered(asks.ask_until(one, end)).map(drop))
    }
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
