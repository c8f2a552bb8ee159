//! `mkstemp` and its kin, where a rule makes new files containers.

use super::super::errno;
use super::super::state::{self, Inside};
use super::open;
use super::paths::named;
use crate::config;
use agg_core::settings::blobs::BlobRule;
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;

/// Letters that stand for others in a template, at its end or before a suffix.
const LETTERS: usize = 6;
/// The characters that replace them.
const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Names that are tried.
const TRIES: u32 = 100;

/// Makes a container under the name of the template with other letters; `None` if no container is
/// wanted.
///
/// # Safety
/// `template` is a C string that may be changed.
pub unsafe fn make(template: *mut c_char, suffix: c_int, flags: c_int) -> Option<c_int> {
    if !state::has_containers() || Inside::is() || state::is_guest() {
        return None;
    }
    // SAFETY: the caller's promise.
    let len = unsafe { CStr::from_ptr(template) }.to_bytes().len();
    let first = len.checked_sub(LETTERS + usize::try_from(suffix).ok()?)?;
    // SAFETY: the letters are inside the string.
    let letters =
        unsafe { std::slice::from_raw_parts_mut(template.add(first).cast::<u8>(), LETTERS) };
    if letters != b"XXXXXX" || !is_wanted(template) {
        return None;
    }
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    for _ in 0..TRIES {
        fill(letters);
        let fd = open::open(libc::AT_FDCWD, template, flags, 0o600)?;
        if fd >= 0 || errno::get() != libc::EEXIST {
            return Some(fd);
        }
    }
    Some(errno::fail(libc::EEXIST) as c_int)
}

/// Whether a rule names the template with any letters.
fn is_wanted(template: *const c_char) -> bool {
    let _errno = errno::Keep::new();
    let _inside = Inside::enter();
    let path = named(libc::AT_FDCWD, template, false);
    path.is_some_and(|path| {
        let text = String::from_utf8_lossy(path.as_os_str().as_bytes());
        BlobRule::of(&config::get().settings.blobs, &text).is_some()
    })
}

/// Puts letters by chance into a template.
pub fn fill(letters: &mut [u8]) {
    let mut random = [0u8; LETTERS];
    // SAFETY: so many bytes can be written; fewer leave zeros, which are letters as well.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), LETTERS, 0) };
    for (letter, random) in letters.iter_mut().zip(random) {
        *letter = ALPHABET[usize::from(random) % ALPHABET.len()];
    }
}
