//! The memory of generations: nameless files; programs get descriptors of their own.

mod moved;

use crate::client::Stat;
use crate::fd::{checked, owned};
use crate::registry::Area;
use crate::spares::Spare;
use aggio_base::{Extent, os};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Permissions that the agent itself needs to open a file anew.
const OWN: u32 = 0o600;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// One memory file.
#[derive(Debug)]
struct Memory {
    /// It may be open for reading only.
    file: OwnedFd,
    /// A description for reading, which can have a lease while nobody can write.
    lease: OwnedFd,
    watch: i32,
    /// The time of modification of the file when it began as a copy.
    copied: Option<(i64, i64)>,
    /// Bytes from the beginning that had memory before anybody wrote.
    ready: u64,
    /// Bytes behind its end that have memory at most.
    slack: u64,
    /// Its bytes are in memory.
    has_memory: bool,
}

/// The file of a generation that was dropped.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) file: OwnedFd,
    /// Bytes of memory.
    pub(crate) bytes: u64,
    /// Hardly any of its bytes are holes.
    pub(crate) is_dense: bool,
}

impl Remains {
    /// Of `file`, with bytes that are in memory or not.
    fn of(file: OwnedFd, has_memory: bool) -> io::Result<Self> {
        let facts = os::fstat(file.as_raw_fd())?;
        let (held, size) = (512 * facts.st_blocks.unsigned_abs(), facts.st_size.unsigned_abs());
        let bytes = if has_memory { held } else { 0 };
        Ok(Self { file, bytes, is_dense: bytes >= size / 8 * 7 })
    }
}

/// All memory files of an agent.
#[derive(Debug)]
pub(crate) struct Areas {
    files: BTreeMap<Area, Memory>,
    /// Memory of files that have moved.
    lingering: Vec<moved::Lingering>,
    /// Tells when a description that could write is closed.
    events: OwnedFd,
}

/// Whether somebody can still write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    Yes,
    No,
    /// The system has no leases.
    Unknown,
}

/// A description of its own, for a moment.
fn writable(file: &OwnedFd) -> io::Result<OwnedFd> {
    os::reopen(file.as_raw_fd(), libc::O_RDWR).map(owned)
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

impl Areas {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let events = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        Ok(Self { files: BTreeMap::new(), lingering: Vec::new(), events: checked(events)? })
    }

    /// Readable when a file that can be written to was closed.
    pub(crate) fn events(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Makes a new file for the memory of `area`.
    #[cfg(test)]
    pub(crate) fn make(&mut self, area: Area, mode: u32, copy_of: Option<Area>) -> io::Result<()> {
        self.make_of(None, area, mode, copy_of)
    }

    /// Makes the memory of a generation, of a file that was made ready if there is one, and with
    /// the bytes of another generation if there is one.
    pub(crate) fn make_of(
        &mut self,
        spare: Option<Spare>,
        area: Area,
        mode: u32,
        copy_of: Option<Area>,
    ) -> io::Result<()> {
        let Spare { file, bytes: ready, slack } = match spare {
            Some(spare) => spare,
            None => Spare::from(owned(os::memory_file(c"aggio-coupled")?)),
        };
        // SAFETY: no memory is involved.
        if unsafe { libc::fchmod(file.as_raw_fd(), mode & 0o777 | OWN) } == -1 {
            return Err(io::Error::last_os_error());
        }
        let lease = owned(os::reopen(file.as_raw_fd(), libc::O_RDONLY)?);
        let name = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        // SAFETY: the name is a terminated string.
        let watch = unsafe {
            libc::inotify_add_watch(self.events(), name.as_ptr().cast(), libc::IN_CLOSE_WRITE)
        };
        if watch == -1 {
            return Err(io::Error::last_os_error());
        }
        let has_memory = true;
        let mut memory = Memory { file, lease, watch, copied: None, ready, slack, has_memory };
        let source = copy_of.and_then(|source| self.files.get(&source));
        let result = source.map_or(Ok(()), |source| {
            copy(source.file.as_raw_fd(), writable(&memory.file)?.as_raw_fd())?;
            memory.copied = Some(times(memory.file.as_raw_fd())?);
            Ok(())
        });
        if result.is_err() {
            self.unwatch(&memory);
        }
        result.map(|()| self.files.insert(area, memory)).map(|_| ())
    }

    /// Another description of a file, with the access that is asked for.
    pub(crate) fn open(
        &self,
        area: Area,
        read: bool,
        write: bool,
        append: bool,
    ) -> io::Result<OwnedFd> {
        let flags = match (read, write) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        let append = if append { libc::O_APPEND } else { 0 };
        os::reopen(self.fd(area)?, flags | append).map(owned)
    }

    fn fd(&self, area: Area) -> io::Result<RawFd> {
        let missing = || io::Error::from_raw_os_error(libc::ESTALE);
        self.files.get(&area).map(|memory| memory.file.as_raw_fd()).ok_or_else(missing)
    }

    /// Cuts a file to no bytes.
    pub(crate) fn empty(&mut self, area: Area) -> io::Result<()> {
        if let Some(memory) = self.files.get_mut(&area) {
            memory.copied = None;
        }
        let fd = self.fd(area)?;
        // Even without bytes it would lose the memory that was made ready.
        if os::fstat(fd)?.st_size == 0 {
            return Ok(());
        }
        os::ftruncate(writable(&self.files[&area].file)?.as_raw_fd(), 0)
    }

    /// Lets a file have so many bytes.
    pub(crate) fn resize(&mut self, area: Area, size: u64) -> io::Result<()> {
        if size == 0 {
            return self.empty(area);
        }
        os::ftruncate(writable(&self.files.get(&area).ok_or_else(gone)?.file)?.as_raw_fd(), size)
    }

    /// Gives back the memory of a file that nobody wrote to.
    pub(crate) fn trim(&mut self, area: Area) -> io::Result<()> {
        let Some(memory) = self.files.get_mut(&area) else { return Ok(()) };
        let (fd, slack) = (memory.file.as_raw_fd(), std::mem::take(&mut memory.slack));
        let ready = std::mem::take(&mut memory.ready);
        let facts = os::fstat(fd)?;
        let (size, held) = (facts.st_size.unsigned_abs(), 512 * facts.st_blocks.unsigned_abs());
        let has_more = held > size.next_multiple_of(os::page_size() as u64);
        let (mut at, end) = match ready {
            0 if slack == 0 || !has_more => return Ok(()),
            0 => (size, size + slack),
            ready => (0, ready),
        };
        let (mut is_changed, writable) = (false, writable(&memory.file)?);
        while at < end {
            let hole = os::next_hole(fd, at)?.unwrap_or(at).min(end);
            at = os::next_data(fd, hole)?.unwrap_or(end).min(end);
            if hole < at {
                os::punch(writable.as_raw_fd(), Extent::new(hole, at - hole))?;
                is_changed = true;
            }
        }
        if is_changed { set_time(fd, (facts.st_mtime, facts.st_mtime_nsec)) } else { Ok(()) }
    }

    /// Whether nobody can write to a file any more, by descriptors or mappings.
    pub(crate) fn is_quiet(&self, area: Area) -> Quiet {
        let Some(memory) = self.files.get(&area) else { return Quiet::No };
        let fd = memory.lease.as_raw_fd();
        // SAFETY: no memory is involved. The lease is given back at once; all opens of the file
        // are made by this thread, so that none can meet it.
        let taken = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) };
        if taken == -1 {
            let number = io::Error::last_os_error().raw_os_error();
            return if number == Some(libc::EAGAIN) { Quiet::No } else { Quiet::Unknown };
        }
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        Quiet::Yes
    }

    /// The bytes of a file came from another node. If it began as a copy, only they say whether it
    /// is still one.
    pub(crate) fn stored(&mut self, area: Area) {
        if let Some(memory) = self.files.get_mut(&area)
            && memory.copied.is_some()
        {
            memory.copied = times(memory.file.as_raw_fd()).ok();
        }
    }

    /// A file has the bytes of another one by now.
    pub(crate) fn is_copied(&mut self, area: Area) -> io::Result<()> {
        let time = times(self.fd(area)?)?;
        if let Some(memory) = self.files.get_mut(&area) {
            memory.copied = Some(time);
        }
        Ok(())
    }

    /// Both files, if only their bytes tell whether one is still the copy as which it began.
    pub(crate) fn may_be_same(&self, area: Area, copy_of: Option<Area>) -> Option<[OwnedFd; 2]> {
        let (memory, source) = (self.files.get(&area)?, copy_of?);
        let is_it = memory.copied.is_some() && times(memory.file.as_raw_fd()).ok() == memory.copied;
        let open = |area| self.open(area, true, false, false).ok();
        if is_it { Some([open(source)?, open(area)?]) } else { None }
    }

    /// Whether a file differs from the one as a copy of that it began; true if it is no copy.
    pub(crate) fn is_changed(&self, area: Area, copy_of: Option<Area>) -> bool {
        let Some(memory) = self.files.get(&area) else { return true };
        let (Some(copied), Some(source)) =
            (memory.copied, copy_of.and_then(|source| self.files.get(&source)))
        else {
            return true;
        };
        // Stores through mappings leave no time of modification.
        times(memory.file.as_raw_fd()).ok() != Some(copied)
            || !are_same(source.file.as_raw_fd(), memory.file.as_raw_fd()).unwrap_or(false)
    }

    /// Returns the attributes of a file, as `fstat`.
    pub(crate) fn stat(&self, area: Area, generation: u64) -> io::Result<Stat> {
        let facts = os::fstat(self.fd(area)?)?;
        Ok(Stat {
            device: facts.st_dev,
            inode: facts.st_ino,
            mode: facts.st_mode,
            size: facts.st_size.try_into().unwrap_or(0),
            blocks: facts.st_blocks.try_into().unwrap_or(0),
            modified: (facts.st_mtime, facts.st_mtime_nsec),
            generation,
            area: 0,
        })
    }

    /// The file that `fstat` describes so.
    pub(crate) fn find(&self, device: u64, inode: u64) -> Option<Area> {
        let is_it = |memory: &Memory| {
            let facts = os::fstat(memory.file.as_raw_fd());
            facts.is_ok_and(|facts| (facts.st_dev, facts.st_ino) == (device, inode))
        };
        let found = self.files.iter().find(|(_, memory)| is_it(memory)).map(|(area, _)| *area);
        found.or_else(|| self.find_lingering(device, inode))
    }

    /// Gives a file up; its memory is free when the last program has closed it.
    pub(crate) fn free(&mut self, area: Area) {
        drop(self.take(area));
    }

    /// Gives a file up as [`free`](Self::free), but keeps its memory until the result is dropped.
    pub(crate) fn take(&mut self, area: Area) -> Option<Remains> {
        let memory = self.files.remove(&area)?;
        self.unwatch(&memory);
        Remains::of(memory.file, memory.has_memory).ok()
    }

    fn unwatch(&self, memory: &Memory) {
        // SAFETY: no memory is involved.
        unsafe { libc::inotify_rm_watch(self.events(), memory.watch) };
    }

    /// Files with a description that could write and was closed since the last call.
    pub(crate) fn closed(&self) -> Vec<Area> {
        let mut found = Vec::new();
        let mut buffer = [0u8; 4096];
        // SAFETY: the kernel writes at most the bytes of the local buffer.
        while let Ok(len @ 1..) = usize::try_from(unsafe {
            libc::read(self.events(), buffer.as_mut_ptr().cast(), buffer.len())
        }) {
            let mut events = &buffer[..len];
            while let Some((event, rest)) = events.split_at_checked(16) {
                let field = |at: usize| {
                    i32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]])
                };
                let (watch, name) = (field(0), usize::try_from(field(12)).unwrap_or(0));
                let is_it = |memory: &&Memory| memory.watch == watch;
                found.extend(self.files.iter().filter(|(_, m)| is_it(m)).map(|(area, _)| *area));
                events = rest.get(name..).unwrap_or_default();
            }
        }
        found
    }

    /// Bytes of memory that all files have.
    pub(crate) fn bytes(&self) -> u64 {
        let held = self.files.values().filter(|memory| memory.has_memory);
        held.map(|memory| moved::held(&memory.file)).sum::<u64>() + self.lingering_bytes()
    }
}

fn times(fd: RawFd) -> io::Result<(i64, i64)> {
    os::fstat(fd).map(|facts| (facts.st_mtime, facts.st_mtime_nsec))
}

/// Calls `each` with all ranges of a file that have bytes of their own.
pub(crate) fn data(
    fd: RawFd,
    mut each: impl FnMut(u64, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = 0;
    while let Some(start) = os::next_data(fd, at)? {
        let end = os::next_hole(fd, start)?.unwrap_or(start);
        at = start;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            each(at, len)?;
            at += len as u64;
        }
    }
    Ok(())
}

pub(crate) fn read_all(fd: RawFd, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match os::pread(fd, buffer, offset)? {
            0 => {
                buffer.fill(0);
                return Ok(());
            }
            count => (buffer, offset) = (&mut buffer[count..], offset + count as u64),
        }
    }
    Ok(())
}

pub(crate) fn write_all(fd: RawFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = os::pwrite(fd, bytes, offset)?;
        (bytes, offset) = (&bytes[count..], offset + count as u64);
    }
    Ok(())
}

/// Gives an empty file the bytes and holes of another one, and its time of modification.
pub(crate) fn copy(from: RawFd, to: RawFd) -> io::Result<()> {
    copy_into(from, to)?;
    set_time(to, times(from)?)
}

/// Sets the time of modification.
pub(crate) fn set_time(fd: RawFd, (seconds, nanoseconds): (i64, i64)) -> io::Result<()> {
    let modified = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let read = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    // SAFETY: the kernel reads two local values.
    let result = unsafe { libc::futimens(fd, [read, modified].as_ptr()) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives an empty file the bytes and holes of another one.
pub(crate) fn copy_into(from: RawFd, to: RawFd) -> io::Result<()> {
    let facts = os::fstat(from)?;
    os::ftruncate(to, facts.st_size.unsigned_abs())?;
    let mut buffer = vec![0; PIECE];
    data(from, |offset, len| {
        read_all(from, &mut buffer[..len], offset)?;
        write_all(to, &buffer[..len], offset)
    })
}

/// Whether two files have the same bytes.
pub(crate) fn are_same(one: RawFd, other: RawFd) -> io::Result<bool> {
    if os::fstat(one)?.st_size != os::fstat(other)?.st_size {
        return Ok(false);
    }
    let (mut left, mut right, mut same) = (vec![0; PIECE], vec![0; PIECE], true);
    for fd in [one, other] {
        data(fd, |offset, len| {
            if same {
                read_all(one, &mut left[..len], offset)?;
                read_all(other, &mut right[..len], offset)?;
                same = left[..len] == right[..len];
            }
            Ok(())
        })?;
    }
    Ok(same)
}

#[cfg(test)]
mod tests;
