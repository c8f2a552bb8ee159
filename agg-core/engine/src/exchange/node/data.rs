//! The data of this rank in a call, part by part: of a window, or outside all windows.

use super::super::Request;
use super::super::share::Part;
use aggio_base::Extent;
use aggio_plan::plan::chunks::Exchanged;
use aggio_types::copy::Data;

/// In how many pieces a rank copies its part of a window.
const TURNS: u64 = 4;

/// This rank's request, and its division among windows.
#[derive(Clone, Copy)]
pub(super) struct OwnData<'a> {
    request: Request<'a>,
    /// The part of the file that goes through windows; `None` if the entire call does.
    exchanged: Option<&'a Exchanged>,
    /// This rank's place among the members of its node.
    index: usize,
}

impl<'a> OwnData<'a> {
    /// The data of `request`, of which `exchanged` goes through windows, of member `index`.
    pub(super) fn new(
        request: Request<'a>,
        exchanged: Option<&'a Exchanged>,
        index: usize,
    ) -> Self {
        Self { request, exchanged, index }
    }

    /// The request.
    pub(super) fn request(&self) -> Request<'a> {
        self.request
    }

    /// This rank's data, for copying.
    pub(super) fn data(&self) -> Data<'a> {
        let Request { view, position, memory } = self.request;
        Data { view, position, memory }
    }

    /// The number of this rank's bytes before file byte `offset`: a view's data is in file order.
    pub(super) fn bytes_below(&self, offset: u64) -> u64 {
        let before = self.request.view.data_before(offset);
        before.saturating_sub(self.request.position).min(self.request.len())
    }

    /// This rank's data in `extent`: a range of its view's data.
    pub(super) fn part(&self, extent: Extent) -> Part {
        let Request { view, position, .. } = self.request;
        let end = position.saturating_add(self.request.len());
        let first = view.data_before(extent.offset).clamp(position, end);
        let last = view.data_before(extent.end()).clamp(first, end);
        Part { window: extent, position: first, len: (last - first) as usize }
    }

    /// This rank's data in `window` that goes through windows, in order.
    pub(super) fn parts(&self, window: Extent) -> impl Iterator<Item = Part> + use<'_, 'a> {
        let all = self.exchanged.is_none().then_some(window);
        let some = self.exchanged.into_iter().flat_map(move |exchanged| exchanged.parts(window));
        let parts = all.into_iter().chain(some).map(|extent| self.part(extent));
        parts.filter(|part| part.len > 0).map(move |part| Part { window, ..part })
    }

    /// The data of this rank in `window`, in several pieces. Each member begins with a different
    /// piece, so that members that use one window at the same time stay out of each other's cache
    /// lines.
    pub(super) fn in_turn(&self, window: Extent) -> impl Iterator<Item = Part> + use<'_, 'a> {
        let step = window.len.div_ceil(TURNS).max(1);
        let first = self.index as u64;
        (first..first + TURNS).flat_map(move |turn| {
            let start = window.offset + turn % TURNS * step;
            let parts = self.parts(Extent::between(start, start + step).intersect(window));
            parts.map(move |part| Part { window, ..part })
        })
    }
}
