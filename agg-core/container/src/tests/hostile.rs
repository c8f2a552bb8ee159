//! Changed, cut and malicious parts: a read returns an error or the right data, and a check reports
//! and repairs the damage.

use crate::blob::*;
use crate::directory::dir::Dir;
use crate::directory::part_names::{MANIFEST, ORDER, log_name};
use crate::directory::system::c_path;
use crate::tests::model::compare;
use crate::tests::whole::sample;
use proptest::prelude::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const DATA: Check = Check { data: true, repair: false, salvage: false };
const REPAIR: Check = Check { data: true, repair: true, salvage: false };
const SALVAGE: Check = Check { data: true, repair: true, salvage: true };

fn content(path: &Path) -> aggio_base::Result<Vec<u8>> {
    let reader = Container::open(path)?.reader()?;
    assert!(reader.size() < 1 << 20, "no size out of nothing");
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// All parts of a container but the counter, which readers do not look at.
fn parts(path: &Path) -> Vec<PathBuf> {
    let mut names = Dir::open(path).unwrap().names().unwrap();
    names.retain(|name| name != ORDER);
    names.iter().map(|name| path.join(name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_changed_part_is_an_error_or_the_right_data_or_found_by_a_check(
        part in 0..10_usize, at: prop::sample::Index, change in 1..=255_u8, cut: bool,
    ) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("blob");
        let model = sample(&path);
        let parts = parts(&path);
        let part = &parts[part % parts.len()];
        let mut bytes = std::fs::read(part).unwrap();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= change }
        std::fs::write(part, &bytes).unwrap();
        let read = content(&path);
        let findings = check(&path, &DATA).unwrap();
        prop_assert!(findings.exit_code() > 0, "{} changed at {at} unseen", part.display());
        let right = read.as_ref().is_ok_and(|bytes| *bytes == model);
        prop_assert!(right || read.is_err() || findings.exit_code() == 4);
        // A repair restores a container that a check calls repairable.
        let repairable = findings.exit_code() == 1;
        let after = check(&path, &REPAIR);
        if repairable {
            prop_assert_eq!(after.unwrap().exit_code(), 1);
            prop_assert_eq!(content(&path).unwrap(), model);
            prop_assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0);
        }
    }

    #[test]
    fn arbitrary_bytes_in_place_of_a_part_do_no_harm(
        part in 0..10_usize, bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("blob");
        sample(&path);
        let parts = parts(&path);
        std::fs::write(&parts[part % parts.len()], &bytes).unwrap();
        let _ = content(&path);
        prop_assert!(check(&path, &DATA).unwrap().exit_code() > 0);
        check(&path, &SALVAGE).unwrap();
        content(&path).unwrap();
    }
}

#[test]
fn symlinks_pipes_and_directories_in_place_of_parts_are_not_followed() {
    for kind in ["link", "pipe", "folder"] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("blob");
        sample(&path);
        for part in parts(&path) {
            let aside = place.path().join("aside");
            std::fs::rename(&part, &aside).unwrap();
            match kind {
                "link" => symlink(&aside, &part).unwrap(),
                "folder" => std::fs::create_dir(&part).unwrap(),
                _ => {
                    let name = c_path(&part).unwrap();
                    // SAFETY: the path ends with a zero byte.
                    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
                }
            }
            let index = part.to_string_lossy().contains("index.");
            assert_eq!(content(&path).is_ok(), index, "{kind} for {}", part.display());
            assert!(check(&path, &DATA).unwrap().exit_code() > 0);
            let _ = std::fs::remove_file(&part).or_else(|_| std::fs::remove_dir(&part));
            std::fs::rename(&aside, &part).unwrap();
        }
        assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0);
    }
}

/// Overwrites the header of the second frame of a log that has several.
fn damage(path: &Path) -> u64 {
    let dir = Dir::open(path).unwrap();
    let lengths =
        dir.logs().unwrap().into_iter().map(|id| (dir.length_of(&log_name(id)).unwrap(), id));
    let id = lengths.max().unwrap().1;
    let log = path.join(log_name(id));
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[96 + 10 + 4] ^= 0xff;
    std::fs::write(log, bytes).unwrap();
    id
}

#[test]
fn intact_frames_behind_a_damaged_one_are_salvaged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    let model = sample(&path);
    damage(&path);
    std::fs::remove_file(path.join("index.1")).unwrap();
    assert!(content(&path).is_err());
    assert_eq!(check(&path, &REPAIR).unwrap().exit_code(), 4);
    assert!(content(&path).is_err(), "a repair does not hide a loss");
    let findings = check(&path, &SALVAGE).unwrap();
    assert_eq!(findings.exit_code(), 1, "{findings:?}");
    let bytes = content(&path).unwrap();
    assert_eq!(bytes.len(), model.len());
    let differ = bytes.iter().zip(&model).filter(|(a, b)| a != b).count();
    assert!(differ > 0 && differ <= 10, "{differ} bytes differ, one frame was lost");
}

#[test]
fn a_container_is_rebuilt_from_its_logs_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    let model = sample(&path);
    for part in [MANIFEST, ORDER, "index.1"] {
        std::fs::remove_file(path.join(part)).unwrap();
    }
    assert_eq!(check(&path, &DATA).unwrap().exit_code(), 1);
    assert_eq!(check(&path, &REPAIR).unwrap().exit_code(), 1);
    assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0);
    assert_eq!(content(&path).unwrap(), model);
    let container = Container::open(&path).unwrap();
    let writer = container.writer().unwrap();
    writer.write_at(b"new", 0).unwrap();
    writer.close().unwrap();
    assert_eq!(&content(&path).unwrap()[..3], b"new", "what is written now is the newest");
}

#[test]
fn a_counter_that_a_copy_left_behind_is_put_right() {
    for counter in [None, Some(vec![]), Some(vec![0; 64]), Some(vec![0xff; 64])] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("blob");
        let model = sample(&path);
        std::fs::remove_file(path.join(ORDER)).unwrap();
        if let Some(bytes) = counter {
            std::fs::write(path.join(ORDER), bytes).unwrap();
        }
        let container = Container::open(&path).unwrap();
        let writer = container.writer().unwrap();
        assert_eq!(writer.append(b"end").unwrap(), model.len() as u64);
        writer.write_at(b"new", 0).unwrap();
        writer.close().unwrap();
        assert_eq!(&content(&path).unwrap()[..3], b"new");
        assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0);
    }
}

#[test]
fn nothing_is_repaired_while_somebody_writes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    sample(&path);
    let writer = Container::open(&path).unwrap().writer().unwrap();
    writer.write_at(b"x", 0).unwrap();
    assert_eq!(check(&path, &DATA).unwrap().exit_code(), 0, "being written is no damage");
    std::fs::remove_file(path.join("index.1")).unwrap();
    assert_eq!(check(&path, &REPAIR).unwrap_err().errno(), libc::EBUSY);
    writer.close().unwrap();
    compare(&Container::open(&path).unwrap().reader().unwrap(), &content(&path).unwrap());
}
