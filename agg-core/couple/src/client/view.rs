//! Looking at coupled files for programs that are no readers, as a mount does.

use super::inquiry::Inquiry;
use super::name::coupled_name;
use super::start::start_if_needed;
use crate::place::Place;
use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Options};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::Settings;
use aggio_config::settings::couple::CoupleRule;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which an agent that did not answer is not asked again.
const RESTS: Duration = Duration::from_secs(5);

/// Shows the files that rules name, as a mount does. It connects for each look only, so that it
/// does not keep agents from ending.
#[derive(Clone, Debug)]
pub struct Viewer {
    rules: Arc<[CoupleRule]>,
    dir: Arc<str>,
    /// The value of `AGGIO_TEST_AGENT`.
    agent: Arc<str>,
    silent: Silence,
}

/// Since when an agent does not answer.
type Silence = Arc<Mutex<Option<Instant>>>;

/// A generation that is looked at; it stays until this is dropped.
#[derive(Debug)]
pub struct Viewed {
    /// Its bytes, for reading.
    pub file: File,
    handle: u64,
    inquiry: Inquiry,
    viewer: Viewer,
}

impl Viewer {
    /// `None` if no rule names files.
    pub fn new(settings: &Settings) -> Option<Self> {
        let rules: Arc<[CoupleRule]> = settings.coupling.rules.as_slice().into();
        let dir = settings.coupling.dir.as_str().into();
        let agent = settings.coupling.agent.as_str().into();
        (!rules.is_empty()).then(|| Self { rules, dir, agent, silent: Silence::default() })
    }

    /// Opens the newest generation that may be read of the file of this absolute name, if there is
    /// one.
    ///
    /// # Errors
    /// The directory of `AGGIO_COUPLE_DIR` is not the user's alone; the agent cannot be reached, or
    /// does not answer within a few seconds: `EIO`, and the log says so.
    pub fn open(&self, path: PathBuf) -> io::Result<Option<Viewed>> {
        let Some(path) = coupled_name(&self.rules, path, false) else { return Ok(None) };
        let Some(inquiry) = self.inquiry()? else { return Ok(None) };
        let path = path.into_os_string().into_vec();
        let ask = Ask { path, view: true, options: Options::default(), ..Ask::default() };
        let [read, append, blocking] = [true, false, false];
        let request = Request::Open { ask, read, append, blocking, parts: false, mode: 0 };
        match self.heard(inquiry.ask_for_file(&request))? {
            None | Some((Reply::Failed(libc::ENOENT, _), _)) => Ok(None),
            Some((Reply::Opened(handle, _), Some(fd))) => {
                Ok(Some(Viewed { file: File::from(fd), handle, inquiry, viewer: self.clone() }))
            }
            Some((other, _)) => Err(super::failure(other, &request)),
        }
    }

    /// Names of the files in the directory `dir` that [`open`](Self::open) can open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let Some(inquiry) = self.inquiry()? else { return Ok(Vec::new()) };
        let ask = |request: &Request| {
            self.heard(inquiry.ask(request)).map(|reply| reply.unwrap_or(Reply::Done))
        };
        let mut found = super::list(dir, true, ask)?;
        found.retain(|name| coupled_name(&self.rules, dir.join(name), false).is_some());
        Ok(found)
    }

    /// A connection to the agent, if there is one. One is started if only other nodes have files:
    /// agents alone reach those.
    fn inquiry(&self) -> io::Result<Option<Inquiry>> {
        if self.is_silent() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let mut inquiry = Inquiry::to(&self.dir)?;
        if inquiry.is_none() {
            let place = Place::open(&self.dir)?;
            if place.has_names()? {
                start_if_needed(&place, &self.agent, false)?;
                inquiry = Inquiry::to(&self.dir)?;
            }
        }
        let Some(inquiry) = inquiry else { return Ok(None) };
        Ok(self.heard(inquiry.greet())?.then_some(inquiry))
    }

    fn is_silent(&self) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.is_some_and(|since| since.elapsed() < RESTS)
    }

    /// Returns an answer, or `EIO` if the agent did not answer: the file on disk would be a wrong
    /// answer.
    fn heard<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        answer.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                log!(Level::Warn, "coupled files cannot be shown: {error}");
                *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                io::Error::from_raw_os_error(libc::EIO)
            }
            _ => error,
        })
    }
}

impl Drop for Viewed {
    fn drop(&mut self) {
        // An agent that has ended knows it no more; one that stands still is not waited for twice.
        let request = Request::Close(self.handle, 0);
        let _ = match self.viewer.is_silent() {
            true => self.inquiry.say(&request),
            false => self.viewer.heard(self.inquiry.ask(&request)).map(drop),
        };
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
