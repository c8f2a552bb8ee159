//! The request of one rank in a collective call, and the summary that it sends to the others.

use super::plan_cache::{Kept, Outline};
use super::{Direction, Scene};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_plan::plan::Summary;
use aggio_plan::plan::cost::Costs;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::borrow::Cow;

/// A request of this rank: it reads or writes as many bytes as `memory` has.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The view in force.
    pub view: &'a View,
    /// First byte, counted in the view's data.
    pub position: u64,
    /// The caller's buffer.
    pub memory: &'a Memory,
}

impl Request<'_> {
    /// Data bytes in a row, from `position` of the view on, in one piece.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for a copy.
    pub(super) fn packed(&self, position: u64, len: usize) -> Result<Cow<'_, [u8]>> {
        let start = position - self.position;
        if let Some(all) = self.memory.as_slice() {
            let start = start as usize;
            return Ok(Cow::Borrowed(&all[start..start + len]));
        }
        let mut bytes = aggio_base::allocate::zeros(len)?;
        self.memory.gather(start, &mut bytes);
        Ok(Cow::Owned(bytes))
    }

    /// Data bytes; a view that shows no byte takes none.
    pub(super) fn len(&self) -> u64 {
        if self.view.is_empty() { 0 } else { self.memory.len() }
    }

    /// Rejects a request that no file can hold, before other ranks depend on it.
    pub(super) fn checked(self, direction: Direction) -> Result<Self> {
        let len = self.len();
        if direction == Direction::Write && len < self.memory.len() {
            let why = "the file view ends before the data does";
            return Err(Error::new(ErrorClass::Arg, why));
        }
        let last = self.position.checked_add(len.max(1) - 1);
        // Offsets saturate: data at the largest one may lie anywhere behind it.
        let fits = |last: u64| len == 0 || self.view.offset_at(last) < i64::MAX as u64;
        if last.is_some_and(fits) {
            return Ok(self);
        }
        let detail =
            format!("{len} bytes at byte {} of the view are beyond any file", self.position);
        Err(Error::new(ErrorClass::Arg, detail))
    }

    /// A view, and the position in it, that aggregators can serve although this one is not such.
    pub(super) fn ascending(&self) -> Option<(View, u64)> {
        self.view.ascending_at(self.position, self.len())
    }
}

/// This rank's summary, from the plan cache if possible.
pub(super) fn recalled_summary(
    request: &Result<Request<'_>>,
    kind: u8,
    recalled: Option<(Outline, &Kept)>,
) -> Summary {
    let Some((outline, kept)) = recalled else { return summary(request, kind) };
    let anew = || Summary { past: kept.number(), ..summary(request, kind) };
    kept.summary(&outline, kind).unwrap_or_else(anew)
}

/// This rank's summary.
pub(super) fn summary(request: &Result<Request<'_>>, kind: u8) -> Summary {
    let Ok(request) = request else {
        return Summary { failed: true, kind, ..Summary::default() };
    };
    let bytes = request.len();
    if bytes == 0 {
        return Summary { kind, ..Summary::default() };
    }
    Summary::of(request.view, request.position, bytes, kind)
}

/// The costs of requests to the file, as far as this rank has measured them.
pub(super) fn figures(scene: Scene<'_>, direction: Direction) -> Costs {
    match (scene.driver.meter(), direction) {
        (Some(meter), Direction::Read) => meter.reads.figures(),
        (Some(meter), Direction::Write) => meter.writes.figures(),
        (None, _) => Costs::assumed(&scene.facts.file_system),
    }
}
