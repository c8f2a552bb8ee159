//! Writing across nodes: the data that the ranks of a node put into a window travels in one message
//! to the aggregator of its file domain.
//!
//! On each node one rank, the *courier* of the domain, sends all its messages in the order of
//! windows; the aggregator receives them in that order and puts them into the window of its own
//! node, as one more arrival there. A window that only the hull of a node touches has an empty
//! message, and after a failure all windows have: no rank waits for ranks without data.
//!
//! Why no rank waits forever: take the first window that some node has not finished. It is open on
//! all nodes. Everything its couriers sent before belongs to windows that all nodes have finished,
//! so it is received; then the messages of this window are sent, received and stored.
//!
//! Where a member of a node has ended, windows no longer get full. Its couriers and aggregators
//! still exchange all messages, without data, so that other nodes reach the end of the call.

use super::super::coverage::Coverage;
use super::super::step;
use super::NodeAggregation;
use super::mail::Mail;
use super::wire::{self, Head, Opened};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::task::BoxFuture;
use std::sync::PoisonError;

/// Messages that a courier has under way at most.
const UNDER_WAY: usize = 2;

/// Number of windows for which an aggregator posts receives in advance.
const AHEAD: usize = 2;

/// Sends the windows that this rank is the courier of.
pub(super) async fn run(aggregation: &NodeAggregation<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, .. } = aggregation;
    let mut mail = Mail::new();
    let mut result = Ok(());
    let mut scratch = None;
    let mut broken = false;
    for window in plan.carried() {
        while mail.len() >= UNDER_WAY {
            result = result.and(mail.next().await.unwrap_or(Ok(())));
        }
        let mut filled = plan.local(window) > 0 && !broken;
        if filled && let Err(error) = mail.during(ring.full(window)).await {
            (broken, filled) = (true, false);
            result = result.and(Err(error));
        }
        let message = match plan.empty_marks(&mut scratch) {
            Ok(marks) => aggregation.pack(window, filled, marks),
            Err(error) => {
                // The aggregator waits for a message.
                if filled {
                    aggregation.marks().forget(window);
                }
                aggregation.drop_window(window);
                result = result.and(Err(error));
                aggregation.heading(Head { window, valid: 0 }, &Coverage::none())
            }
        };
        if filled {
            ring.finish(window, |later| plan.expected(later));
        }
        mail.push(aggregation.send(plan.aggregator(window), step::DATA, message));
    }
    while let Some(sent) = mail.next().await {
        result = result.and(sent);
    }
    result
}

/// Receives the messages of other nodes for the windows of this rank's file domain.
pub(super) async fn receive(aggregation: &NodeAggregation<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, scene, meeting, .. } = aggregation;
    let tag = meeting.tag(step::DATA);
    let mut mail = Mail::new();
    let mut result = Ok(());
    let mut scratch = None;
    let windows: Vec<u32> = plan.dealt_with().collect();
    let mut posted = windows.iter();
    let mut broken = false;
    let mut place = 0..;
    for (number, window) in windows.iter().copied().enumerate() {
        let ahead = windows.len().min(number + AHEAD) - (windows.len() - posted.len());
        for window in posted.by_ref().take(ahead) {
            for node in plan.others(*window) {
                let bytes = plan.part_of(node, *window).len;
                let most = wire::most(plan.marks_of(bytes), bytes as usize);
                mail.push(scene.transport.recv(plan.courier(node, *window), tag, most));
            }
        }
        if !broken && let Err(error) = mail.during(ring.open(window, || ())).await {
            broken = true;
            result = result.and(Err(error));
        }
        let mut merged = Ok(());
        for (_, place) in plan.others(window).zip(&mut place) {
            let message = mail.next().await.unwrap_or_else(|| Err(lost()));
            if !broken {
                let merge = |message: Vec<u8>| {
                    let marks = plan.empty_marks(&mut scratch)?;
                    aggregation.merge(window, place, &message, marks)
                };
                let one = message.and_then(merge);
                merged = merged.and(one);
            }
        }
        if broken {
            continue;
        }
        if merged.is_err() {
            aggregation.drop_window(window);
        }
        result = result.and(merged);
        if ring.arrive(window, plan.expected(window)) {
            ring.offer(window);
        }
    }
    result
}

fn lost() -> Error {
    Error::new(ErrorClass::Intern, "a message that nobody waits for")
}

impl NodeAggregation<'_> {
    /// The first bytes of a message: its description, or nothing in a repeated call.
    pub(super) fn heading(&self, head: Head, marks: &Coverage) -> Vec<u8> {
        let heading = if self.repeats() { Vec::new() } else { wire::start(head, marks) };
        Counters::add(&self.scene.counters.metadata_bytes, heading.len() as u64);
        heading
    }

    /// Returns the bytes of `message` and adds its description to `marks`. `place` is its position
    /// among the messages that this rank handles.
    pub(super) fn open_message<'m>(
        &self,
        window: u32,
        place: usize,
        message: &'m [u8],
        marks: &mut Coverage,
    ) -> Result<&'m [u8]> {
        if let Some(repeat) = self.repeat {
            let known = self.plan.descriptions(repeat);
            let description = known.and_then(|known| known.get(place)).ok_or_else(lost)?;
            return wire::follow(description, marks).map(|_| message);
        }
        let Opened { head, description, bytes } = wire::open(message, marks)?;
        if head.window != window {
            let detail = format!("a message about window {}, expected {window}", head.window);
            return Err(Error::new(ErrorClass::Intern, detail));
        }
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).push(description);
        Ok(bytes)
    }

    /// Sends a message, and counts it.
    pub(super) fn send(
        &self,
        to: usize,
        step: u32,
        message: Vec<u8>,
    ) -> BoxFuture<'static, Result<()>> {
        let scene = &self.scene;
        Counters::add(&scene.counters.messages, 1);
        Counters::add(&scene.counters.message_bytes, message.len() as u64);
        scene.transport.send(to, self.meeting.tag(step), message)
    }

    /// Drops this node's data for `window`; nothing is stored from this window on.
    pub(super) fn drop_window(&self, window: u32) {
        self.ring.note_unstored(window, self.plan.extent(window).offset);
    }

    /// The message with the data that this node's ranks put into a full window.
    fn pack(&self, window: u32, filled: bool, marks: &mut Coverage) -> Vec<u8> {
        if filled {
            self.marks().collect(window, marks);
        }
        if self.ring.failed() {
            // Some rank may have put nothing into it.
            marks.clear();
            self.drop_window(window);
        }
        let mut message = self.heading(Head { window, valid: 0 }, marks);
        let extent = self.plan.extent(window);
        let start = self.ring.bytes(window, extent.len as usize);
        for run in self.plan.scale(extent).runs(marks) {
            // SAFETY: inside the slot; all ranks have arrived, so none writes to it.
            let bytes = unsafe { std::slice::from_raw_parts(start.add(run.start), run.len()) };
            message.extend_from_slice(bytes);
        }
        message
    }

    /// Puts the data of another node's message into an open window; `marks` are empty.
    fn merge(&self, window: u32, place: usize, message: &[u8], marks: &mut Coverage) -> Result<()> {
        let bytes = self.open_message(window, place, message, marks)?;
        if bytes.is_empty() && self.repeats() {
            // Nothing, or the other node has given up.
            return Ok(());
        }
        let scale = self.plan.scale(self.plan.extent(window));
        let supplied: usize = scale.runs(marks).map(|run| run.len()).sum();
        if supplied != bytes.len() {
            let detail = format!("{} bytes of window {window} came", bytes.len());
            let wanted = format!("{detail}, expected {supplied}");
            return Err(Error::new(ErrorClass::Intern, wanted));
        }
        if self.ring.failed() {
            return Ok(());
        }
        self.unpack(window, marks, bytes);
        self.marks().merge(window, marks);
        Ok(())
    }

    /// Puts `bytes` to the places in a window that `marks` stand for.
    pub(super) fn unpack(&self, window: u32, marks: &Coverage, mut bytes: &[u8]) {
        let extent = self.plan.extent(window);
        let start = self.ring.bytes(window, extent.len as usize);
        for run in self.plan.scale(extent).runs(marks) {
            let (here, rest) = bytes.split_at(run.len().min(bytes.len()));
            // SAFETY: inside the slot, which is this call's until this rank has arrived; other
            // ranks write other bytes, and where they write the same ones, either will do.
            unsafe {
                let to = start.add(run.start);
                std::ptr::copy_nonoverlapping(here.as_ptr(), to, here.len());
            }
            bytes = rest;
        }
    }
}
