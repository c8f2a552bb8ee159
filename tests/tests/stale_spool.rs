//! Bytes of a killed program never come over what somebody else has written to the file since.

use aggio_tests::{Directory, compile_plain, kill_when_written, library, records, skip};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file that a killed program has not finished writing, and what it kept back.
struct Stale {
    directory: Directory,
    library: PathBuf,
    mode: &'static str,
}

impl Stale {
    /// The program has written `count` records.
    fn new(mode: &'static str, count: usize) -> Option<Self> {
        let it = Self { directory: Directory::new(), library: library()?, mode };
        std::fs::create_dir(it.spool()).expect("a directory");
        let mut writer = it.served(&compile_plain("ends_of_writers.c", &[]));
        kill_when_written(writer.arg(it.file()), count);
        Some(it)
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    fn spool(&self) -> PathBuf {
        self.directory.path().join("spool")
    }

    /// A program on the file, with the library.
    fn served(&self, program: &Path) -> Command {
        let mut command = plain(program);
        command.env("LD_PRELOAD", &self.library).env("AGGIO_SPOOL", self.spool());
        let rule = format!("{}/:{}", self.directory.path().display(), self.mode);
        command.env("AGGIO_POSIX", rule);
        command
    }

    /// Writes the file anew, as it is, by `cp`.
    fn copy(&self, new: &[u8]) {
        let (source, before) = (self.directory.path().join("source"), self.inode());
        std::fs::write(&source, new).expect("a file");
        let done = plain(Path::new("cp")).arg(&source).arg(self.file()).status();
        assert!(done.expect("cp starts").success());
        assert_eq!(self.inode(), before, "it is the same file");
    }

    fn inode(&self) -> u64 {
        self.file().metadata().expect("a file").ino()
    }

    /// The new content is there, and what was kept back, too; `said` names both.
    fn kept_aside(&self, new: &[u8], said: &[u8]) {
        let said = String::from_utf8_lossy(said);
        assert!(std::fs::read(self.file()).expect("a file") == new, "{said}");
        let spools: Vec<_> = std::fs::read_dir(self.spool()).expect("a directory").collect();
        let [Ok(spool)] = &spools[..] else { panic!("{spools:?}") };
        for name in [self.file(), spool.path()] {
            assert!(said.contains(name.to_str().expect("a name")), "{said}");
        }
        assert!(said.contains("has changed the file"), "{said}");
    }
}

fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX"] {
        command.env_remove(name);
    }
    command
}

fn recover(stale: &Stale, more: &[&str]) -> Option<Output> {
    let tool = aggio_tests::target_directory().join("release/aggio");
    if !tool.exists() {
        skip("target/release/aggio has not been built (cargo build --release)");
        return None;
    }
    let mut command = plain(&tool);
    command.arg("recover").args(more).arg("--spool").arg(stale.spool());
    Some(command.output().expect("it starts"))
}

/// Shorter than what the dead program wrote, as long, longer, and with the same beginning.
fn contents() -> [Vec<u8>; 4] {
    let mut same = records(100);
    same[1000..].fill(b'x');
    [b"new".to_vec(), vec![b'n'; 1600], b"new content".repeat(1000), same]
}

#[test]
fn the_next_program_finds_what_was_copied_over_the_file_of_a_killed_one() {
    for (mode, new) in
        contents().into_iter().flat_map(|new| [("close", new.clone()), ("causal", new)])
    {
        let Some(stale) = Stale::new(mode, 100) else { return };
        stale.copy(&new);
        let read = stale.served(Path::new("/bin/cat")).arg(stale.file()).output().expect("cat");
        assert!(read.stdout == new, "{mode}");
        stale.kept_aside(&new, &read.stderr);
    }
}

#[test]
fn recovery_keeps_aside_what_a_killed_program_had_for_a_file_that_was_copied_over() {
    for new in contents() {
        let Some(stale) = Stale::new("close", 100) else { return };
        stale.copy(&new);
        let Some(said) = recover(&stale, &[]) else { return };
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        stale.kept_aside(&new, &[said.stdout, said.stderr].concat());
        // Who asks for it gets it.
        let Some(said) = recover(&stale, &["--changed"]) else { return };
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        assert_eq!(std::fs::read(stale.file()).expect("a file")[16..1600], records(100)[16..]);
        assert_eq!(std::fs::read_dir(stale.spool()).expect("a directory").count(), 0);
    }
}

#[test]
fn recovery_finishes_a_file_that_nobody_has_changed() {
    let Some(stale) = Stale::new("close", 100) else { return };
    let Some(said) = recover(&stale, &[]) else { return };
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert_eq!(std::fs::read(stale.file()).expect("a file"), records(100));
}
