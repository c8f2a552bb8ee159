//! Write-behind without a file above it: no views, no pointers, no modes.

use super::*;
use crate::file::storage::{FormatTracker, Reach};
use aggio_base::diagnostics::Diagnostics;
use aggio_comm::tags::Tags;
use aggio_comm::transport::threads::testing::run;
use aggio_comm::transport::{Holders, ThreadTransport};
use aggio_config::hints::Sources;
use aggio_plan::format::Formats;
use aggio_store::driver::scratch::Scratch;
use aggio_store::driver::{self, Drivers, Facts, OpenHow};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::View;

fn hints(pairs: &[(&str, &str)]) -> Arc<Hints> {
    let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let mut complaints = Diagnostics::default();
    Arc::new(Hints::resolve(&Sources::default(), "/x", &pairs, &mut complaints))
}

/// The write-behind of one rank for the file `path`, which `all` handles share.
fn opened(
    transport: Arc<ThreadTransport>,
    path: &str,
    all: &Arc<OpenFiles>,
    hints: &Arc<Hints>,
) -> Arc<WriteBehind> {
    let (path, size) = (path.to_owned(), transport.size());
    let how =
        OpenHow { path: path.clone(), read: true, write: true, create: true, ..OpenHow::default() };
    let driver = Arc::from(driver::open(&how).expect("it opens"));
    let facts = Facts::of_bytes("ext4");
    let reach = Reach { facts, aggregators: vec![0], logs: false, staged: false };
    let format = FormatTracker::new(hints, Formats::default(), size);
    let handle = Handle::new(all.clone(), Arc::new(Drivers::default()), path, 0);
    let table = transport.table().expect("threads share memory");
    let holders = Holders::new(table, 1, size);
    let storage = Arc::new(Storage::new(transport, 1, driver, reach, format, true));
    let terms = Terms { holders: Some(holders), asks: None };
    let (split, workers) = (Arc::default(), Workers::default());
    let opened = Arc::new(WriteBehind::new(storage, split, handle, terms, hints, workers));
    opened.announce(hints);
    opened
}

/// A write of `bytes` at `offset`; they must outlive it.
fn write(offset: u64, bytes: &mut [u8], hints: &Arc<Hints>) -> Result<Request> {
    let len = bytes.len() as u64;
    // SAFETY: the bytes are read at once, before the caller uses them again.
    let memory = unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(len), 1) };
    Ok(Request {
        direction: Direction::Write,
        view: Arc::new(View::bytes()),
        memory,
        position: offset,
        len,
        hints: hints.clone(),
        atomic: false,
        map: None,
    })
}

const ENABLE: (&str, &str) = ("aggio_defer", "enable");

fn alone(path: &str, all: &Arc<OpenFiles>, hints: &Arc<Hints>) -> Arc<WriteBehind> {
    let transport = ThreadTransport::group(1).remove(0);
    opened(transport, path, all, hints)
}

#[test]
fn a_write_is_buffered_until_this_rank_needs_it_in_the_file() {
    let (scratch, all, hints) = (Scratch::new(), Arc::default(), hints(&[ENABLE]));
    let path = scratch.file("x");
    let rank = alone(&path, &all, &hints);
    assert!(rank.is_on() && rank.is_idle());
    assert_eq!(rank.keep(write(0, &mut [1; 10], &hints)).bytes, 10);
    assert_eq!(std::fs::read(&path).expect("a file"), []);
    rank.settle_own(Direction::Read, Some(Extent::new(100, 5))).expect("it is elsewhere");
    assert_eq!(std::fs::read(&path).expect("a file"), []);
    rank.settle_own(Direction::Read, Some(Extent::new(9, 1))).expect("it is stored");
    assert_eq!(std::fs::read(&path).expect("a file"), [1; 10]);
    let counts = rank.storage.counters().totals();
    assert_eq!((counts.deferred, counts.flushes), (1, 1));
}

#[test]
fn a_buffer_has_room_for_as_much_as_the_hints_say_and_for_any_first_write() {
    let (scratch, all) = (Scratch::new(), Arc::default());
    let room = |text: &'static str| hints(&[ENABLE, ("aggio_tune", text)]);
    let rank = alone(&scratch.file("x"), &all, &room("defer_buffer=15"));
    let buffer = rank.buffer.clone().expect("it buffers");
    assert!(buffer.has_room(100));
    assert_eq!(rank.keep(write(0, &mut [1; 10], &buffer.hints())).bytes, 10);
    assert!(buffer.has_room(5) && !buffer.has_room(6));
    rank.set_hints(&room("defer_buffer=1000"));
    assert!(buffer.has_room(6));
}

#[test]
fn the_later_of_two_writes_through_two_handles_is_stored() {
    let (scratch, all, hints) = (Scratch::new(), Arc::default(), hints(&[ENABLE]));
    let path = scratch.file("x");
    let [first, second] = [(); 2].map(|()| alone(&path, &all, &hints));
    let other = alone(&scratch.file("y"), &all, &hints);
    assert_eq!((first.others().len(), other.others().len()), (1, 0));
    assert_eq!(first.keep(write(0, &mut [1; 10], &hints)).bytes, 10);
    assert_eq!(second.keep(write(5, &mut [2; 10], &hints)).bytes, 10);
    assert_eq!(std::fs::read(&path).expect("a file"), [1; 10], "the older one is stored");
    second.drain().expect("it is stored");
    first.drain().expect("nothing is left");
    assert_eq!(std::fs::read(&path).expect("a file"), [[1; 5], [2; 5], [2; 5]].concat());
    second.withdraw();
    assert!(first.others().is_empty());
}

#[test]
fn bytes_that_cannot_be_stored_are_counted_when_they_are_given_up() {
    let (scratch, all, hints) = (Scratch::new(), Arc::default(), hints(&[ENABLE]));
    let rank = alone(&scratch.file("x"), &all, &hints);
    let reason = || Error::new(ErrorClass::Io, "no disk");
    assert_eq!(rank.lose(reason()).to_string(), reason().to_string());
    assert_eq!(rank.keep(write(0, &mut [1; 10], &hints)).bytes, 10);
    assert!(rank.lose(reason()).to_string().contains("10 bytes that waited"));
}

#[test]
fn a_flush_writes_the_bytes_of_all_ranks_together() {
    let scratch = Scratch::new();
    let path = scratch.file("x");
    let flushes = run(3, |transport| {
        let path = path.clone();
        Box::pin(async move {
            let (all, hints, number) = (Arc::default(), hints(&[ENABLE]), transport.rank());
            let rank = opened(transport, &path, &all, &hints);
            let mut bytes = [number as u8 + 1; 10];
            let kept = rank.keep(write(10 * number as u64, &mut bytes, &hints));
            assert_eq!((kept.bytes, kept.result), (10, Ok(())));
            rank.waiting().expect("it buffers").has_waited = true;
            let flush = rank.flush_tags(&Tags::new(100), false);
            rank.flush(flush).await.expect("it is stored");
            rank.storage.counters().totals().flushes
        })
    });
    assert_eq!(flushes, [1; 3]);
    let stored = std::fs::read(&path).expect("a file");
    assert_eq!(stored, [[1; 10], [2; 10], [3; 10]].concat());
}
