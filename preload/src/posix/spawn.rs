//! Functions with arguments of any number: this library does its part, then jumps on.
//!
//! The registers that carry arguments, and the stack, are as the caller left them.

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($($symbol:ident $part:path;)*) => { $(
        const _: () = {
            /// The address of the next function of this name.
            extern "C" fn address() -> usize {
                super::symbols::find(concat!(stringify!($symbol), "\0"))
            }
            extern "C" fn part(first: usize, second: usize) -> usize {
                let errno = super::errno::Keep::new();
                if super::state::active() && !super::state::Inside::is() {
                    $part(first, second);
                }
                drop(errno);
                address()
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
                    "mov [rsp + 48], rax",
                    "movups [rsp + 64], xmm0", "movups [rsp + 80], xmm1",
                    "movups [rsp + 96], xmm2", "movups [rsp + 112], xmm3",
                    "movups [rsp + 128], xmm4", "movups [rsp + 144], xmm5",
                    "movups [rsp + 160], xmm6", "movups [rsp + 176], xmm7",
                    "call {part}",
                    "mov r11, rax",
                    "mov rdi, [rsp]", "mov rsi, [rsp + 8]", "mov rdx, [rsp + 16]",
                    "mov rcx, [rsp + 24]", "mov r8, [rsp + 32]", "mov r9, [rsp + 40]",
                    "mov rax, [rsp + 48]",
                    "movups xmm0, [rsp + 64]", "movups xmm1, [rsp + 80]",
                    "movups xmm2, [rsp + 96]", "movups xmm3, [rsp + 112]",
                    "movups xmm4, [rsp + 128]", "movups xmm5, [rsp + 144]",
                    "movups xmm6, [rsp + 160]", "movups xmm7, [rsp + 176]",
                    "mov rsp, rbp", "pop rbp",
                    "jmp r11",
                    part = sym part,
                )
            }
        };
    )* };
}

/// The names of the functions here, one a line.
#[cfg(target_arch = "x86_64")]
pub const NAMES: &str = "vfork\n__vfork\nclone\nexecl\nexeclp\nexecle\ndprintf\n__dprintf_chk\n";
/// The names of the functions here: other machines need this library's part in their own assembler.
#[cfg(not(target_arch = "x86_64"))]
pub const NAMES: &str = "";

#[cfg(target_arch = "x86_64")]
fn before_child(_: usize, _: usize) {
    super::process::before_vfork();
}

#[cfg(target_arch = "x86_64")]
fn before_exec(_: usize, _: usize) {
    super::process::before_exec();
}

/// The C library writes at the kernel's position.
#[cfg(target_arch = "x86_64")]
fn before_print(fd: usize, _: usize) {
    super::settle::causal();
    super::settle::settle(fd as libc::c_int, Some(super::reason::Reason::Formatted));
}

#[cfg(target_arch = "x86_64")]
jump! {
    vfork before_child;
    __vfork before_child;
    clone before_child;
    execl before_exec;
    execlp before_exec;
    execle before_exec;
    dprintf before_print;
    __dprintf_chk before_print;
}
