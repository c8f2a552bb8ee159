//! Ranks that are threads of one process: the transport of the engine's own tests.

#[cfg(any(test, feature = "testing"))]
pub mod testing;

use super::{NodeTable, Nodes, POINTERS, SharedLocks, SharedPointer, ThreadLocks, Transport};
use crate::group;
use crate::lanes::{Lane, Lanes};
use crate::node::{Map, Node};
use crate::task::{self, BoxFuture};
use aggio_base::Result;
use aggio_base::error::{Error, ErrorClass};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// How long an idle rank sleeps at most. A message wakes it earlier, or a change of the word that
/// it waits for, if it is the only one. A lock, or a word beside others, does not wake it: such a
/// wait takes this long, and a random program of the differential test has some eighty of them.
const NAP: Duration = Duration::from_micros(50);

/// The least that MPI guarantees, so that tests meet the limit.
const MAX_TAG: u32 = 32767;

/// One rank of a group of threads.
pub struct ThreadTransport {
    rank: usize,
    hub: Arc<Hub>,
    lanes: Arc<Lanes>,
    next: OnceLock<Arc<Self>>,
    node: Option<Node>,
    /// How many events of its own mailbox this rank has seen.
    seen: AtomicU64,
    /// Lengths of the messages that this rank has sent to other nodes.
    #[cfg(any(test, feature = "testing"))]
    abroad: Mutex<Vec<usize>>,
}

struct Hub {
    hosts: Vec<String>,
    mailboxes: Vec<Mailbox>,
    /// Locks that rank 0 made and the other ranks have not all picked up.
    shared: Mutex<HashMap<u64, (Arc<ThreadLocks>, usize)>>,
    next_shared: AtomicU64,
    /// The shared file pointers, by lane.
    pointers: Mutex<HashMap<u32, Arc<ThreadPointer>>>,
    /// Ranks on a host of one name share a node.
    nodes: Nodes,
    tables: Vec<OnceLock<Option<Arc<NodeTable>>>>,
    /// The hub of the transports that these ranks have next.
    next: OnceLock<Arc<Hub>>,
}

#[derive(Default)]
struct Mailbox {
    queues: Mutex<HashMap<(usize, u32), Queue>>,
    events: Mutex<u64>,
    bell: Condvar,
}

/// Messages of one sender and tag; one of the two is empty.
#[derive(Default)]
struct Queue {
    letters: VecDeque<(Vec<u8>, Arc<AtomicBool>)>,
    waiting: VecDeque<Arc<Slot>>,
}

/// Shared file pointers in this process' memory.
#[derive(Debug, Default)]
struct ThreadPointer([AtomicI64; POINTERS as usize]);

impl SharedPointer for ThreadPointer {
    fn fetch_add(&self, number: u32, delta: i64) -> Result<i64> {
        Ok(self.0[number as usize].fetch_add(delta, Ordering::AcqRel))
    }

    fn load(&self, number: u32) -> Result<i64> {
        Ok(self.0[number as usize].load(Ordering::Acquire))
    }

    fn store(&self, number: u32, value: i64) -> Result<()> {
        self.0[number as usize].store(value, Ordering::Release);
        Ok(())
    }
}

#[derive(Default)]
struct Slot(Mutex<Option<Vec<u8>>>);

/// The memory of each rank's node, in rank order; no memory at all if one is not available.
fn memory(nodes: &Nodes) -> Result<Vec<Option<Node>>> {
    let mut made: Vec<Option<Node>> = Vec::new();
    for rank in 0..nodes.size() {
        let map = Map::new(nodes, rank);
        let node = match made.get(nodes.first_beside(rank)) {
            Some(Some(first)) => Node::open(first.address(), map)?,
            _ => Node::create(map)?,
        };
        made.push(Some(node));
    }
    Ok(made)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    fn ring(&self) {
        *locked(&self.events) += 1;
        self.bell.notify_all();
    }
}

impl Hub {
    fn new(hosts: Vec<String>) -> Arc<Self> {
        let nodes = Nodes::by_name(hosts.iter().map(|host| Some(host.as_str())));
        Arc::new(Self {
            tables: (0..nodes.count()).map(|_| OnceLock::new()).collect(),
            nodes,
            mailboxes: hosts.iter().map(|_| Mailbox::default()).collect(),
            hosts,
            shared: Mutex::default(),
            next_shared: AtomicU64::new(0),
            pointers: Mutex::default(),
            next: OnceLock::new(),
        })
    }
}

impl ThreadTransport {
    /// `size` ranks on one host; element `i` belongs to the thread that plays rank `i`.
    pub fn group(size: usize) -> Vec<Arc<Self>> {
        Self::group_on(vec!["localhost".into(); size])
    }

    /// As many ranks as there are names; rank `i` says that it runs on host `hosts[i]`.
    pub fn group_on(hosts: Vec<String>) -> Vec<Arc<Self>> {
        let hub = Hub::new(hosts);
        let mut memory = memory(&hub.nodes).unwrap_or_default();
        Self::connected(&hub, |rank| memory.get_mut(rank).and_then(Option::take))
    }

    fn connected(hub: &Arc<Hub>, mut node: impl FnMut(usize) -> Option<Node>) -> Vec<Arc<Self>> {
        (0..hub.hosts.len()).map(|rank| Arc::new(Self::member(rank, hub, node(rank)))).collect()
    }

    pub(super) fn only(host: String) -> Arc<Self> {
        Arc::new(Self::member(0, &Hub::new(vec![host]), None))
    }

    fn member(rank: usize, hub: &Arc<Hub>, node: Option<Node>) -> Self {
        let lanes = Lanes::new(MAX_TAG);
        let (hub, next, seen) = (Arc::clone(hub), OnceLock::new(), AtomicU64::new(0));
        Self {
            rank,
            hub,
            node,
            lanes,
            next,
            seen,
            #[cfg(any(test, feature = "testing"))]
            abroad: Mutex::default(),
        }
    }

    /// The same ranks without memory that they share: all data travels in messages.
    pub fn group_without_memory(size: usize) -> Vec<Arc<Self>> {
        let hub = Hub::new(vec!["localhost".into(); size]);
        hub.tables.iter().for_each(|table| drop(table.set(None)));
        Self::connected(&hub, |_| None)
    }

    /// The lengths of the messages that this rank has sent to other nodes.
    #[cfg(any(test, feature = "testing"))]
    pub fn sent_abroad(&self) -> Vec<usize> {
        locked(&self.abroad).clone()
    }

    fn no_such_rank(&self, rank: usize) -> Error {
        let size = self.hub.mailboxes.len();
        Error::new(ErrorClass::Intern, format!("rank {rank} is not one of {size} ranks"))
    }
}

impl Transport for ThreadTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn played(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.hub.mailboxes.len()
    }

    fn hosts(&self) -> &[String] {
        &self.hub.hosts
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        let Some(mailbox) = self.hub.mailboxes.get(to) else {
            let error = self.no_such_rank(to);
            return Box::pin(async { Err(error) });
        };
        #[cfg(any(test, feature = "testing"))]
        if self.hub.nodes.of(to) != self.hub.nodes.of(self.rank) {
            locked(&self.abroad).push(bytes.len());
        }
        let matched = Arc::new(AtomicBool::new(false));
        let mut queues = locked(&mailbox.queues);
        let queue = queues.entry((self.rank, tag)).or_default();
        if let Some(slot) = queue.waiting.pop_front() {
            *locked(&slot.0) = Some(bytes);
            matched.store(true, Ordering::Release);
            if queue.waiting.is_empty() {
                queues.remove(&(self.rank, tag));
            }
            drop(queues);
            mailbox.ring();
        } else {
            queue.letters.push_back((bytes, Arc::clone(&matched)));
        }
        Box::pin(std::future::poll_fn(move |_| match matched.load(Ordering::Acquire) {
            true => Poll::Ready(Ok(())),
            false => {
                task::poll_again();
                Poll::Pending
            }
        }))
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        let Some(sender) = self.hub.mailboxes.get(from) else {
            let error = self.no_such_rank(from);
            return Box::pin(async { Err(error) });
        };
        let slot = Arc::new(Slot::default());
        let mut queues = locked(&self.hub.mailboxes[self.rank].queues);
        let queue = queues.entry((from, tag)).or_default();
        if let Some((bytes, matched)) = queue.letters.pop_front() {
            *locked(&slot.0) = Some(bytes);
            matched.store(true, Ordering::Release);
            if queue.letters.is_empty() {
                queues.remove(&(from, tag));
            }
            drop(queues);
            sender.ring();
        } else {
            queue.waiting.push_back(Arc::clone(&slot));
        }
        Box::pin(std::future::poll_fn(move |_| {
            let Some(bytes) = locked(&slot.0).take() else {
                task::poll_again();
                return Poll::Pending;
            };
            let len = bytes.len();
            Poll::Ready(if len <= capacity { Ok(bytes) } else { Err(too_long(len, capacity)) })
        }))
    }

    fn max_tag(&self) -> u32 {
        MAX_TAG
    }

    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn idle(&self, _waits: u32) {
        if let Some(sleep) = task::take_sleep() {
            sleep.wait(NAP);
            return;
        }
        let mailbox = &self.hub.mailboxes[self.rank];
        let mut events = locked(&mailbox.events);
        if *events == self.seen.load(Ordering::Acquire) {
            let waited = mailbox.bell.wait_timeout(events, NAP);
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.seen.store(*events, Ordering::Release);
    }

    fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    fn next(&self) -> Option<Arc<dyn Transport>> {
        self.next.get().map(|next| Arc::<Self>::clone(next) as Arc<dyn Transport>)
    }

    fn extend(&self) -> BoxFuture<'_, Result<Arc<dyn Transport>>> {
        let hub = self.hub.next.get_or_init(|| Hub::new(self.hub.hosts.clone()));
        let next = self.next.get_or_init(|| Arc::new(Self::member(self.rank, hub, None)));
        let next: Arc<dyn Transport> = Arc::<Self>::clone(next);
        Box::pin(async { Ok(next) })
    }

    fn pointer(&self, lane: &Lane) -> Option<Arc<dyn SharedPointer>> {
        let mut pointers = locked(&self.hub.pointers);
        Some(Arc::<ThreadPointer>::clone(pointers.entry(lane.number()).or_default()))
    }

    fn nodes(&self) -> &Nodes {
        &self.hub.nodes
    }

    fn table(&self) -> Option<Arc<NodeTable>> {
        let node = self.hub.nodes.of(self.rank) as usize;
        self.hub.tables[node].get_or_init(|| NodeTable::create().ok().map(Arc::new)).clone()
    }

    fn share_locks(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedLocks>>> {
        Box::pin(async move {
            let mut id = Vec::new();
            if self.rank == 0 {
                let number = self.hub.next_shared.fetch_add(1, Ordering::Relaxed);
                let state = (Arc::new(ThreadLocks::default()), self.size());
                locked(&self.hub.shared).insert(number, state);
                id = number.to_le_bytes().to_vec();
            }
            let id = group::bcast(self, tag, 0, id).await?;
            let lost = || Error::new(ErrorClass::Intern, "the locks of this open are gone");
            let number = u64::from_le_bytes(id.try_into().map_err(|_| lost())?);
            let mut shared = locked(&self.hub.shared);
            let (state, left) = shared.get_mut(&number).ok_or_else(lost)?;
            let state: Arc<dyn SharedLocks> = Arc::<ThreadLocks>::clone(state);
            *left -= 1;
            if *left == 0 {
                shared.remove(&number);
            }
            Ok(state)
        })
    }
}

fn too_long(len: usize, capacity: usize) -> Error {
    Error::new(ErrorClass::Intern, format!("a message of {len} bytes, expected {capacity} at most"))
}

#[cfg(test)]
mod tests {
    use super::testing::run;
    use super::*;

    #[test]
    fn messages_with_one_tag_arrive_in_order_and_a_rank_may_send_to_itself() {
        let got = run(1, |transport| {
            Box::pin(async move {
                let sends: Vec<_> =
                    (0..10u8).map(|i| transport.send(0, 3, vec![i; usize::from(i)])).collect();
                let mut lens = Vec::new();
                for _ in 0..10 {
                    lens.push(transport.recv(0, 3, 10).await.map(|bytes| bytes.len()));
                }
                for send in sends {
                    send.await?;
                }
                lens.into_iter().collect::<Result<Vec<_>>>()
            })
        });
        assert_eq!(got, vec![Ok((0..10).collect::<Vec<usize>>())]);
    }

    #[test]
    fn a_send_is_ready_only_when_it_is_matched() {
        let ranks = ThreadTransport::group(2);
        let mut send = ranks[0].send(1, 0, vec![1, 2, 3]);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(send.as_mut().poll(&mut context).is_pending());
        let mut recv = ranks[1].recv(0, 0, 2);
        assert!(send.as_mut().poll(&mut context).is_ready());
        let Poll::Ready(Err(error)) = recv.as_mut().poll(&mut context) else {
            panic!("a message longer than the capacity must be an error")
        };
        assert_eq!(error.class(), ErrorClass::Intern);
    }

    #[test]
    fn all_ranks_share_one_pointer_a_lane() {
        let values = run(5, |transport| {
            Box::pin(async move {
                let lane = transport.lanes().choose().expect("a free lane");
                let pointer = transport.pointer(&lane).expect("threads share");
                let old = pointer.fetch_add(0, 10).expect("memory adds");
                group::barrier(&*transport, 2).await.expect("threads meet");
                (old, pointer.load(0).expect("memory loads"))
            })
        });
        let mut old: Vec<i64> = values.iter().map(|value| value.0).collect();
        old.sort_unstable();
        assert_eq!(old, [0, 10, 20, 30, 40]);
        assert!(values.iter().all(|value| value.1 == 50));
    }

    #[test]
    fn all_ranks_share_locks() {
        let taken = run(3, |transport| {
            Box::pin(async move {
                let locks = transport.share_locks(1).await.expect("threads share");
                let lock =
                    locks.try_lock(aggio_base::Extent::new(0, 9), true).expect("memory locks");
                group::barrier(&*transport, 2).await.expect("threads meet");
                lock.is_some()
            })
        });
        assert_eq!(taken.into_iter().filter(|taken| *taken).count(), 1);
    }
}
