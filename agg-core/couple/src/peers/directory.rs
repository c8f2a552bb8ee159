//! Agents of other nodes and owners of names, in the directory that all nodes see.
//!
//! | file | contents |
//! |---|---|
//! | `HOST.agent` | where the agent of this node listens: its number, its address |
//! | `DIGEST.name` | the owner of a name: host and number of the agent, and the name |
//!
//! All files appear with their contents, by `rename` or `link`, and have mode 0600.

use crate::place::{Place, random};
use crate::registry::name_in;
use aggio_base::keyed::digest;
use aggio_link::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The first line of every file.
const BEGINNING: &str = "aggio 1";

/// Bytes that such a file has at most.
const MOST: u64 = 64 << 10;

/// Any two keys: names are no secret.
const KEYS: [[u64; 2]; 2] = [[1, 2], [3, 4]];

/// One run of an agent on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instance {
    pub(crate) host: String,
    number: u128,
}

impl Instance {
    /// The agent that these words name: a host, and a number that no other agent has.
    pub(crate) fn of_words(words: &str) -> Option<Self> {
        let (host, number) = words.rsplit_once(' ')?;
        let number = u128::from_str_radix(number, 16).ok()?;
        let is_name = !host.is_empty() && !host.contains(['/', '\n', '\0']);
        is_name.then(|| Self { host: host.into(), number })
    }

    /// Words that name this agent, for [`Instance::of_words`].
    pub(crate) fn words(&self) -> String {
        format!("{} {:032x}", self.host, self.number)
    }
}

/// The owner of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Here,
    There(Instance),
}

/// The part of the directory that is about nodes.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    own: Instance,
    /// Names that this agent owns.
    owned: Vec<Vec<u8>>,
    /// The contents of files of names, by their names and inodes: the owner, and the name.
    read: BTreeMap<(OsString, u64), (Instance, Vec<u8>)>,
}

/// Reads a short file whose first line is right: the other lines, of which the last may hold any
/// bytes.
fn lines(path: &Path, count: usize) -> io::Result<Vec<Vec<u8>>> {
    let bad = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: no file of an agent", path.display()),
        )
    };
    let mut how = OpenOptions::new();
    let file = how.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let mut lines = bytes.splitn(count + 1, |byte| *byte == b'\n').map(<[u8]>::to_vec);
    if lines.next().as_deref() != Some(BEGINNING.as_bytes()) {
        return Err(bad());
    }
    let lines: Vec<Vec<u8>> = lines.collect();
    if lines.len() == count { Ok(lines) } else { Err(bad()) }
}

/// The owner and the name that a file of a name tells; `None` for other files.
fn named(path: &Path) -> Option<(Instance, Vec<u8>)> {
    let lines = lines(path, 3).ok()?;
    let number = u128::from_str_radix(&text(&lines[1]), 16).ok()?;
    Some((Instance { host: text(&lines[0]), number }, lines[2].clone()))
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

impl Directory {
    /// The directory of `place`, for the agent of this node.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new(place: &Place) -> io::Result<Self> {
        let own = Instance { host: place.host().to_owned(), number: random()? };
        let directory =
            Self { path: place.path().into(), own, owned: Vec::new(), read: BTreeMap::new() };
        directory.remove_hidden();
        Ok(directory)
    }

    /// Removes hidden files of an earlier agent of this node that was killed while it made a file.
    fn remove_hidden(&self) {
        let start = format!(".{}.", self.own.host);
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(&start));
            if number.is_some_and(|digits| u128::from_str_radix(digits, 16).is_ok()) {
                // Next time, if not now.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The agent of this node.
    pub(crate) fn own(&self) -> &Instance {
        &self.own
    }

    pub(crate) fn host(&self) -> &str {
        &self.own.host
    }

    fn agent_file(&self, host: &str) -> PathBuf {
        self.path.join(format!("{host}.agent"))
    }

    fn name_file(&self, name: &[u8]) -> PathBuf {
        let [high, low] = KEYS.map(|key| digest(key, name));
        self.path.join(format!("{high:016x}{low:016x}.name"))
    }

    /// A file with these lines and a name that nobody else has.
    fn hidden(&self, rest: &[&[u8]]) -> io::Result<PathBuf> {
        let path = self.path.join(format!(".{}.{:032x}", self.own.host, random()?));
        let mut how = OpenOptions::new();
        let mut file = how.write(true).create_new(true).mode(0o600).open(&path)?;
        let lines = [&[BEGINNING.as_bytes()], rest].concat().join(&b'\n');
        match file.write_all(&lines) {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Tells all nodes where this agent listens.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn publish(&self, address: &str) -> io::Result<()> {
        let number = format!("{:032x}", self.own.number);
        let hidden = self.hidden(&[number.as_bytes(), address.as_bytes()])?;
        let named = fs::rename(&hidden, self.agent_file(&self.own.host));
        named.inspect_err(|_| drop(fs::remove_file(&hidden)))
    }

    /// Where an agent listens; `None` if it has ended.
    ///
    /// # Errors
    /// The system's; somebody else made the file.
    pub(crate) fn address(&self, of: &Instance) -> io::Result<Option<String>> {
        match lines(&self.agent_file(&of.host), 2) {
            Ok(lines) if text(&lines[0]) == format!("{:032x}", of.number) => {
                Ok(Some(text(&lines[1])))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The owner of `name`; `None` if there is none.
    ///
    /// # Errors
    /// The system's; the file is of another name, or no agent's.
    pub(crate) fn owner(&self, name: &[u8]) -> io::Result<Option<Owner>> {
        let path = self.name_file(name);
        let lines = match lines(&path, 3) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result?,
        };
        let number = u128::from_str_radix(&text(&lines[1]), 16).ok();
        let number = number.filter(|_| lines[2] == name).ok_or_else(|| {
            let why = format!("{}: the file is of another name", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        let owner = Instance { host: text(&lines[0]), number };
        Ok(Some(if owner == self.own { Owner::Here } else { Owner::There(owner) }))
    }

    /// The other agents that own files in the directory `dir`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn owners_in(&mut self, dir: &[u8]) -> io::Result<BTreeSet<Instance>> {
        let mut read = BTreeMap::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let (name, number) = (entry.file_name(), entry.ino());
            if !name.as_bytes().ends_with(b".name") {
                continue;
            }
            let key = (name, number);
            // One that was removed meanwhile, or that no agent made, is left alone.
            let known = self.read.remove(&key).or_else(|| named(&entry.path()));
            known.into_iter().for_each(|known| _ = read.insert(key.clone(), known));
        }
        self.read = read;
        let is_in = |name: &[u8]| name_in(name, dir).is_some();
        let all = self.read.values().filter(|(owner, name)| *owner != self.own && is_in(name));
        Ok(all.map(|(owner, _)| owner.clone()).collect())
    }

    /// Files of names are to be read anew: a file has the name and the inode of an earlier one if
    /// the owner has changed.
    pub(crate) fn forget(&mut self) {
        self.read.clear();
    }

    /// Makes this agent the owner of `name` unless it has one.
    ///
    /// # Errors
    /// As [`Directory::owner`].
    pub(crate) fn claim(&mut self, name: &[u8]) -> io::Result<Owner> {
        loop {
            if let Some(owner) = self.owner(name)? {
                if owner == Owner::Here && !self.owns(name) {
                    // Another agent has handed it over.
                    self.owned.push(name.to_vec());
                }
                return Ok(owner);
            }
            let hidden = self.name_of(&self.own, name)?;
            let linked = fs::hard_link(&hidden, self.name_file(name));
            fs::remove_file(&hidden)?;
            match linked {
                Ok(()) => self.owned.push(name.to_vec()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// One agent at a time looks and removes; new owners need no lock.
    fn lock(&self) -> io::Result<File> {
        let mut how = OpenOptions::new();
        // On NFS only a file that is open for writing can be locked against all others.
        let how = how.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let lock = how.open(self.path.join(Token::FILE))?;
        loop {
            match lock.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(|()| lock),
            }
        }
    }

    /// Removes the files of agents that were killed.
    ///
    /// # Errors
    /// The system's; the file system has no locks.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let _lock = self.lock()?;
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let is_name = path.extension().is_some_and(|ending| ending == "name");
            // One that was removed meanwhile, or that no agent made, is left alone.
            let Some((owner, _)) = named(&path).filter(|_| is_name) else { continue };
            if self.is_dead(&owner) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Takes `name` away from an owner that has ended, unless somebody has done so already.
    ///
    /// # Errors
    /// As [`Directory::owner`]; the file system has no locks.
    pub(crate) fn bequeath(&mut self, name: &[u8], from: &Instance) -> io::Result<()> {
        let _lock = self.lock()?;
        if self.owner(name)? == Some(Owner::There(from.clone())) {
            fs::remove_file(self.name_file(name))?;
        }
        Ok(())
    }

    /// Makes another agent the owner of a name of this one.
    ///
    /// # Errors
    /// This agent does not own it; the system's; the file system has no locks.
    pub(crate) fn hand_over(&mut self, name: &[u8], to: &Instance) -> io::Result<()> {
        let _lock = self.lock()?;
        if self.owner(name)? != Some(Owner::Here) {
            return Err(io::Error::other("another agent owns it"));
        }
        let hidden = self.name_of(to, name)?;
        let named = fs::rename(&hidden, self.name_file(name));
        named.inspect_err(|_| drop(fs::remove_file(&hidden)))?;
        self.owned.retain(|owned| owned != name);
        Ok(())
    }

    /// A file that says that `owner` owns `name`.
    fn name_of(&self, owner: &Instance, name: &[u8]) -> io::Result<PathBuf> {
        let number = format!("{:032x}", owner.number);
        self.hidden(&[owner.host.as_bytes(), number.as_bytes(), name])
    }

    /// Whether an agent has ended: nobody holds the lock of its node, or a later one does.
    pub(crate) fn is_dead(&self, instance: &Instance) -> bool {
        if !matches!(self.address(instance), Ok(Some(_))) {
            return true;
        }
        let path = self.path.join(format!("{}.lock", instance.host));
        let lock = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
            Ok(lock) => lock,
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
        };
        lock.try_lock_shared().is_ok()
    }

    /// Whether this agent owns `name`.
    pub(crate) fn owns(&self, name: &[u8]) -> bool {
        self.owned.iter().any(|owned| owned == name)
    }

    /// Removes the files that name this agent, and those of agents that were killed: no agent may
    /// come after this one.
    pub(crate) fn withdraw(&self) {
        for name in &self.owned {
            if self.owner(name).is_ok_and(|owner| owner == Some(Owner::Here)) {
                let _ = fs::remove_file(self.name_file(name));
            }
        }
        if self.address(&self.own).is_ok_and(|address| address.is_some()) {
            let _ = fs::remove_file(self.agent_file(&self.own.host));
        }
        // Others may have handed names over that nobody has asked for since.
        let _ = self.sweep();
    }
}

/// How messages name a file.
pub(crate) fn shown(name: &[u8]) -> String {
    let path = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests;
