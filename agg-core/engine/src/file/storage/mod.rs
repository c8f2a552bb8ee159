//! The stored bytes of an open file: one rank reaches them through the driver, all ranks together
//! through the two-phase exchange.

mod alike;
mod fill;
mod format;
mod small;

pub(super) use format::FormatTracker;
pub(super) use small::SmallReads;

use super::atomic::Trial;
use super::convert::Stream;
use super::request::Request;
use crate::Direction;
use crate::exchange::{self, Habits, PlanCache, Scene};
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::pieces::NodePieces;
use aggio_comm::tags::TagBlock;
use aggio_comm::transport::{SharedLocks, Transport};
use aggio_config::hints::Hints;
use aggio_plan::format::{LOOK, Map};
use aggio_plan::plan::cost::{Costs, is_local};
use aggio_plan::plan::{Reason, Way};
use aggio_store::driver::{Driver, Facts, Outcome};
use aggio_store::independent::Strategy;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use fill::ZeroFill;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the ranks reach the file; equal on all ranks.
pub(super) struct Reach {
    pub(super) facts: Facts,
    pub(super) aggregators: Vec<usize>,
    /// The file is a container that every rank can open.
    pub(super) logs: bool,
    /// Small writes are staged, and every rank can do so.
    pub(super) staged: bool,
}

/// The bytes of one open file.
pub(super) struct Storage {
    transport: Arc<dyn Transport>,
    driver: Arc<dyn Driver>,
    counters: Arc<Counters>,
    reach: Reach,
    /// Writes may be buffered before they come here.
    is_buffered: bool,
    habits: Habits,
    plan_cache: PlanCache,
    format: FormatTracker,
    small: SmallReads,
    fill: ZeroFill,
    /// This rank wrote since the last synchronisation.
    wrote: AtomicBool,
}

impl Storage {
    /// The bytes of a file that was opened on the ranks of `transport` and takes this lane there.
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        lane: u32,
        driver: Arc<dyn Driver>,
        reach: Reach,
        format: FormatTracker,
        is_buffered: bool,
    ) -> Self {
        let counters = Arc::<Counters>::default();
        let ranks = transport.nodes().beside(transport.rank()).count();
        let pieces = NodePieces::new(transport.table(), lane, ranks);
        let (file_system, assumed) =
            (&*reach.facts.file_system, Costs::assumed(&reach.facts.file_system));
        let fill = ZeroFill::new(driver.clone(), counters.clone(), file_system, is_buffered);
        let small = SmallReads::new(driver.clone(), counters.clone(), pieces, assumed, is_buffered);
        Self {
            transport,
            driver,
            counters,
            reach,
            is_buffered,
            habits: Habits::default(),
            plan_cache: PlanCache::default(),
            format,
            small,
            fill,
            wrote: AtomicBool::new(false),
        }
    }

    /// The driver.
    pub(super) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// The ranks that opened the file.
    pub(super) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The counts of this rank.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// How the ranks reach the file.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Where ranks look whether the file has locks, `exclusive` ones or not: those that are sure to
    /// see it.
    pub(super) fn lock_trial(&self, exclusive: bool) -> Trial {
        let is_by_node = self.reach.facts.is_by_node && self.transport.nodes().count() > 1;
        match self.reach.aggregators.contains(&self.transport.rank()) {
            _ if is_by_node => Trial::Hopeless,
            true => Trial::Here { exclusive },
            false => Trial::Elsewhere,
        }
    }

    /// The file's format as far as it is known.
    pub(super) fn format(&self) -> &FormatTracker {
        &self.format
    }

    /// Bytes fetched by small reads.
    pub(super) fn small(&self) -> &SmallReads {
        &self.small
    }

    /// Records a change of the file that a synchronisation makes durable.
    pub(super) fn note_written(&self) {
        self.wrote.store(true, Ordering::Release);
    }

    /// Makes the writes of this rank since the last call durable.
    pub(super) fn sync(&self) -> Result<()> {
        if !self.wrote.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.count_other();
        self.driver.sync().inspect_err(|_| self.note_written())
    }

    /// Counts a request that moves no bytes.
    pub(super) fn count_other(&self) {
        Counters::add(&self.counters.other_out, 1);
    }

    /// The costs of write requests: measured, or assumed for this file system.
    pub(super) fn cost_of_writes(&self) -> Costs {
        let assumed = || Costs::assumed(&self.reach.facts.file_system);
        self.driver.meter().map_or_else(assumed, |meter| meter.writes.figures())
    }

    /// Whether a step in which ranks meet costs something beside a request.
    pub(super) fn has_quick_requests(&self) -> bool {
        is_local(&self.reach.facts.file_system)
    }

    /// Whether the file ends before the end of `span` and becomes longer once buffered writes in
    /// `hull` are stored.
    pub(super) fn ends_before(&self, hull: Extent, span: Extent) -> bool {
        hull.end() > span.offset && self.driver.size().map_or(true, |size| size < span.end())
    }

    /// Inspects the bytes of a transfer for the file's format. Where writes are buffered, the head
    /// of an existing file is read once, as a part of it may be rewritten: bytes that announce
    /// others must be stored after them.
    pub(super) fn look_at_pieces(&self, view: &View, position: u64, memory: &Memory, len: u64) {
        if self.is_buffered && self.format.takes_head(view, position, len) {
            let mut head = vec![0; LOOK as usize];
            // Without permission to read, nothing is found.
            let found = self.driver.read_contig(&mut head, 0, &self.counters);
            self.format.look_at(0, &head[..found.bytes as usize]);
        }
        self.format.look_at_pieces(view, position, memory, len);
    }

    /// Counts the pieces of a request.
    pub(super) fn count_pieces(&self, request: &Request) {
        let pieces = request.view.pieces(request.position, request.len);
        Counters::add(&self.counters.pieces_in, pieces);
    }

    /// Counts a collective call of the only rank.
    pub(super) fn count_only_rank(&self) {
        Counters::add(&self.counters.collective_alone, 1);
        self.counters.decided.count(Way::Independent, Reason::OnlyRank);
    }

    /// Reads one run of bytes; in `atomic` mode from the file itself.
    pub(super) fn read_run(
        &self,
        bytes: &mut [u8],
        offset: u64,
        atomic: bool,
        hints: impl FnOnce() -> Arc<Hints>,
    ) -> Outcome {
        let kept = if atomic { None } else { self.small.read_run(bytes, offset, hints) };
        let read = || self.driver.read_contig(bytes, offset, &self.counters);
        let read = kept.unwrap_or_else(read);
        self.format.look_at(offset, &bytes[..bytes.len().min(read.bytes as usize)]);
        read
    }

    /// Writes one run of bytes; `None` if it is none.
    pub(super) fn write_run(
        &self,
        memory: &Memory,
        offset: u64,
        hints: impl Fn() -> Arc<Hints>,
    ) -> Option<Outcome> {
        self.note_written();
        let bytes = memory.as_slice()?;
        self.format.look_at(offset, bytes);
        let is_done = self.fill.reserves_run(memory, offset, &hints)
            || self.fill.extends_run(memory, offset, &hints);
        Some(match is_done {
            true => Outcome { bytes: bytes.len() as u64, result: Ok(()) },
            false => self.driver.write_contig(bytes, offset, &self.counters),
        })
    }

    /// Moves the bytes of this rank without the others.
    ///
    /// # Errors
    /// If there is no memory for a copy in the file's representation.
    pub(super) fn transfer(&self, request: &Request) -> Result<Outcome> {
        let stream = request.stream()?;
        let (view, position, memory) = (&*request.view, request.position, stream.memory());
        let (strategy, counters) = (Strategy::from_hints(&request.hints), &*self.counters);
        let outcome = match request.direction {
            Direction::Read => {
                let read = || self.driver.read_strided(view, position, memory, &strategy, counters);
                let read = self.small.read(request, memory).unwrap_or_else(read);
                self.look_at_pieces(view, position, memory, read.bytes);
                read
            }
            Direction::Write => {
                self.note_written();
                self.look_at_pieces(view, position, memory, request.len);
                match self.fill.reserves(request, memory) || self.fill.extends(request, memory) {
                    true => Outcome { bytes: request.len, result: Ok(()) },
                    false => self.driver.write_strided(view, position, memory, &strategy, counters),
                }
            }
        };
        Ok(stream.finish(outcome))
    }

    /// Writes buffered bytes of this rank through `view`, without the others.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn store(&self, view: &View, memory: &Memory, hints: &Hints) -> Result<()> {
        if memory.is_empty() {
            return Ok(());
        }
        let strategy = Strategy::from_hints(hints);
        self.note_written();
        self.driver.write_strided(view, 0, memory, &strategy, &self.counters).result
    }

    /// Carries out an operation of all ranks; a rank without a valid request takes part too, with
    /// the `hints` in force and an error that all ranks receive.
    pub(super) async fn collective(
        &self,
        direction: Direction,
        request: Result<Request>,
        hints: impl FnOnce() -> Arc<Hints>,
        locks: Option<&dyn SharedLocks>,
        tags: TagBlock,
    ) -> Outcome {
        let stream = match &request {
            Ok(request) => {
                self.count_pieces(request);
                request.stream()
            }
            Err(error) => Err(error.clone()),
        };
        let hints = request.as_ref().map_or_else(|_| hints(), |request| request.hints.clone());
        let locks = locks.filter(|_| request.as_ref().is_ok_and(|request| request.atomic));
        let map = request.as_ref().ok().and_then(|request| request.map.as_deref());
        let scene = self.scene(&hints, locks, map);
        let outcome = match direction {
            Direction::Read => self.read_all(scene, &request, &stream, &tags).await,
            Direction::Write => self.write_all(scene, &request, &stream, &tags).await,
        };
        match stream {
            Ok(stream) => stream.finish(outcome),
            Err(_) => outcome,
        }
    }

    async fn read_all(
        &self,
        scene: Scene<'_>,
        request: &Result<Request>,
        stream: &Result<Stream>,
        tags: &TagBlock,
    ) -> Outcome {
        let mine = in_exchange(request, stream);
        let own = mine.clone().ok();
        let outcome = exchange::read(scene, mine, tags).await;
        if let Some(own) = own {
            self.look_at_pieces(own.view, own.position, own.memory, outcome.bytes);
        }
        outcome
    }

    async fn write_all(
        &self,
        scene: Scene<'_>,
        request: &Result<Request>,
        stream: &Result<Stream>,
        tags: &TagBlock,
    ) -> Outcome {
        let reserved = self.fill.reserves_all(request, stream);
        self.note_written();
        let mut mine = in_exchange(request, stream);
        if let (Ok(own), Ok(request)) = (&mine, request) {
            self.look_at_pieces(own.view, own.position, own.memory, request.len);
        }
        let nothing = Memory::nothing();
        if let (Ok(own), Some(_)) = (&mut mine, reserved) {
            own.memory = &nothing;
        }
        let Outcome { bytes, result } = exchange::write(scene, mine, tags).await;
        Outcome { bytes: reserved.unwrap_or(bytes), result }
    }

    /// The scene of a collective transfer on this file; with `locks` in atomic mode.
    pub(super) fn scene<'a>(
        &'a self,
        hints: &'a Hints,
        locks: Option<&'a dyn SharedLocks>,
        map: Option<&'a dyn Map>,
    ) -> Scene<'a> {
        Scene {
            transport: &*self.transport,
            driver: &*self.driver,
            atomic: locks,
            aggregators: &self.reach.aggregators,
            facts: &self.reach.facts,
            logs: self.reach.logs,
            staged: self.reach.staged,
            elides: self.fill.elides(hints),
            hints,
            counters: &self.counters,
            habits: &self.habits,
            plan_cache: &self.plan_cache,
            map,
        }
    }
}

/// This rank's request in the exchange, or its error.
fn in_exchange<'a>(
    request: &'a Result<Request>,
    stream: &'a Result<Stream>,
) -> Result<exchange::Request<'a>> {
    match (request, stream) {
        (Ok(Request { view, position, .. }), Ok(stream)) => {
            Ok(exchange::Request { view, position: *position, memory: stream.memory() })
        }
        (Err(error), _) | (_, Err(error)) => Err(error.clone()),
    }
}
