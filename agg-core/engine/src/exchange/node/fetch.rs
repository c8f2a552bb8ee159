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

/// Windows that a courier has asked for, or an aggregator answered, at most at a time.
const UNDER_WAY: usize = 4;

/// Windows for which an aggregator is ready to be asked.
const AHEAD: usize = 2;

/// Marks the bytes that this rank needs from the windows of other nodes.
pub(super) async fn mark(aggregation: &NodeAggregation<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, own, .. } = aggregation;
    for window in plan.own_windows().filter(|window| !plan.is_home(*window)) {
        ring.open(window, || ()).await?;
        let parts = own.parts(plan.extent(window));
        parts.for_each(|part| aggregation.marks().add(window, own.request().view, part));
        if ring.want(window, plan.local(window)) {
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
pub(super) async fn run(aggregation: &NodeAggregation<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, .. } = aggregation;
    let mut answers: Mail<'_, Answer> = Mail::new();
    let mut declined = Mail::new();
    let mut result = Ok(());
    let mut broken = false;
    let keep = |result: &mut Result<()>, answer: Answer| {
        let taken = aggregation.accept(answer);
        if result.is_ok() {
            *result = taken;
        }
    };
    for window in plan.carried() {
        while answers.len() >= UNDER_WAY
            && let Some(answer) = answers.next().await
        {
            keep(&mut result, answer);
        }
        let wanted = plan.local(window) > 0;
        if wanted && !broken {
            let full = ring.full(window);
            let full = answers.attend(full, |answer| keep(&mut result, answer)).await;
            broken = full.is_err();
            result = result.and(full);
        }
        match broken {
            false => answers.push(aggregation.ask(window, wanted)),
            true => declined.push(aggregation.decline(window)),
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
pub(super) async fn serve(aggregation: &NodeAggregation<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, scene, meeting, .. } = aggregation;
    let tag = meeting.tag(step::HEADERS);
    let (mut questions, mut answers) = (Mail::new(), Mail::new());
    let mut result = Ok(());
    let windows: Vec<u32> = plan.dealt_with().collect();
    let mut posted = windows.iter();
    let mut broken = false;
    let mut place = 0..;
    for (number, window) in windows.iter().copied().enumerate() {
        let ahead = windows.len().min(number + AHEAD) - (windows.len() - posted.len());
        for window in posted.by_ref().take(ahead) {
            for node in plan.others(*window).filter(|_| !aggregation.repeats()) {
                let most = wire::most(plan.marks_of(plan.part_of(node, *window).len), 0);
                let courier = plan.courier(node, *window);
                questions.push(scene.transport.recv(courier, tag, most));
            }
        }
        // Of a window that never comes no byte is there.
        let mut valid = plan.extent(window).offset;
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
        for (node, place) in plan.others(window).zip(&mut place) {
            while answers.len() >= UNDER_WAY
                && let Some(sent) = answers.next().await
            {
                result = result.and(sent);
            }
            let question = match aggregation.repeats() {
                true => Ok(Vec::new()),
                false => answers.during(questions.next()).await.unwrap_or_else(|| Err(lost())),
            };
            let answer = |question: Vec<u8>| aggregation.answer(window, place, valid, &question);
            let answer = question.and_then(answer);
            let answer = answer.unwrap_or_else(|error| {
                // The courier waits for an answer.
                result = std::mem::replace(&mut result, Ok(())).and(Err(error));
                let valid = plan.extent(window).offset;
                Some(aggregation.heading(Head { window, valid }, &Coverage::none()))
            });
            let courier = plan.courier(node, window);
            answers.extend(answer.map(|answer| aggregation.send(courier, step::DATA, answer)));
        }
        if !broken && ring.arrive(window, plan.expected(window)) {
            ring.finish(window, |later| plan.expected(later));
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
        let bits = self.plan.marks_of(self.plan.extent(window).len);
        let marks = Coverage::new(bits);
        let short = marks.is_none().then(|| no_memory(bits / 8));
        let mut marks = marks.unwrap_or_else(Coverage::none);
        match &short {
            None if wanted => self.marks().collect(window, &mut marks),
            Some(_) if wanted => self.marks().forget(window),
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
        self.send(self.plan.aggregator(window), step::HEADERS, question)
    }

    /// Starts to receive the answer about `window`.
    fn receive_answer(&self, window: u32) -> BoxFuture<'static, Result<Vec<u8>>> {
        let most = wire::most(0, self.plan.part_of(self.plan.node(), window).len as usize);
        let (from, tag) = (self.plan.aggregator(window), self.meeting.tag(step::DATA));
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
        let mut scratch = None;
        let marks = self.plan.empty_marks(&mut scratch)?;
        self.open_message(window, place, question, marks)?;
        if marks.used().is_empty() && !self.repeats() {
            return Ok(None);
        }
        let mut answer = self.heading(Head { window, valid }, &Coverage::none());
        let extent = self.plan.extent(window);
        let start = self.ring.bytes(window, extent.len as usize);
        for run in self.plan.scale(extent).runs_below(marks, valid) {
            // SAFETY: inside the slot; the window is loaded, and no rank writes to it before this
            // rank arrives.
            let bytes = unsafe { std::slice::from_raw_parts(start.add(run.start), run.len()) };
            answer.extend_from_slice(bytes);
        }
        Ok(Some(answer))
    }

    /// Puts an answer into this node's window.
    fn accept(&self, answer: Answer) -> Result<()> {
        let Answer { window, marks, bytes } = answer;
        if marks.used().is_empty() && bytes.is_ok() {
            // No rank waits for it, or no rank takes a byte.
            let end = self.plan.extent(window).end();
            if self.plan.local(window) > 0 {
                self.ring.note_loaded(window, end);
            }
            return Ok(());
        }
        let filled = bytes.and_then(|bytes| self.fill_from(window, &marks, &bytes));
        let valid = *filled.as_ref().unwrap_or(&self.plan.extent(window).offset);
        if filled.is_err() || valid < self.plan.wanted(window).end() {
            self.ring.note_end(valid);
        }
        if self.plan.local(window) > 0 {
            self.ring.note_loaded(window, valid);
        }
        filled.map(drop)
    }

    fn fill_from(&self, window: u32, marks: &Coverage, answer: &[u8]) -> Result<u64> {
        let scale = self.plan.scale(self.plan.extent(window));
        if self.repeats() {
            let valid = scale.end_of(marks, answer.len())?;
            self.unpack(window, marks, answer);
            return Ok(valid);
        }
        let Opened { head, bytes, .. } = wire::open(answer, &mut Coverage::none())?;
        let wanted: usize = scale.runs_below(marks, head.valid).map(|run| run.len()).sum();
        if head.window != window || wanted != bytes.len() {
            let detail = format!("{} bytes of window {} came", bytes.len(), head.window);
            let wanted = format!("{detail}, expected {wanted} of window {window}");
            return Err(Error::new(ErrorClass::Intern, wanted));
        }
        self.unpack(window, marks, bytes);
        Ok(head.valid)
    }
}
