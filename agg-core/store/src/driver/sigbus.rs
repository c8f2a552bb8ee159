//! Copies to and from mapped pages of a file that may disappear (`SIGBUS`).
//!
//! If a page of a mapping cannot be provided (the file was truncated, the disk is full or fails),
//! the system sends `SIGBUS`, which ends the process. While a guarded copy runs, a handler puts a
//! page of plain memory in the place of the lost one and notes it: the copy runs to its end, and
//! its caller gets the result that it is invalid. Any other `SIGBUS` goes to the handler that the
//! program had before.

use super::os;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst, compiler_fence};
use std::sync::{Mutex, PoisonError};

/// Copies that are guarded at a time; more are refused.
const MOST: usize = 64;

/// The addresses of a copy under way: none if `end` is 0.
struct Watch {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

/// The mappings that the handler checks, without locks and without memory of the thread.
static WATCHES: [Watch; MOST] = [const {
    Watch {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; MOST];
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The number of copies that need the handler.
struct Handler {
    users: usize,
}

static HANDLER: Mutex<Handler> = Mutex::new(Handler { users: 0 });
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::zeroed();

/// Runs `copy`, which may touch the pages of a mapping at `range`; whether all of them were there.
/// If not, the bytes that it has read are invalid, and those that it has stored may be lost. `copy`
/// is not run if it cannot be guarded.
pub(super) fn guarded(range: Range<usize>, copy: impl FnOnce()) -> bool {
    let Some(guard) = Guard::over(range) else { return false };
    compiler_fence(SeqCst);
    copy();
    compiler_fence(SeqCst);
    !guard.0.lost.load(SeqCst)
}

/// The watch over a copy; ends with the value.
struct Guard(&'static Watch);

impl Guard {
    fn over(range: Range<usize>) -> Option<Self> {
        let watch = WATCHES.iter().find(|watch| !watch.taken.swap(true, SeqCst))?;
        if !install() {
            watch.taken.store(false, SeqCst);
            return None;
        }
        watch.lost.store(false, SeqCst);
        watch.start.store(range.start, SeqCst);
        watch.end.store(range.end, SeqCst);
        Some(Self(watch))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end.store(0, SeqCst);
        self.0.taken.store(false, SeqCst);
        remove();
    }
}

/// Puts the handler in force, unless it is; whether it now is.
fn install() -> bool {
    let mut handler = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
    PAGE.store(os::page_size(), SeqCst);
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = on_lost_page as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    if handler.users == 0 {
        // SAFETY: `BEFORE` is written under the lock, and read by our handler, which is not in
        // force.
        let result =
            unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, (&raw mut BEFORE).cast()) };
        if result != 0 {
            return false;
        }
    } else if !is_ours() {
        // Another library has taken over meanwhile: no copy can be guarded.
        return false;
    }
    handler.users += 1;
    true
}

/// Whether the handler in force is this one.
fn is_ours() -> bool {
    // SAFETY: all-zero bytes are a valid `sigaction`, and the call fills in the current one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == on_lost_page as *const () as usize
    }
}

/// Removes the handler with its last user, unless another one is in force.
fn remove() {
    let mut handler = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
    handler.users -= 1;
    if handler.users == 0 && is_ours() {
        restore();
    }
}

/// Restores the handler that was in force before. Safe in a handler.
fn restore() {
    // SAFETY: `BEFORE` was filled before our handler came into force, and does not change while
    // it is.
    unsafe { libc::sigaction(libc::SIGBUS, (&raw const BEFORE).cast(), ptr::null_mut()) };
}

/// The handler: calls only async-signal-safe functions.
extern "C" fn on_lost_page(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system supplies the information; the number of the last error is this thread's.
    let (address, sent, error) = unsafe {
        let error = libc::__errno_location();
        ((*info).si_addr() as usize, (*info).si_code <= 0, error)
    };
    // SAFETY: as above.
    let before = unsafe { *error };
    if sent || !replace(address) {
        // Not ours: the instruction is repeated and finds the handler of the program.
        restore();
        if sent {
            // SAFETY: only a number; the signal comes when this handler has returned.
            unsafe { libc::raise(signal) };
        }
    }
    // SAFETY: as above.
    unsafe { *error = before };
}

/// Puts plain memory in the place of the lost page at `address`, if a guarded copy touched it.
fn replace(address: usize) -> bool {
    let here =
        |watch: &&Watch| (watch.start.load(SeqCst)..watch.end.load(SeqCst)).contains(&address);
    let Some(watch) = WATCHES.iter().find(here) else { return false };
    let page = PAGE.load(SeqCst);
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    let start = ptr::with_exposed_provenance_mut(address & !(page - 1));
    // SAFETY: the page is a part of a mapping that the copy owns and that nothing else refers to.
    let new = unsafe { libc::mmap(start, page, access, flags, -1, 0) };
    watch.lost.store(true, SeqCst);
    new != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scratch::Scratch;
    use aggio_base::Extent;
    use std::os::fd::AsRawFd;
    use std::process::Command;
    use std::sync::atomic::AtomicUsize;

    /// A mapping of a page that an empty file does not have.
    fn lost_page(scratch: &Scratch, name: &str) -> os::Mapping {
        let mut how = std::fs::File::options();
        let file = how.read(true).write(true).create_new(true).open(scratch.file(name)).unwrap();
        os::Mapping::new(file.as_raw_fd(), Extent::new(0, 1), true).unwrap()
    }

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    /// A program's own handler, which mends the page.
    extern "C" fn programs_own(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        CALLS.fetch_add(1, SeqCst);
        // SAFETY: the test owns the mapping at that page.
        unsafe {
            let page = (*info).si_addr() as usize & !(os::page_size() - 1);
            let (access, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            );
            let start = ptr::with_exposed_provenance_mut(page);
            libc::mmap(start, os::page_size(), access, flags, -1, 0);
        }
    }

    fn in_force() -> usize {
        // SAFETY: the call fills in the current action.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut now);
            now.sa_sigaction
        }
    }

    /// Handlers are for the whole process, so this one has it for itself.
    #[test]
    fn the_programs_handler_gets_what_is_not_the_guards_and_is_in_force_afterwards() {
        const ALONE: &str = "AGGIO_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name =
                "the_programs_handler_gets_what_is_not_the_guards_and_is_in_force_afterwards";
            let mut command = Command::new(std::env::current_exe().unwrap());
            let own = concat!(module_path!(), "::");
            let own = own.split_once("::").map_or(own, |(_, rest)| rest);
            let status =
                command.arg("--exact").arg(format!("{own}{name}")).env(ALONE, "1").status();
            assert!(status.unwrap().success());
            return;
        }
        let handler = programs_own as *const () as usize;
        // SAFETY: a handler that calls only async-signal-safe functions.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()), 0);
        }
        let scratch = Scratch::new();
        let (own, other) = (lost_page(&scratch, "a"), lost_page(&scratch, "b"));
        // SAFETY: bytes of mappings that the test owns.
        let touch = |mapping: &os::Mapping| unsafe { mapping.place(0).write_volatile(1) };
        assert!(!guarded(own.addresses(), || touch(&own)));
        assert_eq!((CALLS.load(SeqCst), in_force()), (0, handler));
        assert!(guarded(own.addresses(), || touch(&other)), "its own pages were there");
        assert_eq!((CALLS.load(SeqCst), in_force()), (1, handler));
    }
}
