//! Bytes of a killed program never replace later writes of other programs to the file.

use agg_core::spool::checks::guarded_short;
use agg_core::spool::layout::{HEAD, SLOT_HEAD, SlotHead};
use aggio_tests::{Directory, compile_plain, kill_when_written, library, records};
use std::ffi::OsStr;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The bytes of the complete file of `programs/scattered_writer.c`.
const SCATTERED: &[u8; 32] = b"....\0\0\0\0\0\0aa\0\0\0\0\0\0\0\0bb\0\0\0\0\0\0\0\0cc";

/// A file that a killed program has not finished writing, and the writes that it kept back.
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

    /// A program that writes scattered records has been killed at its call `number`; also returns
    /// the message of the killer.
    fn scattered(number: u64) -> Option<(Self, String)> {
        let it = Self { directory: Directory::new(), library: library()?, mode: "close" };
        std::fs::create_dir(it.spool()).expect("a directory");
        let mut command = plain(Path::new(env!("CARGO_BIN_EXE_aggio-test-kill")));
        // `env`, so that the killer itself runs without the library.
        command.args([number.to_string().as_str(), "/usr/bin/env"]);
        let served = it.served(&compile_plain("scattered_writer.c", &[]));
        for (name, value) in served.get_envs() {
            if let Some(value) = value {
                command.arg([name, value].join(OsStr::new("=")));
            }
        }
        let said = command.arg(served.get_program()).arg(it.file()).output().expect("it starts");
        assert!(said.status.success(), "{said:?}");
        Some((it, String::from_utf8_lossy(&said.stdout).into_owned()))
    }

    /// How many pieces the program has written if it was killed while it wrote them: how many it
    /// has recorded, and how many are in the file.
    fn progress(&self) -> Option<(u32, u32)> {
        let spool = std::fs::read_dir(self.spool()).expect("a directory").next()?;
        let bytes = std::fs::read(spool.expect("an entry").path()).expect("a spool");
        let slot = bytes.get(HEAD..HEAD + SLOT_HEAD)?;
        let word = |at: usize| u32::from_ne_bytes(slot[at..at + 4].try_into().expect("4 bytes"));
        let until = offset_of!(SlotHead, until);
        if word(until) == 0 && word(until + 4) == 0
            || word(offset_of!(SlotHead, count)) != guarded_short(3)
        {
            return None;
        }
        let there = std::fs::read(self.file()).expect("a file");
        let held = [10, 20, 30].into_iter().filter(|at| there.get(*at).is_some_and(|it| *it != 0));
        Some((word(offset_of!(SlotHead, stored)), held.count() as u32))
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

    /// The new content is there, and the writes kept back are, too; `said` names both.
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
    let mut command = plain(&aggio_tests::tool()?);
    command.arg("recover").args(more).arg("--spool").arg(stale.spool());
    Some(command.output().expect("it starts"))
}

/// Shorter than the bytes of the dead program, as long, longer, and with the same beginning.
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
        // The kept bytes are written on request.
        let Some(said) = recover(&stale, &["--changed"]) else { return };
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        // All but its first record was kept back.
        let mut both = new;
        both.resize(both.len().max(1600), 0);
        both[16..1600].copy_from_slice(&records(100)[16..]);
        assert!(std::fs::read(stale.file()).expect("a file") == both, "{said:?}");
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

#[test]
fn a_program_killed_while_it_writes_what_it_kept_is_known_by_all_that_it_has_recorded() {
    let Some((_, said)) = Stale::scattered(u64::MAX) else { return };
    let calls = said.split(' ').find_map(|word| word.parse::<u64>().ok()).expect("a number");
    let mut seen = [false; 4];
    // Two runs need not make the same calls: the same number is another moment now and then.
    for number in (1..=calls).rev().take(60).cycle().take(600) {
        if seen == [true; 4] && number == calls {
            break;
        }
        let Some((stale, what)) = Stale::scattered(number) else { return };
        let Some((recorded, there)) = stale.progress() else { continue };
        assert!(recorded <= there && there <= recorded + 1, "{what}: {recorded} of {there}");
        seen[recorded as usize] = true;
        // Every other time the file is copied over, as long as it is and with the first record.
        if number % 2 == 0 && recorded > 1 {
            let mut new = std::fs::read(stale.file()).expect("a file");
            new[12..].fill(b'n');
            stale.copy(&new);
            let Some(said) = recover(&stale, &[]) else { return };
            stale.kept_aside(&new, &[said.stdout, said.stderr].concat());
        } else {
            let Some(said) = recover(&stale, &[]) else { return };
            assert_eq!(said.status.code(), Some(0), "{what}: {said:?}");
            assert_eq!(std::fs::read(stale.file()).expect("a file"), SCATTERED, "{what}");
        }
    }
    assert_eq!(seen, [true; 4], "it was killed after each of its records");
}
