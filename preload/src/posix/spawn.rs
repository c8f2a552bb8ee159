//! Functions with arguments of any number: this library does its part, then jumps on, or answers
//! itself.
//!
//! The registers that carry arguments, and the stack, are as the caller left them.

/// Arguments as the caller left them: a save area of the ABI's, then the number of vector
/// registers.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Saved {
    integers: [usize; 6],
    vectors: [u128; 8],
    vector_count: usize,
}

/// How a call goes on: at an address, or, if that is 0, back to the caller with a value.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Onward {
    address: usize,
    value: usize,
}

/// The list of arguments that functions like `vprintf` take.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct List {
    integers_used: u32,
    vectors_used: u32,
    stack: *const usize,
    saved: *const Saved,
}

#[cfg(target_arch = "x86_64")]
impl Saved {
    /// The arguments behind the first `fixed` ones.
    fn list(&self, fixed: u32, stack: *const usize) -> List {
        List { integers_used: 8 * fixed, vectors_used: 48, stack, saved: self }
    }

    /// All pointers from argument `from` on, up to and including a null one; and the argument
    /// behind it.
    ///
    /// # Safety
    /// There is a null one.
    unsafe fn pointers(&self, from: usize, stack: *const usize) -> (Vec<*const c_char>, usize) {
        let argument = |index: usize| match self.integers.get(index) {
            Some(value) => *value,
            // SAFETY: the caller's promise.
            None => unsafe { *stack.add(index - self.integers.len()) },
        };
        let mut found = Vec::new();
        for index in from.. {
            found.push(argument(index) as *const c_char);
            if argument(index) == 0 {
                return (found, argument(index + 1));
            }
        }
        (found, 0)
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($($symbol:ident $part:path;)*) => { $(
        const _: () = {
            extern "C" fn part(saved: &Saved, stack: *const usize) -> Onward {
                let errno = aggio_posix::errno::Keep::new();
                if aggio_posix::state::active() && !aggio_posix::state::Inside::is()
                    && let Some(value) = $part(saved, stack)
                {
                    std::mem::forget(errno);
                    return Onward { address: 0, value };
                }
                drop(errno);
                let address = aggio_posix::next::find(concat!(stringify!($symbol), "\0"));
                Onward { address, value: 0 }
            }
            // SAFETY: the signature does not matter: every argument is passed on as it is.
            #[cfg_attr(not(test), unsafe(export_name = stringify!($symbol)))]
            #[cfg_attr(test, allow(dead_code, reason = "nobody is interposed in tests"))]
            #[unsafe(naked)]
            unsafe extern "C" fn hook() {
                std::arch::naked_asm!(
                    "push rbp", "mov rbp, rsp", "sub rsp, 192", "and rsp, -16",
                    "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx", "mov [rsp + 32], r8", "mov [rsp + 40], r9",
                    "movups [rsp + 48], xmm0", "movups [rsp + 64], xmm1",
                    "movups [rsp + 80], xmm2", "movups [rsp + 96], xmm3",
                    "movups [rsp + 112], xmm4", "movups [rsp + 128], xmm5",
                    "movups [rsp + 144], xmm6", "movups [rsp + 160], xmm7",
                    "mov [rsp + 176], rax",
                    "mov rdi, rsp", "lea rsi, [rbp + 16]",
                    "call {part}",
                    "test rax, rax", "jz 2f",
                    "mov r11, rax",
                    "mov rdi, [rsp]", "mov rsi, [rsp + 8]", "mov rdx, [rsp + 16]",
                    "mov rcx, [rsp + 24]", "mov r8, [rsp + 32]", "mov r9, [rsp + 40]",
                    "movups xmm0, [rsp + 48]", "movups xmm1, [rsp + 64]",
                    "movups xmm2, [rsp + 80]", "movups xmm3, [rsp + 96]",
                    "movups xmm4, [rsp + 112]", "movups xmm5, [rsp + 128]",
                    "movups xmm6, [rsp + 144]", "movups xmm7, [rsp + 160]",
                    "mov rax, [rsp + 176]",
                    "mov rsp, rbp", "pop rbp",
                    "jmp r11",
                    "2:", "mov rax, rdx", "mov rsp, rbp", "pop rbp", "ret",
                    part = sym part,
                )
            }
        };
    )* };
}

/// The names of the functions here, one a line.
#[cfg(target_arch = "x86_64")]
pub const NAMES: &str = "vfork\n__vfork\nclone\nexecl\nexeclp\nexecle\ndprintf\n__dprintf_chk\n\
    fwprintf\n__fwprintf_chk\nwprintf\n__wprintf_chk\n\
    fwscanf\n__isoc99_fwscanf\nwscanf\n__isoc99_wscanf\n";
/// The names of the functions here: other machines need this library's part in their own assembler.
#[cfg(not(target_arch = "x86_64"))]
pub const NAMES: &str = "";

#[cfg(target_arch = "x86_64")]
use hooks::*;
#[cfg(target_arch = "x86_64")]
use libc::c_char;

#[cfg(target_arch = "x86_64")]
mod hooks {
    use super::super::{environment, execute};
    use super::Saved;
    use aggio_posix::{containers, process, served, settle, standard, wide};
    use libc::{FILE, c_char, c_int, c_void};

    pub(super) fn before_child(_: &Saved, _: *const usize) -> Option<usize> {
        process::before_vfork();
        None
    }

    /// `execl` and `execlp`; `search` says whether the file is looked for.
    fn exec_list(saved: &Saved, stack: *const usize, search: bool) -> Option<usize> {
        process::before_exec();
        let path = saved.integers[0] as *const c_char;
        let found =
            if search { containers::instead_in_path(path) } else { containers::instead(path) }?;
        // SAFETY: the caller's arguments end with a null one.
        let (arguments, _) = unsafe { saved.pointers(1, stack) };
        // SAFETY: the same arguments as a list.
        let run = unsafe { execute::run(found, arguments.as_ptr(), environment::own(), search) };
        Some(run as usize)
    }

    pub(super) fn execl(saved: &Saved, stack: *const usize) -> Option<usize> {
        exec_list(saved, stack, false)
    }

    pub(super) fn execlp(saved: &Saved, stack: *const usize) -> Option<usize> {
        exec_list(saved, stack, true)
    }

    pub(super) fn execle(saved: &Saved, stack: *const usize) -> Option<usize> {
        process::before_exec();
        let found = containers::instead(saved.integers[0] as *const c_char)?;
        // SAFETY: the caller's arguments end with a null one, which the environment follows.
        let (arguments, environment) = unsafe { saved.pointers(1, stack) };
        // SAFETY: the same arguments as a list.
        let done =
            unsafe { execute::run(found, arguments.as_ptr(), environment as *const _, false) };
        Some(done as usize)
    }

    /// Prints on a file of ours; otherwise the C library writes.
    fn print(saved: &Saved, stack: *const usize, format: usize) -> Option<usize> {
        let fd = saved.integers[0] as c_int;
        let Some(file) = served::of(fd) else {
            settle::causal();
            return None;
        };
        let mut list = saved.list(format as u32 + 1, stack);
        let format = saved.integers[format] as *const c_char;
        // SAFETY: the caller's format and arguments.
        Some(unsafe { served::print(file, fd, format, (&raw mut list).cast()) } as usize)
    }

    pub(super) fn dprintf(saved: &Saved, stack: *const usize) -> Option<usize> {
        print(saved, stack, 1)
    }

    pub(super) fn dprintf_chk(saved: &Saved, stack: *const usize) -> Option<usize> {
        print(saved, stack, 2)
    }

    /// Formatted wide characters on a stream of ours.
    fn wide(
        saved: &Saved,
        stack: *const usize,
        stream: *mut FILE,
        format: usize,
        act: unsafe fn(*mut FILE, *const libc::wchar_t, *mut c_void) -> c_int,
    ) -> Option<usize> {
        // SAFETY: the caller's stream.
        if !unsafe { wide::is_ours(stream) } {
            return None;
        }
        let mut list = saved.list(format as u32 + 1, stack);
        let format = saved.integers[format] as *const libc::wchar_t;
        // SAFETY: the caller's format and arguments.
        let done = unsafe { act(stream, format, (&raw mut list).cast()) };
        Some(done as usize)
    }

    fn first(saved: &Saved) -> *mut FILE {
        saved.integers[0] as *mut FILE
    }

    pub(super) fn fwprintf(saved: &Saved, stack: *const usize) -> Option<usize> {
        wide(saved, stack, first(saved), 1, wide::print)
    }

    pub(super) fn fwprintf_chk(saved: &Saved, stack: *const usize) -> Option<usize> {
        wide(saved, stack, first(saved), 2, wide::print)
    }

    pub(super) fn wprintf(saved: &Saved, stack: *const usize) -> Option<usize> {
        wide(saved, stack, standard::output(), 0, wide::print)
    }

    pub(super) fn wprintf_chk(saved: &Saved, stack: *const usize) -> Option<usize> {
        wide(saved, stack, standard::output(), 1, wide::print)
    }

    pub(super) fn fwscanf(saved: &Saved, stack: *const usize) -> Option<usize> {
        wide(saved, stack, first(saved), 1, wide::scan)
    }

    pub(super) fn wscanf(saved: &Saved, stack: *const usize) -> Option<usize> {
        wide(saved, stack, standard::input(), 0, wide::scan)
    }
}

#[cfg(target_arch = "x86_64")]
jump! {
    vfork before_child;
    __vfork before_child;
    clone before_child;
    execl execl;
    execlp execlp;
    execle execle;
    dprintf dprintf;
    __dprintf_chk dprintf_chk;
    fwprintf fwprintf;
    __fwprintf_chk fwprintf_chk;
    wprintf wprintf;
    __wprintf_chk wprintf_chk;
    fwscanf fwscanf;
    __isoc99_fwscanf fwscanf;
    wscanf wscanf;
    __isoc99_wscanf wscanf;
}
