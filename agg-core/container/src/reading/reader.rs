//! Reading the logical file.

use crate::order::{Sequencer, Word};
use crate::reading::descriptors::Descriptors;
use crate::reading::placement::Placed;
use crate::reading::resolution::{Found, Piece};
use crate::reading::shared_state::Shared;
use crate::reading::verification::{Verifier, Verify};
use crate::reading::view::View;
use crate::reading::{gathered_reads, log_copy};
use aggio_base::{Extent, Result};
use std::fs::File;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// Bytes of the logical file that lie together in a log, or are zeros that nobody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which bytes of the file.
    pub logical: Extent,
    /// The id of the log and the place of the first byte there; `None` for a hole.
    pub source: Option<(u64, u64)>,
}

/// The logical file as it was when the reader was made or last refreshed.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    files: Descriptors,
    view: RwLock<View>,
    /// Shows whether anybody wrote; `None` if it cannot be opened.
    order: OnceLock<Option<Sequencer>>,
    /// How many frames there were when the logs were looked at.
    seen: AtomicU64,
    how: Verify,
    verifier: Verifier,
    /// Memory of the last lookup, for the next one.
    lookup: Mutex<Lookup>,
}

/// The results of a lookup, before bytes are read.
#[derive(Debug, Default)]
struct Lookup {
    pieces: Vec<Piece>,
    found: Vec<Found>,
    parts: Vec<Located>,
}

/// The next bytes that are read.
#[derive(Clone, Copy, Debug)]
struct Located {
    len: usize,
    /// The id of the log and the place of the first byte there; `None` for zeros.
    source: Option<(u64, u64)>,
    /// Where in the log the frame begins that has them; `NO_FRAME` if that is not known.
    frame: u64,
}

impl Located {
    /// Takes in the bytes behind these if they lie behind them in the log, too; whether they do.
    fn goes_on(&mut self, next: &Self) -> bool {
        let goes_on = match (self.source, next.source) {
            (None, None) => true,
            (Some((log, at)), Some(next)) => (log, at + self.len as u64) == next,
            _ => false,
        };
        if goes_on && self.frame == next.frame {
            self.len += next.len;
        }
        goes_on && self.frame == next.frame
    }
}

fn hull_of(ranges: &[Extent]) -> Extent {
    ranges.iter().fold(Extent::default(), |hull, range| hull.hull(*range))
}

impl Lookup {
    /// Entries for which memory is kept.
    const KEPT: usize = 1024;

    fn emptied(mut self) -> Self {
        self.parts.clear();
        self.pieces.clear();
        self.found.clear();
        self.parts.shrink_to(Self::KEPT);
        self.pieces.shrink_to(Self::KEPT);
        self.found.shrink_to(Self::KEPT);
        self
    }
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let files = Descriptors::new();
        let view = RwLock::new(View::load(&shared.dir, &files)?);
        let (order, seen, how) = (OnceLock::new(), AtomicU64::new(0), Verify::default());
        let (verifier, lookup) = (Verifier::default(), Mutex::default());
        Ok(Self { shared, files, view, order, seen, how, verifier, lookup })
    }

    /// Sets how the reader compares bytes with checksums; the default is [`Verify::Whole`].
    ///
    /// # Errors
    ///
    /// If this takes a scan of the logs and they cannot be read.
    pub fn verifying(mut self, how: Verify) -> Result<Self> {
        self.how = how;
        let view = self.view.get_mut().unwrap_or_else(PoisonError::into_inner);
        if how == Verify::Always && !view.knows_frames() {
            *view = View::scanned(view.manifest.clone(), &self.shared.dir, &self.files)?;
        }
        Ok(self)
    }

    /// The content now.
    fn load(&self) -> Result<View> {
        let view = View::load(&self.shared.dir, &self.files)?;
        if self.how == Verify::Always && !view.knows_frames() {
            return View::scanned(view.manifest, &self.shared.dir, &self.files);
        }
        Ok(view)
    }

    /// Opens the logs anew for the next read, so that this computer drops its cached pages of them.
    pub fn renew(&self) {
        self.files.forget_all();
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.view().size()
    }

    /// A sequence number that is higher than all that were seen.
    pub(crate) fn next_number(&self) -> u64 {
        self.view().next_seq
    }

    /// The generation of the manifest; it grows with every change of a container that nobody
    /// writes.
    pub fn generation(&self) -> u64 {
        self.view().manifest.generation
    }

    /// Whether the container was not written since it was sealed.
    pub fn is_sealed(&self) -> bool {
        self.view().is_sealed()
    }

    /// Reads bytes from `offset` on; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    ///
    /// If a log cannot be read or contradicts the index; `EIO` if a checksum is wrong.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let range = Extent::new(offset, buffer.len() as u64);
        self.read_ranges(buffer, &[range])
    }

    /// Reads several ranges of the file, one behind the other, into `buffer`, which has as many
    /// bytes as they together. Returns how many of these lie before the end of the file, up to the
    /// first that does not; the rest of `buffer` stays as it is.
    ///
    /// Bytes that lie close together in a log take one request, even if they belong to several
    /// ranges.
    ///
    /// # Errors
    ///
    /// As those of [`read_at`](Reader::read_at). The content of `buffer` is undefined then.
    pub fn read_ranges(&self, buffer: &mut [u8], ranges: &[Extent]) -> Result<usize> {
        let mut lookup = self.take_lookup();
        let read = self.read_located(buffer, ranges, &mut lookup);
        self.keep_lookup(lookup);
        read
    }

    fn read_located(
        &self,
        buffer: &mut [u8],
        ranges: &[Extent],
        lookup: &mut Lookup,
    ) -> Result<usize> {
        let len = self.locate(ranges, lookup)?;
        let verify = self.how != Verify::Never;
        let mut rest = &mut buffer[..len];
        let mut wanted = |part: &Located| {
            let (bytes, others) = std::mem::take(&mut rest).split_at_mut(part.len);
            rest = others;
            match part.source {
                Some(source) => {
                    Some(gathered_reads::Wanted::new(source, bytes, part.frame, verify))
                }
                None => {
                    bytes.fill(0);
                    None
                }
            }
        };
        match &lookup.parts[..] {
            [part] => wanted(part).map_or(Ok(()), |part| self.read_wanted(&mut [part])),
            parts => {
                let mut wanted: Vec<_> = parts.iter().filter_map(wanted).collect();
                self.read_wanted(&mut wanted)
            }
        }
        .map_err(|error| error.with_extent(hull_of(ranges)))?;
        Ok(len)
    }

    /// Finds out where the bytes of `ranges` lie, up to the end of the file; how many there are.
    fn locate(&self, ranges: &[Extent], lookup: &mut Lookup) -> Result<usize> {
        let Lookup { pieces, found, parts } = lookup;
        let view = self.view();
        let end = Extent::new(0, view.size());
        let mut len = 0;
        for range in ranges {
            let before = range.intersect(end);
            view.find_with(before, (&self.shared.dir, &self.files), pieces, found)?;
            for part in found.iter() {
                let source = part.source.map(|(log, at)| (view.logs[log as usize].id, at));
                let part = Located { len: part.extent.len as usize, source, frame: part.frame };
                if !parts.last_mut().is_some_and(|last| last.goes_on(&part)) {
                    parts.push(part);
                }
            }
            len += before.len as usize;
            if before.len < range.len {
                break;
            }
        }
        Ok(len)
    }

    fn read_wanted(&self, wanted: &mut [gathered_reads::Wanted<'_>]) -> Result<()> {
        let (dir, files) = (&self.shared.dir, &self.files);
        if self.how == Verify::Never {
            return gathered_reads::read(dir, files, wanted);
        }
        self.verifier.pass_over(wanted);
        gathered_reads::read(dir, files, wanted)?;
        self.verifier.check(dir, files, wanted, self.how == Verify::Always)
    }

    fn take_lookup(&self) -> Lookup {
        self.lookup.try_lock().map_or_else(|_| Lookup::default(), |mut kept| take(&mut *kept))
    }

    fn keep_lookup(&self, lookup: Lookup) {
        if let Ok(mut kept) = self.lookup.try_lock() {
            *kept = lookup.emptied();
        }
    }

    /// Where the bytes of `range` lie; only as far as the file goes.
    ///
    /// # Errors
    ///
    /// If order among overlapping pieces has to be looked up in a log that cannot be read.
    pub fn segments(&self, range: Extent) -> Result<Vec<Segment>> {
        let view = self.view();
        let range = range.intersect(Extent::new(0, view.size()));
        let found = view.find(range, &self.shared.dir, &self.files)?;
        let segment = |part: Found| Segment {
            logical: part.extent,
            source: part.source.map(|(log, place)| (view.logs[log as usize].id, place)),
        };
        Ok(found.into_iter().map(segment).collect())
    }

    /// The first byte from `at` on that may be data, or the size of the file if only a hole is
    /// left. However long a hole is, few steps lead over it.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub fn data_from(&self, at: u64) -> Result<u64> {
        let view = self.view();
        let (size, mut place, mut len) = (view.size(), at, 1_u64 << 20);
        while place < size {
            let range = Extent::new(place, len.min(size - place));
            if let Some(first) = view.first_piece(range)? {
                return Ok(first);
            }
            (place, len) = (range.end(), len.saturating_mul(4));
        }
        Ok(size)
    }

    /// Copies the bytes of a segment, as [`segments`](Reader::segments) told it, into a file, from
    /// `offset` on. Of a hole nothing is written.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or ends before them, or the file cannot be written.
    pub fn copy(&self, segment: Segment, to: &File, offset: u64) -> Result<()> {
        let Some((id, place)) = segment.source else { return Ok(()) };
        let part = log_copy::Part { id, place, len: segment.logical.len };
        log_copy::copy(&self.shared.dir, &self.files, part, to, offset)
    }

    /// The pages with bytes of `range` that are changed in place, in the order of the file.
    pub(crate) fn homes(&self, range: Extent) -> Vec<Placed> {
        let mut homes: Vec<_> = self.view().homes(range).collect();
        homes.sort_unstable_by_key(|home| home.logical.offset);
        homes
    }

    /// Takes in all writes since the last call; returns whether anything changed.
    ///
    /// # Errors
    ///
    /// If the container cannot be read any more. The reader keeps its previous state.
    pub fn refresh(&self) -> Result<bool> {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let dir = &self.shared.dir;
        let manifest = crate::format::manifest::Manifest::load(dir)?;
        if manifest != view.manifest {
            *view = self.load()?;
            return Ok(true);
        }
        let changed = view.scan(dir, &self.files)?;
        if view.is_stale() {
            *view = self.load()?;
        }
        Ok(changed)
    }

    /// As [`refresh`](Reader::refresh), but looks at the logs only if the shared counter of frames
    /// has grown.
    ///
    /// # Errors
    ///
    /// As those of `refresh`.
    pub fn catch_up(&self) -> Result<bool> {
        let order = self.order.get_or_init(|| Sequencer::watch(&self.shared.dir).ok());
        let counted = order.as_ref().filter(|order| order.is_counted().unwrap_or(false));
        let done = counted.and_then(|order| order.load(Word::Done).ok());
        let Some(done) = done else { return self.refresh() };
        // One more than the count, so that nothing is known before the first look.
        if self.seen.load(Ordering::Acquire) == done.wrapping_add(1) {
            return Ok(false);
        }
        let changed = self.refresh()?;
        self.seen.store(done.wrapping_add(1), Ordering::Release);
        Ok(changed)
    }

    fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }
}
