//! Reading the logical file.

use super::descriptors::Descriptors;
use super::placed::Placed;
use super::sequencer::{Sequencer, Word};
use super::shared::Shared;
use super::verify::{Verifier, Verify};
use super::view::View;
use super::{gather, transfer};
use aggio_base::{Extent, Result};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

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
    /// Tells whether anybody wrote; `None` if it cannot be had.
    order: OnceLock<Option<Sequencer>>,
    /// How many frames there were when the logs were looked at.
    seen: AtomicU64,
    how: Verify,
    verifier: Verifier,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let files = Descriptors::new();
        let view = RwLock::new(View::load(&shared.dir, &files)?);
        let (order, seen, how) = (OnceLock::new(), AtomicU64::new(0), Verify::default());
        Ok(Self { shared, files, view, order, seen, how, verifier: Verifier::default() })
    }

    /// The same reader, which compares what it reads with checksums as `how` says; otherwise it is
    /// [`Verify::Whole`].
    ///
    /// # Errors
    ///
    /// If the logs have to be looked at for that and cannot be read.
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

    /// Opens the logs anew when they are read next, which drops what this computer keeps of them.
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

    /// Whether nobody wrote since the container was sealed.
    pub fn is_sealed(&self) -> bool {
        self.view().is_sealed()
    }

    /// Reads bytes from `offset` on; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    ///
    /// If a log cannot be read or is not what the index says; `EIO` if the checksum of bytes is
    /// wrong.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let (found, len) = {
            let view = self.view();
            let len = view.size().saturating_sub(offset).min(buffer.len() as u64);
            let range = Extent::new(offset, len);
            let found = view.find(range, &self.shared.dir, &self.files)?;
            let with_id = |number: u32| view.logs[number as usize].id;
            let found = found
                .into_iter()
                .map(|part| (part.extent, part.source.map(|(n, at)| (with_id(n), at)), part.frame));
            (found.collect::<Vec<_>>(), len as usize)
        };
        let mut wanted = Vec::with_capacity(found.len());
        let mut rest = &mut buffer[..len];
        let verify = self.how != Verify::Never;
        for (extent, source, frame) in found {
            let (part, others) = rest.split_at_mut(extent.len as usize);
            rest = others;
            match source {
                Some(source) => wanted.push(gather::Wanted::new(source, part, frame, verify)),
                None => part.fill(0),
            }
        }
        let (dir, files) = (&self.shared.dir, &self.files);
        gather::read(dir, files, &mut wanted)?;
        if verify {
            let always = self.how == Verify::Always;
            let checked = self.verifier.check(dir, files, &mut wanted, always);
            checked.map_err(|error| error.with_extent(Extent::new(offset, len as u64)))?;
        }
        Ok(len)
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
        let segment = |part: super::resolve::Found| Segment {
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
        let part = transfer::Part { id, place, len: segment.logical.len };
        transfer::copy(&self.shared.dir, &self.files, part, to, offset)
    }

    /// The pages with bytes of `range` that are changed in place, in the order of the file.
    pub(crate) fn homes(&self, range: Extent) -> Vec<Placed> {
        let mut homes: Vec<_> = self.view().homes(range).collect();
        homes.sort_unstable_by_key(|home| home.logical.offset);
        homes
    }

    /// Takes in what was written since; says whether anything changed.
    ///
    /// # Errors
    ///
    /// If the container cannot be read any more. What was known stays.
    pub fn refresh(&self) -> Result<bool> {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let dir = &self.shared.dir;
        let manifest = super::manifest::Manifest::load(dir)?;
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
