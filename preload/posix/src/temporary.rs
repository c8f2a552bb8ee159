//! `mkstemp` and its kin, where a rule makes new files coupled files or containers.

use super::{containers, coupled, errno, open};
use libc::{c_char, c_int};
use std::ffi::CStr;

/// Letters that stand for others in a template, at its end or before a suffix.
const LETTERS: usize = 6;
/// The characters that replace them.
const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Names that are tried.
const TRIES: u32 = 100;

/// Makes a file under the name of the template with other letters: one of ours if a rule names it,
/// otherwise that of `kernel`.
///
/// # Safety
/// `template` is a C string that may be changed.
pub unsafe fn make(
    template: *mut c_char,
    suffix: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { by_rule(template, suffix, flags) }.unwrap_or_else(|| open::adopt(kernel()))
}

/// Makes a file of ours; `None` if no rule names it.
///
/// # Safety
/// `template` is a C string that may be changed.
unsafe fn by_rule(template: *mut c_char, suffix: c_int, flags: c_int) -> Option<c_int> {
    if !coupled::is_wanted(template) && !containers::is_wanted(template) {
        return None;
    }
    // SAFETY: the caller's promise.
    let len = unsafe { CStr::from_ptr(template) }.to_bytes().len();
    let first = len.checked_sub(LETTERS + usize::try_from(suffix).ok()?)?;
    // SAFETY: the letters are inside the string.
    let letters =
        unsafe { std::slice::from_raw_parts_mut(template.add(first).cast::<u8>(), LETTERS) };
    if letters != b"XXXXXX" {
        return None;
    }
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    for _ in 0..TRIES {
        fill(letters);
        let fd = open::by_name(libc::AT_FDCWD, template, flags, 0o600)?;
        if fd >= 0 || errno::get() != libc::EEXIST {
            return Some(fd);
        }
    }
    Some(errno::fail(libc::EEXIST) as c_int)
}

/// Puts letters by chance into a template.
fn fill(letters: &mut [u8]) {
    let mut random = [0u8; LETTERS];
    // SAFETY: so many bytes can be written; fewer leave zeros, which are letters as well.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), LETTERS, 0) };
    for (letter, random) in letters.iter_mut().zip(random) {
        *letter = ALPHABET[usize::from(random) % ALPHABET.len()];
    }
}
