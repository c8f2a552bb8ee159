//! Directories: adds the coupled files that this program may open to the entries of the kernel.

use super::facts::is_on_disk;
use super::table::TABLE;
use super::{agent, names, number};
use crate::errno;
use crate::lock::Lock;
use crate::state::{self, Inside};
use agg_core::log::{self, Level};
use libc::{c_char, c_int, c_void, dirent64};
use std::cell::UnsafeCell;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The filter of `scandir`, a function of the program.
pub type Filter = Option<unsafe extern "C" fn(*const dirent64) -> c_int>;
/// The order of `scandir`, a function of the program.
pub type Compare =
    Option<unsafe extern "C" fn(*const *const dirent64, *const *const dirent64) -> c_int>;

/// Coupled files for directory streams in which the program has read all entries of the kernel.
pub(super) struct Listings {
    lock: Lock,
    all: UnsafeCell<Vec<Listing>>,
}

/// The coupled files that remain to be read from a directory stream.
struct Listing {
    /// The address of the stream.
    stream: usize,
    names: Vec<OsString>,
    /// The last result of `readdir`, valid until the next call.
    entry: Box<dirent64>,
}

// SAFETY: the list is only touched with the lock.
unsafe impl Sync for Listings {}

impl Listings {
    pub(super) const fn new() -> Self {
        Self { lock: Lock::new(), all: UnsafeCell::new(Vec::new()) }
    }
}

/// The lock of the listings, which is held across `fork`.
pub(super) fn lock() -> &'static Lock {
    &TABLE.listings.lock
}

fn with<T>(work: impl FnOnce(&mut Vec<Listing>) -> T) -> Option<T> {
    let _guard = lock().lock()?;
    // SAFETY: the lock is held.
    Some(work(unsafe { &mut *TABLE.listings.all.get() }))
}

/// Returns the names of the coupled files in `dir` that the kernel does not list, sorted.
fn only_coupled(dir: &Path) -> io::Result<Vec<OsString>> {
    let client = match agent::running() {
        Ok(Some(client)) => client,
        Ok(None) => return Ok(Vec::new()),
        // Do not fail: every program reads directories, and another user's files are not for it.
        Err(error) if agent::is_of_another_user() => {
            log::once(Level::Error, &format!("coupled files are not listed: {error}"));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut all = client.list(dir)?;
    all.retain(|name| {
        let path = dir.join(name);
        names::rule(&path).is_some() && !is_on_disk(&path)
    });
    all.sort_unstable();
    Ok(all)
}

/// Makes an entry for `readdir`. Returns `None` if the file is gone, or its name is too long.
fn entry(dir: &Path, name: &OsString) -> io::Result<Option<dirent64>> {
    // SAFETY: all bits zero are an entry.
    let mut entry: dirent64 = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.len() >= entry.d_name.len() {
        return Ok(None);
    }
    let Some(found) = agent::client()?.stat(&dir.join(name))? else { return Ok(None) };
    entry.d_ino = found.inode;
    entry.d_reclen = size_of::<dirent64>() as u16;
    entry.d_type = libc::DT_REG;
    for (to, from) in entry.d_name.iter_mut().zip(bytes) {
        *to = from.cast_signed() as c_char;
    }
    Ok(Some(entry))
}

/// `readdir`: returns the entries of `kernel`, then one entry for each coupled file.
pub fn readdir(directory: *mut c_void, kernel: impl FnOnce() -> *mut dirent64) -> *mut dirent64 {
    if !state::has_coupled() || Inside::is() {
        return kernel();
    }
    let before = errno::get();
    errno::set(0);
    let entry = kernel();
    let failed = errno::get();
    if !entry.is_null() || failed != 0 {
        errno::set(if failed != 0 { failed } else { before });
        return entry;
    }
    errno::set(before);
    let found = {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        further(directory).map_err(|error| number(&error))
    };
    let found = found.unwrap_or_else(|error| {
        errno::set(error);
        None
    });
    found.unwrap_or(std::ptr::null_mut())
}

/// Returns the next coupled file; `None` if there are no more.
fn further(directory: *mut c_void) -> io::Result<Option<*mut dirent64>> {
    let Some(dir) = directory_of(directory) else { return Ok(None) };
    let known = |all: &mut Vec<Listing>| all.iter().any(|one| one.stream == directory as usize);
    if with(known) == Some(false) {
        let mut names = only_coupled(&dir)?;
        names.reverse();
        // SAFETY: all bits zero are an entry.
        let entry = Box::new(unsafe { std::mem::zeroed() });
        with(|all| all.push(Listing { stream: directory as usize, names, entry }));
    }
    let next = with(|all| {
        let found = all.iter_mut().find(|one| one.stream == directory as usize);
        let Some(listing) = found else { return Ok(None) };
        while let Some(name) = listing.names.pop() {
            if let Some(made) = entry(&dir, &name)? {
                *listing.entry = made;
                return Ok(Some(std::ptr::from_mut(&mut *listing.entry)));
            }
        }
        Ok(None)
    });
    next.unwrap_or(Ok(None))
}

/// Returns the path of the directory of a stream.
fn directory_of(directory: *mut c_void) -> Option<PathBuf> {
    // SAFETY: the program's stream of a directory.
    let fd = unsafe { libc::dirfd(directory.cast()) };
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

/// Forgets the listing of a stream before the stream is rewound, moved or closed.
pub fn rewound(directory: *mut c_void) {
    if state::has_coupled() && !Inside::is() {
        with(|all| all.retain(|one| one.stream != directory as usize));
    }
}

/// `closedir`: forgets the listing; `kernel` closes the stream.
pub fn closedir(directory: *mut c_void, kernel: impl FnOnce() -> c_int) -> c_int {
    rewound(directory);
    kernel()
}

/// Makes the entries of all coupled files in `dir` that the kernel does not list.
fn entries(dir: &Path) -> io::Result<Vec<dirent64>> {
    let made = only_coupled(dir)?.into_iter().filter_map(|name| entry(dir, &name).transpose());
    made.collect()
}

/// Frees the list of a `scandir` that fails, and sets `errno`.
///
/// # Safety
/// The list and its entries are the C library's memory.
unsafe fn give_up(to: *mut *mut *mut dirent64, count: c_int, error: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        (0..count as usize).for_each(|at| libc::free((*to).add(at).read().cast()));
        libc::free((*to).cast());
        *to = std::ptr::null_mut();
    }
    errno::fail(error) as c_int
}

/// `scandir`: adds the coupled files to the list `to`, which `kernel` has filled with `count`
/// entries, and sorts it with `compare`. Returns the new number of entries.
///
/// # Safety
/// As the C library demands.
pub unsafe fn scandir(
    path: *const c_char,
    to: *mut *mut *mut dirent64,
    (filter, compare): (Filter, Compare),
    count: c_int,
) -> c_int {
    if count < 0 || !state::has_coupled() || Inside::is() {
        return count;
    }
    let found = {
        let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
        let dir = crate::containers::joined(libc::AT_FDCWD, path);
        let dir = dir.and_then(|dir| dir.canonicalize().ok()).unwrap_or_default();
        entries(&dir).map_err(|error| number(&error))
    };
    // SAFETY: the caller's promise.
    let fail = |error| unsafe { give_up(to, count, error) };
    let made = match found {
        Ok(made) => made,
        Err(error) => return fail(error),
    };
    // SAFETY: the caller's promise: the list and its entries are the C library's memory.
    unsafe {
        // Apply the filter of the program.
        let made = made.iter().filter(|one| filter.is_none_or(|it| it(&raw const **one) != 0));
        let made: Vec<_> = made.collect();
        let all = count as usize + made.len();
        if made.is_empty() {
            return count;
        }
        let list = libc::realloc((*to).cast(), all * size_of::<*mut dirent64>());
        if list.is_null() {
            return fail(libc::ENOMEM);
        }
        *to = list.cast();
        let mut end = count as usize;
        for one in made {
            let room = libc::malloc(size_of::<dirent64>()).cast::<dirent64>();
            if room.is_null() {
                return give_up(to, end as c_int, libc::ENOMEM);
            }
            room.write(*one);
            (*to).add(end).write(room);
            end += 1;
        }
        if let Some(compare) = compare {
            let compare = std::mem::transmute::<
                unsafe extern "C" fn(*const *const dirent64, *const *const dirent64) -> c_int,
                unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
            >(compare);
            libc::qsort((*to).cast(), end, size_of::<*mut dirent64>(), Some(compare));
        }
        end as c_int
    }
}

/// The record that `glob` fills, as glibc declares it, with the functions for `GLOB_ALTDIRFUNC`.
#[repr(C)]
pub struct Globbed {
    paths: usize,
    list: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    closedir: unsafe extern "C" fn(*mut c_void),
    readdir: unsafe extern "C" fn(*mut libc::DIR) -> *mut dirent64,
    opendir: unsafe extern "C" fn(*const c_char) -> *mut libc::DIR,
    lstat: unsafe extern "C" fn(*const c_char, *mut libc::stat64) -> c_int,
    stat: unsafe extern "C" fn(*const c_char, *mut libc::stat64) -> c_int,
}

unsafe extern "C" fn close_directory(directory: *mut c_void) {
    // SAFETY: `glob` passes a stream that it has opened.
    unsafe { libc::closedir(directory.cast()) };
}

/// `glob`: passes the interposed functions to `kernel`, because calls inside the C library cannot
/// be interposed. Leaves the call unchanged if the program brings its own functions.
///
/// # Safety
/// `to` points to the record of the call.
pub unsafe fn glob(flags: c_int, to: *mut Globbed, kernel: impl FnOnce(c_int) -> c_int) -> c_int {
    if !state::has_coupled() || Inside::is() || flags & libc::GLOB_ALTDIRFUNC != 0 {
        return kernel(flags);
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*to).closedir = close_directory;
        ((*to).readdir, (*to).opendir) = (libc::readdir64, libc::opendir);
        ((*to).lstat, (*to).stat) = (libc::lstat64, libc::stat64);
    }
    kernel(flags | libc::GLOB_ALTDIRFUNC)
}
