//! The version of a file that buffered bytes belong to: after a change by anybody else, they belong
//! to a file that is gone.

use std::os::fd::RawFd;

/// The facts that tell versions of a file apart. Every change of a file changes one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Bytes of the file.
    pub size: u64,
    /// When its bytes changed, in nanoseconds since 1970.
    pub mtime: u64,
    /// When anything of it changed.
    pub ctime: u64,
}

/// The source of the version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// This machine. It may not have seen yet how a change from here has set the times that a
    /// server gives a file.
    Machine,
    /// The server of the file, by a request; for files of this machine the same.
    Server,
}

impl Version {
    /// The version of the file that `fd` is open on. Zeros if it cannot be determined.
    pub fn asked(fd: RawFd, ask: Ask) -> Self {
        match ask {
            Ask::Machine => Self::known(fd),
            Ask::Server => Self::now(fd),
        }
    }

    /// The version of the file that `fd` is open on, as this machine caches it: no server is asked.
    /// Zeros if it cannot be determined.
    pub fn known(fd: RawFd) -> Self {
        Self::of(fd, libc::AT_STATX_DONT_SYNC)
    }

    /// The same, with a request to the server of the file.
    pub(crate) fn now(fd: RawFd) -> Self {
        Self::of(fd, libc::AT_STATX_FORCE_SYNC)
    }

    fn of(fd: RawFd, sync: libc::c_int) -> Self {
        // SAFETY: all bits zero are a record.
        let mut facts: libc::statx = unsafe { std::mem::zeroed() };
        let wanted = libc::STATX_SIZE | libc::STATX_MTIME | libc::STATX_CTIME;
        let flags = libc::AT_EMPTY_PATH | sync;
        // SAFETY: the name is a C string, and the record outlives the call.
        let done = unsafe { libc::statx(fd, c"".as_ptr(), flags, wanted, &raw mut facts) };
        if done != 0 {
            return Self::default();
        }
        let time = |time: libc::statx_timestamp| nanoseconds(time.tv_sec, time.tv_nsec.into());
        let (mtime, ctime) = (time(facts.stx_mtime), time(facts.stx_ctime));
        Self { size: facts.stx_size, mtime, ctime }
    }

    /// One number for it, never 0, which one store replaces: the time of the change, to about a
    /// microsecond, and in the last [`MIXED`] bits a hash that tells versions of that time apart.
    pub(crate) fn stamp(self) -> u64 {
        let mix = |sum: u64, n: u64| (sum ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        let mixed = [self.size, self.mtime, self.ctime].into_iter().fold(1, mix);
        let last = (1 << MIXED) - 1;
        self.ctime & !last | mixed & last | 1
    }
}

/// Bits of a stamp that are no time.
const MIXED: u32 = 10;

/// When the version with this stamp was made: of two, the later one has the larger number.
pub(super) fn time_of(stamp: u64) -> u64 {
    stamp >> MIXED
}

/// As one number.
pub(super) fn nanoseconds(seconds: i64, rest: u64) -> u64 {
    (seconds.max(0) as u64).wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// The time, by the clock that file systems of this machine use.
pub(crate) fn now() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// The time of the last tick, which costs next to nothing.
pub(super) fn coarse() -> u64 {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the record outlives the call.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    nanoseconds(time.tv_sec, time.tv_nsec as u64)
}
