//! A write that finds no room: the test runs itself again with a limit on the length of files,
//! where the kernel stores a part of a request and then fails.

use crate::blob::*;
use crate::refused::{Refusal, refusing};
use crate::tests::how;
use crate::tests::model::compare;
use aggio_base::Extent;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "AGGIO_TEST_FULL";
const LIMIT: u64 = 10_000;

/// Runs `work`, the body of the test `name`, in a process with a limit on the length of files.
fn with_little_room(name: &str, work: impl FnOnce(&Path)) {
    if let Some(place) = std::env::var_os(VARIABLE) {
        return work(Path::new(&place));
    }
    let place = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    let name = format!("blob::tests::full::{name}");
    again.args(["--exact", &name, "--nocapture"]).env(VARIABLE, place.path());
    let limit = || {
        // SAFETY: the call only changes this process, which has one thread.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        limit(LIMIT);
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    let output = unsafe { again.pre_exec(limit) }.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
}

/// From now on no file becomes longer.
fn limit(length: u64) {
    let most = libc::rlimit { rlim_cur: length, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call only reads the numbers.
    unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &most) };
}

#[test]
fn a_write_that_finds_no_room_leaves_the_file_as_it_was() {
    with_little_room("a_write_that_finds_no_room_leaves_the_file_as_it_was", without_mappings);
}

fn without_mappings(place: &Path) {
    let path = &place.join("blob");
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
    // Writes that still have room are stored.
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

#[test]
fn a_torn_log_that_waits_is_moved_when_it_is_synchronised() {
    with_little_room("a_torn_log_that_waits_is_moved_when_it_is_synchronised", |place| {
        let [path, stage] = ["blob", "stage"].map(|name| place.join(name));
        std::fs::create_dir(&stage).unwrap();
        let container = Container::create(&path, &how()).unwrap();
        container.stage_logs(&stage, u64::MAX);
        let writer = container.writer().unwrap();
        let mut model = vec![1; 6000];
        writer.write_at(&model, 0).unwrap();
        // The stored part of a frame cannot be cut off.
        let refusal = [Refusal::of(libc::SYS_ftruncate, libc::EIO)];
        let failed = refusing(&refusal, || writer.write_at(&[2; 6000], 0));
        assert_eq!(failed.unwrap_err().errno(), libc::EFBIG);
        writer.write_at(&[3; 100], 0).unwrap();
        model[..100].fill(3);
        assert_eq!(std::fs::read_dir(&stage).unwrap().count(), 1);
        limit(u64::MAX);
        writer.sync().unwrap();
        assert_eq!(std::fs::read_dir(&stage).unwrap().count(), 0);
        compare(&container.reader().unwrap(), &model);
    });
}

#[test]
fn pages_that_find_no_room_leave_no_byte_wrong_and_are_brought_home_later() {
    let name = "pages_that_find_no_room_leave_no_byte_wrong_and_are_brought_home_later";
    with_little_room(name, |place| {
        let failures: Vec<_> =
            (0..2000).step_by(16).map(|room| with_mappings(place, room)).collect();
        for step in 0..3 {
            let failed = failures.iter().filter(|which| which[step]).count();
            assert!(0 < failed && failed < failures.len(), "step {step}: {failures:?}");
        }
    });
}

/// Which of three steps failed with so many bytes of room: a growth to mapped pages, a write to
/// them and beside them, another mapping.
fn with_mappings(place: &Path, room: u64) -> [bool; 3] {
    const PAGE: u64 = 64;
    let path = place.join(format!("blob{room}"));
    let container = Container::create(&path, &how()).unwrap();
    let writer = container.writer().unwrap();
    limit(u64::MAX);
    let mut model = vec![1; 3000];
    writer.write_at(&model, 0).unwrap();
    let first = writer.place_pages(Extent::new(640, 1 << 20), PAGE).unwrap()[0];
    writer.set_size(1000).unwrap();
    model.truncate(1000);
    limit(writer.part(first.log).unwrap().metadata().unwrap().len() + room);
    let grown = writer.grow(2000);
    if grown.is_ok() || writer.size().unwrap() == 2000 {
        model.resize(2000, 0);
    }
    let written = writer.write_at(&[3; 200], 540);
    let map = writer.place_pages(Extent::new(0, 1 << 20), PAGE);
    for failed in [grown.as_ref().err(), written.as_ref().err(), map.as_ref().err()] {
        assert!(failed.is_none_or(|error| error.errno() == libc::EFBIG), "{failed:?}");
    }
    let reader = container.reader().unwrap();
    let mut bytes = vec![0; model.len()];
    assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), model.len());
    let touched = 540..740;
    assert!(
        bytes[touched.clone()]
            .iter()
            .zip(&model[touched.clone()])
            .all(|(byte, before)| { *byte == 3 || written.is_err() && byte == before })
    );
    model[touched.clone()].copy_from_slice(&bytes[touched]);
    compare(&reader, &model);
    // With room again, stores to the pages appear in the file.
    limit(u64::MAX);
    writer.write_at(&[4; 10], 1990).unwrap();
    model.resize(2000, 0);
    model[1990..].fill(4);
    let file = writer.part(first.log).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&*file, &[5; 1000], first.place + 100).unwrap();
    model[740..1740].fill(5);
    reader.refresh().unwrap();
    compare(&reader, &model);
    writer.close().unwrap();
    assert_eq!(check(&path, &Check { data: true, ..Check::default() }).unwrap().exit_code(), 0);
    [grown.is_err(), written.is_err(), map.is_err()]
}
