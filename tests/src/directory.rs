//! Temporary directories, and the comparison of the files that two runs left in them.

use agg_core::blob::{Check, Container, check};
use aggio_formats::files::Folder;
use aggio_formats::{Options, Set};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed with everything in it when it goes out of scope.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes an empty directory below the system's temporary directory.
    ///
    /// Its path is short: MPI launchers put sockets below it, and their names may have 107
    /// characters.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Makes an empty directory below `parent`.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn below(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("at{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Directory(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Nothing can be done about a failure, and the next run uses another name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The names of all that is in a directory, sorted.
///
/// # Panics
///
/// If it cannot be listed.
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("the directory can be listed").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// All bytes of the file that the set called `path` stands for, by our own reader; `None` if there
/// is no set.
///
/// # Panics
///
/// If it cannot be read, or its files do not belong together.
pub fn read_set(path: &Path) -> Option<Vec<u8>> {
    let (folder, name) = Folder::of(path).expect("a name");
    let set = Set::find(&folder, &name).expect("it can be looked for")?;
    let file = set.open(&Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = vec![0; file.size() as usize];
    let len = file.read_at(&mut bytes, 0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(len, bytes.len());
    Some(bytes)
}

/// All bytes of the container `path`, in which a check finds no damage.
///
/// # Panics
///
/// If it cannot be read, or is damaged.
pub fn read_container(path: &Path) -> Vec<u8> {
    let findings = check(path, &Check { data: true, ..Check::default() }).expect("a look");
    assert!(findings.exit_code() <= 1, "{:?}", findings.problems);
    let reader = Container::open(path).and_then(|it| it.reader()).expect("a reader");
    let mut bytes = vec![0; reader.size() as usize];
    let len = reader.read_at(&mut bytes, 0).expect("its bytes");
    assert_eq!(len, bytes.len());
    bytes
}

/// The netCDF files and sets of files of `tests/golden/netcdf.tar.xz`, in a directory of their own.
///
/// # Panics
///
/// If `tar` and `xz` cannot unpack them.
pub fn netcdf_samples() -> Directory {
    let directory = Directory::new();
    let archive = crate::repository().join("tests/golden/netcdf.tar.xz");
    let mut tar = std::process::Command::new("tar");
    tar.arg("--no-same-owner").arg("-xJf").arg(archive).arg("-C").arg(directory.path());
    assert!(tar.status().is_ok_and(|status| status.success()), "tar and xz are needed");
    directory
}

/// Whether a file of this name in a temporary directory or shared memory is made by an MPI's
/// launcher or runtime.
pub fn is_of_a_runtime(name: &str) -> bool {
    let prefixes = [
        "ompi.",
        "pmix",
        "prte",
        "openmpi-sessions",
        "vader_segment",
        "mpich",
        "ucx",
        "shm_mpich",
        "hwloc",
    ];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Every file below `directory` with its content; directories and links have none.
///
/// # Panics
///
/// If a file cannot be read.
pub fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut unread = vec![directory.to_path_buf()];
    while let Some(folder) = unread.pop() {
        for entry in std::fs::read_dir(&folder).expect("the directory can be listed") {
            let entry = entry.expect("the directory can be listed");
            let path = entry.path();
            let kind = entry.file_type().expect("the entry has a type");
            let content = if kind.is_file() {
                std::fs::read(&path).expect("the file can be read")
            } else {
                Vec::new()
            };
            if kind.is_dir() {
                unread.push(path.clone());
            }
            let name = path.strip_prefix(directory).unwrap_or(&path).to_path_buf();
            files.insert(name, content);
        }
    }
    files
}

/// The first difference between two trees of files in words, `None` if they are equal byte for
/// byte.
pub fn difference(one: &Path, other: &Path) -> Option<String> {
    let (left, right) = (snapshot(one), snapshot(other));
    for name in left.keys().chain(right.keys()) {
        match (left.get(name), right.get(name)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => return Some(first_difference(name, a, b)),
            (Some(_), None) => return Some(format!("only the first has {}", name.display())),
            _ => return Some(format!("only the second has {}", name.display())),
        }
    }
    None
}

fn first_difference(name: &Path, a: &[u8], b: &[u8]) -> String {
    let place = a.iter().zip(b).position(|(x, y)| x != y);
    match place {
        Some(at) => {
            format!("{} differs at byte {at}: {:#04x} and {:#04x}", name.display(), a[at], b[at])
        }
        None => format!("{} has {} bytes and {} bytes", name.display(), a.len(), b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_trees_have_no_difference_and_a_changed_byte_is_named() {
        let (one, other) = (Directory::new(), Directory::new());
        for directory in [&one, &other] {
            std::fs::create_dir(directory.path().join("sub")).unwrap();
            std::fs::write(directory.path().join("sub/file"), b"same").unwrap();
        }
        assert_eq!(difference(one.path(), other.path()), None);
        std::fs::write(other.path().join("sub/file"), b"some").unwrap();
        let words = difference(one.path(), other.path()).unwrap();
        assert!(words.contains("byte 1"), "{words}");
        std::fs::remove_file(other.path().join("sub/file")).unwrap();
        assert!(difference(one.path(), other.path()).is_some());
    }
}
