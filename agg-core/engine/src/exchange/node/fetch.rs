//! Reading across nodes: the node of a window's aggregator reads it from the file; each other node
//! requests the bytes that its ranks need and puts them into its own window.
//!
//! On each node one rank, the *courier* of the file domain, sends a request as soon as all ranks
//! have marked the bytes they need, in the order of windows; the aggregator answers in that order.
//! A node that needs nothing sends an empty request and gets no answer. In a repeated call no
//! requests are sent, and every window has an answer, which ends at the end of the file. See
//! `send.rs` for why no rank waits forever, even if a member has ended; a rank marks every open
//! window, whether it has received the earlier ones or not.

use super::super::coverage::Coverage;
use super::super::step;
use super::NodeAggregation;
use super::mail::Mail;
use super::wire::{self, Head, Opened};
use aggio_base::allocate::no_memory;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::task::BoxFuture;
use std::ops::Range;

/// Windows that a courier has asked for, or an aggregator answered, at most at a time.
const UNDER_WAY: usize = 4;

/// Windows for which an aggregator is ready to be asked.
const AHEAD: usize = 2;

/// Marks the bytes that this rank needs from the windows of other nodes.
pub(super) async fn mark(passage: &NodeAggregation<'_>) -> Result<()> {
    let ring = &passage.ring;
    for window in passage.own_windows().filter(|window| !passage.is_home(*window)) {
        ring.open(window, || ()).await?;
        let parts = passage.parts(passage.windows.extent(window));
        parts.for_each(|part| passage.mark(window, part));
        if ring.want(window, passage.local(window)) {
            ring.offer(window);
        }
    }
    Ok(())
}

/// The answer to a question about a window, and which of its bytes it brings.
struct Answer {
    window: u32,
    marks: Coverage,
    bytes: Result<Vec<u8>>,
}

/// Gets the windows that this rank is the courier of.
pub(super) async fn run(passage: &NodeAggregation<'_>) -> Result<()> {
    let mut answers: Mail<'_, Answer> = Mail::new();
    let mut declined = Mail::new();
    let mut result = Ok(());
    let mut broken = false;
    let keep = |result: &mut Result<()>, answer: Answer| {
        let taken = passage.accept(answer);
        if result.is_ok() {
            *result = taken;
        }
    };
    for window in passage.carried() {
        while answers.len() >= UNDER_WAY
            && let Some(answer) = answers.next().await
        {
            keep(&mut result, answer);
        }
        let wanted = passage.local(window) > 0;
        if wanted && !broken {
            let full = passage.ring.full(window);
            let full = answers.attend(full, |answer| keep(&mut result, answer)).await;
            broken = full.is_err();
            result = result.and(full);
        }
        match broken {
            false => answers.push(passage.ask(window, wanted)),
            true => declined.push(passage.decline(window)),
        }
    }
    while let Some(sent) = declined.next().await {
        result = result.and(sent);
    }
    while let Some(answer) = answers.next().await {
        keep(&mut result, answer);
    }
    result
}

/// Answers other nodes about the windows of this rank's file domain.
pub(super) async fn serve(passage: &NodeAggregation<'_>) -> Result<()> {
    let (transport, ring) = (passage.scene.transport, &passage.ring);
    let tag = passage.meeting.tag(step::HEADERS);
    let (mut questions, mut answers) = (Mail::new(), Mail::new());
    let mut result = Ok(());
    let windows: Vec<u32> = passage.dealt_with().collect();
    let mut posted = windows.iter();
    let mut broken = false;
    let mut place = 0..;
    for (number, window) in windows.iter().copied().enumerate() {
        let ahead = windows.len().min(number + AHEAD) - (windows.len() - posted.len());
        for window in posted.by_ref().take(ahead) {
            for node in passage.others(*window).filter(|_| !passage.repeats()) {
                let marks = (passage.part_of(node, *window).len >> passage.grain) as usize + 2;
                let courier = passage.courier(node, *window);
                questions.push(transport.recv(courier, tag, wire::most(marks, 0)));
            }
        }
        // Of a window that never comes no byte is there.
        let mut valid = passage.windows.extent(window).offset;
        if !broken {
            let loaded = questions.during(ring.loaded(window, || false));
            match answers.during(loaded).await {
                Ok(end) => valid = end,
                Err(error) => {
                    broken = true;
                    result = result.and(Err(error));
                }
            }
        }
        for (node, place) in passage.others(window).zip(&mut place) {
            while answers.len() >= UNDER_WAY
                && let Some(sent) = answers.next().await
            {
                result = result.and(sent);
            }
            let question = match passage.repeats() {
                true => Ok(Vec::new()),
                false => answers.during(questions.next()).await.unwrap_or_else(|| Err(lost())),
            };
            let answer = |question: Vec<u8>| passage.answer(window, place, valid, &question);
            let answer = question.and_then(answer);
            let answer = answer.unwrap_or_else(|error| {
                // The courier waits for an answer.
                result = std::mem::replace(&mut result, Ok(())).and(Err(error));
                let valid = passage.windows.extent(window).offset;
                Some(passage.heading(Head { window, valid }, &Coverage::none()))
            });
            let courier = passage.courier(node, window);
            answers.extend(answer.map(|answer| passage.send(courier, step::DATA, answer)));
        }
        if !broken && ring.arrive(window, passage.expected(window)) {
            ring.finish(window, |later| passage.expected(later));
        }
    }
    while let Some(sent) = answers.next().await {
        result = result.and(sent);
    }
    result
}

fn lost() -> Error {
    Error::new(ErrorClass::Intern, "a message that nobody waits for")
}

impl NodeAggregation<'_> {
    /// Requests the bytes marked by this node's ranks in `window`; none if no rank `wanted` any.
    fn ask(&self, window: u32, wanted: bool) -> BoxFuture<'static, Answer> {
        let extent = self.windows.extent(window);
        let bits = (extent.len as usize >> self.grain) + 2;
        let marks = Coverage::new(bits);
        let short = marks.is_none().then(|| no_memory(bits / 8));
        let mut marks = marks.unwrap_or_else(Coverage::none);
        match &short {
            None if wanted => self.collect(window, &mut marks),
            Some(_) if wanted => self.forget(window),
            _ => {}
        }
        let asked = (!self.repeats()).then(|| self.question(window, &marks));
        let answered = self.repeats() || !marks.used().is_empty();
        let answer = answered.then(|| self.receive_answer(window));
        Box::pin(async move {
            let asked = match asked {
                Some(asked) => asked.await,
                None => Ok(()),
            };
            let answered = match answer {
                Some(answer) => answer.await,
                None => Ok(Vec::new()),
            };
            let bytes = short.map_or(asked, Err).and(answered);
            Answer { window, marks, bytes }
        })
    }

    /// Starts to send a request for the bytes of `marks` to the aggregator of `window`.
    fn question(&self, window: u32, marks: &Coverage) -> BoxFuture<'static, Result<()>> {
        let question = self.heading(Head { window, valid: 0 }, marks);
        self.send(self.aggregator(window), step::HEADERS, question)
    }

    /// Starts to receive the answer about `window`.
    fn receive_answer(&self, window: u32) -> BoxFuture<'static, Result<Vec<u8>>> {
        let most = wire::most(0, self.part_of(self.node().map().node(), window).len as usize);
        let (from, tag) = (self.aggregator(window), self.meeting.tag(step::DATA));
        self.scene.transport.recv(from, tag, most)
    }

    /// Asks for nothing of `window`, which brings no answer; or takes the answer that comes
    /// unasked, for nothing.
    fn decline(&self, window: u32) -> BoxFuture<'static, Result<()>> {
        if !self.repeats() {
            return self.question(window, &Coverage::none());
        }
        let answer = self.receive_answer(window);
        Box::pin(async move { answer.await.map(drop) })
    }

    /// The answer to the `question` in place `place` about a window that is loaded up to `valid`;
    /// `None` if the node needs no bytes and expects no answer.
    fn answer(
        &self,
        window: u32,
        place: usize,
        valid: u64,
        question: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let extent = self.windows.extent(window);
        let mut marks = None;
        let marks = self.scratch(&mut marks, window)?;
        self.open_message(window, place, question, marks)?;
        if marks.used().is_empty() && !self.repeats() {
            return Ok(None);
        }
        let mut answer = self.heading(Head { window, valid }, &Coverage::none());
        let start = self.ring.bytes(window, extent.len as usize);
        for run in self.runs_below(window, valid, marks) {
            // SAFETY: inside the slot; the window is loaded, and no rank writes to it before this
            // rank arrives.
            let bytes = unsafe { std::slice::from_raw_parts(start.add(run.start), run.len()) };
            answer.extend_from_slice(bytes);
        }
        Ok(Some(answer))
    }

    /// The runs of bytes of `window` that `marks` stand for, up to file byte `valid`.
    fn runs_below<'c>(
        &self,
        window: u32,
        valid: u64,
        marks: &'c Coverage,
    ) -> impl Iterator<Item = Range<usize>> + use<'c> {
        let extent = self.windows.extent(window);
        let below = (valid.clamp(extent.offset, extent.end()) - extent.offset) as usize;
        let runs = self.runs(extent, marks).take_while(move |run| run.start < below);
        runs.map(move |run| run.start..run.end.min(below))
    }

    /// Puts an answer into this node's window.
    fn accept(&self, answer: Answer) -> Result<()> {
        let Answer { window, marks, bytes } = answer;
        if marks.used().is_empty() && bytes.is_ok() {
            // No rank waits for it, or no rank takes a byte.
            let end = self.windows.extent(window).end();
            if self.local(window) > 0 {
                self.ring.note_loaded(window, end);
            }
            return Ok(());
        }
        let filled = bytes.and_then(|bytes| self.fill_from(window, &marks, &bytes));
        let valid = *filled.as_ref().unwrap_or(&self.windows.extent(window).offset);
        if filled.is_err() || valid < self.wanted(window).end() {
            self.ring.note_end(valid);
        }
        if self.local(window) > 0 {
            self.ring.note_loaded(window, valid);
        }
        filled.map(drop)
    }

    fn fill_from(&self, window: u32, marks: &Coverage, answer: &[u8]) -> Result<u64> {
        if self.repeats() {
            let valid = self.end_of(window, marks, answer.len())?;
            self.unpack(window, marks, answer);
            return Ok(valid);
        }
        let Opened { head, bytes, .. } = wire::open(answer, &mut Coverage::none())?;
        let wanted: usize = self.runs_below(window, head.valid, marks).map(|run| run.len()).sum();
        if head.window != window || wanted != bytes.len() {
            let detail = format!("{} bytes of window {} came", bytes.len(), head.window);
            let wanted = format!("{detail}, expected {wanted} of window {window}");
            return Err(Error::new(ErrorClass::Intern, wanted));
        }
        self.unpack(window, marks, bytes);
        Ok(head.valid)
    }

    /// The file byte before which are the first `len` bytes that `marks` stand for, and no other of
    /// them; the end of the window if that are all.
    fn end_of(&self, window: u32, marks: &Coverage, mut len: usize) -> Result<u64> {
        let extent = self.windows.extent(window);
        for run in self.runs(extent, marks) {
            if len < run.len() {
                return Ok(extent.offset + (run.start + len) as u64);
            }
            len -= run.len();
        }
        match len {
            0 => Ok(extent.end()),
            more => Err(Error::new(ErrorClass::Intern, format!("{more} bytes too many came"))),
        }
    }
}
