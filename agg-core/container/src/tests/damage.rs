//! Logs that are missing, shorter, longer, other ones or in each other's place: reads never return
//! zeros, and a check never calls the container clean again without a report of the loss.

use crate::blob::*;
use crate::directory::dir::Dir;
use crate::directory::part_names::{MANIFEST, ORDER, log_name};
use crate::tests::how;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DATA: Check = Check { data: true, repair: false, salvage: false };
const REPAIR: Check = Check { data: true, repair: true, salvage: false };
const SALVAGE: Check = Check { data: true, repair: true, salvage: true };

/// A sealed container of two logs with as many frames each, and its bytes: with four frames or more
/// there is an index.
fn sealed(path: &Path, frames: u64) -> Vec<u8> {
    let container = Container::create(path, &how()).unwrap();
    let writers = [container.writer().unwrap(), container.writer().unwrap()];
    let mut bytes = Vec::new();
    for frame in 0..frames * 2 {
        let data = [frame as u8 + 1; 100];
        writers[frame as usize % 2].write_at(&data, bytes.len() as u64).unwrap();
        bytes.extend(data);
    }
    writers.into_iter().for_each(|writer| writer.close().unwrap());
    bytes
}

fn logs(path: &Path) -> Vec<PathBuf> {
    let ids = Dir::open(path).unwrap().logs().unwrap();
    ids.into_iter().map(|id| path.join(log_name(id))).collect()
}

fn content(path: &Path) -> aggio_base::Result<Vec<u8>> {
    let reader = Container::open(path)?.reader()?;
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Does something to the first of two logs.
type Damage = fn(&Path, &Path);

const DAMAGES: [(&str, Damage); 6] = [
    ("emptied", |log, _| std::fs::write(log, b"").unwrap()),
    ("removed", |log, _| std::fs::remove_file(log).unwrap()),
    ("cut between two frames", |log, _| cut(log, 196)),
    ("cut in a frame", |log, _| cut(log, 250)),
    ("replaced by the other", |log, other| assert!(std::fs::copy(other, log).is_ok())),
    ("exchanged with the other", |log, other| {
        let aside = log.with_extension("aside");
        std::fs::rename(log, &aside).unwrap();
        std::fs::rename(other, log).unwrap();
        std::fs::rename(aside, other).unwrap();
    }),
];

fn cut(log: &Path, length: u64) {
    std::fs::File::options().write(true).open(log).unwrap().set_len(length).unwrap();
}

#[test]
fn what_is_missing_of_a_sealed_log_stays_an_error_that_names_it_whatever_is_repaired() {
    for frames in [1, 3] {
        for (what, damage) in DAMAGES {
            // A log of one frame ends before the first place where one of more is cut.
            if frames == 1 && what.starts_with("cut") {
                continue;
            }
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("file");
            sealed(&path, frames);
            let [log, other] = &logs(&path)[..] else { panic!("two logs") };
            damage(log, other);
            let named = |error: aggio_base::Error| {
                let words = error.to_string();
                assert_eq!(error.errno(), libc::EIO, "{what}: {words}");
                let names = [log, other].map(|log| words.contains(&*log.to_string_lossy()));
                assert!(names.contains(&true), "{what}: {words}");
            };
            let container = Container::open(&path).unwrap();
            named(content(&path).expect_err(what));
            // A writer that only appends need not read the sealed part; the damage stays.
            match container.writer() {
                Ok(writer) => drop(writer.write_at(b"new", 7).and_then(|_| writer.close())),
                Err(error) => named(error),
            }
            // The file can still be listed, and so be removed.
            container.attributes().unwrap();
            for how in [DATA, REPAIR, DATA] {
                assert_eq!(check(&path, &how).unwrap().exit_code(), 4, "{what}, {frames} frames");
                named(content(&path).expect_err(what));
            }
            let findings = check(&path, &SALVAGE).unwrap();
            let told = findings.repairs.iter().any(|words| words.contains("given up"));
            assert!(told, "{what}: {:?}", findings.repairs);
        }
    }
}

#[test]
fn a_log_that_comes_back_as_it_was_makes_the_container_whole_again() {
    for (what, damage) in DAMAGES {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let bytes = sealed(&path, 3);
        let [log, other] = &logs(&path)[..] else { panic!("two logs") };
        let kept = [log, other].map(|log| std::fs::read(log).unwrap());
        damage(log, other);
        assert_eq!(check(&path, &REPAIR).unwrap().exit_code(), 4, "{what}");
        std::fs::write(log, &kept[0]).unwrap();
        std::fs::write(other, &kept[1]).unwrap();
        assert_eq!(content(&path).unwrap(), bytes, "{what}");
        assert!(check(&path, &REPAIR).unwrap().exit_code() < 4, "{what}");
        assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0, "{what}");
        assert_eq!(content(&path).unwrap(), bytes, "{what}");
    }
}

#[test]
fn a_repair_forgets_nothing_of_logs_that_are_not_damaged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let bytes = sealed(&path, 3);
    let [log, other] = &logs(&path)[..] else { panic!("two logs") };
    let kept = std::fs::read(log).unwrap();
    cut(log, 196);
    assert_eq!(check(&path, &REPAIR).unwrap().exit_code(), 4);
    std::fs::write(log, &kept).unwrap();
    assert_eq!(content(&path).unwrap(), bytes);
    cut(other, 196);
    let error = content(&path).unwrap_err().to_string();
    assert!(error.contains(&*other.to_string_lossy()), "{error}");
    assert_eq!(check(&path, &DATA).unwrap().exit_code(), 4);
}

#[test]
fn a_lost_manifest_does_not_hide_a_log_that_was_lost_as_well() {
    for (frames, (what, damage)) in [1, 3].into_iter().flat_map(|n| DAMAGES.map(|one| (n, one))) {
        // Without an index, only misplaced frames are detected.
        if frames == 1 && !what.ends_with("the other") {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        sealed(&path, frames);
        let [log, other] = &logs(&path)[..] else { panic!("two logs") };
        damage(log, other);
        std::fs::remove_file(path.join(MANIFEST)).unwrap();
        for how in [DATA, REPAIR, DATA] {
            let findings = check(&path, &how).unwrap();
            assert_eq!(findings.exit_code(), 4, "{what}: {findings:?}");
        }
        assert_eq!(content(&path).expect_err(what).errno(), libc::EIO, "{what}");
    }
}

#[test]
fn a_frame_in_the_middle_of_a_log_that_nobody_sealed_is_no_end_of_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let container = Container::create(&path, &how()).unwrap();
    let writer = container.writer().unwrap();
    (0..4).for_each(|frame| assert!(writer.write_at(&[7; 100], frame * 100).is_ok()));
    writer.abandon();
    let log = &logs(&path)[0];
    let whole = std::fs::read(log).unwrap();
    let mut bytes = whole.clone();
    bytes[196 + 9] ^= 0x10;
    std::fs::write(log, &bytes).unwrap();
    let error = content(&path).unwrap_err();
    assert!(error.to_string().contains(&*log.to_string_lossy()), "{error}");
    assert!(container.writer().is_err(), "it is not sealed as if it ended there");
    for how in [DATA, REPAIR, DATA] {
        assert_eq!(check(&path, &how).unwrap().exit_code(), 4);
    }
    // A crash tears only the end, which was not acknowledged.
    std::fs::write(log, &whole[..whole.len() - 30]).unwrap();
    assert_eq!(content(&path).unwrap(), [7; 300]);
    container.writer().unwrap().close().unwrap();
    assert_eq!(content(&path).unwrap(), [7; 300]);
}

#[test]
fn a_log_that_grew_without_frames_is_read_checked_and_repaired_at_once_whatever_its_length() {
    for frames in [1, 3] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let bytes = sealed(&path, frames);
        let log = std::fs::File::options().write(true).open(&logs(&path)[0]).unwrap();
        log.set_len(4 << 40).unwrap();
        log.write_all_at(b"agF1 and no frame", 3 << 40).unwrap();
        let begin = Instant::now();
        assert_eq!(content(&path).unwrap(), bytes);
        assert_eq!(check(&path, &DATA).unwrap().exit_code(), 1);
        assert_eq!(check(&path, &REPAIR).unwrap().exit_code(), 1);
        assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0);
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        assert_eq!(content(&path).unwrap(), bytes);
        let kept = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        let cut = kept.filter(|entry| entry.file_name().to_string_lossy().contains(".from-"));
        let lengths: Vec<u64> = cut.map(|entry| entry.metadata().unwrap().len()).collect();
        assert_eq!(lengths, [(4 << 40) - frames * 196], "what was cut off is kept, with its holes");
    }
}

#[test]
fn lost_counters_and_indexes_lose_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let bytes = sealed(&path, 3);
    for part in [ORDER, "index.1"] {
        std::fs::remove_file(path.join(part)).unwrap();
        assert_eq!(content(&path).unwrap(), bytes, "{part}");
    }
}
