//! The lane of a file: its transport, its message tags, and its shared file pointer.

use super::result::Place;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::lanes::Lane;
use aggio_comm::transport::{NodeTable, POINTERS, SharedPointer, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_store::driver::Driver;
use std::sync::Arc;

/// A lane on a transport.
pub(super) struct FileLane {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) lane: Lane,
    pub(super) pointer: Option<Arc<dyn SharedPointer>>,
    /// The transport was made for this file: no rank may go on before all have prepared it.
    pub(super) is_new: bool,
}

impl FileLane {
    /// Rank 0 takes a free lane; without one, the file will be the first on a new transport.
    pub(super) fn choose(transport: &Arc<dyn Transport>) -> (Place, Option<Self>) {
        let (mut transport, mut level) = (transport.clone(), 0);
        loop {
            if let Some(lane) = transport.lanes().choose() {
                let place = Place { level, lane: lane.number() };
                return (place, Some(Self::on(transport, lane, false)));
            }
            level += 1;
            match transport.next() {
                Some(next) => transport = next,
                None => return (Place { level, lane: 1 }, None),
            }
        }
    }

    /// Goes where rank 0 said. A new transport is made by all ranks together.
    pub(super) async fn find(transport: &Arc<dyn Transport>, place: Place) -> Result<Self> {
        let mut transport = transport.clone();
        let mut is_new = false;
        for _ in 0..place.level {
            transport = match transport.next() {
                Some(next) => next,
                None => {
                    is_new = true;
                    transport.extend().await?
                }
            };
        }
        let lane = transport.lanes().take(place.lane).await?;
        Ok(Self::on(transport, lane, is_new))
    }

    fn on(transport: Arc<dyn Transport>, lane: Lane, is_new: bool) -> Self {
        let pointer = transport.pointer(&lane);
        Self { transport, lane, pointer, is_new }
    }

    /// Puts the first shared file pointer at byte `start`, and those of further views at 0 if
    /// writes are deferred; rank 0 does it before any rank can move them.
    pub(super) fn start_at(&self, start: u64, hints: &Hints) -> Result<()> {
        match &self.pointer {
            Some(pointer) if self.transport.rank() == 0 => {
                pointer.store(0, i64::try_from(start).unwrap_or(i64::MAX))?;
                // Each may cost a message.
                let last = if hints.aggio_defer == Switch::Enable { POINTERS } else { 1 };
                (1..last).try_for_each(|further| pointer.store(further, 0))
            }
            _ => Ok(()),
        }
    }

    /// Lets the other ranks of this node take the open file until `driver` is closed; returns
    /// whether the file can be shared and the node has other ranks.
    pub(super) fn offer(&self, driver: &dyn Driver) -> bool {
        if self.transport.nodes().is_alone(self.transport.rank()) {
            return false;
        }
        let Some(table) = self.transport.table() else { return false };
        let offer = driver.offer();
        table.publish(self.lane.number(), offer);
        offer.is_some()
    }

    /// The table in which this node's opener has left its offer, and the file's slot there.
    pub(super) fn offers(&self) -> Option<(Arc<NodeTable>, u32)> {
        Some((self.transport.table()?, self.lane.number()))
    }

    /// Gives the lane back after an open that failed on all ranks alike.
    pub(super) fn leave(self, error: &Error) {
        if error.class() != ErrorClass::Intern {
            self.lane.release();
        }
    }
}
