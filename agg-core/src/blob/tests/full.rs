//! A write that finds no room: the test runs itself again with a limit on the length of files, where
//! the kernel stores a part of a request and then fails.

use super::super::*;
use super::how;
use super::model::compare;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const VARIABLE: &str = "AGGIO_TEST_FULL";
const NAME: &str = "blob::tests::full::a_write_that_finds_no_room_leaves_the_file_as_it_was";

#[test]
fn a_write_that_finds_no_room_leaves_the_file_as_it_was() {
    if let Some(place) = std::env::var_os(VARIABLE) {
        return with_little_room(&PathBuf::from(place).join("blob"));
    }
    let place = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", NAME, "--nocapture"]).env(VARIABLE, place.path());
    let limit = || {
        let most = libc::rlimit { rlim_cur: 10_000, rlim_max: 10_000 };
        // SAFETY: both calls only change this process, which has one thread.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &most);
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    let output = unsafe { again.pre_exec(limit) }.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn with_little_room(path: &std::path::Path) {
    let container = Container::create(path, &how()).unwrap();
    let writer = container.writer().unwrap();
    let mut model = vec![1; 6000];
    writer.write_at(&model, 0).unwrap();
    let error = writer.write_at(&[2; 6000], 3000).unwrap_err();
    assert_eq!(error.errno(), libc::EFBIG, "{error}");
    assert_eq!(writer.append(&[2; 6000]).unwrap_err().errno(), libc::EFBIG);
    let pieces: [(u64, &[u8]); 2] = [(1, &[2; 4000]), (9000, &[2; 4000])];
    assert_eq!(writer.write_pieces(&pieces).unwrap_err().errno(), libc::EFBIG);
    assert_eq!(writer.size().unwrap(), 6000);
    let reader = container.reader().unwrap();
    compare(&reader, &model);
    // What still has room is stored.
    assert_eq!(writer.append(&[3; 500]).unwrap(), 6000);
    writer.write_at(&[4; 100], 50).unwrap();
    model.extend([3; 500]);
    model[50..150].fill(4);
    writer.sync().unwrap();
    writer.close().unwrap();
    reader.refresh().unwrap();
    compare(&reader, &model);
    assert_eq!(check(path, &Check { data: true, ..Check::default() }).unwrap().exit_code(), 0);
}
