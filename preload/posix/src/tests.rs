//! Tests of the meaning of calls without preloading anything: each is made on a file without a
//! rule, on files with buffered writes, and on containers, with the same results.

pub(crate) mod calls;

use crate::operations::Transfer;
use crate::{served, settle, stdio};
use agg_core::blob::is_container;
use aggio_container::refused::{Refusal, refusing};
use calls::*;
use libc::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use libc::{SEEK_CUR, SEEK_END, SEEK_SET, c_char};
use std::path::Path;
use std::sync::Mutex;

#[test]
fn what_was_written_in_small_pieces_is_read_back_and_stored() {
    each(|path| {
        let fd = open(path, O_RDWR | O_CREAT).unwrap();
        let mut expected = Vec::new();
        for number in 0..1000_u32 {
            assert_eq!(write(fd, &number.to_le_bytes()), Ok(4));
            expected.extend(number.to_le_bytes());
        }
        assert_eq!(is_container(path), is_for_container(path));
        assert_eq!(seek(fd, 0, SEEK_CUR), Ok(4000));
        assert_eq!(read_at(fd, 400).as_deref(), Ok(&expected[400..499]));
        assert_eq!(write_at(fd, b"in between", 398), Ok(10));
        expected[398..408].copy_from_slice(b"in between");
        assert_eq!(read_at(fd, 350).as_deref(), Ok(&expected[350..449]));
        assert_eq!(seek(fd, -4, SEEK_END), Ok(3996));
        assert_eq!(read(fd).as_deref(), Ok(&expected[3996..]));
        assert_eq!((read(fd).as_deref(), facts(fd)), (Ok(&[] as &[u8]), (4000, 1)));
        assert_eq!(close(fd), Ok(0));
        assert_eq!(stored(path), expected);
    });
}

#[test]
fn small_writes_wait_until_others_may_look() {
    each(|path| {
        let fd = open(path, O_WRONLY | O_CREAT).unwrap();
        let write_ten = || (0..10).for_each(|_| assert_eq!(write(fd, b"0123456789"), Ok(10)));
        write_ten();
        assert_eq!(stored(path).len() < 100, keeps_back(path));
        assert_eq!(synchronise(fd), Ok(0));
        assert_eq!(stored(path), b"0123456789".repeat(10));
        write_ten();
        settle::causal();
        let causal = path.file_name().unwrap() == "causal.x";
        assert_eq!(stored(path).len() < 200, keeps_back(path) && !causal);
        settle::all();
        assert_eq!(stored(path), b"0123456789".repeat(20));
        assert_eq!(close(fd), Ok(0));
    });
}

#[test]
fn appended_bytes_come_behind_those_of_others() {
    each(|path| {
        let fds = [0; 2].map(|_| open(path, O_WRONLY | O_CREAT | O_APPEND).unwrap());
        for (turn, piece) in [b"one", b"two", b"six", b"ten"].into_iter().enumerate() {
            assert_eq!(write(fds[turn % 2], piece), Ok(3));
        }
        assert_eq!(seek(fds[1], 0, SEEK_CUR), Ok(12));
        assert!(fds.iter().all(|fd| close(*fd) == Ok(0)));
        assert_eq!(stored(path), b"onetwosixten");
    });
}

#[test]
fn duplicates_share_the_position_and_outlive_each_other() {
    each(|path| {
        let one = open(path, O_RDWR | O_CREAT).unwrap();
        let other = duplicate(one);
        for fd in [one, other, one, other] {
            assert_eq!(write(fd, b"abc"), Ok(3));
        }
        assert_eq!((seek(one, 0, SEEK_CUR), close(one)), (Ok(12), Ok(0)));
        assert_eq!((seek(other, 9, SEEK_SET), read(other)), (Ok(9), Ok(b"abc".to_vec())));
        assert_eq!((write(other, b"d"), close(other)), (Ok(1), Ok(0)));
        assert_eq!(stored(path), b"abcabcabcabcd");
    });
}

#[test]
fn vectors_are_written_and_read_one_after_the_other() {
    each(|path| {
        let fd = open(path, O_RDWR | O_CREAT).unwrap();
        for _ in 0..3 {
            assert_eq!(write_pieces(fd, &[b"one", b"", b"three"], None), Ok(8));
        }
        assert_eq!(write_pieces(fd, &[b"AB", b"C"], Some(7)), Ok(3));
        let many = [b"x".as_slice(); 40];
        assert_eq!((write_pieces(fd, &many, None), seek(fd, 0, SEEK_CUR)), (Ok(40), Ok(64)));
        let large = vec![7; 20_000];
        assert_eq!(write_pieces(fd, &[b"y", &large], Some(64)), Ok(20_001));
        let read = read_pieces(fd, &[4, 7, 2], Some(5)).unwrap();
        assert_eq!(
            read,
            [b"reABC".to_vec()[..4].to_vec(), b"Cethree".to_vec()[..7].to_vec(), b"on".to_vec()]
        );
        assert_eq!(seek(fd, 23, SEEK_SET), Ok(23));
        assert_eq!(read_pieces(fd, &[1, 2], None), Ok(vec![b"e".to_vec(), b"xx".to_vec()]));
        assert_eq!((seek(fd, 0, SEEK_CUR), facts(fd).0, close(fd)), (Ok(26), 20_065, Ok(0)));
        let mut expected = b"onethreABCethreeonethree".to_vec();
        expected.extend([b'x'; 40]);
        expected.push(b'y');
        expected.extend(large);
        assert_eq!(stored(path), expected);
    });
}

#[test]
fn a_number_that_was_closed_unseen_is_of_the_next_file_of_any_kind() {
    // Descriptors of the library itself are made at first use, and stay.
    each(|path| {
        let fd = open(path, O_RDWR | O_CREAT).unwrap();
        (0..3).for_each(|_| assert_eq!(write(fd, b"older"), Ok(5)));
        assert_eq!(close(fd), Ok(0));
    });
    let _served = served();
    let place = tempfile::tempdir().unwrap();
    for before in KINDS {
        for after in KINDS {
            let (old, new) = (place.path().join(before), place.path().join("new").join(after));
            std::fs::create_dir_all(new.parent().unwrap()).unwrap();
            let fd = open(&old, O_RDWR | O_CREAT).unwrap();
            (0..3).for_each(|_| assert_eq!(write(fd, b"older"), Ok(5)));
            // SAFETY: a plain number.
            unsafe { libc::syscall(libc::SYS_close, fd) };
            assert_eq!(open(&new, O_RDWR | O_CREAT), Ok(fd), "{before} {after}");
            assert_eq!((write(fd, b"bytes"), read_at(fd, 1)), (Ok(5), Ok(b"ytes".to_vec())));
            assert_eq!((close(fd), stored(&new)), (Ok(0), b"bytes".to_vec()), "{before} {after}");
            assert_eq!((unlink(&old), unlink(&new)), (Ok(0), Ok(0)));
        }
    }
}

#[test]
fn a_file_lives_until_the_last_close_after_its_name_is_gone() {
    each(|path| {
        let fd = open(path, O_RDWR | O_CREAT).unwrap();
        (0..3).for_each(|_| assert_eq!(write(fd, b"bytes"), Ok(5)));
        assert_eq!(unlink(path), Ok(0));
        assert!(!path.exists());
        assert_eq!(open(path, O_RDWR), Err(libc::ENOENT));
        assert_eq!(write(fd, b"more"), Ok(4));
        assert_eq!(read_at(fd, 5), Ok(b"bytesbytesmore".to_vec()));
        assert_eq!(facts(fd), (19, 0));
        assert_eq!(close(fd), Ok(0));
    });
}

#[test]
fn sizes_are_set_and_holes_are_zeros() {
    each(|path| {
        let fd = open(path, O_RDWR | O_CREAT).unwrap();
        (0..3).for_each(|_| assert_eq!(write(fd, b"x"), Ok(1)));
        assert_eq!((set_size(fd, 6), read_at(fd, 1)), (Ok(0), Ok(b"xx\0\0\0".to_vec())));
        assert_eq!((write_at(fd, b"y", 8), facts(fd)), (Ok(1), (9, 1)));
        assert_eq!((set_size(fd, 1), read_at(fd, 0)), (Ok(0), Ok(b"x".to_vec())));
        assert_eq!((set_size(fd, 3), close(fd)), (Ok(0), Ok(0)));
        assert_eq!(stored(path), b"x\0\0");
        let fd = open(path, O_WRONLY | O_TRUNC).unwrap();
        assert_eq!((facts(fd), close(fd)), ((0, 1), Ok(0)));
        assert_eq!(stored(path), b"");
    });
}

/// The results of invalid calls.
fn refusals(path: &Path) -> Vec<Told> {
    let opened = |flags| open(path, flags).map(i64::from);
    let missing = opened(O_RDWR);
    let fd = open(path, O_WRONLY | O_CREAT | O_EXCL).unwrap();
    let only_read = open(path, O_RDONLY).unwrap();
    let below = open(&path.join("x"), O_WRONLY | O_CREAT).map(i64::from);
    // SAFETY: the address cannot be read, and the call must report that.
    let nowhere = size(served::write(fd, &unsafe { Transfer::one(std::ptr::null(), 4) }));
    let all = vec![
        missing,
        opened(O_WRONLY | O_CREAT | O_EXCL),
        opened(O_RDONLY | O_DIRECTORY),
        below,
        nowhere,
        read(fd).map(|bytes| bytes.len() as i64),
        read_at(fd, 0).map(|bytes| bytes.len() as i64),
        read_at(only_read, -1).map(|bytes| bytes.len() as i64),
        write(only_read, b"x"),
        write_at(only_read, b"x", 0),
        write_at(fd, b"x", -1),
        set_size(only_read, 0),
        set_size(fd, -1),
        seek(fd, -1, SEEK_SET),
        seek(fd, 0, 99),
        remove_directory(path),
        close(fd).and(close(fd)),
        write(fd, b"x"),
    ];
    assert_eq!(close(only_read), Ok(0));
    all
}

#[test]
fn wrong_calls_fail_with_the_same_numbers_on_all_files() {
    let plain = Mutex::new(None);
    each(|path| {
        let told = refusals(path);
        assert!(told.iter().all(Result::is_err), "{}: {told:?}", path.display());
        assert_eq!(*plain.lock().unwrap().get_or_insert(told.clone()), told, "{}", path.display());
    });
    let plain = plain.into_inner().unwrap().unwrap();
    let first = [libc::ENOENT, libc::EEXIST, libc::ENOTDIR, libc::ENOTDIR, libc::EFAULT];
    assert_eq!(plain[..5], first.map(Told::Err));
}

/// Every write of the thread fails, as on a full disk.
fn full_disk() -> [Refusal; 2] {
    [libc::SYS_pwrite64, libc::SYS_pwritev].map(|call| Refusal::of(call, libc::ENOSPC))
}

#[test]
fn bytes_that_cannot_be_stored_are_an_error_of_the_sync_and_wait_still() {
    each(|path| {
        if !keeps_back(path) {
            return;
        }
        let fd = open(path, O_WRONLY | O_CREAT).unwrap();
        (0..3).for_each(|_| assert_eq!(write(fd, b"bytes"), Ok(5)));
        refusing(&full_disk(), || assert_eq!(synchronise(fd), Err(libc::ENOSPC)));
        assert!(stored(path).len() < 15);
        assert_eq!(synchronise(fd), Ok(0));
        assert_eq!((stored(path), close(fd)), (b"bytes".repeat(3), Ok(0)));
    });
}

#[test]
fn bytes_that_can_never_be_stored_are_an_error_of_the_close() {
    each(|path| {
        if !keeps_back(path) {
            return;
        }
        let fd = open(path, O_WRONLY | O_CREAT).unwrap();
        (0..3).for_each(|_| assert_eq!(write(fd, b"bytes"), Ok(5)));
        refusing(&full_disk(), || assert_eq!(close(fd), Err(libc::ENOSPC)));
        assert!(stored(path).len() < 15);
        assert_eq!(close(fd), Err(libc::EBADF));
    });
}

#[test]
fn streams_read_what_they_have_written() {
    each(|path| {
        let name = c_path(path);
        let mut line: [c_char; 99] = [0; 99];
        // SAFETY: C strings; the stream is open until it is closed; room for 99 bytes.
        let read = unsafe {
            let stream = stdio::fopen(name.as_ptr(), c"w+".as_ptr());
            assert!(!stream.is_null());
            for _ in 0..100 {
                assert!(libc::fputs(c"a line\n".as_ptr(), stream) >= 0);
            }
            assert_eq!(libc::fseek(stream, 7 * 99 + 2, SEEK_SET), 0);
            assert!(!libc::fgets(line.as_mut_ptr(), 99, stream).is_null());
            assert_eq!(libc::fclose(stream), 0);
            std::ffi::CStr::from_ptr(line.as_ptr())
        };
        assert_eq!(read, c"line\n");
        assert_eq!(stored(path), b"a line\n".repeat(100));
    });
}

#[test]
fn a_directory_with_nothing_but_files_without_names_is_removed_or_the_error_is_told() {
    let _served = served();
    let place = tempfile::tempdir().unwrap();
    let inner = place.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let fd = open(&inner.join("blob.x"), O_RDWR | O_CREAT).unwrap();
    assert_eq!((write(fd, b"bytes"), unlink(&inner.join("blob.x"))), (Ok(5), Ok(0)));
    let blind = [Refusal::of(libc::SYS_getdents64, libc::EIO)];
    refusing(&blind, || assert_eq!(remove_directory(&inner), Err(libc::EIO)));
    std::fs::write(inner.join("mine"), b"mine").unwrap();
    assert_eq!(remove_directory(&inner), Err(libc::ENOTEMPTY));
    std::fs::remove_file(inner.join("mine")).unwrap();
    assert_eq!(remove_directory(&inner), Ok(0));
    assert_eq!((read_at(fd, 0), close(fd)), (Ok(b"bytes".to_vec()), Ok(0)));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
