//! Both drivers against real files.

use super::fake::{FakeDriver, FakeFile};
use super::scratch::Scratch;
use super::{Closing, Driver, OpenHow, delete, fault, generic, open};
use aggio_base::report::Counters;
use aggio_base::{ErrorClass, Extent, Result};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::PermissionsExt;

fn how(path: &str) -> OpenHow {
    OpenHow { path: path.into(), create: true, read: true, write: true, ..OpenHow::default() }
}

fn opened(path: &str) -> Box<dyn Driver> {
    open(&how(path)).unwrap()
}

fn class_of<T>(result: Result<T>) -> ErrorClass {
    result.err().unwrap().class()
}

#[test]
fn an_error_after_three_stored_pieces_reports_exactly_these_bytes() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let _plan = fault::arrange(&path, "op=write,short=5;op=write,nth=4,errno=ENOSPC").unwrap();
    let driver = opened(&format!("testfs:{path}"));
    let counters = Counters::default();
    let outcome = driver.write_contig(&[7; 100], 10, &counters);
    let error = outcome.result.unwrap_err();
    assert_eq!(outcome.bytes, 15);
    assert_eq!((error.class(), error.errno()), (ErrorClass::NoSpace, libc::ENOSPC));
    assert_eq!(error.extent(), Some(Extent::new(25, 85)));
    assert!(error.to_string().contains("pwrite"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), [[0u8; 10].as_slice(), &[7; 15]].concat());
    let totals = counters.totals();
    assert_eq!((totals.writes_out, totals.bytes_written_out), (4, 15));
    // The fault is over: the file goes on working.
    let again = driver.write_contig(&[8; 100], 10, &counters);
    assert_eq!((again.bytes, again.result.is_ok()), (100, true));
}

#[test]
fn interruptions_and_short_transfers_are_continued() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let _plan = fault::arrange(&path, "every=2,errno=EINTR;short=3").unwrap();
    let driver = opened(&format!("testfs:{path}"));
    let counters = Counters::default();
    let data: Vec<u8> = (0..=255).collect();
    assert_eq!(driver.write_contig(&data, 0, &counters).bytes, 256);
    let (head, tail) = data.split_at(100);
    let mut pieces = [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)];
    let outcome = generic::write_vectors(&*driver, &mut pieces, 256, &counters);
    assert_eq!((outcome.bytes, outcome.result), (256, Ok(())));
    let mut back = vec![0; 600];
    let outcome = driver.read_contig(&mut back, 0, &counters);
    assert_eq!((outcome.bytes, outcome.result), (512, Ok(())));
    assert_eq!(back[..512], [data.clone(), data.clone()].concat());
    let (mut one, mut two) = (vec![9; 11], vec![9; 600]);
    let mut pieces = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    let outcome = generic::read_vectors(&*driver, &mut pieces, 0, &counters);
    assert_eq!((outcome.bytes, outcome.result), (512, Ok(())));
    assert_eq!(one, data[..11]);
    assert_eq!(two[..501], back[11..512]);
    assert_eq!(two[501..], [9; 99], "bytes behind the end of the file were touched");
}

#[test]
fn offsets_beyond_the_signed_range_are_refused_as_arguments() {
    let scratch = Scratch::new();
    let driver = opened(&scratch.file("f"));
    let counters = Counters::default();
    let end = i64::MAX as u64;
    for (offset, len) in [(end, 1), (end + 1, 1), (u64::MAX, 1), (u64::MAX - 3, 9), (end - 3, 9)] {
        let mut buffer = vec![1; len];
        let read = driver.read_contig(&mut buffer, offset, &counters);
        let write = driver.write_contig(&buffer, offset, &counters);
        assert_eq!((read.bytes, class_of(read.result)), (0, ErrorClass::Arg));
        assert_eq!((write.bytes, class_of(write.result)), (0, ErrorClass::Arg));
    }
    assert_eq!(class_of(driver.set_size(end + 1)), ErrorClass::Arg);
    assert_eq!(class_of(driver.preallocate(end + 1)), ErrorClass::Arg);
    assert_eq!(counters.totals().writes_out, 0);
}

#[test]
fn failures_of_close_sync_and_the_others_surface_with_their_class() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let _plan = fault::arrange(
        &path,
        "op=close,errno=EIO;op=sync,errno=EDQUOT;op=resize,errno=EFBIG;op=size,errno=ESTALE;\
         op=preallocate,errno=ENOSPC;op=lock,errno=ENOSYS",
    )
    .unwrap();
    let driver = opened(&format!("testfs:{path}"));
    assert_eq!(class_of(driver.sync()), ErrorClass::Quota);
    assert_eq!(class_of(driver.set_size(9)), ErrorClass::NoSpace);
    assert_eq!(class_of(driver.size()), ErrorClass::Io);
    assert_eq!(class_of(driver.preallocate(9)), ErrorClass::NoSpace);
    assert_eq!(class_of(driver.lock(Extent::new(0, 1), true)), ErrorClass::UnsupportedOperation);
    let error = driver.close(Closing::Complete).unwrap_err();
    assert_eq!((error.class(), error.errno()), (ErrorClass::Io, libc::EIO));
    assert!(error.to_string().contains("close"), "{error}");
    assert_eq!(driver.pread(&mut [0], 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
}

#[test]
fn an_interrupted_close_is_a_success() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let _plan = fault::arrange(&path, "op=close,errno=EINTR").unwrap();
    assert_eq!(opened(&format!("testfs:{path}")).close(Closing::Complete), Ok(()));
}

#[test]
fn faults_of_open_and_delete_hit_the_named_rank_only() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let name = format!("testfs:{path}");
    let _plan =
        fault::arrange(&path, "op=open,rank=2,errno=EACCES;op=delete,rank=1,errno=EROFS").unwrap();
    let error = open(&OpenHow { rank: 2, ..how(&name) }).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Access);
    assert!(error.to_string().contains(&path), "{error}");
    assert!(open(&OpenHow { rank: 1, ..how(&name) }).is_ok());
    assert_eq!(class_of(delete(&name, 1)), ErrorClass::ReadOnly);
    assert_eq!(delete(&name, 0), Ok(()));
    assert_eq!(class_of(delete(&name, 0)), ErrorClass::NoSuchFile);
}

#[test]
fn opens_are_counted_by_path_and_rank() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let _plan = fault::arrange(&path, "op=open,nth=2,errno=EBUSY").unwrap();
    let name = format!("testfs:{path}");
    for rank in [0, 1] {
        let attempt = || open(&OpenHow { rank, ..how(&name) }).map(|_| ());
        assert_eq!(attempt(), Ok(()));
        assert_eq!(class_of(attempt()), ErrorClass::FileInUse);
        assert_eq!(attempt(), Ok(()));
    }
}

#[test]
fn a_request_beyond_two_gibibytes_is_cut_at_the_kernels_limit() {
    const LIMIT: usize = 0x7fff_f000;
    let ledger = FakeDriver::new(&FakeFile::hollow(u64::MAX));
    // Zero pages that are never touched: this costs address space only.
    let mut huge = vec![0; 2 * LIMIT + 5];
    let counters = Counters::default();
    let write = ledger.write_contig(&huge, 7, &counters);
    let read = ledger.read_contig(&mut huge, 7, &counters);
    assert_eq!((write.bytes, read.bytes), (huge.len() as u64, huge.len() as u64));
    let limit = LIMIT as u64;
    let parts = [(7, limit), (7 + limit, limit), (7 + 2 * limit, 5)];
    let parts = parts.map(|(offset, len)| Extent::new(offset, len));
    assert_eq!(ledger.requests(), [parts, parts].concat());
}

#[test]
fn a_write_that_stores_nothing_is_an_error_and_not_repeated_for_ever() {
    let ledger = FakeDriver { most: 0, ..FakeDriver::on("memory") };
    let outcome = ledger.write_contig(&[1; 4], 0, &Counters::default());
    assert_eq!((outcome.bytes, class_of(outcome.result)), (0, ErrorClass::Io));
}

#[test]
fn open_and_delete_give_each_mistake_its_class() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let missing = OpenHow { create: false, ..how(&path) };
    assert_eq!(class_of(open(&missing)), ErrorClass::NoSuchFile);
    drop(opened(&path));
    assert_eq!(class_of(open(&OpenHow { exclusive: true, ..how(&path) })), ErrorClass::FileExists);
    let directory = OpenHow { write: false, create: false, ..how(&scratch.file("")) };
    assert_eq!(class_of(open(&directory)), ErrorClass::BadFile);
    for name in ["", "ufs:", "a\0b"] {
        assert_eq!(class_of(open(&how(name))), ErrorClass::BadFile);
        assert_eq!(class_of(delete(name, 0)), ErrorClass::BadFile);
    }
    assert_eq!(class_of(open(&how(&format!("{path}/x")))), ErrorClass::BadFile);
    assert_eq!(delete(&format!("ufs:{path}"), 0), Ok(()));
    assert_eq!(class_of(delete(&path, 0)), ErrorClass::NoSuchFile);
}

#[test]
fn a_new_file_has_the_permissions_asked_for_and_is_closed_on_exec() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    drop(open(&OpenHow { permissions: Some(0o600), ..how(&path) }).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let _open = opened(&path);
    let link = |n: &String| std::fs::read_link(format!("/proc/self/fd/{n}"));
    let ours = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|n| link(n).is_ok_and(|target| target.to_str() == Some(path.as_str())))
        .unwrap();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{ours}")).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
    let flags = i32::from_str_radix(flags, 8).unwrap();
    assert_ne!(flags & libc::O_CLOEXEC, 0);
    assert_eq!(flags & libc::O_APPEND, 0);
}

#[test]
fn preallocating_extends_the_file_and_never_changes_or_shortens_it() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let driver = opened(&path);
    let counters = Counters::default();
    assert_eq!(driver.write_contig(b"keep", 3, &counters).bytes, 4);
    for (wanted, size) in [(0, 7), (5, 7), (9, 9), (100_000, 100_000)] {
        driver.preallocate(wanted).unwrap();
        assert_eq!(driver.size().unwrap(), size);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[..7], *b"\0\0\0keep");
        assert!(bytes[7..].iter().all(|byte| *byte == 0));
    }
    driver.set_size(2).unwrap();
    assert_eq!(driver.size().unwrap(), 2);
}

#[test]
fn data_behind_two_gibibytes_lands_where_it_belongs() {
    let scratch = Scratch::new();
    let driver = opened(&scratch.file("f"));
    let counters = Counters::default();
    let far = 5 << 30;
    assert_eq!(driver.write_contig(b"far", far, &counters).bytes, 3);
    let mut back = [1; 9];
    assert_eq!(driver.read_contig(&mut back, far - 4, &counters).bytes, 7);
    assert_eq!(&back, b"\0\0\0\0far\x01\x01");
}

#[test]
fn uncached_transfers_of_any_alignment_give_the_same_bytes() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let uncached = OpenHow { direct_read: true, direct_write: true, ..how(&path) };
    let driver = open(&uncached).unwrap();
    let counters = Counters::default();
    let data: Vec<u8> =
        (0..3_000_017u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (offset, start, end) in [(0, 0, 4096), (1, 1, 3_000_000), (8192, 5, 20_000), (5, 0, 9)] {
        let piece = &data[start..end];
        let outcome = driver.write_contig(piece, offset, &counters);
        assert_eq!((outcome.bytes, outcome.result), (piece.len() as u64, Ok(())));
        let mut back = vec![0; piece.len()];
        assert_eq!(driver.read_contig(&mut back, offset, &counters).bytes, piece.len() as u64);
        assert!(back == *piece, "offset {offset}");
        assert!(std::fs::read(&path).unwrap()[offset as usize..][..piece.len()] == *piece);
    }
    let size = driver.size().unwrap();
    let mut tail = vec![3; 10_000];
    let outcome = driver.read_contig(&mut tail, size - 4999, &counters);
    assert_eq!((outcome.bytes, outcome.result), (4999, Ok(())));
    assert_eq!(tail[4999..], [3; 5001]);
    // The driver reports the real state: tmpfs may refuse, disks do not.
    let (reads, writes) = driver.direct();
    assert_eq!(reads, writes);
    assert_eq!(driver.close(Closing::Complete), Ok(()));
}

#[test]
fn a_lock_keeps_out_other_opens_and_other_threads_until_it_is_dropped() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let (one, two) = (opened(&path), opened(&path));
    let range = Extent::new(10, 10);
    for driver in [&one, &two] {
        let guard = one.lock(range, true).unwrap();
        // Ranges that do not touch are free.
        drop(driver.lock(Extent::new(20, 10), true).unwrap());
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = driver.lock(Extent::new(15, 1), true).unwrap();
                sender.send(()).unwrap();
            });
            let wait = std::time::Duration::from_millis(30);
            assert!(receiver.recv_timeout(wait).is_err(), "two holders of one range");
            drop(guard);
            receiver.recv().unwrap();
        });
    }
}

#[test]
fn facts_name_the_file_system() {
    let scratch = Scratch::new();
    let facts = opened(&scratch.file("f")).facts();
    assert!(facts.block_size >= 512, "{facts:?}");
    assert!(!facts.file_system.is_empty() && !facts.file_system.starts_with("0x"), "{facts:?}");
}

#[test]
fn a_container_that_has_no_name_any_more_is_locked_and_leaves_nothing() {
    let scratch = Scratch::new();
    let path = scratch.file("f");
    let create = aggio_container::blob::Create { mode: 0o644, exclusive: true, data_crc: true };
    drop(aggio_container::blob::Container::create(path.as_ref(), &create).unwrap());
    let drivers = [opened(&path), opened(&path)];
    delete(&path, 0).unwrap();
    assert!(!std::path::Path::new(&path).exists());
    let lock = |driver: usize| drivers[driver].try_lock(Extent::new(0, 9), true).unwrap();
    let held = lock(0);
    assert!(held.is_some() && lock(1).is_none());
    drop(held);
    assert!(lock(1).is_some());
    for driver in &drivers {
        assert_eq!(driver.pwrite(b"bytes", 0).unwrap(), 5);
        driver.close(Closing::Complete).unwrap();
    }
    let place = std::path::Path::new(&path).parent().unwrap();
    let left = std::fs::read_dir(place).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
}
