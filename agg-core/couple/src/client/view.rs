//! Looking at coupled files for programs that are no readers, as a mount does.

use super::connection::{Visit, greet};
use super::name::coupled_name;
use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Options};
use aggio_config::settings::Settings;
use aggio_config::settings::couple::CoupleRule;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who looks at the files that rules name. It is connected only while it looks, so that agents end
/// as if it were not there.
#[derive(Clone, Debug)]
pub struct Viewer {
    rules: Arc<[CoupleRule]>,
    dir: Arc<str>,
}

/// A generation that is looked at; it stays until this is dropped.
#[derive(Debug)]
pub struct Viewed {
    /// Its bytes, for reading.
    pub file: File,
    handle: u64,
    visit: Visit,
}

impl Viewer {
    /// `None` if no rule names files.
    pub fn new(settings: &Settings) -> Option<Self> {
        let rules: Arc<[CoupleRule]> = settings.couple.as_slice().into();
        (!rules.is_empty()).then(|| Self { rules, dir: settings.couple_dir.as_str().into() })
    }

    /// Opens the newest generation that may be read of the file of this absolute name, if there is
    /// one.
    ///
    /// # Errors
    /// The directory of `AGGIO_COUPLE_DIR` is not the user's alone; the agent cannot be reached.
    pub fn open(&self, path: PathBuf) -> io::Result<Option<Viewed>> {
        let Some(path) = coupled_name(&self.rules, path, false) else { return Ok(None) };
        let Some(visit) = self.visit()? else { return Ok(None) };
        let path = path.into_os_string().into_vec();
        let ask = Ask { path, view: true, options: Options::default(), ..Ask::default() };
        let [read, append, blocking] = [true, false, false];
        let request = Request::Open { ask, read, append, blocking, mode: 0 };
        match visit.ask_for_file(&request)? {
            None | Some((Reply::Failed(libc::ENOENT, _), _)) => Ok(None),
            Some((Reply::Opened(handle, _), Some(fd))) => {
                Ok(Some(Viewed { file: File::from(fd), handle, visit }))
            }
            Some((other, _)) => Err(super::failure(other, &request)),
        }
    }

    /// Names of the files in the directory `dir` of which [`open`](Self::open) opens something.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let Some(visit) = self.visit()? else { return Ok(Vec::new()) };
        let ask = |request: &Request| visit.ask(request).map(|reply| reply.unwrap_or(Reply::Done));
        let mut found = super::list(dir, true, ask)?;
        found.retain(|name| coupled_name(&self.rules, dir.join(name), false).is_some());
        Ok(found)
    }

    /// A connection to the agent, if there is one.
    fn visit(&self) -> io::Result<Option<Visit>> {
        let Some(visit) = Visit::to(&self.dir)? else { return Ok(None) };
        Ok(greet(visit.packets())?.then_some(visit))
    }
}

impl Drop for Viewed {
    fn drop(&mut self) {
        // An agent that has ended knows it no more.
        let _ = self.visit.ask(&Request::Close(self.handle, 0));
    }
}

/// Names of the coupled files in `dir`, as an agent tells them to `ask`.
pub(super) fn list(
    dir: &Path,
    view: bool,
    ask: impl Fn(&Request) -> io::Result<Reply>,
) -> io::Result<Vec<OsString>> {
    let mut found: Vec<OsString> = Vec::new();
    loop {
        let after = found.last().map_or(&[] as &[u8], |name: &OsString| OsStr::as_bytes(name));
        let request = Request::List(dir.as_os_str().as_bytes().to_vec(), after.to_vec(), view);
        match ask(&request)? {
            Reply::Names(names, more) => {
                found.extend(names.into_iter().map(OsString::from_vec));
                if !more {
                    return Ok(found);
                }
            }
            // The agent has just ended.
            Reply::Done => return Ok(Vec::new()),
            other => return Err(super::failure(other, &request)),
        }
    }
}
