//! Makes staged bytes visible to system calls on the file itself.

#[cfg(test)]
mod tests;

use super::{Home, Stage};
use aggio_base::report::Counters;
use aggio_base::{Error, Result};
use aggio_store::driver::{self, Closing, OpenHow};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Writes staged bytes to the file that `target` has open, for a program that is about to look at
/// the file with system calls. With `stays`, because the program opens it, nothing is staged any
/// more as long as others use the stage: all writes go to the file.
///
/// # Errors
/// The error of the system call; bytes that are not in the file are still staged.
pub fn show(home: &Home, target: File, stays: bool) -> Result<()> {
    // Draining writes to the file, and `target` may be open for neither reading nor writing.
    let name = format!("/proc/self/fd/{}", target.as_raw_fd());
    let target_of_stage = target.try_clone().map_err(|error| Error::os("fcntl", &error))?;
    let Some(stage) = Stage::join(home, target_of_stage, Path::new(""), false)? else {
        return Ok(());
    };
    let shown = stage.show_from_now_on(stays).and_then(|()| match stage.is_empty() {
        true => Ok(()),
        false => {
            let base = driver::open(&OpenHow { path: name, write: true, ..OpenHow::default() })?;
            let drained = stage.drain(&*base, &Counters::default());
            drained.and(base.close(Closing::Complete))
        }
    });
    stage.leave();
    shown
}

impl Stage {
    /// With `stays`, later writes go to the file. Writes that are being staged have ended when this
    /// returns.
    fn show_from_now_on(&self, stays: bool) -> Result<()> {
        if stays {
            self.control.show();
        }
        let locks = self.draining.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        locks.exclude_accesses().map(drop).map_err(|error| Error::os("fcntl", &error))
    }
}
