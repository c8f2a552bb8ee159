//! Draining of stages that killed processes left, or programs that were told to leave them.

use super::Stage;
use super::control::{Control, Fit};
use super::directory::{Directory, Found};
use super::home::{Files, Home, Place};
use super::locks::Locks;
use super::places::Places;
use aggio_base::report::Counters;
use aggio_base::{Error, ErrorClass, Result};
use aggio_store::driver::{self, Closing, OpenHow};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// The result for one stage.
#[derive(Debug)]
pub struct Drained {
    /// The directory of the stage.
    pub stage: PathBuf,
    /// The file that the bytes belong to.
    pub path: PathBuf,
    /// Bytes that were written to the file, or removed remains if 0.
    pub bytes: u64,
    /// Why they were not; then they are still in the stage.
    pub error: Option<Error>,
}

/// Drains every stage of this user in `home` that no process uses, and removes it.
///
/// Bytes of a file that somebody else has changed since stay where they are, unless `changed` is
/// set. So do the bytes of a failed write, those of other machines, and those of stages that a
/// restart of this machine may have damaged.
///
/// # Errors
/// If the directory cannot be listed. Failures in a stage are reported in the list.
pub fn recover(home: &Home, changed: bool) -> Result<Vec<Drained>> {
    let Some(directory) = home.directory() else { return Ok(Vec::new()) };
    let found = directory.list().map_err(|error| Error::os("readdir", &error))?;
    let mut done = Vec::new();
    for one in found {
        match one {
            Found::Remains(path) => {
                if directory.clear(&path) {
                    done.push(Drained { stage: path.clone(), path, bytes: 0, error: None });
                }
            }
            Found::Stage(place) => done.extend(finish(directory, place, changed)),
        }
    }
    Ok(done)
}

/// Drains one stage, unless it is used.
fn finish(home: &Directory, place: PathBuf, changed: bool) -> Option<Drained> {
    let mut path = place.clone();
    let result = attempt(home, &place, changed, &mut path);
    let told = |bytes, error| Drained { stage: place.clone(), path: path.clone(), bytes, error };
    match result {
        Ok(bytes) => bytes.map(|bytes| told(bytes, None)),
        Err(error) => Some(told(0, Some(error))),
    }
}

/// The bytes that were drained; `None` if somebody uses the stage, or has removed it.
fn attempt(
    home: &Directory,
    place: &Path,
    changed: bool,
    path: &mut PathBuf,
) -> Result<Option<u64>> {
    let Some(Files { head, draining, places, bytes, claim }) = home.open(place)? else {
        return Ok(None);
    };
    let locks = Locks::new(head);
    let os = |call: &'static str| move |error: std::io::Error| Error::os(call, &error);
    if !locks.be_alone().map_err(os("fcntl"))? || !Directory::is_in_place(place, locks.file()) {
        return Ok(None);
    }
    let control = Control::open(locks.file())?;
    path.clone_from(&control.path);
    let places = Places::open(places).map_err(os("mmap"))?;
    if places.dirty_domains().is_empty() {
        home.remove(place);
        return Ok(Some(0));
    }
    let held = places.held();
    let mut how = File::options();
    how.read(true).custom_flags(libc::O_PATH);
    let target = how.open(&*path).map_err(|error| {
        let words = format!("{held} staged bytes are not written: their file cannot be opened");
        let class = Error::os("open", &error).class();
        Error::new(class, format!("{words}: {error}")).with_errno(error.raw_os_error().unwrap_or(0))
    })?;
    match control.fit(&target)? {
        Fit::Fits => {}
        Fit::Changed if changed => {}
        fit => {
            let words = format!("{held} staged bytes are not written: {}", reason(fit));
            return Err(Error::new(ErrorClass::Io, words).with_errno(libc::ESTALE));
        }
    }
    // The file that was looked at, even if it was renamed or another one has its name by now.
    let name = format!("/proc/self/fd/{}", target.as_raw_fd());
    let base = driver::open(&OpenHow { path: name, write: true, ..OpenHow::default() })?;
    // Others wait until it is done, or join it.
    locks.be_present().map_err(os("fcntl"))?;
    control.note(&target);
    let (home, place) = (Home::of(home.clone()), Place::Directory(place.to_path_buf()));
    let draining = Mutex::new(Locks::new(draining));
    let stage =
        Stage { home, place, target, control, places, bytes, locks, draining, _claim: claim };
    let counters = Counters::default();
    let drained = stage.drain(&*base, &counters);
    let synced = drained.and_then(|()| base.sync());
    let closed = base.close(Closing::Complete);
    stage.leave();
    synced.and(closed)?;
    Ok(Some(counters.bytes_written_out.load(Ordering::Relaxed)))
}

/// Why the bytes of a stage are not written to a file.
pub(super) fn reason(fit: Fit) -> String {
    let text = match fit {
        Fit::Fits => "the file is as it was",
        Fit::Changed => {
            "somebody has changed the file since (`aggio recover --changed` writes them all the \
             same, removing the stage gives them up)"
        }
        Fit::Other => "another file has the name of the one that was written",
        Fit::Restarted => {
            "this machine was started anew since, so that some of them may be missing (removing \
             the stage gives them up)"
        }
        Fit::Foreign => "they are another machine's: `aggio recover` there writes them",
    };
    text.to_owned()
}
