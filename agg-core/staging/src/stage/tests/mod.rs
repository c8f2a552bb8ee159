//! Stages from outside, as readers, other openers and later programs see them.

mod crowds;
mod deleted;
mod killed;
mod memory;
mod random;
mod unusual;

use super::*;
use aggio_base::report::Counters;
use aggio_config::hints::Drain;
use aggio_store::driver::table::Drivers;
use aggio_store::driver::{Closing, Driver, OpenHow, Staging};
use std::path::PathBuf;
use std::sync::Arc;

pub(super) struct Bench {
    dir: tempfile::TempDir,
    home: Home,
    drivers: Drivers,
    _no_children: std::sync::RwLockReadGuard<'static, ()>,
}

pub(super) const TERMS: Staging = Staging {
    first: true,
    always: true,
    drain: Drain::Close,
    each: 1 << 30,
    limit: 1 << 30,
    in_memory: 1 << 30,
    shared: true,
    local: true,
};

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(|dir| Home::new(&dir.join("stages")))
    }

    pub(super) fn in_memory() -> Self {
        Self::with(|_| Home::in_memory().unwrap())
    }

    /// One of each kind.
    pub(super) fn both() -> [Self; 2] {
        [Self::new(), Self::in_memory()]
    }

    fn with(home: impl FnOnce(&Path) -> Home) -> Self {
        let _no_children = crate::tests::without_children();
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::create_dir(dir.path().join("stages")).unwrap();
        let home = home(dir.path());
        let drivers = Drivers::default().with_last(Arc::new(Staged::new(home.clone())));
        Self { dir, home, drivers, _no_children }
    }

    pub(super) fn path(&self) -> String {
        self.dir.path().join("file").to_str().unwrap().to_owned()
    }

    pub(super) fn open(&self, terms: Option<Staging>) -> Box<dyn Driver> {
        let (read, write, create) = (true, true, true);
        let how = OpenHow {
            path: self.path(),
            read,
            write,
            create,
            staging: terms,
            ..OpenHow::default()
        };
        self.drivers.open(&how).unwrap()
    }

    pub(super) fn on_disk(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    /// The stages in the directory.
    pub(super) fn stages(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.dir.path().join("stages")).unwrap();
        all.map(|one| one.unwrap().path()).collect()
    }

    /// Whether there is a stage of the file.
    pub(super) fn has_stage(&self) -> bool {
        let target = File::open(self.path()).unwrap();
        self.home.has(&self.home.place(&Identity::of(&target).unwrap()))
    }

    /// The place of the stages.
    pub(super) fn home(&self) -> Home {
        self.home.clone()
    }

    pub(super) fn recover(&self, changed: bool) -> Vec<Drained> {
        recover(&self.home, changed).unwrap()
    }
}

pub(super) fn write(file: &dyn Driver, data: &[u8], offset: u64) {
    let counters = Counters::default();
    let outcome = file.write_contig(data, offset, &counters);
    assert_eq!((outcome.bytes, outcome.result), (data.len() as u64, Ok(())));
}

pub(super) fn read(file: &dyn Driver, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xEE; len];
    let outcome = file.read_contig(&mut buffer, offset, &Counters::default());
    outcome.result.unwrap();
    buffer.truncate(outcome.bytes as usize);
    buffer
}

/// As if the process had been killed: nothing is closed, but the kernel gives up its locks.
pub(super) fn kill(file: Box<dyn Driver>) {
    drop(file);
}

#[test]
fn what_is_staged_is_seen_by_every_opener_and_not_in_the_file() {
    for bench in Bench::both() {
        let one = bench.open(Some(TERMS));
        let other = bench.open(Some(Staging { first: false, ..TERMS }));
        write(&*one, b"abcdef", 0);
        write(&*other, b"XY", 2);
        for file in [&one, &other] {
            assert_eq!((read(&**file, 0, 10), file.size()), (b"abXYef".to_vec(), Ok(6)));
        }
        assert_eq!(bench.on_disk(), b"");
        one.sync().unwrap();
        assert_eq!(bench.on_disk(), b"abXYef");
        write(&*other, b"!", 9);
        assert_eq!(read(&*one, 0, 20), b"abXYef\0\0\0!");
        one.close(Closing::Complete).unwrap();
        assert_eq!(bench.on_disk(), b"abXYef\0\0\0!");
        write(&*other, b"?", 0);
        other.close(Closing::Complete).unwrap();
        assert_eq!((bench.on_disk()[0], bench.has_stage()), (b'?', false));
    }
}

#[test]
fn what_killed_programs_leave_is_there_for_the_next_one_or_is_recovered() {
    let bench = Bench::new();
    std::fs::write(bench.path(), b"0123456789").unwrap();
    let file = bench.open(Some(TERMS));
    write(&*file, b"new", 3);
    kill(file);
    assert_eq!(bench.on_disk(), b"0123456789");
    let next = bench.open(Some(TERMS));
    assert_eq!(read(&*next, 0, 10), b"012new6789");
    write(&*next, b"..", 8);
    kill(next);
    let done = bench.recover(false);
    assert_eq!((done.len(), done[0].bytes, &done[0].error), (1, 5, &None));
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"012new67..".to_vec(), 0));
}

#[test]
fn what_is_to_wait_for_the_next_program_waits() {
    let bench = Bench::new();
    let later = Staging { drain: Drain::Later, ..TERMS };
    let file = bench.open(Some(later));
    write(&*file, b"first", 0);
    file.close(Closing::Complete).unwrap();
    assert_eq!((bench.on_disk(), bench.stages().len()), (vec![], 1));
    let next = bench.open(Some(TERMS));
    assert_eq!(read(&*next, 0, 9), b"first");
    next.close(Closing::Complete).unwrap();
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"first".to_vec(), 0));
}

#[test]
fn bytes_of_a_file_that_somebody_else_has_changed_are_named_and_kept() {
    let bench = Bench::new();
    std::fs::write(bench.path(), b"before").unwrap();
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    kill(file);
    std::fs::write(bench.path(), b"of another program").unwrap();
    // A later opener sees the bytes that the other one wrote.
    let next = bench.open(Some(TERMS));
    assert_eq!(read(&*next, 0, 30), b"of another program");
    next.close(Closing::Complete).unwrap();
    let refused = bench.recover(false);
    let error = refused[0].error.as_ref().unwrap().to_string();
    assert!(error.contains("6 staged bytes") && error.contains("--changed"), "{error}");
    assert_eq!(bench.on_disk(), b"of another program");
    assert_eq!(bench.recover(true)[0].error, None);
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"stagedther program".to_vec(), 0));
}

#[test]
fn bytes_of_a_file_that_is_gone_are_named_and_kept() {
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    kill(file);
    std::fs::remove_file(bench.path()).unwrap();
    let error = bench.recover(true)[0].error.clone().unwrap();
    assert_eq!((error.class(), bench.stages().len()), (ErrorClass::NoSuchFile, 1));
    // The same name, and perhaps the same number: it is another file.
    std::fs::write(bench.path(), b"another").unwrap();
    assert!(bench.recover(true)[0].error.is_some());
    let next = bench.open(Some(TERMS));
    assert_eq!(read(&*next, 0, 30), b"another");
    next.close(Closing::Complete).unwrap();
    assert_eq!(bench.on_disk(), b"another");
}

#[test]
fn a_removed_file_takes_its_stage_with_it() {
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    std::fs::remove_file(bench.path()).unwrap();
    assert_eq!(read(&*file, 0, 9), b"staged");
    file.close(Closing::Complete).unwrap();
    assert_eq!(bench.stages().len(), 0);
}

#[test]
fn a_damaged_stage_is_set_aside_and_never_reaches_the_file() {
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    kill(file);
    let head = bench.stages()[0].join("head");
    let mut bytes = std::fs::read(&head).unwrap();
    bytes[130] ^= 1;
    std::fs::write(&head, &bytes).unwrap();
    assert!(bench.recover(true)[0].error.as_ref().unwrap().to_string().contains("damaged"));
    let next = bench.open(Some(TERMS));
    next.close(Closing::Complete).unwrap();
    assert_eq!((bench.on_disk(), bench.stages().len()), (vec![], 1));
}

#[test]
fn a_stage_of_which_a_file_was_cut_is_named_and_never_ends_the_program() {
    for name in ["head", "places", "bytes"] {
        let bench = Bench::new();
        let file = bench.open(Some(TERMS));
        write(&*file, b"staged", 0);
        kill(file);
        let part = File::options().write(true).open(bench.stages()[0].join(name)).unwrap();
        part.set_len(0).unwrap();
        assert!(bench.recover(true)[0].error.is_some(), "{name}");
        let next = bench.open(Some(TERMS));
        if name == "bytes" {
            // The staged bytes are not known any more, and an error says so.
            let outcome = next.read_contig(&mut [0; 6], 0, &Counters::default());
            assert!(outcome.result.is_err() && next.close(Closing::Complete).is_err());
        } else {
            next.close(Closing::Complete).unwrap();
        }
        assert_eq!((bench.on_disk(), bench.stages().len()), (vec![], 1), "{name}");
    }
}

#[test]
fn offsets_that_no_stage_has_go_straight() {
    for bench in Bench::both() {
        let file = bench.open(Some(TERMS));
        let far = 1 << 62;
        write(&*file, b"far", far);
        assert_eq!((file.size(), read(&*file, far - 1, 9)), (Ok(far + 3), b"\0far".to_vec()));
        assert_eq!(std::fs::metadata(bench.path()).unwrap().len(), far + 3);
        let outcome = file.write_contig(b"abcd", u64::MAX - 3, &Counters::default());
        assert!(outcome.result.is_err());
        file.close(Closing::Complete).unwrap();
    }
}

#[test]
fn a_full_stage_goes_into_the_file() {
    let bench = Bench::new();
    let file = bench.open(Some(Staging { limit: 100, ..TERMS }));
    write(&*file, &[1; 60], 0);
    assert_eq!(bench.on_disk().len(), 0);
    write(&*file, &[2; 60], 60);
    assert_eq!(bench.on_disk(), [1; 60]);
    // Bytes that find no room at all go straight to the file.
    write(&*file, &[3; 200], 10);
    let wanted = [vec![1; 10], vec![3; 200]].concat();
    assert_eq!(read(&*file, 0, 999), wanted);
    file.close(Closing::Complete).unwrap();
    assert_eq!(bench.on_disk(), wanted);
}

#[test]
fn a_cut_file_is_cut_whatever_was_staged() {
    for bench in Bench::both() {
        let (file, other) = (bench.open(Some(TERMS)), bench.open(Some(TERMS)));
        write(&*file, &[1; 5000], 0);
        other.set_size(10).unwrap();
        assert_eq!((file.size(), read(&*file, 0, 9000).len()), (Ok(10), 10));
        write(&*file, &[2; 2], 20);
        assert_eq!((other.size(), read(&*other, 8, 99).len()), (Ok(22), 14));
    }
}

#[test]
fn others_may_not_enter_and_what_others_made_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"secret", 0);
    let stage = bench.stages().remove(0);
    assert_eq!(stage.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    kill(file);
    std::fs::set_permissions(&stage, PermissionsExt::from_mode(0o755)).unwrap();
    let how =
        OpenHow { path: bench.path(), write: true, staging: Some(TERMS), ..OpenHow::default() };
    for first in [true, false] {
        let staging = Some(Staging { first, ..TERMS });
        let opened = bench.drivers.open(&OpenHow { staging, ..how.clone() }).unwrap();
        assert!(!opened.facts().is_staged);
        write(&*opened, b"straight", 0);
        assert_eq!(
            (opened.close(Closing::Complete), bench.on_disk()),
            (Ok(()), b"straight".to_vec())
        );
    }
    assert_eq!(bench.recover(false)[0].error.as_ref().unwrap().class(), ErrorClass::Access);
}
