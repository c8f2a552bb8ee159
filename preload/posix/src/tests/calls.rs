//! A process in which files are served, and calls as the host makes them.

use crate::operations::{Call, Transfer};
use crate::*;
use agg_core::Engine;
use agg_core::blob::{Container, is_container};
use agg_core::diagnostics::Diagnostics;
use agg_core::driver::Drivers;
use agg_core::hints::Sources;
use agg_core::settings::Settings;
use libc::{c_int, off64_t};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

fn spool() -> PathBuf {
    std::env::temp_dir().join(format!("aggio-posix-{}", std::process::id()))
}

fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let variable = |name: &str| match name {
            "AGGIO_POSIX" => Some("close.*:close,causal.*:causal".into()),
            "AGGIO_COUPLE" => Some("coupled.*".into()),
            "AGGIO_BLOB" => Some("blob.*,late.*:close".into()),
            "AGGIO_SPOOL" => Some(spool().display().to_string()),
            _ => None,
        };
        let mut complaints = Diagnostics::default();
        let settings = Settings::read(&variable, &[], &mut complaints);
        assert!(settings.keeps_back() && settings.blobs.len() == 2);
        let engine = Engine::new(Drivers::new(&settings.blobs, true));
        Config { settings, sources: Sources::default(), engine: Arc::new(engine), sets: None }
    })
}

/// Has calls served, one test at a time, as they are of one process; nothing is left when it ends.
pub(crate) fn served() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static STARTED: Once = Once::new();
    extern "C" fn end() {
        process::at_exit();
        std::fs::remove_dir_all(spool()).expect("the spool's directory goes");
    }
    let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    STARTED.call_once(|| {
        std::fs::create_dir(spool()).expect("a directory for the spool");
        install(Host { config, at_exit: || () });
        state::start(true, false);
        // SAFETY: the function may be called at the end.
        assert_eq!(unsafe { libc::atexit(end) }, 0);
    });
    turn
}

/// Names of files: without a rule, of each mode, and containers without and with writes that wait.
pub(super) const KINDS: [&str; 5] = ["plain.x", "causal.x", "close.x", "blob.x", "late.x"];

/// Lets `act` use a file of each kind in an empty directory, which is empty at the end, too.
pub(super) fn each(act: impl Fn(&Path)) {
    let _served = served();
    for kind in KINDS {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(kind);
        act(&path);
        if path.exists() {
            unlink(&path).unwrap();
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{kind}");
    }
}

pub(super) type Told = Result<i64, c_int>;

pub(super) fn told(result: impl Into<i64>) -> Told {
    let result = result.into();
    if result < 0 { Err(errno::get()) } else { Ok(result) }
}

pub(super) fn size(result: isize) -> Told {
    told(result as i64)
}

pub(super) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

pub(super) fn open(path: &Path, flags: c_int) -> Result<c_int, c_int> {
    let path = c_path(path);
    // SAFETY: a C string.
    let kernel = || unsafe { next::open64(path.as_ptr(), flags, 0o644) };
    let fd = crate::open::open(libc::AT_FDCWD, path.as_ptr(), flags, 0o644, kernel);
    if fd < 0 { Err(errno::get()) } else { Ok(fd) }
}

pub(super) fn close(fd: c_int) -> Told {
    told(crate::open::close(fd))
}

/// Bytes of the program, to be written.
fn written(bytes: &[u8]) -> Transfer {
    // SAFETY: the calls of the tests below end before the bytes go.
    unsafe { Transfer::one(bytes.as_ptr().cast(), bytes.len()) }
}

pub(super) fn write(fd: c_int, bytes: &[u8]) -> Told {
    size(served::write(fd, &written(bytes)))
}

pub(super) fn write_at(fd: c_int, bytes: &[u8], at: off64_t) -> Told {
    size(served::write(fd, &written(bytes).at(at)))
}

/// Writes pieces by one call with vectors.
pub(super) fn write_pieces(fd: c_int, pieces: &[&[u8]], at: Option<off64_t>) -> Told {
    let vector = |piece: &&[u8]| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    };
    let vectors: Vec<_> = pieces.iter().map(vector).collect();
    // SAFETY: the pieces and vectors outlive the call.
    let mut transfer = unsafe { Transfer::list(vectors.as_ptr(), vectors.len() as c_int) };
    transfer.offset = at;
    size(served::write(fd, &transfer))
}

/// At most 99 bytes, at the position or from a place on.
fn read_from(fd: c_int, at: Option<off64_t>) -> Result<Vec<u8>, c_int> {
    let mut room = vec![0; 99];
    // SAFETY: the room outlives the call.
    let mut transfer = unsafe { Transfer::one(room.as_mut_ptr().cast(), room.len()) };
    transfer.offset = at;
    let read = size(served::read(fd, &transfer))?;
    room.truncate(read as usize);
    Ok(room)
}

/// At most 99 bytes at the position.
pub(super) fn read(fd: c_int) -> Result<Vec<u8>, c_int> {
    read_from(fd, None)
}

/// At most 99 bytes from a place on.
pub(super) fn read_at(fd: c_int, at: off64_t) -> Result<Vec<u8>, c_int> {
    read_from(fd, Some(at))
}

/// Reads into rooms of these sizes by one call with vectors.
pub(super) fn read_pieces(
    fd: c_int,
    sizes: &[usize],
    at: Option<off64_t>,
) -> Result<Vec<Vec<u8>>, c_int> {
    let mut rooms: Vec<_> = sizes.iter().map(|size| vec![0; *size]).collect();
    let vector = |room: &mut Vec<u8>| libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let vectors: Vec<_> = rooms.iter_mut().map(vector).collect();
    // SAFETY: the rooms and vectors outlive the call.
    let mut transfer = unsafe { Transfer::list(vectors.as_ptr(), vectors.len() as c_int) };
    transfer.offset = at;
    size(served::read(fd, &transfer)).map(|_| rooms)
}

pub(super) fn seek(fd: c_int, by: off64_t, whence: c_int) -> Told {
    told(served::seek(fd, by, whence))
}

/// Any other call.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn call(fd: c_int, call: &Call) -> Told {
    // SAFETY: the caller's promise.
    told(unsafe {
        match served::of(fd) {
            Some(file) => file.call(fd, call),
            None => call.kernel(fd),
        }
    })
}

pub(super) fn synchronise(fd: c_int) -> Told {
    // SAFETY: nothing is passed.
    unsafe { call(fd, &Call::Sync) }
}

pub(super) fn set_size(fd: c_int, len: off64_t) -> Told {
    // SAFETY: plain numbers.
    unsafe { call(fd, &Call::SetSize(len)) }
}

pub(super) fn duplicate(fd: c_int) -> c_int {
    // SAFETY: a plain number.
    let kernel = || unsafe { libc::dup(fd) };
    match served::of(fd) {
        Some(file) => crate::duplicate::duplicate(file, fd, kernel),
        None => kernel(),
    }
}

pub(super) fn unlink(path: &Path) -> Told {
    let path = c_path(path);
    settle::before_rename();
    // SAFETY: a C string.
    let kernel = || unsafe { libc::unlink(path.as_ptr()) };
    told(names::unlink(libc::AT_FDCWD, path.as_ptr(), 0).unwrap_or_else(kernel))
}

pub(super) fn remove_directory(path: &Path) -> Told {
    let path = c_path(path);
    // SAFETY: a C string.
    let kernel = || unsafe { libc::rmdir(path.as_ptr()) };
    let of_file = names::unlink(libc::AT_FDCWD, path.as_ptr(), libc::AT_REMOVEDIR);
    let of_directory = || containers::without_directory(libc::AT_FDCWD, path.as_ptr(), kernel);
    told(of_file.unwrap_or_else(of_directory))
}

/// Size and number of names of an open file.
pub(super) fn facts(fd: c_int) -> (i64, libc::nlink_t) {
    // SAFETY: all bits zero are a record, which outlives the call.
    unsafe {
        let mut facts: libc::stat64 = std::mem::zeroed();
        assert_eq!(call(fd, &Call::Facts((&raw mut facts).cast())), Ok(0));
        (facts.st_size, facts.st_nlink)
    }
}

/// The bytes that others see.
pub(super) fn stored(path: &Path) -> Vec<u8> {
    if !is_container(path) {
        return std::fs::read(path).unwrap();
    }
    let reader = Container::open(path).unwrap().reader().unwrap();
    let mut bytes = vec![0; reader.size() as usize];
    assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

pub(super) fn is_for_container(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.starts_with("blob") || name.starts_with("late")
}

/// Whether small writes wait.
pub(super) fn keeps_back(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    !name.starts_with("plain") && !name.starts_with("blob")
}
