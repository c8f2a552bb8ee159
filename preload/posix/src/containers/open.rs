//! Opens and closes containers, and hands them to other processes.

use super::super::host::process;
use super::super::next;
use super::super::state::{self, Inside};
use super::super::{descriptors, errno, spool};
use super::open_file::{Found, Held, State};
use super::paths::{is_of_a_directory, named};
use super::table::{self, OpenContainer};
use super::{areas, live, locks, number, own, placeholder, set, write_buffer};
use crate::config;
use crate::sets::is_forbidden;
use agg_core::blob::{self, Container, Create, Layout, is_container};
use agg_core::log::{self, Level};
use agg_core::settings::blobs::BlobRule;
use libc::{c_char, c_int, mode_t};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The flag of `O_TMPFILE` alone, with which a directory is meant.
const IN_DIRECTORY: c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;
/// `O_LARGEFILE`, which the kernel reports for every file that a 64-bit program opens.
const LARGE: c_int = if cfg!(target_arch = "x86_64") { 0o100_000 } else { 0o400_000 };

/// Opens a container, or makes one where a rule says so; `None` if the call means something else.
/// `vacate` ends the open file that the new descriptor belonged to, if it was closed unseen.
pub fn open(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    vacate: fn(c_int),
) -> Option<c_int> {
    if Inside::is() || state::is_guest() || !state::has_containers() || flags & IN_DIRECTORY != 0 {
        return None;
    }
    let before = errno::Keep::new();
    let _inside = Inside::enter();
    let name = path;
    let path = named(at, path, flags & libc::O_NOFOLLOW == 0)?;
    if flags & (libc::O_DIRECTORY | libc::O_PATH) != 0 {
        // A file is no directory; a descriptor that only stands for a name is left to the kernel.
        let refused = flags & libc::O_DIRECTORY != 0 && is_container(&path);
        drop(before);
        return refused.then(|| errno::fail(libc::ENOTDIR) as c_int);
    }
    let result = match placeholder::behind(&path) {
        Some(meaning) => again(&meaning, flags, vacate),
        None if is_of_a_directory(name) => is_container(&path).then_some(Err(libc::ENOTDIR))?,
        None => find(&path, flags, mode)?.and_then(|found| take(found, path, flags, vacate)),
    };
    drop(before);
    Some(result.unwrap_or_else(|error| errno::fail(error) as c_int))
}

/// Whether a new file of this name is to be a container.
pub fn is_wanted(name: *const c_char) -> bool {
    if !state::has_containers() || Inside::is() || state::is_guest() {
        return false;
    }
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    named(libc::AT_FDCWD, name, false).is_some_and(|path| {
        let text = String::from_utf8_lossy(path.as_os_str().as_bytes());
        BlobRule::of(&config::get().settings.blobs, &text).is_some()
    })
}

/// Opens the container that an open descriptor stands for, by the name of that descriptor.
fn again(meaning: &placeholder::Meaning, flags: c_int, vacate: fn(c_int)) -> Result<c_int, c_int> {
    const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
    if flags & NEW == NEW {
        return Err(libc::EEXIST);
    }
    let path = now_at(meaning).ok_or(libc::ENOENT)?;
    let found = find(&path, flags & !NEW, 0).ok_or(libc::ENOENT)??;
    take(found, path, flags & !NEW, vacate)
}

/// Where the container of a placeholder is, if it is known: under the name that it had; where a
/// descriptor of this process leads, since somebody renamed or removed it; or under another name in
/// the same directory.
fn now_at(meaning: &placeholder::Meaning) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| table::identity_of(path) == meaning.identity;
    let is_set = || {
        set::find(&meaning.path)
            .is_ok_and(|found| found.is_some_and(|found| found.identity() == meaning.identity))
    };
    if is_it(&meaning.path) || is_set() {
        return Some(meaning.path.clone());
    }
    if let Some(path) = own::place_of(meaning.identity) {
        return Some(path);
    }
    let others = meaning.path.parent()?.read_dir().ok()?.flatten();
    let numbered = others.filter(|other| other.ino() == meaning.identity.1);
    numbered.map(|other| other.path()).find(is_it)
}

/// Times that a container is looked for that somebody is removing.
const ATTEMPTS: usize = 64;

/// The container or set that is meant.
fn find(path: &Path, flags: c_int, mode: mode_t) -> Option<Result<Found, c_int>> {
    match set::find(path) {
        Err(error) if flags & libc::O_CREAT != 0 && is_forbidden(&error) => {}
        Err(error) => return Some(Err(number(&error))),
        Ok(Some(named)) => return Some(open_set(named, flags)),
        Ok(None) => {}
    }
    for _ in 0..ATTEMPTS {
        match find_container(path, flags, mode)?.and_then(Found::container) {
            // Somebody is removing it: as if that had been before.
            Err(libc::ENOENT) => {}
            found => return Some(found),
        }
    }
    Some(Err(libc::ENOENT))
}

/// Opens a set for reading, or the container that it becomes when it is changed.
fn open_set(named: set::Named, flags: c_int) -> Result<Found, c_int> {
    const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
    if flags & NEW == NEW {
        return Err(libc::EEXIST);
    }
    if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
        let container =
            named.change(flags & libc::O_TRUNC == 0).and_then(|it| Container::open(&it));
        return Found::container(container.map_err(|error| number(&error))?);
    }
    let identity = named.identity();
    named.open().map(|set| Found::set(set, identity)).map_err(|error| number(&error))
}

fn find_container(path: &Path, flags: c_int, mode: mode_t) -> Option<Result<Container, c_int>> {
    let (creates, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
    match path.symlink_metadata() {
        Ok(facts) if facts.is_dir() && is_container(path) => {
            if creates && exclusive {
                return Some(Err(libc::EEXIST));
            }
            // Recover the bytes of a killed writer before any later bytes are written.
            if config::get().settings.keeps_back() {
                spool::recover();
            }
            Some(Container::open(path).map_err(|error| number(&error)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let place = path.parent()?;
            if is_container(place) {
                return Some(Err(libc::ENOTDIR));
            }
            if !creates || is_hidden(place) {
                return None;
            }
            let text = String::from_utf8_lossy(path.as_os_str().as_bytes());
            let rule = BlobRule::of(&config::get().settings.blobs, &text)?;
            if rule.layout != Layout::Container {
                let (why, command) =
                    ("made without MPI, it stays a container", rule.layout.command(&text));
                log::once(
                    Level::Warn,
                    &format!("{text}: {why}; the set is made of it by: {command}"),
                );
            }
            let how = Create { mode, exclusive, data_crc: rule.data_crc };
            Some(Container::create(path, &how).map_err(|error| number(&error)))
        }
        _ => None,
    }
}

/// Whether a directory is a container that is being made or removed, by its name, which has a
/// random number of ours.
fn is_hidden(place: &Path) -> bool {
    place.file_name().is_some_and(blob::is_hidden)
}

/// Gives an opened container or set a descriptor.
fn take(found: Found, path: PathBuf, flags: c_int, vacate: fn(c_int)) -> Result<c_int, c_int> {
    let access = flags & libc::O_ACCMODE;
    let wants = [libc::R_OK, libc::W_OK, libc::R_OK | libc::W_OK][(access as usize).min(2)];
    if let Held::Container(container) = &found.held
        && !container.was_made_here()
    {
        may(&path, wants | if flags & libc::O_TRUNC != 0 { libc::W_OK } else { 0 })?;
    }
    let kept = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOCTTY);
    let os = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let fd = placeholder::make(&path, found.identity, kept).map_err(os)?;
    agg_core::log!(Level::Debug, "{}: opened, a container or a set", path.display());
    // SAFETY: the number was opened just now.
    let undo = || unsafe { next::close(fd) };
    if fd as usize >= super::super::descriptors::LIMIT {
        undo();
        return Err(libc::EMFILE);
    }
    vacate(fd);
    let open = table::add(fd, found, path, kept & !libc::O_CLOEXEC);
    if flags & libc::O_CLOEXEC == 0 {
        locks::prepare(fd);
    }
    // Linux empties the file also if it is opened for reading only.
    if flags & libc::O_TRUNC != 0 {
        let emptied = open.locked(|_, state| match state.size()? {
            0 => Ok(()),
            _ => state.writer()?.set_size(0),
        });
        if let Err(error) = emptied {
            let _ = forget(fd);
            undo();
            return Err(error);
        }
        live::renew(open.identity);
    }
    Ok(fd)
}

/// # Errors
/// `EACCES`, `EROFS`, ... if the process may not access the file so; its manifest has its mode.
fn may(path: &Path, wants: c_int) -> Result<(), c_int> {
    let manifest = path.join(agg_core::blob::MANIFEST);
    let name = std::ffi::CString::new(manifest.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    // SAFETY: the name is a C string.
    let allowed =
        unsafe { next::faccessat(libc::AT_FDCWD, name.as_ptr(), wants, libc::AT_EACCESS) };
    if allowed == 0 { Ok(()) } else { Err(errno::get()) }
}

/// When the library is loaded: containers that the program before this one in the process, or the
/// parent, has left open.
pub fn attach() {
    let _inside = Inside::enter();
    blob::keep_descriptors_above(placeholder::aside());
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers = numbers.collect::<Vec<c_int>>();
    let mut unknown = Vec::new();
    for fd in numbers.iter().copied() {
        let Some(meaning) = placeholder::meaning(fd) else { continue };
        let same =
            |other: &(c_int, &OpenContainer)| placeholder::inode(other.0) == placeholder::inode(fd);
        if let Some((_, open)) = table::all().find(same) {
            descriptors::put(fd, open);
            continue;
        }
        // Where the container is gone, calls fail on the placeholder.
        let found = now_at(&meaning)
            .and_then(|path| Some((find(&path, meaning.flags & libc::O_ACCMODE, 0)?.ok()?, path)));
        let Some((found, path)) = found else {
            unknown.push(meaning.identity);
            continue;
        };
        let open = table::add(fd, found, path, meaning.flags);
        open.share();
        locks::attach(fd, open, &numbers);
    }
    locks::end_unclaimed(&numbers, &unknown);
}

/// Takes `fd` out of the table before it is closed; with the last one the log ends.
///
/// # Errors
/// The error that `close` returns to the program.
pub(super) fn forget(fd: c_int) -> Result<(), c_int> {
    let Some(open) = table::get(fd) else { return Ok(()) };
    let Some(is_last) = descriptors::take(fd, open) else { return Ok(()) };
    // Before its locks end, after which others may look.
    write_buffer::store_of(open);
    locks::closed(open, is_last);
    if !is_last {
        return Ok(());
    }
    let _errno = errno::Keep::new();
    // As long as its bytes are changed in memory, somebody writes.
    if areas::has_live(open) {
        return open.locked(|_, state| state.store_kept());
    }
    open.finish()
}

/// Remembers that `new` shares the description of `fd`, which it was duplicated from.
pub(super) fn duplicated(open: &'static OpenContainer, fd: c_int, new: c_int) -> c_int {
    if state::is_guest() {
        locks::lend(fd, new);
    } else if new >= 0 {
        // `dup2` of the kernel does not report errors of closing the old descriptor either.
        let _ = forget(new);
        descriptors::put(new, open);
        locks::inherit(new);
    }
    new
}

/// `fcntl`, but for the commands that duplicate.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn control(
    open: &'static OpenContainer,
    fd: c_int,
    command: c_int,
    argument: usize,
) -> Result<c_int, c_int> {
    // SAFETY: the caller's arguments, passed on.
    let kernel = || unsafe { next::fcntl(fd, command, argument) };
    match command {
        libc::F_GETFD => Ok(kernel()),
        libc::F_SETFD => {
            let done = kernel();
            locks::inherit(fd);
            Ok(done)
        }
        libc::F_GETFL => Ok(open.flags | placeholder::status(fd) | LARGE),
        libc::F_SETFL => {
            if argument as c_int & (libc::O_DIRECT | libc::O_ASYNC) != 0 {
                return Err(libc::EINVAL);
            }
            Ok(placeholder::set_status(fd, argument as c_int))
        }
        // SAFETY: with a command for locks the argument points to one.
        _ => unsafe { locks::control(open, fd, command, argument as *mut libc::flock64) }
            .unwrap_or(Err(libc::EINVAL)),
    }
}

/// Before `exec`, which may fail: ends the logs, so that the last process that has a container open
/// seals it. Logs with mapped pages stay, because only the kernel can end those. The next program
/// releases containers without a name.
pub fn settle_all() {
    if !state::is_guest() {
        let is_mapped = |open: &OpenContainer| areas::has_live(open);
        let ended = |open: &OpenContainer, state: &mut State| {
            let passed = state.pass_hold_on(true);
            let ended = if is_mapped(open) { state.store_kept() } else { state.end() };
            ended.and(passed)
        };
        process().passes.store(true, Relaxed);
        each(opens(), ended);
    }
}

/// Before a child begins: it shares all descriptions. This program is not ended by another one, so
/// its holds stay its own.
pub fn before_child() {
    table::all().for_each(|(_, open)| open.share());
    if process().passes.swap(false, Relaxed) && !state::is_guest() {
        each(opens(), |_, state| state.pass_hold_on(false));
    }
}

/// Lets `act` end something of each, and logs its errors.
fn each(
    opens: impl Iterator<Item = &'static OpenContainer>,
    act: impl Fn(&OpenContainer, &mut State) -> agg_core::Result<()>,
) {
    let _errno = errno::Keep::new();
    for open in opens {
        if let Err(error) = open.locked(&act) {
            table::tell(open, error);
        }
    }
}

/// All that have descriptors or live mappings.
fn opens() -> impl Iterator<Item = &'static OpenContainer> {
    table::all().map(|(_, open)| open).chain(areas::live())
}

/// At the end of the process: streams are written out, logs end.
pub fn at_exit() {
    if !state::is_guest() && opens().next().is_some() {
        // SAFETY: null means all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        each(opens(), |_, state| state.end());
        locks::at_exit(opens());
        each(opens(), |_, state| state.release());
    }
}

/// In a child after `fork`: it writes to logs of its own.
pub fn in_child() {
    // Closes below are the library's own, not the program's.
    let _inside = Inside::enter();
    areas::in_child();
    for open in opens() {
        open.disown();
    }
    write_buffer::in_child();
    locks::in_child();
}
