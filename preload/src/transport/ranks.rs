//! Ranks that exchange messages through MPI: the transport of all files opened on one communicator.

use super::places::{Meeting, Places};
use super::private::Private;
use super::window::{Window, WindowPointer};
use super::{cache, message};
use crate::abi::Abi;
use crate::requests::blocking;
use crate::{mpi, progress};
use agg_core::lanes::{Lane, Lanes};
use agg_core::node::{self, Node};
use agg_core::task::BoxFuture;
use agg_core::transport::{
    NodeTable, Nodes, SharedLocks, SharedPointer, TablePointer, Transport, share_on_node,
    share_table, share_table_of_node,
};
use agg_core::{Result, group};
use libc::c_int;
use std::sync::{Arc, OnceLock};

/// The ranks of a communicator of the program, talking over one of ours.
pub(super) struct MpiTransport {
    /// Before the communicator, over which windows are freed.
    memory: OnceLock<Memory>,
    node: OnceLock<Node>,
    /// The memory that the ranks of this node share.
    table: OnceLock<Option<Arc<NodeTable>>>,
    private: Arc<Private>,
    rank: usize,
    size: usize,
    places: Places,
    max_tag: u32,
    lanes: Arc<Lanes>,
    next: OnceLock<Arc<MpiTransport>>,
}

/// Where the shared file pointers are.
enum Memory {
    /// In memory of the node that all ranks run on.
    Node(Arc<NodeTable>),
    /// At rank 0, within reach of one-sided operations.
    Window(Arc<Window>),
    /// Nowhere: the ranks share none.
    None,
}

impl MpiTransport {
    /// A transport of the `size` ranks of `comm`, made by rank `rank`; collective.
    pub(super) async fn build(
        abi: &'static Abi,
        comm: usize,
        rank: usize,
        size: usize,
    ) -> Result<Arc<Self>> {
        let private = Arc::new(Private::split(abi, comm)?);
        let places = Places::gather(abi, private.comm, size)?;
        let max_tag = max_tag(abi, private.comm);
        let (memory, table, next) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (node, lanes) = (OnceLock::new(), Lanes::new(max_tag));
        let made = Self { memory, node, table, private, rank, size, places, max_tag, lanes, next };
        let tags = made.lanes.opening().next();
        // Without memory of the node everything travels in messages.
        if let Some(node) = node::form(&made, tags.tag(0)).await? {
            made.node.get_or_init(|| node);
        }
        let (memory, table) = made.share_memory().await?;
        made.memory.get_or_init(|| memory);
        made.table.get_or_init(|| table);
        let made = Arc::new(made);
        cache::remember(&made);
        Ok(made)
    }

    /// Memory of the node if all ranks are on one and can have it, else a window, else none; and
    /// the memory of this node.
    async fn share_memory(&self) -> Result<(Memory, Option<Arc<NodeTable>>)> {
        let tags = self.lanes.opening().next();
        let one_node = self.places.one_node();
        if one_node && let Ok(table) = share_table(self, tags.tag(0)).await {
            return Ok((Memory::Node(table.clone()), Some(table)));
        }
        let window = Window::allocate(self.private.clone(), self.rank);
        let local = window.as_ref().map(drop).map_err(Clone::clone);
        let memory = match (group::agree(self, tags.tag(1), local).await, window) {
            (Ok(()), Ok(window)) => Memory::Window(Arc::new(window)),
            (_, window) => {
                // Freeing it would wait for ranks that have none.
                std::mem::forget(window);
                Memory::None
            }
        };
        let table = if one_node { None } else { share_table_of_node(self, tags.tag(2)).await? };
        Ok((memory, table))
    }

    /// A value that identifies this transport on all ranks, and orders transports.
    pub(super) fn meeting(&self) -> &Meeting {
        &self.places.meeting
    }

    /// Frees the MPI objects that must be freed before MPI ends.
    pub(super) fn free(&self) {
        if let Some(Memory::Window(window)) = self.memory.get() {
            window.free();
        }
        self.private.free();
    }
}

/// The largest tag, an attribute of the communicator.
fn max_tag(abi: &Abi, comm: usize) -> u32 {
    let mut value: *const c_int = std::ptr::null();
    let mut found: c_int = 0;
    let key = abi.constants.tag_ub;
    // SAFETY: MPI stores the address of an int that lives as long as the library.
    unsafe {
        let asked = mpi::Comm_get_attr(comm, key, (&raw mut value).cast(), &raw mut found);
        if asked == 0 && found != 0 && !value.is_null() {
            return u32::try_from(*value).unwrap_or(32767).max(32767);
        }
    }
    32767
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn hosts(&self) -> &[String] {
        &self.places.hosts
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        let started = message::send(self.private.clone(), to, tag, bytes);
        Box::pin(async move { started?.await.map(|_| ()) })
    }

    fn post(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        let started = message::post(self.private.clone(), to, tag, bytes);
        Box::pin(async move { started?.await.map(|_| ()) })
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        let started = message::receive(self.private.clone(), from, tag, capacity);
        Box::pin(async move { started?.await })
    }

    fn max_tag(&self) -> u32 {
        self.max_tag
    }

    fn idle(&self, waits: u32) {
        progress::idle(waits);
    }

    fn node(&self) -> Option<&Node> {
        self.node.get()
    }

    fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    fn next(&self) -> Option<Arc<dyn Transport>> {
        self.next.get().map(|next| Arc::<Self>::clone(next) as Arc<dyn Transport>)
    }

    fn extend(&self) -> BoxFuture<'_, Result<Arc<dyn Transport>>> {
        Box::pin(async move {
            let Private { abi, comm, .. } = *self.private;
            blocking::before_collective(abi);
            let made = Self::build(abi, comm, self.rank, self.size).await?;
            Ok(Arc::<Self>::clone(self.next.get_or_init(|| made)) as Arc<dyn Transport>)
        })
    }

    fn pointer(&self, lane: &Lane) -> Option<Arc<dyn SharedPointer>> {
        match self.memory.get()? {
            Memory::Node(table) => Some(Arc::new(TablePointer::new(table.clone(), lane.number()))),
            Memory::Window(window) => {
                Some(Arc::new(WindowPointer::new(window.clone(), lane.number())))
            }
            Memory::None => None,
        }
    }

    fn nodes(&self) -> &Nodes {
        &self.places.nodes
    }

    fn table(&self) -> Option<Arc<NodeTable>> {
        self.table.get().cloned().flatten()
    }

    fn share_locks(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedLocks>>> {
        Box::pin(share_on_node(self, tag))
    }
}
