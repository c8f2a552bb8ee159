//! The drivers of this repository hold the contract.

use agg_core::Result;
use agg_core::driver::{self, Closing, Driver, Drivers, LazyDriver, OpenHow, delete, fault, open};
use agg_core::stage;
use aggio_driver_conformance::{Subject, check};
use std::sync::Arc;

/// Files of one directory, opened by the driver that a prefix selects.
struct Prefixed {
    directory: tempfile::TempDir,
    prefix: &'static str,
}

impl Prefixed {
    fn new(prefix: &'static str) -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), prefix }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn how(&self, how: &OpenHow) -> OpenHow {
        OpenHow { path: format!("{}{}", self.prefix, self.path(&how.path)), ..how.clone() }
    }
}

impl Subject for Prefixed {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        open(&self.how(how))
    }

    fn delete(&self, name: &str) -> Result<()> {
        delete(&format!("{}{}", self.prefix, self.path(name)), 0)
    }

    fn full(&self, name: &str, room: u64) -> Option<Result<Box<dyn Driver>>> {
        // Only the test driver fills up on demand.
        let plan = format!("op=write,after={room},errno=ENOSPC");
        let _plan = (self.prefix == "testfs:").then(|| fault::arrange(&self.path(name), &plan))?;
        let how = OpenHow { path: name.into(), create: true, ..OpenHow::default() };
        Some(self.open(&OpenHow { read: true, write: true, ..how }))
    }
}

#[test]
fn ordinary_files_hold_the_contract() {
    check(&Prefixed::new("ufs:")).assert_holds();
}

/// Ordinary files; all their writes are staged.
struct Staging(Prefixed, Drivers);

impl Staging {
    fn in_directory() -> Self {
        let files = Prefixed::new("");
        let stages = files.directory.path().join("stages");
        std::fs::create_dir(&stages).expect("a directory");
        Self::of(files, stage::Home::new(&stages))
    }

    fn in_memory() -> Self {
        Self::of(Prefixed::new(""), stage::Home::in_memory().expect("/dev/shm"))
    }

    fn of(files: Prefixed, home: stage::Home) -> Self {
        let kind = stage::Staged::new(home);
        Self(files, Drivers::default().with_last(Arc::new(kind)))
    }
}

impl Subject for Staging {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let staging = driver::Staging {
            each: 1 << 30,
            first: true,
            always: true,
            drain: agg_core::hints::Drain::Close,
            limit: 1 << 30,
            in_memory: 1 << 30,
            shared: true,
            local: true,
        };
        self.1.open(&OpenHow { staging: Some(staging), ..self.0.how(how) })
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name)
    }
}

#[test]
fn staged_files_hold_the_contract() {
    check(&Staging::in_directory()).assert_holds();
    check(&Staging::in_memory()).assert_holds();
}

#[test]
fn the_test_driver_holds_the_contract_also_on_a_full_disk() {
    let report = check(&Prefixed::new("testfs:"));
    report.assert_holds();
    assert!(report.held.iter().any(|clause| clause.contains("full disk")), "{report}");
}

/// Files of the test driver with short and interrupted attempts.
struct Interrupted(Prefixed);

impl Subject for Interrupted {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let path = self.0.path(&how.path);
        let _plan =
            fault::arrange(&path, "op=write,short=977;op=read,short=1009;every=3,errno=EINTR")?;
        self.0.open(how)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name)
    }
}

#[test]
fn short_and_interrupted_attempts_do_not_break_the_contract() {
    check(&Interrupted(Prefixed::new("testfs:"))).assert_holds();
}

#[test]
fn containers_hold_the_contract() {
    check(&Prefixed::new("blob:")).assert_holds();
}

/// Files that are opened when they are needed.
struct Lazy(Prefixed);

impl Subject for Lazy {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        // Another rank has opened the file, and created it.
        let first = self.0.open(how)?;
        let facts = first.facts();
        let existing = OpenHow { create: false, exclusive: false, ..self.0.how(how) };
        first.close(Closing::Complete)?;
        Ok(Box::new(LazyDriver::new(Arc::default(), existing, facts, || None)))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name)
    }
}

#[test]
fn files_that_are_opened_when_they_are_needed_hold_the_contract() {
    check(&Lazy(Prefixed::new("ufs:"))).assert_holds();
}
