//! Which bytes of a file are staged: a state of each page, and a bit of each byte where a page is
//! staged in part.
//!
//! All processes share the memory. They store into it while they hold the lock of accesses shared,
//! and clear parts of it while they hold it alone (`locks.rs`). A killed process leaves
//! nothing half done: a byte is staged once its bit, or the state of its page, says so.

use super::words::{Words, allocate};
use aggio_base::Extent;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Bytes of a file that are drained together.
pub(super) const DOMAIN: u64 = aggio_plan::plan::cost::STAGED_REQUEST;
/// Bytes behind this place are not staged.
pub(super) const MAX: u64 = 1 << 43;

/// Bytes that share one state.
pub(super) const PAGE: u64 = 4096;
/// Bytes with places that are mapped at once.
const WINDOW: u64 = 256 << 20;

/// Places in the file of places: the head, records of domains, states, bits.
const RECORDS: u64 = PAGE;
const RECORD: u64 = 16;
const STATES: u64 = 1 << 30;
const BITS: u64 = 4 << 30;
/// Bytes of the file of places.
const LENGTH: u64 = BITS + MAX / 8;

/// Words of the head.
const EPOCH: u64 = 0;
const END: u64 = 8;
const HELD: u64 = 16;

/// States of a page.
const NONE: u8 = 0;
const FULL: u8 = 1;
const PART: u8 = 2;

/// The map of staged bytes.
pub(super) struct Places {
    file: File,
    head: Words,
    windows: RwLock<BTreeMap<u64, Arc<Window>>>,
}

/// The places of [`WINDOW`] bytes.
struct Window {
    states: Words,
    bits: Words,
    backed: Mutex<Backed>,
}

/// Which parts of the memory have storage, as far as this process knows.
#[derive(Default)]
struct Backed {
    /// Bits that were punched in a later epoch have none.
    epoch: u64,
    bits: BTreeSet<u64>,
    states: [bool; (WINDOW / PAGE / PAGE) as usize],
}

impl Places {
    /// Gives an empty `file` its length.
    ///
    /// # Errors
    /// `EFBIG` where the size of files is limited, without the signal that goes with it; otherwise
    /// the error of the system call.
    pub(super) fn init(file: &File) -> io::Result<()> {
        if aggio_base::os::largest_file() < LENGTH {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        aggio_base::os::ftruncate(file.as_raw_fd(), LENGTH)?;
        allocate(file, Extent::new(0, PAGE))
    }

    /// The places that are in `file`. One of another length is damaged: behind its end there is no
    /// memory.
    pub(super) fn open(file: File) -> io::Result<Self> {
        if file.metadata()?.len() != LENGTH {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let records = MAX / DOMAIN * RECORD;
        let head = Words::map(&file, Extent::new(0, RECORDS + records))?;
        Ok(Self { file, head, windows: RwLock::default() })
    }

    fn window(&self, offset: u64) -> io::Result<Arc<Window>> {
        let number = offset / WINDOW;
        let poisoned = PoisonError::into_inner;
        if let Some(window) = self.windows.read().unwrap_or_else(poisoned).get(&number) {
            return Ok(Arc::clone(window));
        }
        let states = Extent::new(STATES + number * WINDOW / PAGE, WINDOW / PAGE);
        let bits = Extent::new(BITS + number * WINDOW / 8, WINDOW / 8);
        let window = Arc::new(Window {
            states: Words::map(&self.file, states)?,
            bits: Words::map(&self.file, bits)?,
            backed: Mutex::default(),
        });
        self.windows.write().unwrap_or_else(|all| all.into_inner()).insert(number, window.clone());
        Ok(window)
    }

    /// The end of the last byte that was ever staged, or of the file since it was cut.
    pub(super) fn end(&self) -> u64 {
        self.head.word(END).load(Acquire)
    }

    /// The file was cut: nothing is staged any more.
    pub(super) fn cut(&self, size: u64) {
        self.head.word(END).fetch_min(size, AcqRel);
    }

    /// Bytes that were staged and are not drained, those that were staged twice counted twice.
    pub(super) fn held(&self) -> u64 {
        self.head.word(HELD).load(Relaxed)
    }

    fn dirty(&self, domain: u64) -> &std::sync::atomic::AtomicU32 {
        self.head.half(RECORDS + domain * RECORD)
    }

    fn touched(&self, domain: u64) -> &std::sync::atomic::AtomicU32 {
        self.head.half(RECORDS + domain * RECORD + 4)
    }

    fn held_in(&self, domain: u64) -> &AtomicU64 {
        self.head.word(RECORDS + domain * RECORD + 8)
    }

    /// Whether bytes of a domain are staged.
    pub(super) fn is_dirty(&self, domain: u64) -> bool {
        domain * DOMAIN < self.end() && self.dirty(domain).load(Acquire) != 0
    }

    /// The domains with staged bytes.
    pub(super) fn dirty_domains(&self) -> Vec<u64> {
        let all = 0..self.end().div_ceil(DOMAIN);
        all.filter(|domain| self.dirty(*domain).load(Acquire) != 0).collect()
    }

    /// How often bytes of a domain were staged; it changes before a byte does.
    pub(super) fn version(&self, domain: u64) -> u32 {
        self.touched(domain).load(Acquire)
    }

    /// Makes room for the places of `extent`, which is not empty and ends at [`MAX`] at the latest,
    /// and announces that its bytes change.
    pub(super) fn prepare(&self, extent: Extent) -> io::Result<()> {
        if extent.end() > self.end() {
            let records = Extent::between(self.end(), extent.end());
            allocate(
                &self.file,
                pages(Extent::between(
                    RECORDS + records.offset / DOMAIN * RECORD,
                    RECORDS + (extent.end() - 1) / DOMAIN * RECORD + RECORD,
                )),
            )?;
        }
        let epoch = self.head.word(EPOCH).load(Acquire);
        for part in parts(extent, WINDOW) {
            let window = self.window(part.offset)?;
            window.back(&self.file, part, epoch)?;
        }
        for domain in extent.offset / DOMAIN..extent.end().div_ceil(DOMAIN) {
            self.touched(domain).fetch_add(1, AcqRel);
        }
        Ok(())
    }

    /// The bytes of `extent`, which was prepared, are staged from now on.
    ///
    /// The domain is announced before the first byte. Where a killed process has left a byte of a
    /// write that it never acknowledged, later writes are therefore staged, too, and replace it.
    pub(super) fn add(&self, extent: Extent) -> io::Result<()> {
        for part in parts(extent, DOMAIN) {
            let window = self.window(part.offset)?;
            self.announce(part);
            parts(part, PAGE).for_each(|piece| window.add(piece));
        }
        Ok(())
    }

    /// Bytes of `part`, which is in one domain, may be staged from now on.
    fn announce(&self, part: Extent) {
        let domain = part.offset / DOMAIN;
        self.held_in(domain).fetch_add(part.len, Relaxed);
        self.head.word(HELD).fetch_add(part.len, Relaxed);
        self.head.word(END).fetch_max(part.end(), AcqRel);
        self.dirty(domain).store(1, Release);
    }

    /// Whether a byte of `extent` may be staged, to the granularity of a domain.
    pub(super) fn may_have(&self, extent: Extent) -> bool {
        let last = extent.end().min(self.end()).div_ceil(DOMAIN);
        (extent.offset / DOMAIN..last).any(|domain| self.dirty(domain).load(Acquire) != 0)
    }

    /// Calls `found` with the runs of bytes of `extent` that are staged, in order.
    pub(super) fn runs(&self, extent: Extent, found: &mut dyn FnMut(Extent)) -> io::Result<()> {
        let mut run = Extent::default();
        let mut add = |next: Extent| {
            if !run.is_empty() && run.end() == next.offset {
                run.len += next.len;
                return;
            }
            if !run.is_empty() {
                found(run);
            }
            run = next;
        };
        for part in parts(extent.intersect(Extent::new(0, self.end())), DOMAIN) {
            if self.is_dirty(part.offset / DOMAIN) {
                let window = self.window(part.offset)?;
                parts(part, PAGE).for_each(|piece| window.runs(piece, &mut add));
            }
        }
        if !run.is_empty() {
            found(run);
        }
        Ok(())
    }

    /// Clears the map of a domain. No other process looks at it meanwhile.
    ///
    /// The domain counts as dirty until nothing is left of its bytes.
    pub(super) fn clear(&self, domain: u64) -> io::Result<()> {
        let extent = Extent::new(domain * DOMAIN, DOMAIN);
        self.clear_states(extent)?;
        // The next process that stores there must not find old bits.
        self.head.word(EPOCH).fetch_add(1, AcqRel);
        let bits = Extent::new(BITS + extent.offset / 8, DOMAIN / 8);
        aggio_base::os::punch(self.file.as_raw_fd(), bits)?;
        let held = self.held_in(domain).swap(0, Relaxed);
        self.head.word(HELD).fetch_sub(held, Relaxed);
        self.dirty(domain).store(0, Release);
        Ok(())
    }

    fn clear_states(&self, domain: Extent) -> io::Result<()> {
        let window = self.window(domain.offset)?;
        for page in domain.offset / PAGE..domain.end() / PAGE {
            window.states.byte(STATES + page).store(NONE, Release);
        }
        Ok(())
    }

    /// The state after a process was killed while it cleared a domain.
    #[cfg(test)]
    pub(super) fn clear_in_part(&self, domain: u64) {
        self.clear_states(Extent::new(domain * DOMAIN, DOMAIN)).unwrap();
    }

    /// The state after a process was killed before the first byte of a write was staged.
    #[cfg(test)]
    pub(super) fn add_in_part(&self, extent: Extent) {
        self.prepare(extent).unwrap();
        self.announce(extent);
    }
}

impl Window {
    /// Gives the places of `part` storage.
    fn back(&self, file: &File, part: Extent, epoch: u64) -> io::Result<()> {
        let mut backed = self.backed.lock().unwrap_or_else(PoisonError::into_inner);
        if backed.epoch != epoch {
            backed.epoch = epoch;
            backed.bits.clear();
        }
        let states = pages(Extent::between(part.offset / PAGE, part.end().div_ceil(PAGE)));
        for at in (states.offset..states.end()).step_by(PAGE as usize) {
            let known = &mut backed.states[(at % (WINDOW / PAGE) / PAGE) as usize];
            if !*known {
                allocate(file, Extent::new(STATES + at, PAGE))?;
                *known = true;
            }
        }
        // Only the first and the last page can be staged in part.
        let first = (!part.offset.is_multiple_of(PAGE)).then_some(part.offset);
        let last = (!part.end().is_multiple_of(PAGE)).then(|| part.end() - 1);
        for byte in first.into_iter().chain(last) {
            let at = byte / 8 / PAGE * PAGE;
            if backed.bits.insert(at)
                && let Err(error) = allocate(file, Extent::new(BITS + at, PAGE))
            {
                backed.bits.remove(&at);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The bytes of `piece`, which are those of one page, are staged.
    fn add(&self, piece: Extent) {
        let state = self.states.byte(STATES + piece.offset / PAGE);
        if piece.len == PAGE {
            state.store(FULL, Release);
            return;
        }
        if state.load(Acquire) == FULL {
            return;
        }
        for part in parts(piece, 64) {
            let mask = (u64::MAX >> (64 - part.len)) << (part.offset % 64);
            self.bits.word(BITS + part.offset / 64 * 8).fetch_or(mask, AcqRel);
        }
        // Another one may have staged the whole page meanwhile.
        let _ = state.compare_exchange(NONE, PART, AcqRel, Acquire);
    }

    /// Calls `found` with the runs of `piece`, which is in one page.
    fn runs(&self, piece: Extent, found: &mut dyn FnMut(Extent)) {
        match self.states.byte(STATES + piece.offset / PAGE).load(Acquire) {
            NONE => {}
            PART => parts(piece, 64).for_each(|part| {
                let word = self.bits.word(BITS + part.offset / 64 * 8).load(Acquire);
                each_run(word, part, found);
            }),
            _ => found(piece),
        }
    }
}

/// Calls `found` with the runs of set bits of `word` that are those of the bytes of `part`.
fn each_run(word: u64, part: Extent, found: &mut dyn FnMut(Extent)) {
    let mut bits = (word >> (part.offset % 64)) & (u64::MAX >> (64 - part.len));
    let mut at = part.offset;
    while bits != 0 {
        let gap = bits.trailing_zeros();
        bits >>= gap;
        at += u64::from(gap);
        let len = bits.trailing_ones();
        found(Extent::new(at, u64::from(len)));
        bits = bits.checked_shr(len).unwrap_or(0);
        at += u64::from(len);
    }
}

/// Splits `extent` at the multiples of `unit`.
pub(super) fn parts(extent: Extent, unit: u64) -> impl Iterator<Item = Extent> {
    let mut rest = extent;
    std::iter::from_fn(move || {
        let len = (unit - rest.offset % unit).min(rest.len);
        let part = Extent::new(rest.offset, len);
        rest = Extent::new(rest.offset + len, rest.len - len);
        (!part.is_empty()).then_some(part)
    })
}

/// The pages that hold `extent`.
fn pages(extent: Extent) -> Extent {
    Extent::between(extent.offset / PAGE * PAGE, extent.end().next_multiple_of(PAGE))
}

#[cfg(test)]
mod tests;
