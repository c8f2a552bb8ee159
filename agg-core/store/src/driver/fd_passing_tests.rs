//! Taking files from other processes, alive and dead.

use super::scratch::Scratch;
use super::{Closing, Driver, LazyDriver, Offer, OpenHow, open};
use aggio_base::report::Counters;
use aggio_base::{ErrorClass, Extent};
use aggio_comm::transport::NodeTable;
use std::sync::Arc;

fn how(path: &str) -> OpenHow {
    OpenHow { path: path.to_owned(), read: true, write: true, ..OpenHow::default() }
}

fn lazy(path: &str, offer: Option<Offer>) -> LazyDriver {
    let how = how(path);
    let facts = open(&OpenHow { create: true, ..how.clone() }).expect("it opens").facts();
    LazyDriver::new(Arc::default(), how, facts, move || offer)
}

/// A file without a name.
fn lazy_without_name(path: &str, offer: Offer) -> LazyDriver {
    let facts = crate::driver::Facts::of_bytes("");
    LazyDriver::new(Arc::default(), how(path), facts, move || Some(offer))
}

/// An opened file and its offer.
fn opener(path: &str) -> (Box<dyn Driver>, Offer) {
    let driver = open(&OpenHow { create: true, ..how(path) }).expect("it opens");
    let offer = driver.offer().expect("an open file");
    (driver, offer)
}

#[test]
fn a_file_that_is_not_needed_is_not_opened() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let driver = lazy(&path, None);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!((driver.name(), driver.sync()), ("posix", Ok(())));
    assert!(driver.facts().block_size > 0 && !driver.is_open());
    let missing = driver.size().expect_err("it is gone");
    assert_eq!(missing.class(), ErrorClass::NoSuchFile);
    assert!(missing.to_string().contains(&path), "{missing}");
    assert_eq!(driver.close(Closing::Complete), Ok(()));
    std::fs::write(&path, b"x").expect("it can be written");
    assert_eq!(driver.size().expect_err("it is closed").class(), ErrorClass::File);
}

#[test]
fn users_of_one_open_file_description_exclude_each_other_by_locks() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let (first, offer) = opener(&path);
    let second = lazy(&path, Some(offer));
    let range = Extent::new(10, 10);
    let drivers: [&dyn Driver; 2] = [&*first, &second];
    for (one, other) in [(0, 1), (1, 0)] {
        let guard = drivers[one].lock(range, true).expect("a lock");
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(drivers[other].lock(Extent::new(15, 1), true).expect("a lock"));
                sender.send(()).expect("somebody listens");
            });
            let wait = std::time::Duration::from_millis(30);
            assert!(receiver.recv_timeout(wait).is_err(), "two holders of one range");
            drop(guard);
            receiver.recv().expect("the lock is free");
        });
    }
    assert_eq!((second.close(Closing::Complete), first.close(Closing::Complete)), (Ok(()), Ok(())));
}

#[test]
fn a_file_can_be_taken_between_the_two_closes_of_its_opener() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let (opener, offer) = opener(&path);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(opener.close(Closing::Offering), Ok(()));
    let taker = lazy_without_name(&path, offer);
    assert_eq!(taker.write_contig(b"abc", 0, &Counters::default()).bytes, 3);
    assert_eq!(opener.close(Closing::Complete), Ok(()));
    assert_eq!(taker.size(), Ok(3));
    let late = lazy_without_name(&path, offer);
    assert_eq!(late.size().expect_err("it is closed").class(), ErrorClass::NoSuchFile);
}

#[test]
fn a_descriptor_that_allows_too_little_is_not_taken_and_the_file_opened_anew() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    std::fs::write(&path, b"content").expect("it can be written");
    let reader = open(&OpenHow { write: false, ..how(&path) }).expect("it opens");
    let offer = reader.offer().expect("an open file");
    let driver = lazy(&path, Some(offer));
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(driver.write_contig(b"X", 0, &Counters::default()).bytes, 1);
    let mut back = [0; 9];
    assert_eq!(reader.read_contig(&mut back, 0, &Counters::default()).bytes, 7);
    assert_eq!(&back[..7], b"Xontent");
}

/// A process that has a file open, publishes its offer, and waits to be killed.
fn process_with(path: &str, table: &NodeTable) -> libc::pid_t {
    let mut ready = [0i32; 2];
    // SAFETY: `ready` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) }, 0);
    // SAFETY: the child only makes system calls and allocates before it waits to be killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (_driver, offer) = opener(path);
        table.publish(1, Some(offer));
        // SAFETY: one byte of a live array; then wait for the kill.
        unsafe {
            libc::write(ready[1], [1u8].as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
    }
    let mut word = [0u8];
    // SAFETY: room for one byte; the descriptors are ours.
    unsafe {
        libc::read(ready[0], word.as_mut_ptr().cast(), 1);
        libc::close(ready[0]);
        libc::close(ready[1]);
    }
    child
}

fn kill(child: libc::pid_t) {
    // SAFETY: ends and collects a child of this process.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

#[test]
fn another_process_may_be_alive_or_dead_when_its_file_is_taken() {
    let scratch = Scratch::new();
    let table = Arc::new(NodeTable::create().expect("memfd"));
    for (dies, unlinked) in [(false, true), (true, false), (true, true)] {
        let path = scratch.file("f");
        let child = process_with(&path, &table);
        let offer = table.offer(1).expect("the child has told");
        let driver = lazy(&path, Some(offer));
        if dies {
            kill(child);
        }
        if unlinked {
            std::fs::remove_file(&path).expect("it is there");
        }
        let written = driver.write_contig(b"abc", 0, &Counters::default());
        match (dies, unlinked) {
            (true, true) => {
                let error = written.result.expect_err("the file is lost");
                assert_eq!((written.bytes, error.class()), (0, ErrorClass::NoSuchFile));
            }
            _ => assert_eq!((written.bytes, driver.size()), (3, Ok(3))),
        }
        if !dies {
            kill(child);
        }
        let _ = std::fs::remove_file(&path);
    }
}
