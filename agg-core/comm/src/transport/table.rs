//! Memory of a node for all files of a transport: an anonymous memory file, without any name.
//!
//! One rank makes a memfd, when the first file is opened; the others open it as `/proc/PID/fd/N`
//! and all map it. It has a slot for every lane (see [`crate::lanes`]), so that opening a file
//! costs no memory and no message of its own, and a rank that is the first to need something of
//! another finds it here without asking.

use super::{Identity, Offer, POINTERS, SharedPointer, Transport};
use crate::node::{Memory, NodeAddress};
use crate::pieces::Counts;
use crate::{group, lanes};
use aggio_base::Result;
use aggio_base::error::{Error, ErrorClass};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// State of one file shared by the ranks of a node.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// The shared file pointers.
    pointers: [AtomicI64; POINTERS as usize],
    /// The descriptor that the opener of this node offers: process and number, 0 for none.
    descriptor: AtomicU64,
    /// The file that it leads to.
    device: AtomicU64,
    inode: AtomicU64,
    /// Ranks with buffered writes, and those of them with only bytes that must be stored last.
    pub(super) holders: AtomicU32,
    pub(super) lasts: AtomicU32,
    /// Ranks that could not store their buffered writes.
    pub(super) failed: AtomicU32,
    /// Ranks that request a flush.
    pub(super) asks: AtomicU32,
    /// Those of them that request bytes that must be stored last, too; then a number that differs
    /// after every change of this state.
    pub(super) asks_all: AtomicU32,
    pub(super) changes: AtomicU32,
    /// Collective writes that may wait, as many as each rank has done.
    pub(super) done: AtomicU32,
    /// The extent of the buffered independent writes of the first rank; both 0 if there are none.
    pub(super) alone: [AtomicU64; 2],
    /// Counts of the pieces of the file that ranks keep.
    pieces: Counts,
}

const BYTES: usize = size_of::<Slot>() * lanes::COUNT as usize;

/// The slots of all lanes.
#[derive(Debug)]
pub struct NodeTable(Memory);

impl NodeTable {
    /// New memory, all zero.
    ///
    /// # Errors
    /// The system's error.
    pub fn create() -> Result<Self> {
        Memory::create(BYTES).map(Self)
    }

    /// The memory that another process of this node made and still holds.
    ///
    /// # Errors
    /// The system's error; `Intern` if the address is that of something else.
    pub fn open(address: NodeAddress) -> Result<Self> {
        Memory::open(address, BYTES).map(Self)
    }

    /// The arguments of [`NodeTable::open`] in the other processes.
    pub fn address(&self) -> NodeAddress {
        self.0.address()
    }

    /// Publishes where the file of `lane` is open. The opener calls this before it sends the result
    /// of the open to the others.
    pub fn publish(&self, lane: u32, offer: Option<Offer>) {
        let slot = self.slot(lane);
        if let Some(Offer { identity, .. }) = offer {
            slot.device.store(identity.device, Ordering::Relaxed);
            slot.inode.store(identity.inode, Ordering::Relaxed);
        }
        let word = offer.map_or(0, |offer| u64::from_le_bytes(offer.address.to_bytes()));
        slot.descriptor.store(word, Ordering::Release);
    }

    /// Where the file of `lane` is open on this node, if its opener offers it.
    pub fn offer(&self, lane: u32) -> Option<Offer> {
        let slot = self.slot(lane);
        let word = slot.descriptor.load(Ordering::Acquire);
        if word == 0 {
            return None;
        }
        let address = NodeAddress::from_bytes(&word.to_le_bytes()).ok()?;
        let device = slot.device.load(Ordering::Relaxed);
        let inode = slot.inode.load(Ordering::Relaxed);
        Some(Offer { address, identity: Identity { device, inode } })
    }

    /// The counts of the pieces of the file in `lane`.
    pub(crate) fn counts(&self, lane: u32) -> &Counts {
        &self.slot(lane).pieces
    }

    pub(super) fn slot(&self, lane: u32) -> &Slot {
        let index = (lane % lanes::COUNT) as usize;
        let place = self.0.place(index * size_of::<Slot>(), size_of::<Slot>());
        // SAFETY: inside the mapping, which is page aligned and lives as long as `self`; a slot
        // consists of atomic integers.
        unsafe { &*place.cast::<Slot>() }
    }
}

/// The shared file pointers of one lane.
#[derive(Debug)]
pub struct TablePointer {
    table: Arc<NodeTable>,
    lane: u32,
}

impl TablePointer {
    /// The pointers of the file in `lane`.
    pub fn new(table: Arc<NodeTable>, lane: u32) -> Self {
        Self { table, lane }
    }

    fn word(&self, number: u32) -> &AtomicI64 {
        &self.table.slot(self.lane).pointers[number as usize]
    }
}

impl SharedPointer for TablePointer {
    fn fetch_add(&self, number: u32, delta: i64) -> Result<i64> {
        Ok(self.word(number).fetch_add(delta, Ordering::AcqRel))
    }

    fn load(&self, number: u32) -> Result<i64> {
        Ok(self.word(number).load(Ordering::Acquire))
    }

    fn store(&self, number: u32, value: i64) -> Result<()> {
        self.word(number).store(value, Ordering::Release);
        Ok(())
    }
}

/// Makes one [`NodeTable`] for all ranks, which must run on one node. Collective.
///
/// # Errors
/// On all ranks alike if `/proc` or memory files are not available.
pub async fn share_table(transport: &dyn Transport, tag: u32) -> Result<Arc<NodeTable>> {
    let mut made = None;
    let mut message = Vec::new();
    if transport.rank() == 0 {
        let table = NodeTable::create();
        if let Ok(table) = &table {
            message = table.address().to_bytes().to_vec();
        }
        made = Some(table);
    }
    let message = group::bcast(transport, tag, 0, message).await?;
    let opened = || NodeAddress::from_bytes(&message).and_then(NodeTable::open);
    let table = made.unwrap_or_else(opened);
    let local = table.as_ref().map(drop).map_err(Clone::clone);
    group::agree(transport, tag, local).await?;
    let gone = |_| Error::new(ErrorClass::Intern, "shared memory agreed on but not there");
    table.map(Arc::new).map_err(gone)
}

/// Makes one [`NodeTable`] for the ranks of each node, without which they are only slower; every
/// rank must call it.
///
/// # Errors
/// Where the ranks cannot talk to each other.
pub async fn share_table_of_node(
    transport: &dyn Transport,
    tag: u32,
) -> Result<Option<Arc<NodeTable>>> {
    let (nodes, rank) = (transport.nodes(), transport.rank());
    let first = nodes.first_beside(rank);
    if rank != first {
        let address = transport.recv(first, tag, 8).await?;
        let opened = NodeAddress::from_bytes(&address).and_then(NodeTable::open);
        return Ok(opened.ok().map(Arc::new));
    }
    let table = NodeTable::create().ok().map(Arc::new);
    let address = table.as_ref().map_or(Vec::new(), |table| table.address().to_bytes().to_vec());
    for other in nodes.beside(rank).filter(|other| *other != rank) {
        transport.post(other, tag, address.clone()).await?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::MemoryFile;
    use crate::transport::ThreadTransport;
    use crate::transport::threads::testing::{run, run_on};

    #[test]
    fn two_handles_of_one_memory_share_the_pointer_of_a_lane_and_of_no_other() {
        let first = Arc::new(NodeTable::create().expect("memfd"));
        let second = Arc::new(NodeTable::open(first.address()).expect("/proc"));
        let pointer = |table: &Arc<NodeTable>, lane| TablePointer::new(table.clone(), lane);
        assert_eq!(pointer(&first, 3).fetch_add(0, 7).ok(), Some(0));
        assert_eq!(pointer(&second, 3).fetch_add(0, 1).ok(), Some(7));
        assert_eq!(pointer(&first, 3).load(0).ok(), Some(8));
        assert_eq!(pointer(&first, 3).load(1).ok(), Some(0));
        let last = POINTERS - 1;
        assert_eq!(pointer(&second, 255).load(last).ok(), Some(0));
        pointer(&second, 255).store(last, -1).expect("memory stores");
        assert_eq!(pointer(&first, 255).load(last).ok(), Some(-1));
        assert_eq!(pointer(&first, 255).load(0).ok(), Some(0));
    }

    #[test]
    fn a_node_finds_the_offer_of_its_own_opener_and_of_no_other() {
        let table = NodeTable::create().expect("memfd");
        let address = NodeAddress { process: 77, descriptor: 5 };
        let offer = Offer { address, identity: Identity { device: 1 << 40, inode: u64::MAX } };
        table.publish(4, Some(offer));
        assert_eq!(table.offer(4), Some(offer));
        assert_eq!(table.offer(5), None);
        table.publish(4, None);
        assert_eq!(table.offer(4), None);
    }

    #[test]
    fn the_ranks_of_each_node_share_a_table_of_their_own() {
        let hosts = ["a", "b", "a", "c", "b"].map(String::from).to_vec();
        let seen = run_on(ThreadTransport::group_on(hosts), |transport| {
            Box::pin(async move {
                let table = share_table_of_node(&*transport, 3).await.expect("ranks talk");
                let pointer = TablePointer::new(table.expect("memfd"), 1);
                pointer.fetch_add(0, 1 << (8 * transport.rank())).expect("memory adds");
                group::barrier(&*transport, 10).await.expect("threads meet");
                pointer.load(0).expect("memory loads")
            })
        });
        assert_eq!(seen, [0x01_0001, 0x1_0000_0100, 0x01_0001, 0x0100_0000, 0x1_0000_0100]);
    }

    #[test]
    fn the_address_of_something_else_is_refused() {
        let other = MemoryFile::create(8).expect("memfd");
        let error = NodeTable::open(other.address()).expect_err("too small");
        assert_eq!(error.class(), ErrorClass::Intern);
    }

    #[test]
    fn ranks_of_one_node_find_the_memory_of_rank_0() {
        let values = run(4, |transport| {
            Box::pin(async move {
                let table = share_table(&*transport, 9).await.expect("one node");
                let pointer = TablePointer::new(table, 1);
                pointer.fetch_add(0, 1).expect("memory adds");
                group::barrier(&*transport, 10).await.expect("threads meet");
                pointer.load(0).expect("memory loads")
            })
        });
        assert_eq!(values, [4, 4, 4, 4]);
    }
}
