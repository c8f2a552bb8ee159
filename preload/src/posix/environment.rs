//! The environment of programs that are started while containers are open: they may inherit one,
//! and without this library every call on it would fail.

use aggio_posix::{containers, state};
use libc::{c_char, c_void};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const SETTINGS: &[u8] = b"AGGIO_";

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment of this process.
pub fn own() -> *const *const c_char {
    // SAFETY: the C library's own variable.
    unsafe { environ }
}

/// The settings of this process when it was started: programs clear their environment before they
/// start another one.
static STARTED_WITH: OnceLock<Vec<CString>> = OnceLock::new();

/// Remembers the settings of this process.
pub fn remember() {
    // SAFETY: the process's own environment.
    let all = unsafe { entries(own()) };
    let settings = all.into_iter().filter(|entry| entry.to_bytes().starts_with(SETTINGS));
    STARTED_WITH.get_or_init(|| settings.map(CStr::to_owned).collect());
}

/// An environment as `execve` takes it.
pub struct Environment {
    given: *const *const c_char,
    /// The given list with the missing variables added; empty if none was missing.
    list: Vec<*const c_char>,
    _made: Vec<CString>,
}

impl Environment {
    /// Whether nothing was missing.
    pub fn is_as_given(&self) -> bool {
        self.list.is_empty()
    }

    /// For `execve`, as long as `self` lives.
    pub fn as_ptr(&self) -> *mut c_void {
        if self.list.is_empty() {
            self.given as *mut c_void
        } else {
            self.list.as_ptr() as *mut c_void
        }
    }
}

/// All entries.
///
/// # Safety
/// `list` is as `execve` takes it, or null.
unsafe fn entries<'a>(list: *const *const c_char) -> Vec<&'a CStr> {
    let (mut all, mut at) = (Vec::new(), list);
    // SAFETY: the caller's promise; nothing behind the null is looked at.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            all.push(CStr::from_ptr(*at));
            at = at.add(1);
        }
    }
    all
}

/// The environment that another program gets: `given`, and this library with its settings if they
/// are not in it while containers are open.
///
/// # Safety
/// `given` is as `execve` takes it and lives as long as the result.
pub unsafe fn passed_on(given: *const *const c_char) -> Environment {
    // SAFETY: the caller's promise.
    let there = unsafe { entries(given) };
    let as_given = Environment { given, list: Vec::new(), _made: Vec::new() };
    if !state::has_containers() || !containers::any() {
        return as_given;
    }
    let preloaded = there.iter().find_map(|entry| entry.to_bytes().strip_prefix(PRELOAD));
    let Some(library) = library() else { return as_given };
    if preloaded.is_some_and(|list| names(list, &library)) {
        return as_given;
    }
    let mut made = Vec::new();
    let list = [Some(library.as_os_str().as_bytes()), preloaded.filter(|list| !list.is_empty())];
    let list: Vec<_> = list.into_iter().flatten().collect();
    made.extend(CString::new([PRELOAD, &list.join(&b':')].concat()).ok());
    let settings = STARTED_WITH.get().into_iter().flatten();
    made.extend(settings.filter(|entry| !has(&there, entry)).cloned());
    let kept = there.iter().filter(|entry| !entry.to_bytes().starts_with(PRELOAD));
    let mut list: Vec<_> = kept.map(|entry| entry.as_ptr()).collect();
    list.extend(made.iter().map(|entry| entry.as_ptr()));
    list.push(std::ptr::null());
    Environment { given, list, _made: made }
}

/// Whether a list of libraries contains this one, in any directory.
fn names(list: &[u8], library: &Path) -> bool {
    let parts = list.split(|byte| matches!(byte, b':' | b' '));
    parts
        .map(|part| Path::new(OsStr::from_bytes(part)))
        .any(|part| part.file_name() == library.file_name())
}

/// Whether an environment has the variable of an entry.
fn has(there: &[&CStr], entry: &CStr) -> bool {
    let name =
        |entry: &CStr| entry.to_bytes().split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    there.iter().any(|other| name(other) == name(entry))
}

/// Where this library is.
fn library() -> Option<PathBuf> {
    // SAFETY: all bits zero are a record.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = library as *const () as *const c_void;
    // SAFETY: the address is in this library; the record outlives the call.
    let known = unsafe { libc::dladdr(here, &raw mut found) } != 0 && !found.dli_fname.is_null();
    // SAFETY: the name is a C string as long as the library is loaded.
    let name = known.then(|| unsafe { CStr::from_ptr(found.dli_fname) })?;
    let _inside = state::Inside::enter();
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_libraries_has_this_one_under_any_directory() {
        let library = Path::new("/opt/lib/libaggio.so");
        assert!(names(b"libaggio.so", library) && names(b"/x/a.so:/y/libaggio.so", library));
        assert!(!names(b"", library) && !names(b"/x/libaggio.so.old libother.so", library));
    }

    #[test]
    fn a_variable_is_the_same_whatever_its_value() {
        assert!(has(&[c"A=1", c"AGGIO_BLOB=x"], c"AGGIO_BLOB=y"));
        assert!(!has(&[c"A=1", c"AGGIO_BLOB_=x"], c"AGGIO_BLOB=y"));
    }
}
