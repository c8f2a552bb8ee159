//! Where the ranks of a communicator run.

use crate::abi::Abi;
use crate::mpi;
use agg_core::transport::Nodes;
use agg_core::{Result, host};
use libc::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of this process' host, as MPI gives it to users.
pub(super) fn processor_name() -> String {
    // Larger than MPI_MAX_PROCESSOR_NAME of every ABI.
    let mut name = [0u8; 512];
    let mut length: c_int = 0;
    // SAFETY: the buffer is large enough.
    unsafe { mpi::Get_processor_name(name.as_mut_ptr().cast(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0).min(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

/// Where the ranks run.
pub(super) struct Places {
    /// Host names, in rank order.
    pub(super) hosts: Vec<String>,
    /// Ranks of a node see the same processes under the same numbers, and their host has one name.
    pub(super) nodes: Nodes,
    /// Equal on all ranks, and different for every call: a number for the ranks' meeting.
    pub(super) meeting: Meeting,
}

/// The kernel and process of rank 0, and how many meetings there were before.
pub(super) type Meeting = Vec<u8>;

const NAME: usize = 256;
const IDENTITY: usize = 320;
const MEETING: usize = 16;
/// Bytes of the information of one rank for the others.
const ROOM: usize = NAME + IDENTITY + MEETING;

impl Places {
    /// Exchanges the information of all ranks of `comm`; collective.
    pub(super) fn gather(abi: &Abi, comm: usize, size: usize) -> Result<Self> {
        static MEETINGS: AtomicU64 = AtomicU64::new(0);
        let mut mine = [0u8; ROOM];
        put(&mut mine[..NAME], processor_name().as_bytes());
        put(&mut mine[NAME..NAME + IDENTITY], &host::node().unwrap_or_default());
        put(&mut mine[NAME + IDENTITY..], &u64::from(std::process::id()).to_be_bytes());
        let count = MEETINGS.fetch_add(1, Ordering::Relaxed);
        put(&mut mine[NAME + IDENTITY + 8..], &count.to_be_bytes());
        let mut all = vec![0u8; ROOM * size];
        let byte = abi.handles.byte;
        // SAFETY: every rank sends ROOM bytes and has room for ROOM bytes of each.
        unsafe {
            mpi::check(mpi::Allgather(
                mine.as_mut_ptr().cast(),
                ROOM as c_int,
                byte,
                all.as_mut_ptr().cast(),
                ROOM as c_int,
                byte,
                comm,
            ))?;
        }
        let hosts = all.chunks(ROOM).map(|one| text_before_zero(&one[..NAME])).collect();
        let identities = all.chunks(ROOM).map(|one| &one[NAME..NAME + IDENTITY]);
        let nodes = Nodes::by_name(identities.map(|one| (one[0] != 0).then_some(one)));
        let meeting = all[NAME..ROOM].to_vec();
        Ok(Self { hosts, nodes, meeting })
    }

    /// Whether all ranks are on one node.
    pub(super) fn one_node(&self) -> bool {
        self.nodes.count() == 1
    }
}

fn put(room: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(room.len());
    room[..length].copy_from_slice(&bytes[..length]);
}

fn text_before_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
