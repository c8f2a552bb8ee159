//! The steps of an open: the order in which ranks open the file, and agreement on the result.

mod lane;
mod open;
mod openers;
mod result;
mod terms;
mod write_behind;

pub use open::{OpenRequest, Stages};

use super::Amode;
use super::info::AgreedHints;
use crate::Engine;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_comm::transport::Transport;
use aggio_config::hints::{Drain, Origin, Switch};
use aggio_plan::plan::aggregators;
use aggio_store::driver::{self, Closing, Driver, Facts, OpenHow, Staging, Striped, Striping};
use lane::FileLane;
use result::{Found, OpenResult};
use std::sync::Arc;
use terms::OpenTerms;

/// The steps of an open, as tags of its block.
mod step {
    pub(super) const TERMS: u32 = 0;
    pub(super) const RESULT: u32 = 1;
    pub(super) const SEERS: u32 = 2;
    pub(super) const FOUND: u32 = 3;
    pub(super) const OPENED: u32 = 4;
    pub(super) const BLIND: u32 = 5;
    pub(super) const NODES: u32 = 6;
    pub(super) const CONNECTED: u32 = 7;
}

/// An open in progress, on this rank.
struct Opening<'a> {
    engine: &'a Arc<Engine>,
    transport: &'a Arc<dyn Transport>,
    tags: &'a TagBlock,
    request: &'a OpenRequest,
    hints: AgreedHints,
}

/// The file on a rank that has opened it.
#[derive(Default)]
struct Here {
    driver: Option<Arc<dyn Driver>>,
    /// Other ranks of the node may take it.
    offers: bool,
}

/// State shared by the ranks once the file is open.
struct Opened {
    here: Here,
    found: Found,
    leader: usize,
    aggregators: Vec<usize>,
    openers: Vec<usize>,
}

impl Opening<'_> {
    fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// Rank 0's step before the others: opens (and creates) the file, unless an argument or a hint
    /// is wrong, and gives it a lane.
    fn first(&self, terms: Option<OpenTerms>) -> Result<(Here, Option<FileLane>, OpenResult)> {
        let other = terms.map_or(Ok(None), OpenTerms::check)?;
        let hints = &*self.hints.hints;
        let names_aggregators = hints.origin("cb_config_list") != Some(Origin::Default);
        self.choose_aggregators(names_aggregators)?;
        let deferred = match hints.aggio_deferred_open {
            Switch::Enable => true,
            Switch::Disable => false,
            Switch::Automatic => self.engine.drivers().may_defer(&self.request.path),
        };
        let opened = self.lead();
        let (driver, found) = match opened {
            Ok((driver, found)) => (Some(driver), Ok(found)),
            Err(error) if deferred && self.may_be_blind(&error) => (None, Err(error.with_rank(0))),
            Err(error) => return Err(error),
        };
        let (place, lane) = FileLane::choose(self.transport);
        let mut here = Here { driver, offers: false };
        if let (Some(lane), Ok(found)) = (&lane, &found) {
            lane.start_at(found.start, hints)?;
            here.offer(lane, deferred);
        }
        let hints = other.map(|rank| (rank, hints.must_agree()));
        let report = self.request.report;
        let result = OpenResult { found, deferred, place, report, names_aggregators, hints };
        Ok((here, lane, result))
    }

    /// Opens the file before the other ranks.
    fn lead(&self) -> Result<(Arc<dyn Driver>, Found)> {
        let amode = self.request.amode;
        let driver = self.open_here(&self.how(true))?;
        let start = if amode.has(Amode::APPEND) { driver.size()? } else { 0 };
        let facts = if self.transport.size() > 1 { driver.facts() } else { no_facts() };
        self.tell_stripes(&*driver);
        let identity = if facts.has_logs || facts.is_staged { driver.identity() } else { None };
        Ok((driver, Found { start, facts, identity }))
    }

    /// Says why the stripes that hints ask for are not in force; loudly where the file system has
    /// stripes.
    fn tell_stripes(&self, driver: &dyn Driver) {
        if let Striped::Refused(why) = driver.striped() {
            let level = match driver.facts().file_system == driver::STRIPED {
                true => Level::Warn,
                false => Level::Info,
            };
            let path = &self.request.path;
            log!(level, "{path}: the hints for stripes of a new file are not in force: {why}");
        }
    }

    /// Whether ranks of another node may see a file that this rank does not.
    fn may_be_blind(&self, error: &Error) -> bool {
        error.class() == ErrorClass::NoSuchFile && self.transport.nodes().count() > 1
    }

    /// Opens the file on the other ranks that are to open it. If one of them fails, none keeps it.
    async fn everywhere(
        &self,
        result: &OpenResult,
        lane: &FileLane,
        mut here: Here,
    ) -> Result<Opened> {
        let (nodes, rank) = (self.transport.nodes(), self.rank());
        let mut aggregators = self.choose_aggregators(result.names_aggregators)?;
        let (leader, found) = match &result.found {
            Ok(found) => (0, found.clone()),
            Err(error) => {
                let named = result.names_aggregators.then_some(&*aggregators);
                self.search(named, lane, &mut here, error).await?
            }
        };
        let mut wanted = aggregators.clone();
        let for_all = found.facts.has_logs || found.facts.is_staged;
        if found.facts.is_by_node || for_all && !result.names_aggregators {
            // All ranks write logs of their own there: each node is asked whether it sees the
            // directory. Or each node has memory of its own, and takes part until all have closed.
            wanted
                .extend((0..self.transport.size()).filter(|one| nodes.first_beside(*one) == *one));
        }
        let mut openers = openers::openers(nodes, leader, &wanted);
        let mut local = Ok(());
        if result.found.is_err() || lane.is_new {
            local = lane.start_at(found.start, &self.hints.hints);
        }
        let opens = !result.deferred || openers.contains(&rank);
        if opens && here.driver.is_none() {
            match self.open_here(&self.how(false)) {
                Ok(driver) => here.driver = Some(driver),
                Err(error) => local = local.and(Err(error)),
            }
        }
        here.offer(lane, result.deferred);
        let others = openers.len() > 1 || !result.deferred && self.transport.size() > 1;
        if others || lane.is_new || leader != 0 {
            let may_drop = result.deferred && !result.names_aggregators;
            match self.agree(local, may_drop).await {
                Ok(blind) => {
                    openers::leave_out(nodes, &blind, leader, &mut aggregators);
                    openers.retain(|opener| !blind.contains(opener));
                }
                Err(error) => {
                    here.give_up();
                    return Err(error);
                }
            }
        }
        Ok(Opened { here, found, leader, aggregators, openers })
    }

    /// Lets the lowest rank that sees the place be the first to open the file; otherwise `error`
    /// is the reason.
    async fn search(
        &self,
        named: Option<&[usize]>,
        lane: &FileLane,
        here: &mut Here,
        error: &Error,
    ) -> Result<(usize, Found)> {
        let transport = &**self.transport;
        let candidate = openers::is_candidate(transport.nodes(), named, self.rank());
        let sees = candidate && self.engine.drivers().is_in_sight(&self.how(true));
        let tag = self.tags.tag(step::SEERS);
        let leader = openers::lowest_seer(transport, tag, sees).await?;
        let leader = leader.ok_or_else(|| error.clone())?;
        let found = result::tell_all(transport, self.tags.tag(step::FOUND), leader, || {
            let (driver, found) = self.lead()?;
            here.driver = Some(driver);
            here.offer(lane, true);
            Ok(found)
        });
        Ok((leader, found.await?))
    }

    /// Agrees that all openers have opened the file, but for those that do not see it, if they
    /// `may` be `dropped`; returns these.
    async fn agree(&self, local: Result<()>, may_drop: bool) -> Result<Vec<usize>> {
        let transport = &**self.transport;
        let drops = |error: &Error| may_drop && self.may_be_blind(error);
        match group::agree(transport, self.tags.tag(step::OPENED), local.clone()).await {
            Ok(()) => Ok(Vec::new()),
            Err(error) if drops(&error) => {
                let mine = match local {
                    Err(error) if drops(&error) => Ok(false),
                    local => local.map(|()| true),
                };
                openers::blind_ranks(transport, self.tags.tag(step::BLIND), mine).await
            }
            Err(error) => Err(error),
        }
    }

    /// The aggregators; `named` says whether rank 0's hints name them, which all ranks follow.
    fn choose_aggregators(&self, named: bool) -> Result<Vec<usize>> {
        if self.transport.size() == 1 {
            return Ok(vec![0]);
        }
        let hints = &*self.hints.hints;
        let list = named.then_some(&*hints.cb_config_list);
        aggregators::choose(self.transport.hosts(), list, hints.cb_nodes)
    }

    fn open_here(&self, how: &OpenHow) -> Result<Arc<dyn Driver>> {
        self.engine.drivers().open_or_less(how).map(Arc::from)
    }

    /// How this rank opens the file; the `first` one creates it.
    fn how(&self, first: bool) -> OpenHow {
        let OpenRequest { path, amode, .. } = self.request;
        let hints = &*self.hints.hints;
        OpenHow {
            path: path.clone(),
            create: first && amode.has(Amode::CREATE),
            exclusive: first && amode.has(Amode::EXCL),
            read: amode.is_readable() || hints.romio_ds_write == Switch::Enable,
            write: amode.is_writable(),
            read_is_optional: !amode.is_readable(),
            permissions: Some(hints.file_perm),
            direct_read: hints.direct_read,
            direct_write: hints.direct_write,
            verify: hints.verify(),
            striping: Striping {
                unit: hints.striping_unit,
                factor: hints.striping_factor,
                first: hints.start_iodevice,
            },
            staging: self.staging(first),
            rank: self.rank(),
        }
    }

    /// The terms on which writes are staged: only where all ranks see the stage. Otherwise the
    /// first rank stores bytes left in earlier stages, before any rank can write.
    fn staging(&self, first: bool) -> Option<Staging> {
        let hints = &*self.hints.hints;
        let is_shared = self.transport.nodes().count() == 1;
        let each = hints.aggio_defer_buffer.saturating_add(hints.aggio_defer_spill);
        let ranks = self.transport.size() as u64;
        let stages = self.request.stages.filter(|_| is_shared || first)?;
        Some(Staging {
            first: first && stages.makes,
            always: hints.aggio_defer_always,
            // Staged bytes of a file that is deleted on close are never drained later.
            drain: match self.request.amode.has(Amode::DELETE_ON_CLOSE) {
                true => Drain::Close,
                false => hints.drain(),
            },
            each,
            limit: each.saturating_mul(ranks),
            in_memory: hints.aggio_defer_buffer.saturating_mul(ranks),
            shared: is_shared,
            local: is_shared && stages.makes,
        })
    }
}

impl Here {
    /// Offers the file to the other ranks of the node, once, if they do not open it themselves.
    fn offer(&mut self, lane: &FileLane, deferred: bool) {
        if let (true, false, Some(driver)) = (deferred, self.offers, &self.driver) {
            self.offers = lane.offer(&**driver);
        }
    }

    /// Closes the file and ignores errors: the error of another rank is reported.
    fn give_up(self) {
        if let Some(driver) = self.driver {
            let _ = driver.close(Closing::Incomplete);
        }
    }
}

/// A single rank needs no facts: it makes no plans.
fn no_facts() -> Facts {
    Facts::of_bytes("")
}
