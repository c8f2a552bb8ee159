//! The memory of the program that maps containers: copies, which never become writable, because
//! stores to them would be lost, and live mappings, which consist of pages of logs.

use super::super::lock::{Guard, Lock, Locked};
use super::table::OpenContainer;
use agg_core::Extent;
use agg_core::blob::Placed;
use libc::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a page of this machine.
pub(super) fn page_size() -> usize {
    // SAFETY: a plain number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// All areas of the process.
struct Areas {
    list: Locked<Vec<Area>>,
    /// How many there are, and how many of them are live.
    count: AtomicUsize,
    live: AtomicUsize,
    /// Held while live mappings are mapped anew, and while areas go.
    change: Lock,
}

impl Areas {
    /// None.
    const fn new() -> Self {
        let (count, live) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { list: Locked::new(Vec::new()), count, live, change: Lock::new() }
    }
}

static AREAS: Areas = Areas::new();

/// Pages of memory that stand for bytes of a container.
#[derive(Clone)]
pub(super) struct Area {
    pub(super) pages: Range<usize>,
    /// `None` for a copy.
    pub(super) live: Option<Live>,
}

/// The bytes that a live mapping shows.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) open: &'static OpenContainer,
    /// The byte of the file at the first address.
    pub(super) offset: u64,
    pub(super) protection: c_int,
    /// The size of the file when the pages were mapped.
    pub(super) size: u64,
    /// Which pages are which of a log; behind the end of the file there are none.
    pub(super) placed: Vec<Placed>,
}

impl Area {
    /// The part of it that lies in `range`.
    fn part(&self, range: Range<usize>) -> Option<Area> {
        let pages = self.pages.start.max(range.start)..self.pages.end.min(range.end);
        let mut part = self.clone();
        if let Some(live) = &mut part.live {
            live.offset += pages.start.saturating_sub(self.pages.start) as u64;
            let bytes = Extent::new(live.offset, pages.len() as u64);
            live.placed = live.placed.iter().filter_map(|placed| placed.part(bytes)).collect();
        }
        part.pages = pages;
        (part.pages.start < part.pages.end).then_some(part)
    }

    fn meets(&self, range: &Range<usize>) -> bool {
        self.pages.start < range.end && range.start < self.pages.end
    }
}

/// The pages of `len` bytes at `start`.
pub(super) fn pages(start: usize, len: usize) -> Range<usize> {
    let len = len.checked_next_multiple_of(page_size()).unwrap_or(usize::MAX);
    start..start.saturating_add(len)
}

/// Lets `act` use the list; `None` in a signal handler that interrupted this.
fn with<T>(act: impl FnOnce(&mut Vec<Area>) -> T) -> Option<T> {
    AREAS.list.with(|list| {
        let done = act(list);
        AREAS.count.store(list.len(), Relaxed);
        AREAS.live.store(list.iter().filter(|area| area.live.is_some()).count(), Relaxed);
        done
    })
}

/// Memory stands for bytes of a container from now on.
pub(super) fn add(area: Area) {
    with(|list| list.push(area));
}

/// The live mappings of the container with this identity.
pub(super) fn live_on(identity: (u64, u64)) -> Vec<(Range<usize>, Live)> {
    let of = |area: &Area| {
        let live = area.live.as_ref().filter(|live| live.open.identity == identity);
        live.map(|live| (area.pages.clone(), live.clone()))
    };
    with(|list| list.iter().filter_map(of).collect()).unwrap_or_default()
}

/// Whether any page of a range belongs to a copy.
pub fn has_copies(start: usize, len: usize) -> bool {
    let range = pages(start, len);
    let copy = |area: &Area| area.live.is_none() && area.meets(&range);
    AREAS.count.load(Relaxed) != 0 && with(|list| list.iter().any(copy)).unwrap_or(true)
}

/// Whether there is any live mapping.
#[inline]
pub(super) fn any_live() -> bool {
    AREAS.live.load(Relaxed) != 0
}

/// The live mappings in a range of memory.
pub(super) fn live_in(start: usize, len: usize) -> Vec<Area> {
    if !any_live() {
        return Vec::new();
    }
    let range = pages(start, len);
    let live = |area: &&Area| area.live.is_some() && area.meets(&range);
    with(|list| list.iter().filter(live).cloned().collect()).unwrap_or_default()
}

/// The files of all live mappings, each at least once.
pub(super) fn live() -> Vec<&'static OpenContainer> {
    let open = |area: &Area| Some(area.live.as_ref()?.open);
    with(|list| list.iter().filter_map(open).collect()).unwrap_or_default()
}

/// Whether `open` has a live mapping.
pub(super) fn has_live(open: &OpenContainer) -> bool {
    any_live_of(|other| std::ptr::eq(other, open))
}

/// Whether anything of the container with this identity is mapped live.
pub(super) fn has_live_on(identity: (u64, u64)) -> bool {
    any_live_of(|open| open.identity == identity)
}

fn any_live_of(wanted: impl Fn(&OpenContainer) -> bool) -> bool {
    let is = |area: &Area| area.live.as_ref().is_some_and(|live| wanted(live.open));
    any_live() && with(|list| list.iter().any(is)).unwrap_or(false)
}

/// Records what the live mapping of these pages shows now, if the mapping still exists.
pub(super) fn show(pages: &Range<usize>, now: Live) {
    with(|list| {
        if let Some(area) = list.iter_mut().find(|area| area.pages == *pages) {
            area.live = Some(now);
        }
    });
}

/// Pages of live mappings in a range have another protection from now on.
pub(super) fn protect(start: usize, len: usize, protection: c_int) {
    if any_live() {
        with(|list| {
            let mut inside = take(list, pages(start, len));
            let live = inside.iter_mut().filter_map(|area| area.live.as_mut());
            live.for_each(|live| live.protection = protection);
            list.extend(inside);
        });
    }
}

/// The pages of a range are something else, or nothing, from now on; the files that have no live
/// mapping any more.
pub(super) fn forget(start: usize, len: usize) -> Vec<&'static OpenContainer> {
    if AREAS.count.load(Relaxed) == 0 {
        return Vec::new();
    }
    let _held = hold();
    let gone = with(|list| take(list, pages(start, len))).unwrap_or_default();
    let mut opens: Vec<_> = gone.iter().filter_map(|area| Some(area.live.as_ref()?.open)).collect();
    let rest = live();
    opens.retain(|open| !rest.iter().any(|other| std::ptr::eq(*other, *open)));
    opens.sort_unstable_by_key(|open| std::ptr::from_ref(*open));
    opens.dedup_by(|a, b| std::ptr::eq(*a, *b));
    opens
}

/// Takes the parts of all areas that lie in `range` out of the list.
fn take(list: &mut Vec<Area>, range: Range<usize>) -> Vec<Area> {
    let (inside, rest): (Vec<_>, Vec<_>) =
        std::mem::take(list).into_iter().partition(|area| area.meets(&range));
    *list = rest;
    for area in &inside {
        let around = [0..range.start, range.end..usize::MAX];
        list.extend(around.into_iter().filter_map(|side| area.part(side)));
    }
    inside.iter().filter_map(|area| area.part(range.clone())).collect()
}

/// In a child after `fork`: releases the locks, because their owners exist only in the parent.
pub(super) fn in_child() {
    // SAFETY: a child has one thread.
    unsafe { AREAS.list.in_child(|_, _| ()) };
    AREAS.change.release();
}

/// Locks the list of live mappings, so that they stay at their addresses; `None` in a signal
/// handler that interrupted the owner of the lock.
pub(super) fn hold() -> Option<Guard<'static>> {
    AREAS.change.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unmapped_of_a_copy_is_none_any_more() {
        const HIGH: usize = 1 << 40;
        add(Area { pages: pages(HIGH, 10 * 4096 - 5), live: None });
        assert!(has_copies(HIGH + 9 * 4096, 1) && !has_copies(HIGH + 10 * 4096, 100));
        forget(HIGH + 2 * 4096, 4096);
        assert!(!has_copies(HIGH + 2 * 4096, 4096));
        assert!(has_copies(HIGH + 4096, 1) && has_copies(HIGH + 3 * 4096, 1));
        forget(HIGH, 10 * 4096);
        assert!(!has_copies(HIGH, 10 * 4096));
    }
}
