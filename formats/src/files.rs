//! The files of a set: many, with only a few open at a time.

use crate::error::{Error, Kind, Result};
use agg_core::driver::caches;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that are read by their position in a list.
pub trait Files: Send + Sync {
    /// The name of a file as users see it.
    fn name(&self, file: usize) -> String;

    /// Bytes of a file.
    ///
    /// # Errors
    ///
    /// If it is missing, or the system refuses.
    fn size(&self, file: usize) -> Result<u64>;

    /// Fills a buffer from `offset` on.
    ///
    /// # Errors
    ///
    /// If the file ends before, or the system refuses.
    fn read(&self, file: usize, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Whether no file has changed since it was looked at.
    fn is_unchanged(&self) -> bool {
        true
    }
}

/// Files in memory.
impl Files for Vec<(String, Vec<u8>)> {
    fn name(&self, file: usize) -> String {
        self.get(file).map_or_else(|| format!("file {file}"), |(name, _)| name.clone())
    }

    fn size(&self, file: usize) -> Result<u64> {
        let found = self.get(file).ok_or_else(|| missing(self.name(file)))?;
        Ok(found.1.len() as u64)
    }

    fn read(&self, file: usize, buffer: &mut [u8], offset: u64) -> Result<()> {
        let found = self.get(file).ok_or_else(|| missing(self.name(file)))?;
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(buffer.len())?));
        let bytes = range.and_then(|range| found.1.get(range));
        buffer.copy_from_slice(bytes.ok_or_else(|| truncated(self.name(file), offset))?);
        Ok(())
    }
}

fn missing(name: String) -> Error {
    Error::new(name, Kind::Missing, "missing")
}

fn truncated(name: String, offset: u64) -> Error {
    Error::new(name, Kind::Truncated, format!("ends before its data do, behind byte {offset}"))
}

/// Demands something of a file, or refuses it.
type Demand = dyn Fn(&File) -> std::io::Result<()> + Send + Sync;

/// A host's check of each file of a set that is opened, for readers that are not the owners of the
/// files. Each file is then reached by its own name, through no symbolic link.
#[derive(Clone)]
pub struct Guard(Arc<Demand>);

impl Guard {
    /// Refuses the files that `demand` refuses.
    pub fn new(demand: impl Fn(&File) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(demand))
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Guard")
    }
}

/// The directory in which a set lies, and how it is called there.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The path by which the directory is reached.
    pub path: PathBuf,
    /// The path that the user knows.
    pub shown: PathBuf,
    /// Kept open while `path` goes through it.
    pub held: Option<Arc<OwnedFd>>,
    /// Puts the descriptor of each file that is opened there where the host wants it.
    pub place: fn(File) -> std::io::Result<File>,
    /// The check of each file that is opened there.
    pub guard: Option<Guard>,
}

impl Folder {
    /// The directory in which `path` lies, and the name there.
    #[must_use]
    pub fn of(path: &Path) -> Option<(Self, String)> {
        let name = path.file_name()?.to_str()?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new("."));
        let shown = parent.unwrap_or(Path::new("")).to_path_buf();
        Some((Folder { path: folder.into(), shown, held: None, place: Ok, guard: None }, name))
    }

    /// Metadata of a file, which is not opened.
    pub(crate) fn look(&self, name: &str) -> std::io::Result<Metadata> {
        let path = self.path.join(name);
        if self.guard.is_some() { path.symlink_metadata() } else { path.metadata() }
    }

    /// Opens a file for reading. Refuses anything but a regular file, and does not wait for it.
    pub(crate) fn open(&self, name: &str) -> std::io::Result<(File, Metadata)> {
        let followed = if self.guard.is_some() { libc::O_NOFOLLOW } else { 0 };
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK | followed);
        let opened = options.open(self.path.join(name))?;
        caches::renew(opened.as_raw_fd(), opened.metadata()?.dev());
        let found = opened.metadata()?;
        if !found.is_file() {
            return Err(std::io::Error::other("not a regular file"));
        }
        if let Some(Guard(demand)) = &self.guard {
            demand(&opened)?;
        }
        Ok((opened, found))
    }

    /// The path of a file as users see it.
    #[must_use]
    pub fn shown(&self, name: &str) -> String {
        self.shown.join(name).display().to_string()
    }
}

/// The facts that must stay the same while a set is open.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Stamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }
}

#[derive(Default)]
struct Open {
    files: HashMap<usize, (Arc<File>, u64)>,
    stamps: HashMap<usize, Stamp>,
    clock: u64,
}

/// The name of a file in its directory.
type Names = Box<dyn Fn(usize) -> Option<String> + Send + Sync>;

/// Files of a directory. Those that were used last are open.
pub struct OnDisk {
    folder: Folder,
    names: Names,
    most: usize,
    open: Mutex<Open>,
}

impl OnDisk {
    /// Files of these names; at most `most` are open at a time.
    #[must_use]
    pub fn new(folder: Folder, names: Vec<String>, most: usize) -> Self {
        Self::named(folder, Box::new(move |file| names.get(file).cloned()), most)
    }

    /// As [`OnDisk::new`], with a function that makes the names.
    pub(crate) fn named(folder: Folder, names: Names, most: usize) -> Self {
        OnDisk { folder, names, most: most.max(1), open: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Open> {
        // A panic under this lock leaves nothing half done.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, file: usize) -> Result<Arc<File>> {
        if let Some(found) = self.known(file) {
            return Ok(found);
        }
        let name = (self.names)(file).ok_or_else(|| missing(self.name(file)))?;
        let told = |why: std::io::Error| Error::system(self.name(file), &why);
        let (opened, found) = self.folder.open(&name).map_err(told)?;
        let opened = (self.folder.place)(opened).map_err(told)?;
        self.keep(file, Arc::new(opened), Stamp::of(&found))
    }

    fn known(&self, file: usize) -> Option<Arc<File>> {
        let mut open = self.table();
        open.clock += 1;
        let now = open.clock;
        let (found, used) = open.files.get_mut(&file)?;
        *used = now;
        Some(Arc::clone(found))
    }

    fn keep(&self, file: usize, opened: Arc<File>, stamp: Stamp) -> Result<Arc<File>> {
        let mut open = self.table();
        if *open.stamps.entry(file).or_insert(stamp) != stamp {
            let what = "another file has this name since the set was opened";
            return Err(Error::new(self.name(file), Kind::Mismatch, what));
        }
        while open.files.len() >= self.most {
            let oldest = open.files.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(file, _)| *file) else { break };
            open.files.remove(&oldest);
        }
        let now = open.clock;
        open.files.insert(file, (Arc::clone(&opened), now));
        Ok(opened)
    }
}

impl Files for OnDisk {
    fn name(&self, file: usize) -> String {
        let name = (self.names)(file);
        name.map_or_else(|| format!("file {file}"), |name| self.folder.shown(&name))
    }

    fn size(&self, file: usize) -> Result<u64> {
        self.file(file)?;
        let size = self.table().stamps.get(&file).map(|stamp| stamp.size);
        size.ok_or_else(|| missing(self.name(file)))
    }

    fn read(&self, file: usize, buffer: &mut [u8], offset: u64) -> Result<()> {
        let found = self.file(file)?.read_exact_at(buffer, offset);
        found.map_err(|why| match why.kind() {
            std::io::ErrorKind::UnexpectedEof => truncated(self.name(file), offset),
            _ => Error::system(self.name(file), &why),
        })
    }

    fn is_unchanged(&self) -> bool {
        let stamps = self.table().stamps.clone();
        stamps.iter().all(|(file, stamp)| {
            let path = (self.names)(*file).map(|name| self.folder.path.join(name));
            let found = path.and_then(|path| std::fs::metadata(path).ok());
            found.is_some_and(|found| Stamp::of(&found) == *stamp)
        })
    }
}

/// Reads bytes that are about to be parsed; more than the file has is an error.
pub(crate) fn bytes(files: &dyn Files, file: usize, offset: u64, count: u64) -> Result<Vec<u8>> {
    let end = offset.checked_add(count).filter(|_| usize::try_from(count).is_ok());
    if end.is_none_or(|end| end > files.size(file).unwrap_or(0)) {
        files.size(file)?;
        return Err(truncated(files.name(file), offset));
    }
    let mut bytes = vec![0; count as usize];
    files.read(file, &mut bytes, offset)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_files_than_may_be_open_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..20).map(|index| format!("f{index}")).collect();
        for (index, name) in names.iter().enumerate() {
            std::fs::write(folder.path().join(name), [index as u8; 3]).unwrap();
        }
        let (place, _) = Folder::of(&folder.path().join("x")).unwrap();
        let files = OnDisk::new(place, names, 3);
        for round in 0..2 {
            for file in 0..20 {
                let mut byte = [0];
                files.read(file, &mut byte, 2).unwrap();
                assert_eq!((usize::from(byte[0]), files.size(file).unwrap()), (file, 3));
                assert!(files.table().files.len() <= 3, "round {round}");
            }
        }
        assert!(files.is_unchanged());
        std::fs::remove_file(folder.path().join("f0")).unwrap();
        assert!(!files.is_unchanged());
        assert_eq!(files.read(0, &mut [0], 0).unwrap_err().kind, Kind::Missing);
        std::fs::write(folder.path().join("f0"), "another").unwrap();
        let replaced = files.read(0, &mut [0], 0).unwrap_err();
        assert!(replaced.to_string().contains("f0: another file has this name"), "{replaced}");
    }

    #[test]
    fn a_read_behind_the_end_names_file_and_offset() {
        let files = vec![("a".to_owned(), vec![1, 2, 3])];
        let error = files.read(0, &mut [0; 2], 2).unwrap_err();
        assert_eq!(error.to_string(), "a: ends before its data do, behind byte 2");
        assert_eq!(bytes(&files, 0, 1, u64::MAX).unwrap_err().kind, Kind::Truncated);
        assert_eq!(bytes(&files, 1, 0, 1).unwrap_err().kind, Kind::Missing);
    }
}
