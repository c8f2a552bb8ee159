//! Recovery of spools that were left, and of files that have changed since.

mod damage;
mod told;

use super::*;
use crate::spool::layout::{HEAD, Head, SLOT_DATA, VERSION};
use crate::spool::{Ask, Spool};
use std::os::unix::ffi::OsStrExt;

/// A directory with a file, and the spool of a process that is dead, which had 2 pieces for it.
fn abandoned() -> (tempfile::TempDir, PathBuf) {
    abandoned_with(&[(2, b"abc"), (4, b"de")])
}

/// The same with these pieces.
fn abandoned_with(pieces: &[(u64, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"..........", 0).unwrap();
    let mut spool = Spool::create(directory.path()).unwrap();
    keep_back(&mut spool, &path, &file, pieces);
    die(spool);
    (directory, path)
}

/// Puts pieces of a file into a slot of its own.
fn keep_back(spool: &mut Spool, path: &Path, file: &File, pieces: &[(u64, &[u8])]) {
    let slot = spool.slot(path.as_os_str().as_bytes(), identity_of(file), SLOT_DATA).unwrap();
    slot.belong_to(Version::known(file.as_raw_fd()));
    let mut place = 0;
    for (index, (offset, bytes)) in pieces.iter().enumerate() {
        // SAFETY: the slot has room for them.
        unsafe { slot.data().add(place).copy_from(bytes.as_ptr(), bytes.len()) };
        slot.push(index, *offset, bytes.len(), place);
        place += bytes.len();
    }
}

fn identity_of(file: &File) -> [u64; 3] {
    let facts = file.metadata().unwrap();
    [facts.dev(), facts.ino(), crate::spool::born(file.as_raw_fd())]
}

/// As if the owner of a spool were dead.
fn die(spool: Spool) {
    // Nobody else has this number.
    let name = spool.path().to_path_buf();
    let pid = offset_of!(Head, pid) as u64;
    let bytes = File::options().write(true).open(&name).unwrap();
    bytes.write_all_at(&u32::MAX.to_ne_bytes(), pid).unwrap();
    drop(bytes);
    sign(&name);
    // SAFETY: its slots are used no more.
    unsafe { spool.disown() };
}

/// Gives a changed head its check.
fn sign(spool: &Path) {
    let file = File::options().read(true).write(true).open(spool).unwrap();
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).unwrap();
    let check = HeadCopy::check_of(head, spool).to_ne_bytes();
    file.write_all_at(&check, offset_of!(Head, check) as u64).unwrap();
}

fn spool_in(directory: &Path) -> PathBuf {
    let paths = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    // SAFETY: asks for a number.
    let uid = unsafe { libc::geteuid() };
    paths.into_iter().find(|path| is_spool(path, uid)).unwrap()
}

/// Recovers an abandoned spool. Another test of this process may be forking: until its child is
/// another program, it has the lock of the spool, too.
fn recovered(directory: &Path) -> Vec<Recovered> {
    for _ in 0..1000 {
        let done = recover(directory).unwrap();
        if !done.is_empty() {
            return done;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Vec::new()
}

#[test]
fn of_pieces_that_overlap_the_later_holds_and_the_spool_is_gone() {
    let (directory, path) = abandoned();
    let done = recovered(directory.path());
    assert!(done.len() == 1 && done[0].error.is_none() && done[0].bytes == 5, "{done:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"..abde....");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// As `cp` writes a file anew.
fn write_anew(path: &Path, bytes: &[u8]) {
    // Times of files are no finer than some milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(path, bytes).unwrap();
}

fn set_in_head(directory: &Path, at: usize, with: u64) {
    set(directory, at, with);
    sign(&spool_in(directory));
}

fn set(directory: &Path, at: usize, with: u64) {
    let spool = spool_in(directory);
    let file = File::options().write(true).open(spool).unwrap();
    file.write_all_at(&with.to_ne_bytes(), at as u64).unwrap();
}

#[test]
fn bytes_of_a_file_that_was_written_anew_are_kept_aside_and_told() {
    for new in [&b"new content"[..], b"anew", b"0123456789"] {
        let (directory, path) = abandoned();
        write_anew(&path, new);
        let done = recovered(directory.path());
        let error = done[0].error.as_ref().unwrap();
        assert!(done.len() == 1 && error.errno() == libc::ESTALE, "{done:?}");
        assert!(error.to_string().contains("--changed"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), new);
        assert!(spool_in(directory.path()).exists());
        let done = recover_all(directory.path(), true).unwrap();
        assert!(done.len() == 1 && done[0].error.is_none() && done[0].bytes == 5, "{done:?}");
        assert_eq!(std::fs::read(&path).unwrap()[2..6], *b"abde");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

/// As [`abandoned`], by an owner that was writing the pieces to the file of `size` bytes and had
/// recorded that `done` were written.
fn interrupted(size: u64, done: u64) -> (tempfile::TempDir, PathBuf) {
    interrupt(abandoned(), size, done)
}

fn interrupt(
    (directory, path): (tempfile::TempDir, PathBuf),
    size: u64,
    done: u64,
) -> (tempfile::TempDir, PathBuf) {
    let field = |field, with| set(directory.path(), HEAD + field, with);
    field(offset_of!(SlotHead, size), size);
    let spool = File::options().write(true).open(spool_in(directory.path())).unwrap();
    let stored = HEAD + offset_of!(SlotHead, stored);
    spool.write_all_at(&(done as u32).to_ne_bytes(), stored as u64).unwrap();
    field(offset_of!(SlotHead, until), change::deadline());
    (directory, path)
}

#[test]
fn an_owner_killed_while_it_wrote_them_has_made_the_last_change() {
    // The first piece had reached the file; both had; the first byte of all made it longer.
    let cases = [
        (10, 0, &b"..abc....."[..]),
        (10, 1, b"..abc....."),
        (10, 2, b"..abde...."),
        (0, 1, b"..abc"),
        (0, 2, b"..abde"),
    ];
    for (size, done, there) in cases {
        let (directory, path) = interrupted(size, done);
        write_anew(&path, there);
        let done = recovered(directory.path());
        assert!(done[0].error.is_none(), "{done:?}");
        assert_eq!(std::fs::read(&path).unwrap()[2..6], *b"abde");
    }
}

#[test]
fn a_file_written_anew_though_its_owner_was_killed_while_it_wrote_is_another() {
    let cases = [
        // No piece is there, a later one alone is, or half of one.
        (10, 0, &b".........."[..]),
        (10, 0, b"....de...."),
        (10, 0, b"..ab......"),
        // A piece that was recorded as written is missing.
        (10, 1, b".........."),
        (10, 2, b"..abc....."),
        // The pieces do not make it as long, or it is shorter than before.
        (10, 0, b"..abc......."),
        (0, 1, b"..abc....."),
        (10, 1, b"..abc"),
    ];
    for (size, done, new) in cases {
        let (directory, path) = interrupted(size, done);
        write_anew(&path, new);
        let done = recovered(directory.path());
        assert_eq!(done[0].error.as_ref().map(Error::errno), Some(libc::ESTALE), "{done:?}");
        assert_eq!(std::fs::read(&path).unwrap(), new);
    }
    // Long ago.
    let (directory, path) = interrupted(10, 1);
    set(directory.path(), HEAD + offset_of!(SlotHead, until), 1);
    write_anew(&path, b"..abc.....");
    assert!(recovered(directory.path())[0].error.is_some());
    assert_eq!(std::fs::read(&path).unwrap(), b"..abc.....");
}

#[test]
fn zeros_are_the_owners_if_they_made_the_file_longer() {
    for (size, is_its) in [(5, true), (10, false)] {
        // A piece of zeros before the other, which was not written.
        let pieces = [(7, &[0; 3][..]), (12, b"de")];
        let (directory, path) = interrupt(abandoned_with(&pieces), size, 0);
        write_anew(&path, &[b"1234567", &[0; 3][..]].concat());
        let done = recovered(directory.path());
        assert_eq!(done[0].error.is_none(), is_its, "{done:?}");
        let longer = std::fs::read(&path).unwrap() == b"1234567\0\0\0\0\0de";
        assert_eq!(longer, is_its);
    }
}

#[test]
fn an_owner_at_work_that_makes_the_file_longer_meanwhile_is_known() {
    let (directory, path) = interrupted(0, 0);
    write_anew(&path, b"..abc");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let version = Version::known(file.as_raw_fd());
    file.write_all_at(b"de", 4).unwrap();
    let facts = file.metadata().unwrap();
    let places = Others::new(directory.path()).places([facts.dev(), facts.ino()]);
    assert_eq!(places.len(), 1);
    assert!(change::since(&places, &file, version).is_some());
}

#[test]
fn an_owner_killed_when_it_had_told_another_of_its_version_is_known() {
    // Both were at work, the other has made the file longer, and the first has told it of that.
    let (directory, path) = interrupted(10, 1);
    write_anew(&path, b"..abde....zz");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut spool = Spool::create(directory.path()).unwrap();
    let slot = spool.slot(path.as_os_str().as_bytes(), identity_of(&file), SLOT_DATA).unwrap();
    // SAFETY: the slot has room for it.
    unsafe { slot.data().copy_from(b"zz".as_ptr(), 2) };
    slot.push(0, 10, 2, 0);
    slot.belong_to(Version::known(file.as_raw_fd()));
    die(spool);
    let done = recovered(directory.path());
    assert!(done.len() == 2 && done.iter().all(|one| one.error.is_none()), "{done:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"..abde....zz");
}

#[test]
fn what_others_tell_while_an_owner_begins_is_not_forgotten() {
    let (directory, path) = abandoned();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let version = || Version::known(file.as_raw_fd());
    let mut spool = Spool::create(directory.path()).unwrap();
    let slot = spool.slot(path.as_os_str().as_bytes(), identity_of(&file), SLOT_DATA).unwrap();
    slot.push(0, 0, 1, 0);
    let old = version();
    write_anew(&path, b"0123456789 longer");
    // The other told of it before the owner said which version it knew, and is gone.
    slot.belong_to(old);
    assert_eq!(slot.belong_to_file(file.as_raw_fd(), Ask::Machine), version());
    let head = slot.head();
    assert_eq!(head.stamp.load(std::sync::atomic::Ordering::Relaxed), version().stamp());
    assert_eq!(head.size.load(std::sync::atomic::Ordering::Relaxed), version().size);
    spool.remove();
}

#[test]
fn a_file_that_has_all_bytes_is_not_written_whoever_has_changed_it() {
    let (directory, path) = abandoned();
    write_anew(&path, b"..abde and more");
    // Another test of this process may have the lock of the spool for a moment.
    let gone = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let done = recover(directory.path()).unwrap();
        assert!(done.iter().all(|one| one.error.is_none()), "{done:?}");
        std::fs::read_dir(directory.path()).unwrap().count() == 1
    });
    assert!(gone && std::fs::read(&path).unwrap() == b"..abde and more");
}

#[test]
fn others_are_told_how_long_a_change_has_made_the_file() {
    let (directory, path) = abandoned();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let facts = file.metadata().unwrap();
    let mut others = Others::new(directory.path());
    let change = others.begin([facts.dev(), facts.ino()], file.as_raw_fd()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.write_all_at(b"longer", 10).unwrap();
    others.end(&change, file.as_raw_fd());
    let spool = std::fs::read(spool_in(directory.path())).unwrap();
    let field = |at| crate::spool::reading::word(&spool, HEAD + at);
    assert_eq!(field(offset_of!(SlotHead, size)), 16);
    assert_eq!(field(offset_of!(SlotHead, stamp)), Version::known(file.as_raw_fd()).stamp());
}

#[test]
fn what_is_in_its_file_does_not_come_again_though_its_spool_stays() {
    let (directory, path) = abandoned();
    let other = directory.path().join("other");
    let mut spool = Spool::create(directory.path()).unwrap();
    for path in [&path, &other] {
        let file = File::options().create(true).append(true).open(path).unwrap();
        let identity = identity_of(&file);
        let slot = spool.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA).unwrap();
        slot.belong_to(Version::known(file.as_raw_fd()));
        slot.push(0, 0, 3, 0);
    }
    std::fs::remove_file(&other).unwrap();
    die(spool);
    assert_eq!(recovered(directory.path()).len(), 3);
    write_anew(&path, b"later");
    let again = recovered(directory.path());
    assert!(again.len() == 1 && again[0].path == other, "{again:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"later");
}

#[test]
fn changes_of_others_who_keep_bytes_of_the_file_are_none_of_strangers() {
    let (directory, path) = abandoned();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let identity = identity_of(&file);
    let mut spool = Spool::create(directory.path()).unwrap();
    let slot = spool.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA).unwrap();
    let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
    let store = |text: &[u8], at| {
        pause();
        file.write_all_at(text, at).unwrap();
    };
    let storing = spool.begin_storing(slot, file.as_raw_fd());
    assert_eq!(slot.head().size.load(std::sync::atomic::Ordering::Relaxed), 10);
    store(b"..", 10);
    store(b"0", 9);
    spool.end_storing(&storing, file.as_raw_fd(), true);
    // It has told the other of its version, and could have been killed before it knew it itself.
    assert_eq!(slot.head().size.load(std::sync::atomic::Ordering::Relaxed), 12);
    // And again: it dies before it has told of it.
    // SAFETY: the slot has room for it.
    unsafe { slot.data().copy_from(b"1".as_ptr(), 1) };
    slot.push(0, 0, 1, 0);
    let _ = spool.begin_storing(slot, file.as_raw_fd());
    store(b"1", 0);
    die(spool);
    // A living process finds that out before it makes a change, and the slot of a dead one is kept.
    let mut living = Spool::create(directory.path()).unwrap();
    let slot = living.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA).unwrap();
    let storing = living.begin_storing(slot, file.as_raw_fd());
    store(b"2", 1);
    living.end_storing(&storing, file.as_raw_fd(), true);
    let done = recovered(directory.path());
    assert!(done.len() == 2 && done.iter().all(|one| one.error.is_none()), "{done:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"12abde...0..");
    living.remove();
}

#[test]
fn of_two_that_were_killed_one_at_work_both_are_finished_in_any_order() {
    // Which spool is found first depends on their names, which are random.
    for _ in 0..8 {
        let (directory, path) = abandoned();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let identity = identity_of(&file);
        let mut spool = Spool::create(directory.path()).unwrap();
        let slot = spool.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA).unwrap();
        // SAFETY: the slot has room for it.
        unsafe { slot.data().copy_from(b"78".as_ptr(), 2) };
        slot.push(0, 7, 2, 0);
        let _ = spool.begin_storing(slot, file.as_raw_fd());
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.write_all_at(b"78", 7).unwrap();
        die(spool);
        let mut done = recovered(directory.path());
        if done.len() < 2 {
            // Processes that other tests have forked hold copies of the lock of the other one for a
            // while.
            done.extend(recovered(directory.path()));
        }
        assert!(done.len() == 2 && done.iter().all(|one| one.error.is_none()), "{done:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"..abde.78.");
    }
}

#[test]
fn a_change_of_a_stranger_between_changes_of_others_is_found() {
    let (directory, path) = abandoned();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let identity = identity_of(&file);
    write_anew(&path, b"0123456789");
    let mut spool = Spool::create(directory.path()).unwrap();
    let slot = spool.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA).unwrap();
    let storing = spool.begin_storing(slot, file.as_raw_fd());
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.write_all_at(b"x", 9).unwrap();
    spool.end_storing(&storing, file.as_raw_fd(), true);
    assert!(recovered(directory.path())[0].error.is_some());
    assert_eq!(std::fs::read(&path).unwrap(), b"012345678x");
    spool.remove();
}

#[test]
fn a_number_of_another_boot_or_machine_is_no_process_of_this_one() {
    let (pid, boot, host) = (offset_of!(Head, pid), offset_of!(Head, boot), offset_of!(Head, host));
    // Its own process lives, and is not meant.
    let own = u64::from(std::process::id()) << 32 | u64::from(VERSION);
    let (directory, path) = abandoned();
    set_in_head(directory.path(), pid - 4, own);
    set_in_head(directory.path(), pid + 4, started(std::process::id()).unwrap());
    assert!(recover(directory.path()).unwrap().is_empty());
    set_in_head(directory.path(), boot, 7);
    assert!(recovered(directory.path())[0].error.is_none());
    assert_eq!(std::fs::read(&path).unwrap(), b"..abde....");
    let (directory, path) = abandoned();
    set_in_head(directory.path(), boot, 7);
    set_in_head(directory.path(), host, 7);
    assert!(recover(directory.path()).unwrap().is_empty());
    let told = recover_all(directory.path(), false).unwrap();
    assert!(told[0].error.as_ref().unwrap().to_string().contains("another machine"));
    assert_eq!(std::fs::read(&path).unwrap(), b"..........");
}

#[test]
fn a_living_owner_keeps_its_spool() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::create(directory.path()).unwrap();
    assert!(recover(directory.path()).unwrap().is_empty() && spool.path().exists());
}

#[test]
fn a_spool_can_be_made_while_others_look_for_abandoned_ones() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let made = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !made.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(recover(directory).is_ok_and(|done| done.is_empty()));
                }
            });
        }
        for _ in 0..300 {
            Spool::create(directory).expect("a spool").remove();
        }
        made.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
