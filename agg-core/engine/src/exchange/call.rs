//! State of a two-phase call with messages from rank to rank, shared by its write and read code.

use super::plan_cache::{self, Lesson, Repeat};
use super::share::Windows;
use super::{Direction, Request, Scene, node, step};
use aggio_base::error::Result;
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_comm::transport::{self, LockGuard};
use aggio_plan::plan::{self, Domains, Summary};
use std::sync::{Mutex, PoisonError};

/// A two-phase call in progress.
pub(super) struct Call<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) request: Request<'a>,
    pub(super) tags: &'a TagBlock,
    pub(super) all: &'a [Summary],
    pub(super) domains: Domains,
    pub(super) window: u64,
    /// The past call that this one repeats; its plan is reused.
    pub(super) repeat: Option<&'a Repeat>,
    /// Requests of the ranks with data in this rank's domain.
    pub(super) learned: Mutex<Vec<Option<plan_cache::Known>>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        scene: Scene<'a>,
        request: Request<'a>,
        tags: &'a TagBlock,
        all: &'a [Summary],
        repeat: Option<&'a Repeat>,
    ) -> Self {
        let premises = node::premises(&scene);
        let (hull, count) = (Summary::hull(all), scene.aggregators.len());
        let domains = Domains::new(hull, count, premises.unit, premises.least);
        let domains = premises.refine(domains, None);
        let window = plan::window_size(all, scene.hints.cb_buffer_size);
        let repeat = repeat.filter(|repeat| repeat.peers(&domains).is_some());
        let learned = Mutex::default();
        Self { scene, request, tags, all, domains, window, repeat, learned }
    }

    /// The requests received in this call, for the plan cache; `None` if it repeats a past call.
    pub(super) fn into_lesson(self) -> Option<Lesson> {
        if self.repeat.is_some() {
            return None;
        }
        let learned = self.learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        Lesson::peers(self.domains, learned)
    }

    pub(super) fn rank(&self) -> usize {
        self.scene.transport.rank()
    }

    pub(super) fn windows(&self, domain: usize) -> Windows {
        Windows::new(self.domains.extent(domain), self.window)
    }

    /// The domain that this rank is the aggregator of.
    pub(super) fn own_domain(&self) -> Option<usize> {
        let own = self.scene.aggregators.iter().position(|rank| *rank == self.rank());
        own.filter(|domain| *domain < self.domains.count())
    }

    /// The domains of other aggregators in which this rank's request may have bytes.
    pub(super) fn foreign_domains(&self) -> impl Iterator<Item = usize> + '_ {
        let span = self.all[self.rank()].span;
        let own = self.own_domain();
        self.domains.touched_by(span).filter(move |domain| Some(*domain) != own)
    }

    /// Bytes that messages under way may take on this rank, in each role.
    pub(super) fn budget(&self) -> usize {
        usize::try_from(self.window.saturating_mul(2)).unwrap_or(usize::MAX)
    }

    pub(super) fn tag(&self, step: u32) -> u32 {
        self.tags.tag(step)
    }

    /// In atomic mode, makes the call one whole against independent accesses: the first aggregator
    /// holds a lock on all bytes concerned until everybody has finished.
    pub(super) async fn lock(&self, direction: Direction) -> Result<Option<Box<dyn LockGuard>>> {
        let Some(locks) = self.scene.atomic else { return Ok(None) };
        let mut lock = Ok(None);
        if self.scene.aggregators.first() == Some(&self.rank()) {
            let hull = Summary::hull(self.all);
            lock = transport::lock(locks, hull, direction == Direction::Write).await.map(Some);
        }
        let (lock, local) = match lock {
            Ok(lock) => (lock, Ok(())),
            Err(error) => (None, Err(error)),
        };
        group::agree(self.scene.transport, self.tag(step::LOCKED), local).await?;
        Ok(lock)
    }
}
