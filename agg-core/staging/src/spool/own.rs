//! The spool file of this process.

use super::change::{self, Change, Others};
use super::checks::{Owned, Owner, Run, guarded, guarded_short};
use super::layout::{
    FREE, HEAD, Head, MAGIC, MOST_DATA, PAGE, PATH, SLOT_HEAD, SlotHead, USED, VERSION,
};
use super::version::{Ask, Version};
use aggio_base::{Error, host};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

/// How often the version of a file is looked at that others change all the time.
const TRIES: usize = 8;

/// A spool file of this process; it has a name until it is removed.
#[derive(Debug)]
pub struct Spool {
    file: File,
    path: PathBuf,
    slots: Vec<Slot>,
    free: Vec<Slot>,
    /// Where the next slot begins.
    end: usize,
    /// The first page, with the filter of files that have slots.
    head: Option<NonNull<Head>>,
    others: Others,
}

/// Bytes of a slot on their way to their file.
#[derive(Debug)]
pub struct Storing {
    slot: Slot,
    change: Option<Change>,
}

/// Room for the dirty bytes of one file. A copy is the same room.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    start: NonNull<u8>,
    room: usize,
    /// Where its data begin in the spool file.
    data: u64,
}

// SAFETY: the memory is mapped for the life of the process; the owner synchronises its use.
unsafe impl Send for Slot {}

// SAFETY: as for slots; the head is atomic words.
unsafe impl Send for Spool {}

impl Spool {
    /// Makes the spool file of this process in `directory`, its descriptor out of the program's
    /// way.
    ///
    /// # Errors
    /// If it cannot be made, locked or given room.
    pub fn create(directory: &Path) -> aggio_base::Result<Self> {
        // SAFETY: asks for numbers only.
        let (uid, pid) = unsafe { (libc::geteuid(), libc::getpid()) };
        let name = format!("{}{pid}-{:016x}", super::prefix(uid), random());
        let path = directory.join(&name);
        // Under its name it has a head always.
        let new = directory.join(name + super::NEW);
        let failed = |error| Error::os("spool", &error).with_path(&path.display().to_string());
        let mut how = File::options();
        how.read(true).write(true).create_new(true).mode(0o600);
        let file = how.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(&new);
        let file = out_of_the_way(file.map_err(failed)?);
        let (slots, free, end) = (Vec::new(), Vec::new(), HEAD);
        let others = Others::beside(&path);
        let mut spool = Self { file, path: path.clone(), slots, free, end, head: None, others };
        let made = super::lock_new(&spool.file).and_then(|()| spool.begin());
        if let Err(error) = made.and_then(|()| std::fs::rename(&new, &path)) {
            let _ = std::fs::remove_file(&new);
            return Err(failed(error));
        }
        Ok(spool)
    }

    /// Writes the head; the magic number last.
    fn begin(&mut self) -> std::io::Result<()> {
        let pid = std::process::id();
        let start = map(&self.file, 0, HEAD)?.cast::<Head>();
        self.head = Some(start);
        // SAFETY: the mapping is as large as a head and lives as long as the spool is this
        // process'.
        let head = unsafe { start.as_ref() };
        let started = super::started(pid).unwrap_or(0);
        let (boot, machine) = (host::boot_number(), host::machine());
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        head.version.store(VERSION, Relaxed);
        head.pid.store(pid, Relaxed);
        head.started.store(started, Relaxed);
        head.boot.iter().zip(boot).for_each(|(word, number)| word.store(number, Relaxed));
        head.host.store(machine, Relaxed);
        head.slots.store(guarded(0), Relaxed);
        head.check.store(Owner { name, pid, started, boot, host: machine }.check(), Relaxed);
        head.magic.store(MAGIC, Release);
        Ok(())
    }

    /// The descriptor, which the program must not close.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Makes room for `room` bytes, whole pages, of the file `path` with this device, inode and
    /// [birth](super::born).
    ///
    /// # Errors
    /// If there is no memory for it, or the name is too long to be kept.
    pub fn slot(&mut self, path: &[u8], identity: [u64; 3], room: usize) -> std::io::Result<Slot> {
        if path.len() >= PATH || path.first() != Some(&b'/') {
            return Err(std::io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        if room == 0 || room > MOST_DATA || !room.is_multiple_of(PAGE) {
            return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
        }
        let free = self.free.iter().position(|slot| slot.room == room);
        let slot = match free {
            Some(at) => self.free.swap_remove(at),
            None => {
                let start = map(&self.file, self.end, SLOT_HEAD + room)?;
                Slot { start, room, data: (self.end + SLOT_HEAD) as u64 }
            }
        };
        // SAFETY: as at the beginning.
        let head = self.head.map(|head| unsafe { head.as_ref() });
        if let Some(head) = head {
            change::announce(&head.files, identity[1]);
        }
        slot.begin(path, identity);
        if free.is_none() {
            self.end += slot.len();
            self.slots.push(slot);
            // From now on it must be there.
            if let Some(head) = head {
                head.slots.store(guarded(self.slots.len() as u64), Release);
            }
        }
        Ok(slot)
    }

    /// Call before the bytes of a slot are written to their file, which `fd` is open on. It records
    /// that this process makes the change: for the process that recovers the slot if this one is
    /// killed meanwhile, and for others that keep bytes of that file.
    pub fn begin_storing(&mut self, slot: Slot, fd: RawFd) -> Storing {
        // The slots of other processes are compared with the version before: ask the server for it.
        let is_shared = self.others.may_have(slot.identity()[1], false);
        let before = slot.belong_to_file(fd, if is_shared { Ask::Server } else { Ask::Machine });
        slot.head().stored.store(0, Relaxed);
        slot.head().until.store(change::deadline(), Release);
        Storing { slot, change: self.others.begin_at(slot.identity(), fd, before) }
    }

    /// Call after they were written, if `stored`, or after that failed and they are kept still. The
    /// pieces stay valid until other slots have the new version: they prove that this process made
    /// the change.
    pub fn end_storing(&mut self, storing: &Storing, fd: RawFd, stored: bool) {
        let slot = storing.slot;
        if let Some(change) = &storing.change {
            let version = Version::now(fd);
            // If this process is killed before its slot has the new version, it has made the file
            // this long.
            slot.head().size.store(version.size, Release);
            self.others.end_at(change, version);
        } else {
            self.others.end_unannounced(slot.identity(), fd, false);
        }
        slot.belong_to_file(fd, if stored { Ask::Machine } else { Ask::Server });
        if stored {
            slot.empty();
        }
        slot.head().until.store(0, Release);
    }

    /// The other spools of this user.
    pub fn others(&mut self) -> &mut Others {
        &mut self.others
    }

    /// Takes back a slot after its bytes were written to their file.
    pub fn give_back(&mut self, slot: Slot) {
        slot.empty();
        slot.head().used.store(FREE, Release);
        self.free.push(slot);
    }

    /// Removes the name, at the end of the process. The caller checks before that no bytes are in
    /// it.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Forgets the spool and its memory, which are another process' now: also memory keeps the
    /// lock.
    ///
    /// # Safety
    /// No slot is used any more.
    pub unsafe fn disown(self) {
        if let Some(head) = self.head {
            // SAFETY: the caller's promise.
            unsafe { libc::munmap(head.as_ptr().cast(), HEAD) };
        }
        for slot in &self.slots {
            // SAFETY: the caller's promise.
            unsafe { libc::munmap(slot.start.as_ptr().cast(), slot.len()) };
        }
    }

    /// The name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Slot {
    fn begin(self, path: &[u8], identity: [u64; 3]) {
        let (head, [device, inode, born]) = (self.head(), identity);
        let room = self.room as u64;
        head.used.store(FREE, Release);
        self.empty();
        head.room.store(guarded(room), Relaxed);
        head.device.store(device, Relaxed);
        head.inode.store(inode, Relaxed);
        head.born.store(born, Relaxed);
        head.stamp.store(0, Relaxed);
        head.until.store(0, Relaxed);
        head.stored.store(0, Relaxed);
        head.path_len.store(path.len() as u64, Relaxed);
        // SAFETY: the slot is this process' alone, and the name is shorter than its place.
        unsafe {
            let place = self.start.as_ptr().add(std::mem::offset_of!(SlotHead, path));
            std::ptr::copy_nonoverlapping(path.as_ptr(), place, path.len());
        }
        let owned = Owned { data: self.data, room, identity, path };
        head.check.store(owned.check(), Relaxed);
        head.used.store(USED, Release);
    }

    /// Device and inode of its file.
    fn identity(self) -> [u64; 2] {
        let head = self.head();
        [head.device.load(Relaxed), head.inode.load(Relaxed)]
    }

    /// Sets the version of the file that its pieces belong to. If another process changes the file
    /// later and this process does not live, they are not written to it.
    pub fn belong_to(&self, version: Version) {
        self.head().stamp.store(version.stamp(), Release);
    }

    /// Sets the version that its pieces belong to, that of the file which `fd` is open on, as it is
    /// now according to `ask`, and returns it. Another process that changes the file at the same
    /// time sets the version in this slot: that one is not replaced by an older one.
    pub fn belong_to_file(&self, fd: RawFd, ask: Ask) -> Version {
        belong_to_file(self.head(), fd, ask)
    }

    /// Bytes of it in the spool file.
    fn len(self) -> usize {
        SLOT_HEAD + self.room
    }

    /// Bytes of data that fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Its head.
    #[inline]
    pub fn head(&self) -> &'static SlotHead {
        // SAFETY: slots are mapped for the life of the process, and all fields that change are
        // atomic.
        unsafe { self.start.cast::<SlotHead>().as_ref() }
    }

    /// The place of its data, [`room`](Slot::room) bytes.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        // SAFETY: the mapping is longer than a head.
        unsafe { self.start.as_ptr().add(SLOT_HEAD) }
    }

    /// Its piece number `index`: where it belongs in the file, its length, and where it is in the
    /// data.
    #[inline]
    pub fn piece(&self, index: usize) -> (u64, usize, usize) {
        let piece = &self.head().pieces[index];
        let run = Run::of(piece.run.load(Relaxed));
        let place = piece.place.load(Relaxed) as usize;
        (piece.offset.load(Relaxed), run.len as usize, place)
    }

    /// Adds a piece; its bytes are in place already.
    #[inline]
    pub fn push(&self, index: usize, offset: u64, len: usize, place: usize) {
        let piece = &self.head().pieces[index];
        let run = Run::begin(index, offset, place as u64).and(self.bytes(place, len));
        piece.offset.store(offset, Relaxed);
        piece.place.store(place as u64, Relaxed);
        piece.run.store(run.word(), Relaxed);
        self.head().count.store(guarded_short(index as u32 + 1), Release);
    }

    /// Makes the last piece, number `index`, longer by `len` bytes, which are in place already.
    #[inline]
    pub fn extend(&self, index: usize, len: usize) {
        let piece = &self.head().pieces[index];
        let run = Run::of(piece.run.load(Relaxed));
        let place = piece.place.load(Relaxed) as usize + run.len as usize;
        piece.run.store(run.and(self.bytes(place, len)).word(), Release);
    }

    /// From now on it has no pieces.
    pub fn empty(&self) {
        self.head().count.store(guarded_short(0), Release);
    }

    #[inline]
    fn bytes(&self, place: usize, len: usize) -> &[u8] {
        debug_assert!(place + len <= self.room);
        // SAFETY: they are inside the data of the slot, which its owner alone changes.
        unsafe { std::slice::from_raw_parts(self.data().add(place), len) }
    }
}

/// As [`Slot::belong_to_file`] for the slot with this head.
fn belong_to_file(head: &SlotHead, fd: RawFd, ask: Ask) -> Version {
    for _ in 0..TRIES {
        let known = head.stamp.load(Acquire);
        let version = Version::asked(fd, ask);
        head.size.store(version.size, Release);
        let told = head.stamp.compare_exchange(known, version.stamp(), AcqRel, Relaxed);
        // A process that changes the file after the next check sets the version in this slot
        // afterwards.
        fence(SeqCst);
        if told.is_ok() && Version::known(fd) == version {
            return version;
        }
    }
    let version = Version::asked(fd, ask);
    head.stamp.store(version.stamp(), Release);
    version
}

/// The mapped head of a slot with a dead owner.
pub(super) struct SharedHead(NonNull<SlotHead>);

impl SharedHead {
    /// The one that begins at `at` of a spool file that has all of it.
    pub(super) fn map(spool: &File, at: u64) -> std::io::Result<Self> {
        map_there(spool, at as usize, SLOT_HEAD, 0).map(|start| Self(start.cast()))
    }

    /// As [`Slot::belong_to_file`].
    pub(super) fn belong_to_file(&self, fd: RawFd) -> Version {
        belong_to_file(self, fd, Ask::Server)
    }
}

impl std::ops::Deref for SharedHead {
    type Target = SlotHead;

    fn deref(&self) -> &SlotHead {
        // SAFETY: it stays mapped as long as the value lives, and all fields that change are
        // atomic.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedHead {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), SLOT_HEAD) };
    }
}

/// Memory of the file, with room: nothing in it can fail later for want of space.
fn map(file: &File, offset: usize, len: usize) -> std::io::Result<NonNull<u8>> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, len as i64) } != 0 {
        return Err(last());
    }
    map_there(file, offset, len, libc::MAP_POPULATE)
}

/// Memory of the file, which is as long.
fn map_there(file: &File, offset: usize, len: usize, flag: i32) -> std::io::Result<NonNull<u8>> {
    let (fd, none, place) = (file.as_raw_fd(), std::ptr::null_mut(), offset as libc::off_t);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | flag);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let start = unsafe { libc::mmap(none, len, protection, flags, fd, place) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(start),
        _ => Err(last()),
    }
}

/// The same file under a high number, where no program looks for one.
fn out_of_the_way(file: File) -> File {
    // SAFETY: all bits zero are a limit.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the record outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let high = if known { limit.rlim_cur.saturating_sub(16).min(60_000) } else { 200 };
    // SAFETY: the descriptor is open; the new one belongs to the new `File` alone.
    unsafe {
        let moved = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, high as libc::c_int);
        if moved < 0 { file } else { File::from_raw_fd(moved) }
    }
}

pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the pointer and length describe `bytes`.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), 8, libc::GRND_NONBLOCK) };
    if got == 8 {
        return u64::from_ne_bytes(bytes);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::from(now.subsec_nanos()) ^ now.as_secs().rotate_left(32))
}

fn last() -> std::io::Error {
    std::io::Error::last_os_error()
}
