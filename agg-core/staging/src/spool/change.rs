//! Changes of files by processes that buffer writes in spools. Such a change is recorded in the
//! slots that other processes have of the same file. Any other change was made by somebody else,
//! and bytes kept before it belong to a file that is gone.

use super::is_spool;
use super::layout::{HEAD, Head, SlotHead};
use super::reading::{SlotCopy, each_slot};
use super::stored::Stored;
use super::version::{Version, coarse, nanoseconds, now, time_of};
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::RawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long after its announcement a change may be made that its maker does not live to record, in
/// nanoseconds.
const GRACE: u64 = 2_000_000_000;
/// How long after a change the time of a directory may still be that of another change, in
/// nanoseconds, with room.
const SETTLED: u64 = 12_000_000;

/// How many looks of a process at the spools of others are not rough.
const CAREFUL: u32 = 64;

/// Until when a change that is announced now may be made.
pub(super) fn deadline() -> u64 {
    now().saturating_add(GRACE)
}

/// The other spool files of this user, as far as they are known.
#[derive(Debug)]
pub struct Others {
    directory: PathBuf,
    own: PathBuf,
    /// When names last changed in the directory.
    seen: Option<(i64, i64)>,
    heads: Vec<(PathBuf, Mapped)>,
    /// The tick of the clock at the last rough look.
    looked: u64,
    /// How many more looks are not rough.
    careful: u32,
}

/// The mapped head of a spool file.
#[derive(Debug)]
struct Mapped(NonNull<Head>);

// SAFETY: all that is read in it is atomic, and it stays mapped as long as the value lives.
unsafe impl Send for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), HEAD) };
    }
}

impl Mapped {
    fn new(file: &File) -> Option<Self> {
        use std::os::fd::AsRawFd;
        if file.metadata().ok()?.len() < HEAD as u64 {
            return None;
        }
        let (fd, none) = (file.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(none, HEAD, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(Mapped)
    }

    /// Whether the spool may have a slot of the file; if not, it has none.
    fn may_have(&self, inode: u64) -> bool {
        // SAFETY: the mapping is as large as a head.
        let files = unsafe { &self.0.as_ref().files };
        let (word, bit) = filter(inode);
        files[word].load(Relaxed) & bit != 0
    }
}

/// Where a head says that there was a slot of the file with this inode.
pub(super) fn filter(inode: u64) -> (usize, u64) {
    let mixed = inode.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55;
    ((mixed / 64) as usize % super::layout::FILTER, 1 << (mixed % 64))
}

/// A slot with bytes of a file.
#[derive(Debug)]
pub(super) struct Place {
    spool: File,
    slot: SlotCopy,
}

impl Place {
    /// This slot.
    pub(super) fn new(spool: &File, slot: &SlotCopy) -> Option<Self> {
        Some(Self { spool: spool.try_clone().ok()?, slot: slot.clone() })
    }

    pub(super) fn stamp(&self) -> u64 {
        self.slot.word(offset_of!(SlotHead, stamp))
    }

    fn set_version(&self, version: Version) {
        let at = self.slot.place_of(offset_of!(SlotHead, stamp));
        let fields = [version.stamp().to_ne_bytes(), version.size.to_ne_bytes()];
        // An error is harmless: the owner of the spool file has ended meanwhile.
        let _ = self.spool.write_all_at(fields.as_flattened(), at);
    }

    /// The length that the file has at least, if the owner of this slot was writing to it and may
    /// have made the version `now`, which the slot does not record. That requires that the file was
    /// not changed long after the owner began; that it holds the first of the bytes that the owner
    /// was writing, in the order of writing, and at least those that were recorded as written; and
    /// that these are not zeros alone, which a hole has, too, or have made the file longer.
    fn reached(&self, file: &File, now: Version) -> Option<u64> {
        let before = self.slot.word(offset_of!(SlotHead, size));
        if now.ctime > self.slot.word(offset_of!(SlotHead, until)) || now.size < before {
            return None;
        }
        // A damaged slot proves nothing.
        let pieces = self.slot.pieces(&self.spool).ok()?;
        let stored = Stored::of(file, &pieces, self.slot.stored())?;
        (stored.nonzero || stored.end > before).then_some(before.max(stored.end))
    }
}

const _: () = assert!(offset_of!(SlotHead, size) == offset_of!(SlotHead, stamp) + 8);

/// The [time](time_of) since which only the owners of `places` have changed the file: that of the
/// earliest version in a slot that records `now`, or in one with an owner that was at work and has
/// [written](Place::reached) to the file. If no slot records `now`, an owner at work must have made
/// the file as long as it is. Owners with a version of that time or a later one may write.
pub(super) fn since(places: &[Place], file: &File, now: Version) -> Option<u64> {
    let (mut since, mut at_work, mut longest) = (None, None, 0);
    let earlier = |known: Option<u64>, stamp| Some(known.unwrap_or(u64::MAX).min(time_of(stamp)));
    for place in places.iter().filter(|place| place.stamp() != 0) {
        if place.stamp() == now.stamp() {
            since = earlier(since, place.stamp());
        } else if let Some(reached) = place.reached(file, now) {
            at_work = earlier(at_work, place.stamp());
            longest = longest.max(reached);
        }
    }
    // An owner at work may have made the file longer than `now` says.
    let is_explained = since.is_some() || now.size <= longest;
    [since, at_work.filter(|_| is_explained)].into_iter().flatten().min()
}

/// A change under way of a file with bytes in other spools.
#[derive(Debug)]
pub struct Change {
    identity: [u64; 2],
    /// The version before.
    before: u64,
}

impl Others {
    /// The spool files in `directory`.
    pub fn new(directory: &Path) -> Self {
        let own = PathBuf::new();
        let (heads, looked, careful) = (Vec::new(), 0, CAREFUL);
        Self { directory: directory.to_path_buf(), own, seen: None, heads, looked, careful }
    }

    /// Those beside the spool file `own`.
    pub(super) fn beside(own: &Path) -> Self {
        let all = Self::new(own.parent().unwrap_or(Path::new("/")));
        Self { own: own.to_path_buf(), ..all }
    }

    /// Looks for new ones, if the directory has changed.
    fn look(&mut self) {
        let Ok(facts) = self.directory.metadata() else { return };
        let seen = Some((facts.mtime(), facts.mtime_nsec()));
        // Two changes within one tick of the clock have the same time.
        let settled = now() > nanoseconds(facts.mtime(), facts.mtime_nsec() as u64) + SETTLED;
        if self.seen == seen {
            return;
        }
        // SAFETY: asks for a number.
        let uid = unsafe { libc::geteuid() };
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let paths: Vec<_> = paths.filter(|path| is_spool(path, uid) && *path != self.own).collect();
        self.heads.retain(|(path, _)| paths.contains(path));
        // A spool file without a head is looked at again the next time.
        let mut all = settled;
        for path in paths {
            if !self.heads.iter().any(|(known, _)| *known == path) {
                match open(&path, uid).and_then(|file| Mapped::new(&file)) {
                    Some(head) => self.heads.push((path, head)),
                    None => all = false,
                }
            }
        }
        self.seen = seen.filter(|_| all);
    }

    /// Whether one of them may keep bytes of the file with this inode. With `roughly`, those
    /// younger than a tick of the clock may be missed: the kernel is asked once a tick only, except
    /// for the first times, because processes that begin together are young together.
    pub fn may_have(&mut self, inode: u64, roughly: bool) -> bool {
        let roughly = roughly && self.careful == 0;
        self.careful = self.careful.saturating_sub(1);
        let tick = if roughly { coarse() } else { 0 };
        if !roughly || self.looked != tick {
            self.looked = tick;
            self.look();
        }
        self.heads.iter().any(|(_, head)| head.may_have(inode))
    }

    /// The slots of a file in other spool files.
    pub(super) fn places(&mut self, [device, inode]: [u64; 2]) -> Vec<Place> {
        if !self.may_have(inode, false) {
            return Vec::new();
        }
        // SAFETY: asks for a number.
        let uid = unsafe { libc::geteuid() };
        let mut places = Vec::new();
        for (path, _) in self.heads.iter().filter(|(_, head)| head.may_have(inode)) {
            let Some(file) = open(path, uid) else { continue };
            // Damage there is reported by the process that recovers it.
            let _ = each_slot(&file, path, &mut |slot| {
                let is_it = slot.identity()[..2] == [device, inode];
                places.extend(is_it.then(|| Place::new(&file, slot)).flatten());
            });
        }
        places
    }

    /// Begins a change of the file that `fd` is open on; `None` if no other process keeps bytes of
    /// it.
    pub fn begin(&mut self, identity: [u64; 2], fd: RawFd) -> Option<Change> {
        self.begin_at(identity, fd, Version::now(fd))
    }

    /// The same with the version that the caller has recorded, so that other slots get no later
    /// one.
    pub(super) fn begin_at(
        &mut self,
        identity: [u64; 2],
        fd: RawFd,
        version: Version,
    ) -> Option<Change> {
        self.begin_from(None, identity, fd, version)
    }

    /// The same for a caller that finishes the slot `own` of a dead process, which may have made
    /// the last change.
    pub(super) fn begin_from(
        &mut self,
        own: Option<Place>,
        identity: [u64; 2],
        fd: RawFd,
        version: Version,
    ) -> Option<Change> {
        if !self.may_have(identity[1], false) {
            return None;
        }
        let before = version.stamp();
        let mut places = self.places(identity);
        places.extend(own);
        // An owner may have died, or be at work, between a change and its announcement.
        if places.iter().any(|place| place.stamp() != 0 && place.stamp() != before)
            && let Ok(file) = File::open(format!("/proc/self/fd/{fd}"))
            && let Some(since) = since(&places, &file, version)
        {
            tell(&places, since, version);
        }
        Some(Change { identity, before })
    }

    /// After the change: slots with the version before it, or a later one, get the version now.
    pub fn end(&mut self, change: &Change, fd: RawFd) {
        self.end_at(change, Version::now(fd));
    }

    /// After a change of a file that no other process kept bytes of before. Slots that were begun
    /// meanwhile may have the version before the change; they get the version now.
    pub fn end_unannounced(&mut self, identity: [u64; 2], fd: RawFd, roughly: bool) {
        if self.may_have(identity[1], roughly) {
            tell(&self.places(identity), 0, Version::now(fd));
        }
    }

    /// The same of a change that made this version.
    pub(super) fn end_at(&mut self, change: &Change, version: Version) {
        tell(&self.places(change.identity), time_of(change.before), version);
    }
}

/// Sets `version` in all slots that have an earlier version of the time `since` or later.
fn tell(places: &[Place], since: u64, version: Version) {
    let concerned = since..=time_of(version.stamp());
    let known = |place: &&Place| place.stamp() != 0 && concerned.contains(&time_of(place.stamp()));
    places.iter().filter(known).for_each(|place| place.set_version(version));
}

/// Opens a spool file of this user.
fn open(path: &Path, uid: u32) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path).ok()?;
    let facts = file.metadata().ok()?;
    (facts.is_file() && facts.uid() == uid && facts.mode() & 0o077 == 0).then_some(file)
}

/// Marks in the head that there is a slot of the file.
pub(super) fn announce(files: &[AtomicU64], inode: u64) {
    let (word, bit) = filter(inode);
    files[word].fetch_or(bit, Relaxed);
}
