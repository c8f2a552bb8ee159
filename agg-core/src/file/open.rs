//! Opening a file: one reduction to rank 0, which opens first, and one broadcast from it.

use super::info::AgreedHints;
use super::news::{self, News, Place};
use super::wish::Wish;
use super::{Amode, File, State};
use crate::driver::{self, Driver, Facts, OpenHow};
use crate::error::{Error, Result};
use crate::group;
use crate::hints::{Hints, Origin, Switch};
use crate::lanes::Lane;
use crate::plan::aggregators;
use crate::report::Counters;
use crate::settings::Report;
use crate::tags::TagBlock;
use crate::task::BoxFuture;
use crate::transport::{SharedPointer, Transport};
use crate::view::View;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

/// What a rank asks for when it opens a file.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// The file's name, possibly with a driver prefix such as `ufs:`.
    pub path: String,
    /// The access mode; the same on all ranks.
    pub amode: Amode,
    /// The hints in force on this rank.
    pub hints: Hints,
    /// What is wrong on this rank already; it travels, so that the open fails on every rank.
    pub fault: Option<Error>,
    /// What is told when the file is closed; rank 0's wish counts.
    pub report: Report,
}

impl OpenRequest {
    /// A request with nothing wrong and nothing to tell.
    pub fn new(path: impl Into<String>, amode: Amode, hints: Hints) -> Self {
        Self { path: path.into(), amode, hints, fault: None, report: Report::Off }
    }
}

/// The steps of an open, as tags of its block.
mod step {
    pub(super) const WISHES: u32 = 0;
    pub(super) const NEWS: u32 = 1;
    pub(super) const OPENED: u32 = 2;
    pub(super) const EXTENDED: u32 = 3;
}

/// What the ranks share once all have opened the file.
struct Opened {
    driver: Arc<dyn Driver>,
    hints: AgreedHints,
    aggregators: Vec<usize>,
    home: Home,
    news: News,
}

/// What rank 0 has before the others; no home if that is still to be made.
struct First {
    driver: Arc<dyn Driver>,
    home: Option<Home>,
}

/// Where the messages of a file travel, and its shared file pointer.
struct Home {
    transport: Arc<dyn Transport>,
    lane: Lane,
    pointer: Option<Arc<dyn SharedPointer>>,
}

impl File {
    /// Opens a file; collective over the ranks of `transport`, on which all ranks open files in
    /// the same order.
    ///
    /// Rank 0 opens first and creates the file if that is asked for; the others follow when it
    /// has succeeded, so a name that exists is an error on all ranks or on none.
    ///
    /// # Errors
    /// The same on every rank: `Amode`; `NotSame` if the modes differ; what the system says.
    pub fn open(
        transport: Arc<dyn Transport>,
        request: OpenRequest,
    ) -> BoxFuture<'static, Result<Arc<File>>> {
        let tags = transport.lanes().opening().next();
        Box::pin(async move {
            tags.ready().await;
            let opened = open_on_all(&transport, &tags, &request).await;
            let OpenRequest { path, amode, .. } = request;
            let opened = opened.map_err(|error| {
                error.with_operation("MPI_File_open").with_path(&path).with_rank(transport.rank())
            })?;
            Ok(Arc::new(opened.into_file(path, amode)))
        })
    }
}

impl Opened {
    fn into_file(self, path: String, amode: Amode) -> File {
        let News { start, facts, report, .. } = self.news;
        let state = State {
            view: Arc::new(View::bytes()),
            individual: start,
            atomic: false,
            hints: self.hints,
            split: None,
            shared_moved: start != 0,
        };
        File {
            tags: self.home.lane.tags(),
            transport: self.home.transport,
            lane: Mutex::new(Some(self.home.lane)),
            driver: self.driver,
            pointer: self.home.pointer,
            locks: OnceLock::new(),
            aggregators: self.aggregators,
            facts,
            path,
            amode,
            counters: Arc::new(Counters::default()),
            report,
            state: Mutex::new(state),
            wrote: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }
}

async fn open_on_all(
    transport: &Arc<dyn Transport>,
    tags: &TagBlock,
    request: &OpenRequest,
) -> Result<Opened> {
    let OpenRequest { path, amode, hints, fault, .. } = request;
    let (rank, size) = (transport.rank(), transport.size());
    let mut hints = AgreedHints::new(hints.clone(), size);
    let checked = fault.clone().map_or_else(|| amode.check(), Err);
    let wish = Wish::of(rank, *amode, hints.digest, checked);
    let wishes = wish.reduce(&**transport, tags.tag(step::WISHES)).await?;
    let mut first = None;
    let news = news::from_rank_zero(&**transport, tags.tag(step::NEWS), || {
        let (opened, news) = open_first(transport, request, &hints.hints, wishes)?;
        first = Some(opened);
        Ok(news)
    });
    let news = news.await?;
    if let Some(values) = &news.hints {
        let (other, values) = values;
        hints = hints.adopting(values, size, *other as usize == rank, path);
    }
    let aggregators = choose_aggregators(&**transport, &hints.hints, news.names_aggregators)?;
    let (opened, home) = match first {
        Some(First { driver, home }) => (Ok(driver), home),
        None => (open_here(&how_to_open(path, *amode, &hints.hints, rank), *amode), None),
    };
    let opened = keep_if_all_opened(&**transport, tags, opened).await;
    let home = match home {
        Some(home) => home,
        None => find_home(transport, tags, news.place, news.start).await?,
    };
    match opened {
        Ok(driver) => Ok(Opened { driver, hints, aggregators, home, news }),
        Err(error) => {
            home.lane.release();
            Err(error)
        }
    }
}

/// The aggregators; `named` says whether rank 0's hints name them, which all ranks follow.
fn choose_aggregators(transport: &dyn Transport, hints: &Hints, named: bool) -> Result<Vec<usize>> {
    if transport.size() == 1 {
        return Ok(vec![0]);
    }
    let list = named.then_some(hints.cb_config_list.as_str());
    aggregators::choose(transport.hosts(), list, hints.cb_nodes)
}

/// What rank 0 does before the others: it opens (and creates) the file, unless one of the wishes
/// or hints is wrong, and gives it a lane.
fn open_first(
    transport: &Arc<dyn Transport>,
    request: &OpenRequest,
    hints: &Hints,
    wishes: Option<Wish>,
) -> Result<(First, News)> {
    let OpenRequest { path, amode, report, .. } = request;
    let other = wishes.map_or(Ok(None), Wish::check)?;
    let names_aggregators = hints.origin("cb_config_list") != Some(Origin::Default);
    choose_aggregators(&**transport, hints, names_aggregators)?;
    let driver = open_here(&how_to_open(path, *amode, hints, 0), *amode)?;
    let start = if amode.has(Amode::APPEND) { driver.size()? } else { 0 };
    let (place, home) = choose_home(transport, start)?;
    let news = News {
        start,
        facts: facts_for_all(&*driver, transport.size()),
        place,
        report: *report,
        names_aggregators,
        hints: other.map(|rank| (rank, hints.must_agree())),
    };
    Ok((First { driver, home }, news))
}

/// What rank 0 tells the others. A single rank needs no facts: it makes no plans.
fn facts_for_all(driver: &dyn Driver, ranks: usize) -> Facts {
    if ranks > 1 {
        return driver.facts();
    }
    Facts { block_size: 1, striping_unit: 0, striping_factor: 0, file_system: String::new() }
}

/// Rank 0 takes a free lane; without one, the file will be the first on a new transport.
fn choose_home(transport: &Arc<dyn Transport>, start: u64) -> Result<(Place, Option<Home>)> {
    let (mut transport, mut level) = (transport.clone(), 0);
    loop {
        if let Some(lane) = transport.lanes().choose() {
            let place = Place { level, lane: lane.number() };
            return Ok((place, Some(Home::new(transport, lane, start)?)));
        }
        level += 1;
        match transport.next() {
            Some(next) => transport = next,
            None => return Ok((Place { level, lane: 1 }, None)),
        }
    }
}

/// Goes where rank 0 said. A new transport is made by all ranks together; then nobody goes on
/// before rank 0 has set the shared file pointer.
async fn find_home(
    transport: &Arc<dyn Transport>,
    tags: &TagBlock,
    place: Place,
    start: u64,
) -> Result<Home> {
    let mut home = transport.clone();
    let mut is_new = false;
    for _ in 0..place.level {
        home = match home.next() {
            Some(next) => next,
            None => {
                is_new = true;
                home.extend().await?
            }
        };
    }
    let lane = home.lanes().take(place.lane).await?;
    let home = Home::new(home, lane, start);
    if is_new {
        let local = home.as_ref().map(drop).map_err(Clone::clone);
        group::agree(&**transport, tags.tag(step::EXTENDED), local).await?;
    }
    home
}

impl Home {
    /// Puts the shared file pointer at byte `start`, on rank 0, before anybody can move it.
    fn new(transport: Arc<dyn Transport>, lane: Lane, start: u64) -> Result<Self> {
        let pointer = transport.pointer(&lane);
        if let Some(pointer) = &pointer
            && transport.rank() == 0
        {
            pointer.store(i64::try_from(start).unwrap_or(i64::MAX))?;
        }
        Ok(Self { transport, lane, pointer })
    }
}

async fn keep_if_all_opened(
    transport: &dyn Transport,
    tags: &TagBlock,
    opened: Result<Arc<dyn Driver>>,
) -> Result<Arc<dyn Driver>> {
    if transport.size() == 1 {
        return opened;
    }
    let local = opened.as_ref().map(drop).map_err(Clone::clone);
    let agreed = group::agree(transport, tags.tag(step::OPENED), local).await;
    match (agreed, opened) {
        (Ok(()), opened) => opened,
        (Err(error), opened) => {
            if let Ok(driver) = opened {
                // The other rank's error is the one to tell.
                let _ = driver.close();
            }
            Err(error)
        }
    }
}

/// Opens the file on this rank. Where data sieving of writes wants to read too, the file's
/// permissions may forbid it.
fn open_here(how: &OpenHow, amode: Amode) -> Result<Arc<dyn Driver>> {
    let opened = match driver::open(how) {
        Err(_) if how.read && !amode.is_readable() => {
            driver::open(&OpenHow { read: false, ..how.clone() })
        }
        opened => opened,
    };
    opened.map(Arc::from)
}

fn how_to_open(path: &str, amode: Amode, hints: &Hints, rank: usize) -> OpenHow {
    OpenHow {
        path: path.to_owned(),
        create: rank == 0 && amode.has(Amode::CREATE),
        exclusive: rank == 0 && amode.has(Amode::EXCL),
        read: amode.is_readable() || hints.romio_ds_write == Switch::Enable,
        write: amode.is_writable(),
        permissions: Some(hints.file_perm),
        direct_read: hints.direct_read,
        direct_write: hints.direct_write,
        rank,
    }
}
