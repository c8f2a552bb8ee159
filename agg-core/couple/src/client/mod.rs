//! The interface of programs: opens, publishes and inspects coupled files.

mod connection;
mod failure;
mod identity;
mod inquiry;
mod name;
mod parts;
mod records;
mod rename;
mod spawn;
mod start;
mod timeouts;
mod types;
mod view;

use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Options};
use aggio_base::Extent;
use aggio_base::os;
use aggio_config::settings::Settings;
use aggio_config::settings::couple::CoupleRule;
use connection::Connections;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use name::coupled_name;
pub use parts::{Parts, is_away};
pub(crate) use spawn::READY;
pub use start::start_agent;
pub use types::{Open, Opened, Stat, is_on_disk, on_disk};
use view::list;
pub use view::{Viewed, Viewer};

/// Connections to the agent; copies are the same connections.
///
/// A child of a fork that uses it connects anew. Descriptors that it inherited stay valid, and a
/// generation is not complete while one of them is open for writing.
#[derive(Clone, Debug)]
pub struct Client {
    rules: Arc<[CoupleRule]>,
    connections: Arc<Connections>,
}

impl Client {
    /// A client that connects, and starts an agent if there is none, at its first use.
    pub fn new(settings: &Settings) -> Self {
        let spools = settings.coupling.rules.iter().filter(|rule| rule.options.survives);
        let spools: BTreeSet<_> = spools.filter_map(|rule| rule.options.spill.clone()).collect();
        let spools = spools.into_iter().collect();
        let connections =
            Connections::new(&settings.coupling.dir, &settings.coupling.agent, spools);
        Self {
            rules: settings.coupling.rules.as_slice().into(),
            connections: Arc::new(connections),
        }
    }

    /// Connects to the agent of this user, and starts one if there is none.
    ///
    /// # Errors
    /// The directory of `AGGIO_COUPLE_DIR` is not the user's alone, or no agent can be started.
    pub fn connect(settings: &Settings) -> io::Result<Self> {
        let client = Self::new(settings);
        client.connections.reach()?;
        Ok(client)
    }

    /// The name of the coupled file that the absolute name `full` means, as [`coupled_name`].
    pub fn name_of(&self, full: PathBuf, follow: bool) -> Option<PathBuf> {
        coupled_name(&self.rules, full, follow)
    }

    fn options(&self, path: &[u8]) -> Option<Options> {
        let rule = CoupleRule::of(&self.rules, &String::from_utf8_lossy(path))?;
        Some(rule.options.clone())
    }

    /// Connects to the agent of this user if one is running, or files are owned by agents of other
    /// nodes; in the second case one is started when it is asked something.
    ///
    /// # Errors
    /// The directory of `AGGIO_COUPLE_DIR` is not the user's alone, or the agent cannot be reached.
    pub fn find(settings: &Settings) -> io::Result<Option<Self>> {
        let client = Self::new(settings);
        Ok(client.connections.knows_files()?.then_some(client))
    }

    /// Descriptors of this process that are the connection's, and not the program's.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.connections.descriptors()
    }

    /// Opens a generation of a coupled file. A reader waits until there is one for it, unless
    /// `how.blocking` is false: then it gets `EAGAIN`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, ... where a file on disk would give them; `EIO` if the writer died;
    /// `ESTALE` if the generation is gone; an error for which [`is_on_disk`] holds if the caller
    /// is to open the file on disk; `EINTR` if a signal handler that does not let calls go on came
    /// while it waited; the agent cannot be reached.
    pub fn open(&self, how: &Open<'_>) -> io::Result<Opened> {
        let path = how.path.as_os_str().as_bytes().to_vec();
        let options = self.options(&path).ok_or_else(|| no_rule(how.path))?;
        // A process that goes on with another agent would wait for files that this does not have.
        let is_lost = !options.survives && self.connections.has_moved_on();
        if self.connections.is_untold() || is_lost {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let Open { write, create, exclusive, truncate, .. } = *how;
        let (view, tells, key) = (false, false, self.connections.key());
        let request = Request::Open {
            ask: Ask { path, write, create, exclusive, truncate, view, key, tells, options },
            read: how.read,
            append: how.append,
            blocking: how.blocking,
            parts: how.parts,
            mode: how.mode,
        };
        match self.connections.call(&request)? {
            (Reply::Opened(handle, generation), Some(fd)) => Ok(Opened { fd, handle, generation }),
            (other, _) => Err(failure(other, &request)),
        }
    }

    /// Announces that this process holds `fd`, a descriptor of a coupled file that another process
    /// opened and passed on. Returns its handle.
    ///
    /// # Errors
    /// `ENOENT` if the descriptor is of no coupled file; the agent cannot be reached.
    pub fn adopt(&self, fd: RawFd) -> io::Result<u64> {
        let facts = os::fstat(fd)?;
        let write = os::access_mode(fd)? != libc::O_RDONLY;
        let handle = self.adopt_file(facts.st_dev, facts.st_ino, [write, false])?;
        if !write && is_away(handle) {
            // A reader of the descriptor does not name the bytes.
            let fetched = self.fetch(handle, &[Extent::new(0, u64::MAX)], 0);
            fetched.inspect_err(|_| self.close_read(handle, 0))?;
        }
        Ok(handle)
    }

    /// Announces a descriptor as [`adopt`](Self::adopt), for the file of this device and inode.
    /// `how` says whether the process may write, and whether it will [report](Self::wrote) the
    /// bytes that it writes.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub fn adopt_file(&self, device: u64, inode: u64, how: [bool; 2]) -> io::Result<u64> {
        let request = Request::Adopt(device, inode, how, self.connections.key());
        match self.connections.call(&request)?.0 {
            Reply::Opened(handle, _) => Ok(handle),
            other => Err(failure(other, &request)),
        }
    }

    /// Says that the process has closed the file of `handle`, after the descriptor itself.
    /// `moved` bytes were delivered to the program; `u64::MAX` if that is not known.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn close(&self, handle: u64, moved: u64) -> io::Result<()> {
        self.order(&Request::Close(handle, moved))
    }

    /// Takes an open back that the caller cannot use, after its descriptor is closed. A generation
    /// that it began is given up, unless somebody else has opened that.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn withdraw(&self, handle: u64) -> io::Result<()> {
        self.order(&Request::Withdraw(handle))
    }

    /// As [`close`](Self::close) for a file that was open for reading. The program has its bytes;
    /// that the agent has ended it learns by its next open, which would wait for ever for a file of
    /// another agent. If only this agent does not know the open, those processes learn it that have
    /// generations which do not survive an agent.
    pub fn close_read(&self, handle: u64, moved: u64) {
        match self.close(handle, moved) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => {
                self.connections.go_on();
            }
            Err(_) => self.connections.tell_later(),
        }
    }

    /// Closes the file that `handle` was opened to write, before the descriptor is closed: the
    /// generation will not be complete, because other processes of the program cannot be reached.
    /// Readers get the same as after the death of a writer.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn spoil(&self, handle: u64) -> io::Result<()> {
        self.order(&Request::Spoil(handle))
    }

    /// Says that a child of this process, which had inherited the file that `handle` was opened to
    /// write, ended before it could name itself: the generation will not be complete, as if the
    /// child had died later.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn lose_child(&self, handle: u64) -> io::Result<()> {
        self.order(&Request::ChildLost(handle))
    }

    /// Makes sure that the agent knows an open file, and says that `moved` bytes of it were
    /// delivered to the program so far.
    ///
    /// # Errors
    /// `EIO` if another process died that had it open for writing, and `ESTALE` if the agent that
    /// knew it has ended, and with either the written bytes; the agent cannot be reached.
    pub fn check(&self, handle: u64, moved: u64) -> io::Result<()> {
        self.order(&Request::Check(handle, moved))
    }

    /// Says that all bytes written so far may be read, for `ready=sync`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn sync(&self, handle: u64) -> io::Result<()> {
        self.order(&Request::Sync(handle))
    }

    /// Makes bytes that programs of other nodes have synchronised or closed, of a file that they
    /// write as well, visible through the open file here.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn renew(&self, handle: u64) -> io::Result<()> {
        self.order(&Request::Renew(handle))
    }

    /// Says that this process has just changed the size of a file to `size` bytes, which other
    /// nodes that write it as well are to know.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn resize(&self, handle: u64, size: u64) -> io::Result<()> {
        self.order(&Request::Resize(handle, size))
    }

    /// Sets the size of the file of this name, as `truncate`.
    ///
    /// # Errors
    /// `ENOENT`, `EFBIG`, ... as `truncate`; the agent cannot be reached.
    pub fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        if len == 0 {
            return self.order(&Request::Empty(path.as_os_str().as_bytes().to_vec()));
        }
        let opened = self.open(&Open { write: true, ..Open::new(path) })?;
        let cut = os::ftruncate(opened.fd.as_raw_fd(), len);
        let cut = cut.and_then(|()| self.resize(opened.handle, len));
        drop(opened.fd);
        self.close(opened.handle, 0).and(cut)
    }

    /// Removes a name, as `unlink`.
    ///
    /// # Errors
    /// `ENOENT`; the agent cannot be reached.
    pub fn unlink(&self, path: &Path) -> io::Result<()> {
        let name = path.as_os_str().as_bytes();
        let options = self.options(name).ok_or_else(|| no_rule(path))?;
        self.order(&Request::Unlink(name.to_vec(), options))
    }

    /// Renames a coupled file, as `rename`. Either name may be one that no rule matches; the file
    /// of an uncoupled `from` becomes a complete generation of `to`.
    ///
    /// # Errors
    /// As `rename`; the agent cannot be reached.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let [old, new] = [from, to].map(|path| path.as_os_str().as_bytes());
        match (self.options(old), self.options(new)) {
            (Some(_), Some(options)) => {
                self.order(&Request::Rename(old.to_vec(), new.to_vec(), options))
            }
            (None, Some(_)) => rename::into_memory(self, from, to),
            (Some(_), None) => rename::onto_disk(self, from, to),
            (None, None) => Err(no_rule(from)),
        }
    }

    /// Returns the attributes of the file that this program finds under the name; `None` if it
    /// finds none.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let name = path.as_os_str().as_bytes();
        let options = self.options(name).ok_or_else(|| no_rule(path))?;
        let request = Request::Stat(name.to_vec(), options);
        match self.connections.call(&request)?.0 {
            Reply::Stat(found) => Ok(found),
            other => Err(failure(other, &request)),
        }
    }

    /// Names of the coupled files in the directory `dir` that this program would find there.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        list(dir, false, |request| self.connections.call(request).map(|(reply, _)| reply))
    }

    /// Says that this process ends in order: its files that are open for writing are complete.
    pub fn goodbye(&self) {
        self.connections.goodbye();
    }

    fn order(&self, request: &Request) -> io::Result<()> {
        match self.connections.call(request)?.0 {
            Reply::Done => Ok(()),
            other => Err(failure(other, request)),
        }
    }
}

/// The answer of an agent to a question that needs no program: its state, as JSON, or `None` if
/// there is no agent.
///
/// # Errors
/// The directory is not the user's alone; the agent does not answer as one.
pub fn status(dir: &str) -> io::Result<Option<String>> {
    let mut text = Vec::new();
    // By one connection: all parts are of the same text.
    let Some(inquiry) = inquiry::Inquiry::to(dir)? else { return Ok(None) };
    loop {
        let request = Request::Status(text.len() as u64);
        match inquiry.ask(&request)? {
            None => return Ok(None),
            Some(Reply::Text(part, total)) => {
                let is_last = part.is_empty() || text.len() as u64 + part.len() as u64 >= total;
                text.extend(part);
                if is_last {
                    return String::from_utf8(text).map(Some).map_err(io::Error::other);
                }
            }
            Some(other) => return Err(failure(other, &request)),
        }
    }
}

/// Makes the agent give up all complete generations of a file that nobody has open; how many, or
/// `None` if there is no agent.
///
/// # Errors
/// As [`status`].
pub fn drop_file(dir: &str, path: &Path) -> io::Result<Option<u64>> {
    let request = Request::Drop(path.as_os_str().as_bytes().to_vec());
    match inquiry::ask_once(dir, &request)? {
        None => Ok(None),
        Some(Reply::Text(count, _)) => {
            Ok(Some(String::from_utf8_lossy(&count).parse().map_err(io::Error::other)?))
        }
        Some(other) => Err(failure(other, &request)),
    }
}

/// Ends the agent if no program is connected; false if there is none. The names of one that was
/// killed are removed.
///
/// # Errors
/// `EBUSY`; as [`status`].
pub fn quit(dir: &str) -> io::Result<bool> {
    match inquiry::ask_once(dir, &Request::Quit)? {
        None => start::remove_left(&crate::Place::open(dir)?).map(|()| false),
        Some(Reply::Done) => Ok(true),
        Some(other) => Err(failure(other, &Request::Quit)),
    }
}

fn no_rule(path: &Path) -> io::Error {
    let text = format!("{}: no rule of AGGIO_COUPLE names it", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The error of an answer; its text goes to the log.
fn failure(reply: Reply, request: &Request) -> io::Error {
    let say = |text: &str| {
        if !text.is_empty() {
            aggio_base::log!(aggio_base::log::Level::Warn, "{text}");
        }
    };
    match reply {
        Reply::Failed(number, text) => {
            say(&text);
            io::Error::from_raw_os_error(number)
        }
        Reply::OnDisk(text) => {
            say(&text);
            on_disk()
        }
        other => io::Error::other(format!("the agent answers {request:?} with {other:?}")),
    }
}

/// The name of a file, as the kernel takes it.
fn c_name(path: &OsStr) -> io::Result<std::ffi::CString> {
    std::ffi::CString::new(path.as_bytes()).map_err(io::Error::other)
}
