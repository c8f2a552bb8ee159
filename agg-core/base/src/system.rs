//! System calls without the C library, for code that must work before the C library's own functions
//! are found.

/// Calls the kernel; a result from -4095 to -1 is an error.
///
/// # Safety
/// The arguments must be valid for the call.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel changes rcx, r11 and the result; the rest is the caller's promise.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a,
            in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

/// Calls the kernel; a result from -4095 to -1 is an error.
///
/// # Safety
/// The arguments must be valid for the call.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel changes the result only; the rest is the caller's promise.
    unsafe {
        std::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b,
            in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("system calls are known for x86-64 and AArch64 only");
