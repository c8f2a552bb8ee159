//! Opening a file: one reduction to rank 0, which opens first, and one broadcast from it; one more
//! agreement where ranks of other nodes open the file too.

use super::lane::FileLane;
use super::openers;
use super::result::{self, Found, OpenResult};
use super::terms::OpenTerms;
use super::{Here, Opened, Opening, step};
use crate::Engine;
use crate::file::account::Account;
use crate::file::atomic::AtomicMode;
use crate::file::info::AgreedHints;
use crate::file::lifecycle::Lifecycle;
use crate::file::set_conversion::SetConversion;
use crate::file::split::SplitCall;
use crate::file::storage::{FormatTracker, Reach, Storage};
use crate::file::view_state::ViewState;
use crate::file::write_behind::{Handle, Name, Terms, WriteBehind};
use crate::file::{Amode, Direction, File};
use aggio_base::error::{Error, Result};
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use aggio_comm::transport::Transport;
use aggio_config::hints::Hints;
use aggio_config::settings::Report;
use aggio_store::driver::{Driver, LazyDriver};
use std::sync::Arc;

/// Arguments of an open on one rank.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// The file's name, possibly with a driver prefix such as `ufs:`.
    pub path: String,
    /// The access mode; the same on all ranks.
    pub amode: Amode,
    /// The hints in force on this rank.
    pub hints: Arc<Hints>,
    /// An error of this rank before the open; it travels, so that the open fails on every rank.
    pub fault: Option<Error>,
    /// The report at close; rank 0's value is used.
    pub report: Report,
    /// Whether writes may be staged on the node, and how; the same on all ranks.
    pub stages: Option<Stages>,
}

/// How an open uses stages of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// It makes one if there is none: all processes that may access the file run on this node.
    /// Otherwise it uses that of others.
    pub makes: bool,
    /// In jobs of several nodes writes are buffered in the memory of ranks instead. Otherwise
    /// nothing is buffered there, so that system calls see all.
    pub or_buffers: bool,
}

impl OpenRequest {
    /// A request without faults and without a report.
    pub fn new(path: impl Into<String>, amode: Amode, hints: impl Into<Arc<Hints>>) -> Self {
        Self {
            path: path.into(),
            amode,
            hints: hints.into(),
            fault: None,
            report: Report::Off,
            stages: None,
        }
    }
}

impl Engine {
    /// Opens a file; see [`File::open`].
    pub fn open(
        self: &Arc<Self>,
        transport: Arc<dyn Transport>,
        request: OpenRequest,
    ) -> BoxFuture<'static, Result<Arc<File>>> {
        File::open(self, transport, request)
    }
}

impl File {
    /// Opens a file; collective over the ranks of `transport`, on which all ranks open files in
    /// the same order.
    ///
    /// Rank 0 opens first and creates the file if that is asked for; another rank does it if rank 0
    /// does not see the place. One rank of each further node with aggregators follows. All other
    /// ranks open the file when they first need it themselves, and get the error then if they
    /// cannot.
    ///
    /// # Errors
    /// The same on every rank: `Amode`; `NotSame` if the modes differ; the system's error.
    pub fn open(
        engine: &Arc<Engine>,
        transport: Arc<dyn Transport>,
        request: OpenRequest,
    ) -> BoxFuture<'static, Result<Arc<File>>> {
        let handles = handles_of(engine, &request.path, transport.played());
        // Bytes that cannot be stored stay buffered there, and the error is theirs.
        handles.iter().for_each(|handle| drop(handle.drain()));
        let engine = engine.clone();
        let tags = transport.lanes().opening().next();
        Box::pin(async move {
            for handle in handles_of(&engine, &request.path, transport.played()) {
                // The handle of the rank with the error reports it.
                drop(handle.ask(Direction::Write, None).await);
            }
            tags.ready().await;
            let opened = open_on_all(&engine, &transport, &tags, &request).await;
            let opened = opened.map_err(|error| {
                let error = error.with_operation("MPI_File_open");
                error.with_path(&request.path).with_rank(transport.rank())
            });
            let opened = opened?;
            opened.write_behind.announce(&opened.hints());
            Ok(Arc::new(opened))
        })
    }
}

/// The handles of the process `played` for the file `path`.
fn handles_of(engine: &Engine, path: &str, played: usize) -> Vec<Arc<WriteBehind>> {
    match engine.open_files.somebody_buffers() {
        true => engine.open_files.of(&Name::of(engine.drivers(), path), played),
        false => Vec::new(),
    }
}

async fn open_on_all(
    engine: &Arc<Engine>,
    transport: &Arc<dyn Transport>,
    tags: &TagBlock,
    request: &OpenRequest,
) -> Result<File> {
    let OpenRequest { amode, hints, fault, .. } = request;
    let (rank, size) = (transport.rank(), transport.size());
    let hints = AgreedHints::new(hints.clone(), size);
    let checked = fault.clone().map_or_else(|| amode.check(), Err);
    let terms = OpenTerms::of(rank, *amode, hints.digest, checked);
    let terms = terms.reduce(&**transport, tags.tag(step::TERMS)).await?;
    let mut opening = Opening { engine, transport, tags, request, hints };
    let mut first = (Here::default(), None);
    let result = result::tell_all(&**transport, tags.tag(step::RESULT), 0, || {
        let (here, lane, result) = opening.first(terms)?;
        first = (here, lane);
        Ok(result)
    });
    let result = result.await?;
    if let Some(values) = &result.hints {
        let (other, values) = values;
        let tells = *other as usize == rank;
        opening.hints = opening.hints.adopting(values, size, tells, &request.path);
    }
    let (here, lane) = first;
    let lane = match lane {
        Some(lane) => lane,
        None => FileLane::find(transport, result.place).await?,
    };
    let opened = opening.everywhere(&result, &lane, here).await;
    let settled = match opened {
        Ok(opened) => {
            opening.write_behind(&result, &lane, &opened).await.map(|terms| (opened, terms))
        }
        Err(error) => Err(error),
    };
    match settled {
        Ok((opened, terms)) => Ok(opening.into_file(result, lane, opened, terms)),
        Err(error) => {
            lane.leave(&error);
            Err(error)
        }
    }
}

impl Opening<'_> {
    /// The file that this rank opens when it needs it.
    fn lazy(&self, lane: &FileLane, opened: &Opened) -> Arc<dyn Driver> {
        let mut how = self.how(false);
        // The program may be in another directory by then.
        how.path = self.engine.drivers().absolute(&how.path);
        let nodes = self.transport.nodes();
        let is_beside = nodes.of(opened.leader) == nodes.of(self.rank());
        let expected = opened.found.identity.filter(|_| is_beside);
        let opener = openers::opener_beside(nodes, &opened.openers, self.rank());
        let offers = opener.and_then(|_| lane.offers());
        let offer = move || offers.as_ref().and_then(|(table, lane)| table.offer(*lane));
        let (drivers, facts) = (self.engine.drivers().clone(), opened.found.facts.clone());
        Arc::new(LazyDriver::new(drivers, how, facts, offer).expecting(expected))
    }

    fn into_file(
        self,
        result: OpenResult,
        lane: FileLane,
        mut opened: Opened,
        terms: Terms,
    ) -> File {
        let everywhere = self.is_everywhere(&result, &opened);
        let driver = opened.here.driver.take();
        let driver = driver.unwrap_or_else(|| self.lazy(&lane, &opened));
        // Writes of one node are not yet on the others: each rank is served by its own node.
        let is_by_node = opened.found.facts.is_by_node && self.transport.nodes().count() > 1;
        let (engine, drivers) = (self.engine, self.engine.drivers());
        let (path, amode) = (&self.request.path, self.request.amode);
        let hints = hints_in_force(self.hints, everywhere, is_by_node, self.transport.size());
        let Found { start, facts, .. } = opened.found;
        let format = FormatTracker::new(&hints.hints, engine.formats(), self.transport.size());
        let reach = Reach {
            logs: everywhere && facts.has_logs || is_by_node,
            staged: everywhere && facts.is_staged,
            aggregators: opened.aggregators,
            facts,
        };
        let (transport, number) = (lane.transport, lane.lane.number());
        let buffers = terms.holders.is_some();
        let storage = Storage::new(transport.clone(), number, driver, reach, format, buffers);
        let (storage, split) = (Arc::new(storage), Arc::<SplitCall>::default());
        let place = drivers.absolute(path);
        let (open_files, played) = (engine.open_files.clone(), transport.played());
        let handle = Handle::new(open_files, drivers.clone(), place.clone(), played);
        let write_behind = WriteBehind::new(
            storage.clone(),
            split.clone(),
            handle,
            terms,
            &hints.hints,
            engine.workers().clone(),
        );
        let views = ViewState::new(amode, transport.clone(), lane.pointer, start, hints);
        let system_path = drivers.path_of(&place).to_owned();
        File {
            engine: engine.clone(),
            tags: lane.lane.tags(),
            conversion: SetConversion::new(engine.clone(), transport.clone(), system_path),
            transport,
            account: Account::new(storage.clone(), path.clone(), result.report),
            storage,
            write_behind: Arc::new(write_behind),
            leader: opened.leader,
            views,
            atomic: AtomicMode::default(),
            split,
            lifecycle: Lifecycle::new(lane.lane, opened.here.offers, place),
        }
    }
}

/// The hints of a file, with the values that the engine had to choose: whether all ranks see the
/// file `everywhere`, and whether each node has memory of its own for it.
fn hints_in_force(
    mut hints: AgreedHints,
    everywhere: bool,
    is_by_node: bool,
    ranks: usize,
) -> AgreedHints {
    if !everywhere {
        // Ranks that may not see the file must not be left to themselves.
        hints = hints.with_note("romio_no_indep_rw", "true", ranks);
    }
    if is_by_node {
        for (name, value) in [("romio_cb_read", "disable"), ("romio_no_indep_rw", "false")] {
            hints = hints.with_note(name, value, ranks);
        }
    }
    hints
}
