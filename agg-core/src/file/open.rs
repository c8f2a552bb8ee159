//! Opening a file.

use super::account::{report_from_word, report_to_word};
use super::info::AgreedHints;
use super::meet::{Kind, Words, from_rank_zero, meet, same_everywhere};
use super::{Amode, File, State};
use crate::driver::{self, Driver, Facts, OpenHow};
use crate::error::{Error, ErrorClass, Result};
use crate::group;
use crate::hints::{Hints, Origin, Switch};
use crate::plan::aggregators;
use crate::report::Counters;
use crate::settings::Report;
use crate::tags::{TagBlock, Tags};
use crate::task::BoxFuture;
use crate::transport::{SharedState, Transport};
use crate::view::View;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

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

/// What the ranks share once all have opened the file.
struct Opened {
    driver: Arc<dyn Driver>,
    hints: AgreedHints,
    shared: Option<Arc<dyn SharedState>>,
    /// Where the file pointers start, in bytes.
    start: u64,
    aggregators: Vec<usize>,
    facts: Facts,
    report: Report,
}

impl File {
    /// Opens a file; collective over the ranks of `transport`.
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
        Box::pin(async move {
            // A rank that is alone sends no messages.
            let tags = Tags::new(if transport.size() == 1 { 0 } else { transport.max_tag() });
            let opened = open_on_all(&*transport, &tags.next(), &request).await;
            let OpenRequest { path, amode, .. } = request;
            let opened = opened.map_err(|error| {
                error.with_operation("MPI_File_open").with_path(&path).with_rank(transport.rank())
            })?;
            let state = State {
                view: Arc::new(View::bytes()),
                individual: opened.start,
                atomic: false,
                hints: opened.hints,
                split: None,
                shared_moved: opened.start != 0,
            };
            Ok(Arc::new(File {
                transport,
                tags,
                driver: opened.driver,
                shared: opened.shared,
                aggregators: opened.aggregators,
                facts: opened.facts,
                path,
                amode,
                counters: Arc::new(Counters::default()),
                report: opened.report,
                state: Mutex::new(state),
                wrote: AtomicBool::new(false),
                closed: AtomicBool::new(false),
            }))
        })
    }
}

async fn open_on_all(
    transport: &dyn Transport,
    tags: &TagBlock,
    request: &OpenRequest,
) -> Result<Opened> {
    let OpenRequest { path, amode, hints, fault, report } = request;
    let amode = *amode;
    let named = u64::from(names_aggregators(hints));
    let hints = AgreedHints::new(hints.clone(), transport.size());
    let words = [u64::from(amode.0), hints.digest, named, report_to_word(*report)];
    let checked = fault.clone().map_or_else(|| amode.check(), Err);
    let all = meet(transport, tags, Kind::Open, words, checked).await?;
    let modes: Vec<_> = all.iter().map(|words| [words[0], 0, 0, 0]).collect();
    same_everywhere(&modes, ErrorClass::NotSame, "the access mode")?;
    let hints = hints.agree(transport, &all, 1, tags).await?;
    let aggregators = choose_aggregators(transport, &hints.hints, all[0][2] != 0)?;
    let how = how_to_open(path, amode, &hints.hints, transport.rank());
    let (driver, [start, block_size, striping_unit, striping_factor]) =
        open_in_turn(transport, tags, &how, amode).await?;
    let shared = transport.share(tags.tag(5)).await.ok();
    if amode.has(Amode::APPEND) {
        start_shared_pointer(transport, shared.as_deref(), start, tags).await?;
    }
    let striping_factor = u32::try_from(striping_factor).unwrap_or(0);
    let facts = Facts { block_size, striping_unit, striping_factor, file_system: String::new() };
    let report = report_from_word(all[0][3]);
    Ok(Opened { driver, hints, shared, start, aggregators, facts, report })
}

/// Whether somebody said which ranks shall be aggregators.
fn names_aggregators(hints: &Hints) -> bool {
    hints.origin("cb_config_list") != Some(Origin::Default)
}

/// The aggregators; `named` says whether rank 0's hints name them, which all ranks follow.
fn choose_aggregators(transport: &dyn Transport, hints: &Hints, named: bool) -> Result<Vec<usize>> {
    if transport.size() == 1 {
        return Ok(vec![0]);
    }
    let list = named.then_some(hints.cb_config_list.as_str());
    aggregators::choose(transport.hosts(), list, hints.cb_nodes)
}

/// Rank 0 opens (and creates) the file, then all others at once; none has it open if one failed.
/// Returns rank 0's news: where the file pointers start, and its facts about the file system.
async fn open_in_turn(
    transport: &dyn Transport,
    tags: &TagBlock,
    how: &OpenHow,
    amode: Amode,
) -> Result<(Arc<dyn Driver>, Words)> {
    let mut first = None;
    let news = from_rank_zero(transport, tags, || {
        let driver = open_here(how, amode)?;
        let start = if amode.has(Amode::APPEND) { driver.size()? } else { 0 };
        let news = news(&*driver, start, transport.size());
        first = Some(driver);
        Ok(news)
    })
    .await?;
    let opened = first.map_or_else(|| open_here(how, amode), Ok);
    if transport.size() == 1 {
        return opened.map(|driver| (driver, news));
    }
    let driver = keep_if_all_opened(transport, tags, opened).await?;
    Ok((driver, news))
}

/// What rank 0 tells the others. A single rank needs no facts: it makes no plans.
fn news(driver: &dyn Driver, start: u64, ranks: usize) -> Words {
    if ranks == 1 {
        return [start, 1, 0, 0];
    }
    let Facts { block_size, striping_unit, striping_factor, .. } = driver.facts();
    [start, block_size, striping_unit, u64::from(striping_factor)]
}

async fn keep_if_all_opened(
    transport: &dyn Transport,
    tags: &TagBlock,
    opened: Result<Arc<dyn Driver>>,
) -> Result<Arc<dyn Driver>> {
    let local = opened.as_ref().map(drop).map_err(Clone::clone);
    let agreed = group::agree(transport, tags.tag(3), local).await;
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

/// Puts the shared file pointer where an append starts, before anybody moves it.
async fn start_shared_pointer(
    transport: &dyn Transport,
    shared: Option<&dyn SharedState>,
    start: u64,
    tags: &TagBlock,
) -> Result<()> {
    let start = i64::try_from(start).unwrap_or(i64::MAX);
    let stored = match shared {
        Some(shared) if transport.rank() == 0 => shared.store(start),
        _ => Ok(()),
    };
    group::agree(transport, tags.tag(6), stored).await
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
