//! The ranks of one node: memory that they share, and collective steps in it.
//!
//! A node's ranks share one nameless memory for each communicator. In it the ranks of a collective
//! operation *meet* and exchange their arguments (`arrivals.rs`); then the operation gets one of
//! `layout::OPERATIONS` places, where the ranks pass data through a ring of *windows* of the file
//! (`ring.rs`), and *agree* on the result (`operation.rs`). There are no locks; a waiting rank
//! sleeps until a word changes. Messages travel only between nodes: see `meeting.rs`.

mod arrivals;
mod form;
mod futex;
mod layout;
mod map;
mod memory;
mod operation;
mod process;
mod ring;
mod segment;

pub(crate) use arrivals::Met;
pub use form::form;
pub use layout::Board;
pub use map::Map;
pub(crate) use memory::Memory;
pub use memory::NodeAddress;
pub(crate) use memory::{MemoryFile, open_descriptor};
pub use operation::{Operation, Pulse};
pub(crate) use process::has_ended;
pub use ring::{Ring, Unstored};

use aggio_base::error::{Error, ErrorClass, Result};
use layout::Layout;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Sleeps until the word at `address` is no longer `seen`, at most for `most`.
pub(crate) fn sleep(address: usize, seen: u32, most: Duration) {
    futex::wait(address, seen, most);
}

/// Maximum size of a window in bytes, on a node with `members` ranks and pieces that start and end
/// at multiples of 2 to the power `grain`.
#[inline]
pub fn window_size(members: usize, grain: u32) -> usize {
    Layout::new(members, 1, members).window_of(grain)
}

/// Bytes of memory that the `members` ranks of one of `nodes` nodes share for each communicator;
/// unused parts are never allocated.
#[inline]
pub fn memory_size(members: usize, nodes: usize) -> usize {
    Layout::new(members, nodes, members).len()
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    futex::wake(word);
}

/// Makes numbers of operations spread: those of one file follow each other, those of several files
/// start alike.
fn mixed(id: u64) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// One rank's access to the memory of its node.
#[derive(Debug)]
pub struct Node {
    memory: Memory,
    layout: Layout,
    map: Map,
}

impl Node {
    /// New memory for the ranks of this rank's node.
    pub(crate) fn create(map: Map) -> Result<Self> {
        let layout = Layout::of(&map);
        let memory = Memory::create(layout.len())?;
        Ok(Self { memory, layout, map }.entered())
    }

    /// The memory that another rank of the node made.
    pub(crate) fn open(address: NodeAddress, map: Map) -> Result<Self> {
        let layout = Layout::of(&map);
        let memory = Memory::open(address, layout.len())?;
        Ok(Self { memory, layout, map }.entered())
    }

    /// Leaves this process' number where the others can look whether it lives.
    fn entered(self) -> Self {
        let process = self.memory.word(self.layout.process(self.index()));
        process.store(std::process::id(), Ordering::Release);
        self
    }

    pub(crate) fn address(&self) -> NodeAddress {
        self.memory.address()
    }

    /// Bytes of a window of the file at most.
    #[inline]
    pub fn window(&self) -> u64 {
        self.layout.window as u64
    }

    /// The ranks of the node, ascending.
    #[inline]
    pub fn members(&self) -> &[usize] {
        self.map.members()
    }

    /// This rank's place among the members.
    #[inline]
    pub fn index(&self) -> usize {
        self.map.index()
    }

    /// Which rank is on which node.
    #[inline]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Whether there are ranks on other nodes.
    #[inline]
    pub fn has_others(&self) -> bool {
        self.map.has_others()
    }

    /// Whether this rank represents its node.
    pub(crate) fn is_leader(&self) -> bool {
        self.index() == 0
    }

    /// Leaves a number that no process has in place of this one's.
    #[cfg(any(test, feature = "testing"))]
    #[inline]
    pub fn pretend_to_have_ended(&self) {
        let process = self.memory.word(self.layout.process(self.index()));
        process.store(i32::MAX as u32, Ordering::Release);
    }

    /// An error if a member's process has ended.
    fn all_live(&self) -> Result<()> {
        for (index, rank) in self.members().iter().enumerate() {
            let process = self.memory.word(self.layout.process(index)).load(Ordering::Acquire);
            if has_ended(process) {
                let detail = format!("the process of rank {rank} has ended");
                return Err(Error::new(ErrorClass::Other, detail).with_rank(*rank));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
