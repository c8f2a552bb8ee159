//! A process that has nothing of this program: no descriptors, no terminal, no parent.
//!
//! The program may have many threads, locks held, gigabytes of memory and handlers for forks, so
//! nothing is copied and no handler runs: as `posix_spawn` does, the child borrows the memory
//! until it is another program, and uses system calls only. It calls the kernel itself: `syscall`
//! of a program that is preloaded is the library's, which would close the program's files there.

use super::c_name;
use crate::fd::{checked, owned};
use aggio_base::system;
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::null;

/// Variables that an agent gets beside those of aggio; none that launchers and preloading need.
const INHERITED: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "USER", "XDG_RUNTIME_DIR"];

/// The descriptor at which the agent says that it is ready.
pub(crate) const READY: RawFd = 3;

/// Numbers from here on are not those of standard streams.
const ABOVE: RawFd = 10;

/// Bytes of a child's stack.
const STACK: usize = 64 << 10;

/// Time that the child may take to become ready, in milliseconds.
const PATIENCE: c_int = 10_000;

/// The result of a start.
#[derive(Debug)]
pub(super) enum Started {
    /// It is ready.
    Ready,
    /// It did not become another program.
    Failed(io::Error),
    /// It said this instead.
    Said(String),
    /// It ended without a word, as one does that is killed.
    Ended,
}

/// All that the children need, prepared before they exist.
struct Plan {
    program: CString,
    arguments: Vec<*const c_char>,
    variables: Vec<*const c_char>,
    nothing: RawFd,
    ready: RawFd,
    second_stack: *mut c_void,
}

/// Starts `program agent` for the directory `dir`, and waits until it is ready. If it `stays`, it
/// does until the first program has come.
pub(super) fn spawn(program: &Path, dir: &Path, stays: bool) -> io::Result<Started> {
    let nothing =
        high(owned(aggio_base::os::open(c"/dev/null", libc::O_RDWR | libc::O_CLOEXEC, 0)?))?;
    let (reader, writer) = pipe()?;
    let writer = high(writer)?;
    let texts = [c"aggio", c"agent", c"--foreground", c"--ready", c"--dir"];
    let texts = texts.map(CString::from);
    let stay = stays.then(|| CString::from(c"--stay"));
    let variables: Vec<CString> = std::env::vars_os()
        .filter(|(name, _)| is_inherited(name))
        .chain([("AGGIO_COUPLE_DIR".into(), dir.as_os_str().into())])
        .filter_map(|(mut text, value)| {
            text.push("=");
            text.push(value);
            c_name(&text).ok()
        })
        .collect();
    let dir = c_name(dir.as_os_str())?;
    let mut stacks = [vec![0u128; STACK / 16], vec![0u128; STACK / 16]];
    let [first, second] = stacks.each_mut().map(|stack| stack.as_mut_ptr_range().end.cast());
    let pointers = |texts: &mut dyn Iterator<Item = &CString>| {
        texts.map(|text| text.as_ptr()).chain([null()]).collect::<Vec<_>>()
    };
    let mut plan = Plan {
        program: c_name(program.as_os_str())?,
        arguments: pointers(&mut texts.iter().chain([&dir]).chain(&stay)),
        variables: pointers(&mut variables.iter()),
        nothing: nothing.as_raw_fd(),
        ready: writer.as_raw_fd(),
        second_stack: second,
    };
    without_signals(|| {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        let argument = (&raw mut plan).cast();
        // SAFETY: this thread stands still until the child has become another program or ended;
        // stack and plan live until then, and the child touches nothing else. No signal is
        // delivered to it: all are blocked.
        let child = unsafe { libc::clone(detach, first, flags, argument) };
        if child == -1 {
            return Err(io::Error::last_os_error());
        }
        let mut status = 0;
        // SAFETY: the kernel writes into the local value. It is a child without a signal at its
        // end, so that no wait of the program is for it.
        unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
        Ok(())
    })?;
    drop((writer, nothing));
    listen(reader)
}

fn is_inherited(name: &OsStr) -> bool {
    let own = name.as_encoded_bytes().starts_with(b"AGGIO") && name != "AGGIO_COUPLE_DIR";
    // UCX has variables of its own, as which networks it uses.
    let of_link = name.as_encoded_bytes().starts_with(b"UCX_");
    own || of_link || INHERITED.iter().any(|known| name == *known)
}

/// Runs `action` while this thread gets no signals.
fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: all-zero bytes are a valid set, which the calls fill; the old one is put back.
    unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let result = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        result
    }
}

/// The first child: leaves the session, and leaves its own child to the system.
extern "C" fn detach(plan: *mut c_void) -> c_int {
    // SAFETY: the parent waits, so that the plan is valid and nobody changes it; see `spawn`.
    unsafe {
        system::call(libc::SYS_setsid, [0; 6]);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(become_agent, (*plan.cast::<Plan>()).second_stack, flags, plan);
    }
    0
}

/// The second child: keeps two descriptors, and becomes the agent.
extern "C" fn become_agent(plan: *mut c_void) -> c_int {
    // SAFETY: as for `detach`. Only system calls follow.
    unsafe {
        let plan = &*plan.cast::<Plan>();
        let call = |number, [a, b, c]: [usize; 3]| system::call(number, [a, b, c, 0, 0, 0]);
        let (nothing, said) = (plan.nothing as usize, READY as usize);
        for stream in 0..3 {
            call(libc::SYS_dup3, [nothing, stream, 0]);
        }
        call(libc::SYS_dup3, [plan.ready as usize, said, 0]);
        if call(libc::SYS_close_range, [said + 1, c_int::MAX as usize, 0]) < 0 {
            for fd in said + 1..4096 {
                call(libc::SYS_close, [fd, 0, 0]);
            }
        }
        call(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0]);
        let (arguments, variables) = (plan.arguments.as_ptr(), plan.variables.as_ptr());
        let program = plan.program.as_ptr() as usize;
        let refused = call(libc::SYS_execve, [program, arguments as usize, variables as usize]);
        let text = [b'E', (-refused & 0xff) as u8];
        call(libc::SYS_write, [said, text.as_ptr() as usize, text.len()]);
    }
    127
}

/// Reads the agent's report of its start.
fn listen(reader: OwnedFd) -> io::Result<Started> {
    let mut polled = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes the local entry.
    if unsafe { libc::poll(&raw mut polled, 1, PATIENCE) } == 0 {
        return Ok(Started::Said("it does not say that it is ready".into()));
    }
    let mut said = Vec::new();
    std::fs::File::from(reader).take(4096).read_to_end(&mut said)?;
    Ok(match said.as_slice() {
        [b'R'] => Started::Ready,
        [b'E', number] => Started::Failed(io::Error::from_raw_os_error((*number).into())),
        [] => Started::Ended,
        text => Started::Said(String::from_utf8_lossy(text).trim().to_owned()),
    })
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two numbers into the local array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let [reader, writer] = ends.map(owned);
    Ok((reader, writer))
}

/// Duplicates a descriptor to a number above those that the child assigns.
fn high(fd: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ABOVE) })
}
