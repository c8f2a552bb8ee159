//! A program: one process with a connection to the agent of its node, which asks as the clients of
//! programs do. It is a future, so that it reads like a program.

use super::chance::Chance;
use crate::protocol::{Packets, Reply, Request};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Poll;

/// State that programs share with their scheduler.
pub(super) struct Shared {
    pub(super) chance: Chance,
    /// Steps of all programs so far.
    pub(super) steps: Cell<u64>,
    /// How often all have come to rest, and how many programs wait for the next time.
    pub(super) calms: Cell<u64>,
    pub(super) awaits_calm: Cell<u32>,
    /// The numbers of the complete generations that owners have, by name.
    pub(super) complete: RefCell<BTreeMap<Vec<u8>, BTreeSet<u64>>>,
    /// The present action of each program.
    pub(super) doing: RefCell<BTreeMap<String, String>>,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            chance: Chance::new(seed),
            steps: Cell::new(0),
            calms: Cell::new(0),
            awaits_calm: Cell::new(0),
            complete: RefCell::default(),
            doing: RefCell::default(),
        })
    }

    pub(super) fn count_step(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    /// The numbers of the complete generations of a name.
    pub(super) fn complete(&self, path: &[u8]) -> BTreeSet<u64> {
        self.complete.borrow().get(path).cloned().unwrap_or_default()
    }
}

/// One process.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) shared: Rc<Shared>,
    pub(super) end: Packets,
}

impl Program {
    pub(super) fn chance(&self) -> &Chance {
        &self.shared.chance
    }

    /// Notes the action of the program, for the message about a failure.
    pub(super) fn does(&self, what: impl Into<String>) {
        self.shared.doing.borrow_mut().insert(self.name.clone(), what.into());
    }

    /// Waits until a condition holds.
    pub(super) async fn until(&self, mut holds: impl FnMut() -> bool) {
        let poll = poll_fn(|_| if holds() { Poll::Ready(()) } else { Poll::Pending });
        poll.await;
        self.shared.count_step();
    }

    /// Lets others go first for a while.
    pub(super) async fn pause(&self) {
        let mut turns = self.chance().of(0..4);
        self.until(move || {
            turns = turns.saturating_sub(1);
            turns == 0
        })
        .await;
    }

    /// Waits until nothing happens any more unless a program goes on.
    pub(super) async fn calm(&self) {
        self.does("waits until nothing happens");
        let awaits = &self.shared.awaits_calm;
        let before = self.shared.calms.get();
        awaits.set(awaits.get() + 1);
        self.until(|| self.shared.calms.get() > before).await;
        awaits.set(awaits.get() - 1);
    }

    /// Asks the agent, and waits for its answer.
    pub(super) async fn call(&self, request: Request) -> (Reply, Option<OwnedFd>) {
        self.does(format!("{request:?}"));
        self.end.send(&request.encode(), None, true).unwrap();
        self.shared.count_step();
        loop {
            let packet = poll_fn(|_| match self.end.receive(false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                packet => Poll::Ready(packet),
            });
            let (message, fd) = packet.await.unwrap().expect("the agent has hung up");
            self.shared.count_step();
            let reply = Reply::decode(&message).unwrap();
            if !matches!(reply, Reply::Waits(_)) {
                self.does(format!("after {reply:?} to {request:?}"));
                return (reply, fd);
            }
        }
    }

    /// Asks for something that is done or fails.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn order(&self, request: Request) -> Result<(), i32> {
        match self.call(request).await.0 {
            Reply::Done => Ok(()),
            Reply::Failed(number, _) => Err(number),
            other => panic!("{}: {other:?}", self.name),
        }
    }
}
