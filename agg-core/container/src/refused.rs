//! For tests: a thread in which the kernel refuses some system calls, like a file system that does
//! not support them.

use std::io;

/// The call of `std::fs::rename`.
#[cfg(target_arch = "x86_64")]
pub const RENAME: libc::c_long = libc::SYS_rename;
#[cfg(not(target_arch = "x86_64"))]
pub const RENAME: libc::c_long = libc::SYS_renameat;

/// A system call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Its number.
    pub call: libc::c_long,
    /// Only where the argument of this number has this value.
    pub only: Option<(u32, u32)>,
    /// The error number.
    pub errno: i32,
}

impl Refusal {
    /// Every call of this number.
    pub fn of(call: libc::c_long, errno: i32) -> Self {
        Self { call, only: None, errno }
    }

    /// A file system without locks.
    pub fn of_locks(errno: i32) -> Vec<Self> {
        let commands = [libc::F_OFD_SETLK, libc::F_OFD_SETLKW, libc::F_OFD_GETLK];
        let fcntl = |command: libc::c_int| {
            let only = Some((1, command.cast_unsigned()));
            Self { call: libc::SYS_fcntl, only, errno }
        };
        commands.into_iter().map(fcntl).chain([Self::of(libc::SYS_flock, errno)]).collect()
    }

    /// Every call that gives a file another owner.
    pub fn of_owners(errno: i32) -> Vec<Self> {
        let calls = [libc::SYS_fchown, libc::SYS_fchownat];
        calls.into_iter().map(|call| Self::of(call, errno)).collect()
    }

    /// Every call that gives a file another mode.
    pub fn of_modes(errno: i32) -> Vec<Self> {
        let calls = [libc::SYS_fchmod, libc::SYS_fchmodat];
        calls.into_iter().map(|call| Self::of(call, errno)).collect()
    }

    /// A file system that cannot rename but in the oldest way.
    pub fn of_renaming() -> Vec<Self> {
        vec![Self::of(libc::SYS_renameat2, libc::EINVAL)]
    }

    fn instructions(&self) -> Vec<libc::sock_filter> {
        let refuse = libc::SECCOMP_RET_ERRNO | self.errno.cast_unsigned();
        let mut program = vec![load(0)];
        match self.only {
            None => program.push(unless(self.call as u32, 1)),
            Some((argument, value)) => {
                // The lower half of the argument, on machines that store it first.
                program.extend([
                    unless(self.call as u32, 3),
                    load(16 + 8 * argument),
                    unless(value, 1),
                ]);
            }
        }
        program.push(end(refuse));
        program
    }
}

fn load(place: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, place, 0)
}

/// Skips `skip` instructions unless the loaded value is `value`.
fn unless(value: u32, skip: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, skip)
}

fn end(with: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, with, 0)
}

fn instruction(code: u32, k: u32, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

/// Runs `act` in a thread of its own in which these calls fail.
///
/// # Panics
///
/// If the kernel takes no filter, and as `act` does.
pub fn refusing<T: Send>(refusals: &[Refusal], act: impl FnOnce() -> T + Send) -> T {
    let mut program: Vec<_> = refusals.iter().flat_map(Refusal::instructions).collect();
    program.push(end(libc::SECCOMP_RET_ALLOW));
    let acted = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            install(&mut program).expect("a filter for system calls");
            act()
        });
        thread.join()
    });
    acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Has the kernel ask `program` about every system call of this thread.
fn install(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel copies the program, which outlives the call.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
