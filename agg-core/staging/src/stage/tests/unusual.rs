//! Files of unusual names, limits of the system, crowds, and jobs of several nodes.

use super::*;
use aggio_store::driver::table::Kind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn staged_bytes_of_a_file_whose_name_is_no_text_are_recovered() {
    let bench = Bench::new();
    let path = bench.dir.path().join(std::ffi::OsStr::from_bytes(b"\xFF\xFE"));
    let target = File::create(&path).unwrap();
    let stage = Stage::join(&bench.home(), target, &path, true).unwrap().unwrap();
    stage.write(&[(3, b"staged")]).unwrap();
    drop(stage);
    let done = bench.recover(false);
    assert_eq!((&done[0].error, done[0].bytes, &done[0].path), (&None, 6, &path));
    assert_eq!((std::fs::read(path).unwrap(), bench.stages().len()), (b"\0\0\0staged".to_vec(), 0));
}

/// As of a rank that takes the open file from another one after the name is lost.
#[test]
fn who_adopts_a_file_that_has_lost_its_name_shares_its_stage() {
    for with_another in [false, true] {
        let bench = Bench::new();
        let file = bench.open(Some(TERMS));
        write(&*file, b"staged", 0);
        let other_name = bench.dir.path().join("other");
        std::fs::rename(bench.path(), &other_name).unwrap();
        if with_another {
            std::fs::write(bench.path(), b"another").unwrap();
        }
        let staging = Some(Staging { first: false, ..TERMS });
        let (read_too, write_too) = (true, true);
        let how = OpenHow {
            path: bench.path(),
            read: read_too,
            write: write_too,
            staging,
            ..OpenHow::default()
        };
        let kind = Staged::new(bench.home());
        let adopted = kind.adopt(&bench.drivers, &how, file.offer().unwrap()).unwrap();
        assert_eq!(read(&*adopted, 0, 9), b"staged");
        write(&*adopted, b"!", 0);
        assert_eq!(read(&*file, 0, 9), b"!taged");
        adopted.close(Closing::Complete).unwrap();
        file.close(Closing::Complete).unwrap();
        assert_eq!(std::fs::read(other_name).unwrap(), b"!taged");
        let left = std::fs::read(bench.path()).ok();
        assert_eq!(left, with_another.then(|| b"another".to_vec()));
        assert_eq!(bench.stages().len(), 0);
    }
}

#[test]
fn who_does_not_share_the_stage_has_in_the_file_what_others_have_left() {
    let bench = Bench::new();
    let file = bench.open(Some(Staging { drain: Drain::Later, ..TERMS }));
    write(&*file, b"left", 0);
    file.close(Closing::Complete).unwrap();
    let other = bench.open(Some(Staging { shared: false, ..TERMS }));
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"left".to_vec(), 0));
    write(&*other, b"right", 0);
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"right".to_vec(), 0));
    other.close(Closing::Complete).unwrap();
    // While a stage is in use, a write beside it is not taken for a change by another program.
    let file = bench.open(Some(TERMS));
    write(&*file, b"b", 0);
    let other = bench.open(Some(Staging { shared: false, ..TERMS }));
    write(&*file, b"E", 4);
    assert_eq!((bench.on_disk(), read(&*other, 0, 9)), (b"bighE".to_vec(), b"bighE".to_vec()));
    file.close(Closing::Complete).unwrap();
    other.close(Closing::Complete).unwrap();
    assert_eq!(bench.stages().len(), 0);
}

const VARIABLE: &str = "AGGIO_TEST_LIMIT";

/// The system ends a process with a signal if it makes a longer file than permitted.
#[test]
fn where_files_may_not_be_as_long_as_those_of_a_stage_writes_go_straight() {
    if std::env::var_os(VARIABLE).is_some() {
        let bench = Bench::new();
        let file = bench.open(Some(TERMS));
        write(&*file, b"straight", 0);
        assert_eq!((bench.on_disk(), bench.stages().len()), (b"straight".to_vec(), 0));
        return file.close(Closing::Complete).unwrap();
    }
    let name = "where_files_may_not_be_as_long_as_those_of_a_stage_writes_go_straight";
    let name = format!("stage::tests::unusual::{name}");
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", &name, "--nocapture"]).env(VARIABLE, "1");
    let limit = || {
        let most = libc::rlimit { rlim_cur: 1 << 30, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the call only reads the numbers.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &most) };
        Ok(())
    };
    // SAFETY: the closure makes a system call only.
    let again = unsafe { again.pre_exec(limit) }.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = crate::tests::start(again).wait_with_output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}{out}{err}", output.status);
}

#[test]
fn who_stores_what_is_staged_is_not_kept_from_it_by_those_who_go_on_staging_and_reading() {
    const LONG: Duration = Duration::from_secs(20);
    let bench = Bench::new();
    let files: Vec<_> = (0..17).map(|_| bench.open(Some(TERMS))).collect();
    let (stores, others) = files.split_first().unwrap();
    let (stored, began) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        for file in others {
            scope.spawn(|| {
                while !stored.load(Ordering::Relaxed) && began.elapsed() < LONG {
                    write(&**file, &[2; 10], 9 << 20);
                    read(&**file, 9 << 20, 1 << 18);
                }
            });
        }
        write(&**stores, b"staged", 0);
        stores.sync().unwrap();
        stored.store(true, Ordering::Relaxed);
    });
    assert!(began.elapsed() < LONG, "it was stored when the others had ended");
    files.iter().for_each(|file| file.close(Closing::Complete).unwrap());
}
