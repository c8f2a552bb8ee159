//! One rank's data in one file domain, window by window: sender and aggregator compute the same.

use aggio_base::Extent;
pub(super) use aggio_types::copy::Part;
use aggio_types::view::View;

/// Which windows a domain is worked off in: ranges of `size` bytes at multiples of `size`, cut at
/// the domain's borders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    domain: Extent,
    size: u64,
}

impl Windows {
    /// The windows of `domain`; `size` is at least 1.
    pub(super) fn new(domain: Extent, size: u64) -> Self {
        Self { domain, size: size.max(1) }
    }

    /// The bytes of the window that holds byte `offset` of the file.
    pub(super) fn around(&self, offset: u64) -> Extent {
        let start = offset - offset % self.size;
        Extent::new(start, self.size).intersect(self.domain)
    }

    /// The place of the window that holds byte `offset` among the windows of the domain.
    fn index(&self, offset: u64) -> u64 {
        offset / self.size - self.domain.offset / self.size
    }

    /// Largest number of bytes of a window.
    pub(super) fn most(&self) -> usize {
        usize::try_from(self.size.min(self.domain.len)).unwrap_or(usize::MAX)
    }
}

/// The data of one rank in one domain. The view's data is in file order, so that every window
/// takes one range of it.
#[derive(Clone, Debug)]
pub(super) struct Share {
    windows: Windows,
    next: u64,
    end: u64,
}

impl Share {
    /// The share of the domain of `windows` in `len` bytes from `position` on of the view's data.
    pub(super) fn new(view: &View, position: u64, len: u64, windows: Windows) -> Self {
        let all = position..position.saturating_add(len);
        let next = view.data_before(windows.domain.offset).clamp(all.start, all.end);
        let end = view.data_before(windows.domain.end()).clamp(next, all.end);
        Self { windows, next, end }
    }

    /// Bytes not yet taken.
    pub(super) fn left(&self) -> u64 {
        self.end - self.next
    }

    /// The place of the next window with data among the windows of the domain; windows without
    /// data are passed over.
    pub(super) fn next_window(&self, view: &View) -> Option<u64> {
        (self.next < self.end).then(|| self.windows.index(view.offset_at(self.next)))
    }

    /// Takes the data of the next window with data.
    pub(super) fn take(&mut self, view: &View) -> Option<Part> {
        if self.next >= self.end {
            return None;
        }
        let window = self.windows.around(view.offset_at(self.next));
        let upto = view.data_before(window.end()).clamp(self.next + 1, self.end);
        let part = Part { window, position: self.next, len: (upto - self.next) as usize };
        self.next = upto;
        Some(part)
    }
}
