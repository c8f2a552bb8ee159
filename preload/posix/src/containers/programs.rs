//! Containers that are executed: the kernel gets a copy in memory that nobody can change, or the
//! interpreter that a script names.

use super::super::next;
use super::super::state::{self, Inside};
use super::paths::named;
use super::{number, table};
use agg_core::blob::{Container, Reader, is_container};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters that are followed, as the kernel does.
const DEEPEST: usize = 5;
/// The most that the kernel reads of the first line of a script.
const FIRST_LINE: usize = 256;
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// The program that is executed instead of a container.
pub struct Instead {
    path: CString,
    /// Arguments that replace the first one of the caller; if empty, the caller's arguments are
    /// used.
    first: Vec<CString>,
    /// The container itself.
    container: CString,
    /// The copy in memory; -1 if there is none.
    copy: c_int,
}

impl Instead {
    /// The file for the kernel.
    pub fn path(&self) -> *const c_char {
        self.path.as_ptr()
    }

    /// The arguments, which live as long as `self` and those of the caller.
    ///
    /// # Safety
    /// `arguments` are as `execve` takes them, or null.
    pub unsafe fn arguments(&self, arguments: *const *const c_char) -> Vec<*const c_char> {
        let mut all: Vec<_> = self.first.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: the caller's promise.
        all.extend(unsafe { rest(arguments, usize::from(!all.is_empty())) });
        all.push(std::ptr::null());
        all
    }

    /// The command for files that the kernel cannot execute: `/bin/sh` with the container.
    ///
    /// # Safety
    /// As [`Instead::arguments`].
    pub unsafe fn by_shell(&self, arguments: *const *const c_char) -> Vec<*const c_char> {
        let mut all = vec![c"/bin/sh".as_ptr(), self.container.as_ptr()];
        // SAFETY: the caller's promise.
        all.extend(unsafe { rest(arguments, 1) });
        all.push(std::ptr::null());
        all
    }
}

impl Drop for Instead {
    fn drop(&mut self) {
        if self.copy >= 0 {
            // SAFETY: the descriptor is ours.
            unsafe { next::close(self.copy) };
        }
    }
}

/// The arguments from the one with this number on, without the null at their end.
///
/// # Safety
/// `arguments` are as `execve` takes them, or null.
unsafe fn rest(arguments: *const *const c_char, from: usize) -> Vec<*const c_char> {
    let mut all = Vec::new();
    if !arguments.is_null() {
        // SAFETY: the caller's promise; nothing behind the null is looked at.
        unsafe {
            let mut at = arguments;
            while !(*at).is_null() {
                all.push(*at);
                at = at.add(1);
            }
        }
    }
    all.drain(..from.min(all.len()));
    all
}

/// The program to execute instead of `path`; `None` if it is no container.
pub fn instead(path: *const c_char) -> Option<Result<Instead, c_int>> {
    if !state::has_containers() || Inside::is() {
        return None;
    }
    let _inside = Inside::enter();
    let container = named(libc::AT_FDCWD, path, true).filter(|path| is_container(path))?;
    // SAFETY: the program's path is a C string.
    let name = unsafe { CStr::from_ptr(path) }.to_owned();
    Some(of(&container, name, 0))
}

/// The program to execute instead of the file that `PATH` leads to; `None` if it is no container.
pub fn instead_in_path(name: *const c_char) -> Option<Result<Instead, c_int>> {
    if !state::has_containers() || Inside::is() || name.is_null() {
        return None;
    }
    // SAFETY: the program's name is a C string.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    if bytes.is_empty() || bytes.contains(&b'/') {
        return instead(name);
    }
    let _inside = Inside::enter();
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    for folder in std::env::split_paths(&path) {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let candidate = folder.join(OsStr::from_bytes(bytes));
        if is_container(&candidate) {
            let name = CString::new(candidate.as_os_str().as_bytes()).ok()?;
            match of(&candidate, name, 0) {
                Err(libc::EACCES) => continue,
                other => return Some(other),
            }
        }
        // The C library will find it as well.
        if is_program(&candidate) {
            return None;
        }
    }
    None
}

fn is_program(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the name is a C string.
    let allowed =
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    allowed == 0 && path.is_file()
}

/// The program to execute instead of the open container `fd`; `None` if it is none.
pub fn instead_of(fd: c_int) -> Option<Result<Instead, c_int>> {
    let open = table::get(fd)?;
    let _inside = Inside::enter();
    // The container may have been renamed, or its name removed.
    let now = match open.locked(|_, state| state.path_now()) {
        Ok(now) => now,
        Err(error) => return Some(Err(error)),
    };
    let path = now.as_deref().unwrap_or(&open.path);
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    Some(of(path, name, 0))
}

/// `name` is the name that the program passed for the container.
fn of(container: &Path, name: CString, depth: usize) -> Result<Instead, c_int> {
    let opened = Container::open(container).map_err(|error| number(&error))?;
    let allowed = opened.attributes().map_err(|error| number(&error))?.allows(1);
    if !allowed {
        return Err(libc::EACCES);
    }
    let reader = super::verified(&opened).map_err(|error| number(&error))?;
    let mut line = [0; FIRST_LINE];
    let read = reader.read_at(&mut line, 0).map_err(|error| number(&error))?;
    match interpreter(&line[..read])? {
        Some(words) => script(name, words, depth),
        None => copied(&reader, name),
    }
}

/// The interpreter, and its argument if there is one, that the first line names.
fn interpreter(start: &[u8]) -> Result<Option<Vec<CString>>, c_int> {
    let Some(line) = start.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (program, argument) = (&line[..end], line[end..].trim_ascii());
    if program.is_empty() {
        return Err(libc::ENOEXEC);
    }
    let words = [program, argument].into_iter().filter(|word| !word.is_empty());
    words
        .map(|word| CString::new(word).map_err(|_| libc::ENOEXEC))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn script(name: CString, mut words: Vec<CString>, depth: usize) -> Result<Instead, c_int> {
    let program = words[0].clone();
    words.push(name.clone());
    let path = Path::new(OsStr::from_bytes(program.to_bytes()));
    if !is_container(path) {
        return Ok(Instead { path: program, first: words, container: name, copy: -1 });
    }
    if depth == DEEPEST {
        return Err(libc::ELOOP);
    }
    let mut inner = of(path, program.clone(), depth + 1)?;
    if !inner.first.is_empty() {
        words.remove(0);
    }
    inner.first.append(&mut words);
    inner.container = name;
    Ok(inner)
}

/// A copy in memory under a name that the kernel executes.
fn copied(reader: &Reader, name: CString) -> Result<Instead, c_int> {
    let os = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: the name is a C string.
    let memory = unsafe { libc::memfd_create(c"aggio-program".as_ptr(), libc::MFD_CLOEXEC) };
    if memory < 0 {
        return Err(os(io::Error::last_os_error()));
    }
    let filled = fill(memory, reader);
    // A file that is open for writing is not executed.
    let path = CString::new(format!("/proc/self/fd/{memory}")).map_err(|_| libc::EIO)?;
    // SAFETY: the path is a C string; plain numbers; the first descriptor is ours.
    let copy = unsafe {
        let copy = next::open64(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        let error = io::Error::last_os_error();
        next::close(memory);
        if copy < 0 { Err(os(error)) } else { Ok(copy) }
    };
    let made = copy.and_then(|copy| {
        let path = CString::new(format!("/proc/self/fd/{copy}")).map_err(|_| libc::EIO)?;
        Ok(Instead { path, first: Vec::new(), container: name, copy })
    })?;
    filled.map(|()| made)
}

fn fill(memory: c_int, reader: &Reader) -> Result<(), c_int> {
    let (mut bytes, mut at) = (vec![0; PIECE], 0);
    loop {
        let read = reader.read_at(&mut bytes, at).map_err(|error| number(&error))?;
        if read == 0 {
            return Ok(());
        }
        let mut done = 0;
        while done < read {
            // SAFETY: the bytes outlive the call.
            let wrote = unsafe { next::write(memory, bytes[done..].as_ptr().cast(), read - done) };
            match usize::try_from(wrote) {
                Ok(wrote) => done += wrote,
                Err(_) => return Err(super::super::errno::get()),
            }
        }
        at += read as u64;
    }
}
