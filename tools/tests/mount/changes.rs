//! Changes below a mount point with `--rw`: random operations there and in a plain directory give
//! the same results.

use crate::mounted::{Mount, Random, container, directory};
use aggio_tests::difference;
use std::fs::File;
use std::io::{ErrorKind, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names that operations choose from: many collisions are wanted.
const NAMES: [&str; 6] = ["a", "b", "c", "d/a", "d/b", "e/x"];
/// Largest offset of an operation.
const FAR: u64 = 300_000;

/// The same file, open in both places.
struct Pair {
    view: File,
    oracle: File,
    append: bool,
}

struct Twin {
    view: PathBuf,
    oracle: PathBuf,
    open: Vec<Pair>,
    random: Random,
    done: Vec<String>,
}

/// The part of a result that a program sees.
fn seen<T>(result: Result<T>) -> std::result::Result<T, Option<i32>> {
    result.map_err(|why| why.raw_os_error())
}

fn punch(file: &File, offset: u64, len: u64) -> Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open for the length of the call.
    let result =
        unsafe { libc::fallocate(file.as_raw_fd(), mode, offset.cast_signed(), len.cast_signed()) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The bytes of a file as a mapping shows them.
fn mapped(file: &File, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: a new mapping of an open file, checked below.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(memory, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    // SAFETY: the mapping has `len` bytes, all before the end of the file, which nobody else
    // changes.
    let bytes = unsafe { std::slice::from_raw_parts(memory.cast::<u8>(), len) }.to_vec();
    // SAFETY: unmaps the memory that was mapped above; no reference to it is left.
    unsafe { libc::munmap(memory, len) };
    bytes
}

impl Twin {
    /// Carries out an operation on both sides and compares the results.
    fn both<T: PartialEq + std::fmt::Debug>(
        &mut self,
        words: String,
        act: impl Fn(&Path) -> Result<T>,
    ) {
        let (view, oracle) = (seen(act(&self.view)), seen(act(&self.oracle)));
        self.done.push(words);
        assert_eq!(view, oracle, "{}", self.done.join("\n"));
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    /// An operation on names.
    fn names(&mut self) {
        let (one, other) = (self.name(), self.name());
        match self.random.below(8) {
            0 | 1 => self.both(format!("rename {one} {other}"), |root| {
                std::fs::rename(root.join(one), root.join(other))
            }),
            2 => self.both(format!("unlink {one}"), |root| std::fs::remove_file(root.join(one))),
            3 => {
                let mode = 0o600 | self.random.below(0o100) as u32;
                self.both(format!("chmod {one} {mode:o}"), |root| {
                    let path = root.join(one);
                    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
                    Ok(path.metadata()?.permissions().mode())
                });
            }
            4 => {
                let size = self.random.below(FAR);
                self.both(format!("truncate {one} {size}"), |root| {
                    File::options().write(true).open(root.join(one))?.set_len(size)
                });
            }
            5 => self.both(format!("size of {one}"), |root| {
                Ok(std::fs::metadata(root.join(one))?.len())
            }),
            6 => self.both(format!("read {one}"), |root| std::fs::read(root.join(one))),
            _ => {
                let data = self.random.bytes(5000);
                self.both(format!("replace {one}"), |root| std::fs::write(root.join(one), &data));
            }
        }
    }

    /// Opens a file on both sides, makes it if it is not there.
    fn open(&mut self) {
        let (name, append) = (self.name(), self.random.below(5) == 0);
        let open = |root: &Path| {
            let mut how = File::options();
            how.read(true).create(true);
            if append {
                how.append(true)
            } else {
                how.write(true)
            };
            how.open(root.join(name))
        };
        let (view, oracle) = (open(&self.view), open(&self.oracle));
        self.done.push(format!("open {name} append {append}"));
        match (view, oracle) {
            (Ok(view), Ok(oracle)) => self.open.push(Pair { view, oracle, append }),
            (view, oracle) => {
                let (view, oracle) = (seen(view).err(), seen(oracle).err());
                assert_eq!(view, oracle, "{}", self.done.join("\n"));
            }
        }
        if self.open.len() > 5 {
            let index = self.random.below(5) as usize;
            self.open.swap_remove(index);
            self.done.push(format!("close {index}"));
        }
    }

    /// An operation on an open file.
    fn file(&mut self) {
        if self.open.is_empty() {
            return self.open();
        }
        let index = self.random.below(self.open.len() as u64) as usize;
        let (offset, len) = (self.random.below(FAR), self.random.below(20_000) as usize);
        let choice = self.random.below(9);
        let data = self.random.bytes(len);
        self.done.push(format!("file {index}: {choice} at {offset} len {len}"));
        let pair = &self.open[index];
        let act = |file: &File| -> Result<Vec<u8>> {
            let mut file = file;
            match choice {
                0..=2 if pair.append => file.write_all(&data)?,
                0..=2 => file.write_all_at(&data, offset)?,
                3 => file.set_len(offset)?,
                4 => punch(file, offset, len as u64 + 1)?,
                5 => file.sync_all()?,
                6 => return Ok(mapped(file, file.metadata()?.len() as usize)),
                7 => return Ok(file.metadata()?.len().to_le_bytes().to_vec()),
                _ => {
                    let mut bytes = vec![0; len];
                    let count = file.read_at(&mut bytes, offset)?;
                    bytes.truncate(count);
                    return Ok(bytes);
                }
            }
            Ok(Vec::new())
        };
        let (view, oracle) = (seen(act(&pair.view)), seen(act(&pair.oracle)));
        assert!(view == oracle, "{}", self.done.join("\n"));
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            match self.random.below(10) {
                0 | 1 => self.names(),
                2 => self.open(),
                _ => self.file(),
            }
        }
        let (view, oracle) = (self.view.clone(), self.oracle.clone());
        assert_eq!(difference(&view, &oracle), None, "{}", self.done.join("\n"));
    }
}

/// Random operations, many times, with new files of this kind.
fn campaign(kind: &str, seed: u64) {
    let directory = directory();
    let oracle = directory.path().join("oracle");
    let Some(mount) = Mount::of(&directory, &["--rw", kind]) else { return };
    for root in [&oracle, &mount.path("")] {
        for folder in ["d", "e"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
    }
    let factor: u64 =
        std::env::var("AGGIO_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    let mut twin = Twin {
        view: mount.path(""),
        oracle: oracle.clone(),
        open: Vec::new(),
        random: Random(seed),
        done: vec![format!("{kind}, seed {seed}")],
    };
    for _ in 0..4 * factor {
        twin.run(500);
    }
    drop(twin);
    mount.end();
    // Everything was stored: also a new mount shows it, and nothing else is left.
    let Some(mount) = Mount::of(&directory, &[]) else { return };
    assert_eq!(difference(&mount.path(""), &oracle), None);
    let left: Vec<_> = std::fs::read_dir(mount.backing(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".aggio"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn random_operations_on_containers_give_what_a_plain_directory_gives() {
    for seed in 1..3 {
        campaign("--new-files=container", seed);
    }
}

#[test]
fn random_operations_on_plain_files_give_what_a_plain_directory_gives() {
    campaign("--new-files=plain", 11);
}

#[test]
fn random_operations_without_passthrough_give_what_a_plain_directory_gives() {
    campaign("--no-passthrough", 12);
}

#[test]
fn a_removed_container_lives_as_long_as_somebody_has_it_open() {
    let directory = directory();
    let options = ["--rw", "--new-files=container"];
    let Some(mount) = Mount::of(&directory, &options) else { return };
    let path = mount.path("a");
    std::fs::write(&path, "first").unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    std::fs::write(&path, "second").unwrap();
    file.write_all_at(b"more", 5).unwrap();
    let mut bytes = [0; 9];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"firstmore");
    assert_eq!(std::fs::read(&path).unwrap(), b"second");
    drop(file);
    let backing = mount.backing("");
    mount.end();
    assert_eq!(std::fs::read_dir(&backing).unwrap().count(), 1, "only the second is left");
}

#[test]
fn a_shared_mapping_writes_into_a_container() {
    let directory = directory();
    let options = ["--rw", "--new-files=container"];
    let Some(mount) = Mount::of(&directory, &options) else { return };
    let words = "import mmap,os;f=open('m','wb+');f.truncate(100000);\
        m=mmap.mmap(f.fileno(),100000);\
                 m[5000:5005]=b'hello';m[99999]=7;m.flush();m.close();f.close()";
    crate::mounted::output("python3", &["-c", words], &mount.path(""));
    let mut wanted = vec![0; 100_000];
    wanted[5000..5005].copy_from_slice(b"hello");
    wanted[99_999] = 7;
    assert!(std::fs::read(mount.path("m")).unwrap() == wanted);
    let backing = mount.backing("m");
    mount.end();
    let container = agg_core::blob::Container::open(&backing).unwrap();
    let mut stored = vec![0; 100_000];
    assert_eq!(container.reader().unwrap().read_at(&mut stored, 0).unwrap(), stored.len());
    assert!(stored == wanted);
}

#[test]
fn links_are_made_of_plain_files_and_refused_for_containers() {
    let Some(mount) = Mount::start(&["--rw"]) else { return };
    std::fs::write(mount.path("plain"), "x").unwrap();
    std::fs::hard_link(mount.path("plain"), mount.path("hard")).unwrap();
    std::os::unix::fs::symlink("plain", mount.path("soft")).unwrap();
    assert_eq!(std::fs::read_link(mount.path("soft")).unwrap(), Path::new("plain"));
    assert_eq!(std::fs::read(mount.path("soft")).unwrap(), b"x");
    crate::mounted::container(&mount.backing("blob"), b"abc", 1);
    let refused = std::fs::hard_link(mount.path("blob"), mount.path("other")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
}

#[test]
fn refusals_have_the_errors_of_any_file_system() {
    let Some(mount) = Mount::start(&["--rw"]) else { return };
    let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
    std::fs::create_dir(mount.path("folder")).unwrap();
    container(&mount.backing("blob"), b"data", 2);
    assert_eq!(
        kind(std::fs::rename(mount.path("blob"), mount.path("folder"))),
        ErrorKind::IsADirectory
    );
    assert_eq!(
        kind(std::fs::rename(mount.path("folder"), mount.path("blob"))),
        ErrorKind::NotADirectory
    );
    let hidden = mount.path(".aggio-0123456789abcdef");
    assert_eq!(kind(std::fs::metadata(hidden).map(|_| ())), ErrorKind::NotFound);
    mount.end();
}
