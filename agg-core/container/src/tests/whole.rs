//! Merging, splitting, names, permissions.

use crate::blob::*;
use crate::output::Unfinished;
use crate::tests::how;
use crate::tests::model::{Run, Step, compare};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

static UNFINISHED: Unfinished = Unfinished::new();
pub(crate) static MERGE: Merge<'static> = Merge {
    threads: 2,
    verify: true,
    replace: false,
    resume: false,
    progress: None,
    unfinished: &UNFINISHED,
};
static SPLIT: Split<'static> =
    Split { frame: 64, data_crc: true, verify: true, progress: None, unfinished: &UNFINISHED };

/// Makes a sealed container with some content; returns the content.
pub(crate) fn sample(path: &Path) -> Vec<u8> {
    let mut run = Run::new(path);
    for step in [
        Step::Strided(0, 0, 10, 11, 10),
        Step::Strided(1, 10, 10, 11, 10),
        Step::Pieces(2, vec![(3, 9), (100, 30), (90, 20)]),
        Step::Truncate(0, 180),
        Step::Append(1, 20),
        Step::Punch(2, 50, 30),
        Step::Write(0, 400, 50),
    ] {
        run.step(&step);
    }
    run.close();
    run.model
}

#[test]
fn a_container_merged_and_split_is_the_same_file() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bytes = sample(&path("blob"));
    Container::open(&path("blob")).unwrap().set_mode(0o640).unwrap();
    let merged = merge(&path("blob"), &path("plain"), &MERGE).unwrap();
    assert_eq!((merged.size, merged.resumed), (bytes.len() as u64, 0));
    assert_eq!(std::fs::read(path("plain")).unwrap(), bytes);
    assert_eq!(std::fs::metadata(path("plain")).unwrap().mode() & 0o7777, 0o640);
    split(&path("plain"), &path("again"), &SPLIT).unwrap();
    let again = Container::open(&path("again")).unwrap();
    compare(&again.reader().unwrap(), &bytes);
    assert_eq!(again.attributes().unwrap().mode, 0o640);
    assert_eq!(
        check(&path("again"), &Check { data: true, ..Check::default() }).unwrap().exit_code(),
        0
    );
    assert_eq!(split(&path("plain"), &path("again"), &SPLIT).unwrap_err().errno(), libc::EEXIST);
    assert_eq!(merge(&path("blob"), &path("plain"), &MERGE).unwrap_err().errno(), libc::EEXIST);
    let names = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names, 3, "nothing else stays");
}

/// A container of three windows, and its bytes.
fn large(path: &Path, seed: u8) -> Vec<u8> {
    // Without checksums, so that changed bytes of a log are another content and no damage.
    let container = Container::create(path, &Create { data_crc: false, ..how() }).unwrap();
    let writer = container.writer().unwrap();
    let bytes: Vec<u8> = (0..20 << 20).map(|i| (i % 251) as u8 ^ seed).collect();
    writer.write_at(&bytes, 0).unwrap();
    writer.close().unwrap();
    bytes
}

/// Merges to a name that somebody else takes at the last moment, and gives it back.
fn interrupted(from: &Path, to: &Path, how: &Merge<'_>) {
    let take = |_, _| drop(std::fs::create_dir(to));
    merge(from, to, &Merge { progress: Some(&take), ..*how }).unwrap_err();
    std::fs::remove_dir(to).unwrap();
}

/// The directories of copies that go on.
fn kept(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().contains("/.aggio-")).collect()
}

#[test]
fn a_merge_that_is_interrupted_leaves_nothing_unless_it_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bytes = large(&path("blob"), 0);
    interrupted(&path("blob"), &path("plain"), &MERGE);
    assert_eq!(kept(place.path()), [] as [PathBuf; 0]);
    let resume = Merge { resume: true, ..MERGE };
    interrupted(&path("blob"), &path("plain"), &resume);
    let [partial] = &kept(place.path())[..] else { panic!("nothing kept") };
    assert_eq!(std::fs::metadata(partial).unwrap().mode() & 0o7777, 0o700);
    // Nothing is copied twice, but windows that are not as they were.
    let data = std::fs::File::options().write(true).open(partial.join("data")).unwrap();
    data.write_all_at(b"wrong", 9 << 20).unwrap();
    drop(data);
    let resume = Merge { verify: false, ..resume };
    let merged = merge(&path("blob"), &path("plain"), &resume).unwrap();
    assert_eq!(merged.resumed, 12 << 20);
    assert!(std::fs::read(path("plain")).unwrap() == bytes);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2, "nothing else stays");
}

#[test]
fn a_merge_goes_on_with_a_copy_of_its_own_container_for_its_own_name_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let (first, second) = (large(&path("a"), 0), large(&path("b"), 77));
    let resume = Merge { resume: true, verify: false, ..MERGE };
    let resumed = |from: &str, to: &str| merge(&path(from), &path(to), &resume).unwrap().resumed;
    // Another name: the copy stays for its own.
    interrupted(&path("a"), &path("one"), &resume);
    assert_eq!((resumed("b", "two"), kept(place.path()).len()), (0, 1));
    // Another container of the same size and generation.
    assert_eq!((resumed("b", "one"), kept(place.path()).len()), (0, 0));
    assert!(std::fs::read(path("one")).unwrap() == second);
    // The same container with one byte changed, and all sizes, numbers and times as before but one.
    interrupted(&path("a"), &path("three"), &resume);
    let log = std::fs::read_dir(path("a")).unwrap().map(|entry| entry.unwrap().path());
    let log = log.into_iter().find(|path| path.extension().is_some()).unwrap();
    let file = std::fs::File::options().write(true).open(&log).unwrap();
    let times = file.metadata().unwrap();
    file.write_all_at(b"x", 1 << 20).unwrap();
    let times = std::fs::FileTimes::new().set_modified(times.modified().unwrap());
    file.set_times(times).unwrap();
    assert_eq!(resumed("a", "three"), 0);
    drop(first);
}

#[test]
fn a_copy_that_others_may_have_made_or_are_making_is_not_gone_on_with() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bytes = large(&path("blob"), 0);
    let resume = Merge { resume: true, verify: false, ..MERGE };
    let spoil: [fn(&Path); 5] = [
        |kept| std::fs::set_permissions(kept, PermissionsExt::from_mode(0o755)).unwrap(),
        |kept| std::fs::hard_link(kept.join("data"), kept.join("more")).unwrap(),
        |kept| std::fs::hard_link(kept.join("journal"), kept.join("more")).unwrap(),
        |kept| {
            std::fs::rename(kept.join("data"), kept.join("more")).unwrap();
            symlink("more", kept.join("data")).unwrap();
        },
        |kept| {
            let file = std::fs::File::options().write(true).open(kept.join("journal")).unwrap();
            file.write_all_at(b"0", 20).unwrap();
            file.write_all_at(b"1", 21).unwrap();
        },
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let to = path(&format!("plain{number}"));
        interrupted(&path("blob"), &to, &resume);
        let kept = kept(place.path());
        std::fs::write(kept[0].join("data"), vec![9; 20 << 20]).unwrap();
        spoil(&kept[0]);
        assert_eq!(merge(&path("blob"), &to, &resume).unwrap().resumed, 0, "{number}");
        assert!(std::fs::read(&to).unwrap() == bytes, "{number}");
        kept.iter().for_each(|kept| drop(std::fs::remove_dir_all(kept)));
    }
    // Two at the same time.
    interrupted(&path("blob"), &path("plain"), &resume);
    let journal = std::fs::File::open(kept(place.path())[0].join("journal")).unwrap();
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(&journal), libc::LOCK_EX) }, 0);
    assert_eq!(merge(&path("blob"), &path("plain"), &resume).unwrap().resumed, 0);
}

#[test]
fn set_id_bits_of_a_container_that_others_may_write_are_not_copied() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    sample(&path("blob"));
    for (mode, wanted) in [(0o4755, 0o4755), (0o6711, 0o6711), (0o4775, 0o775), (0o4757, 0o757)] {
        Container::open(&path("blob")).unwrap().set_mode(mode).unwrap();
        merge(&path("blob"), &path("plain"), &Merge { replace: true, ..MERGE }).unwrap();
        let found = std::fs::metadata(path("plain")).unwrap().mode() & 0o7777;
        assert_eq!(found, wanted, "{mode:o}");
        assert_eq!(kept(place.path()), [] as [PathBuf; 0]);
    }
}

#[test]
fn a_container_is_renamed_and_removed_as_a_file_is() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bytes = sample(&path("a"));
    let inode = Container::open(&path("a")).unwrap().attributes().unwrap().inode;
    rename(&path("a"), &path("b")).unwrap();
    assert!(!path("a").exists());
    std::fs::write(path("file"), b"x").unwrap();
    symlink("file", path("link")).unwrap();
    Container::create(&path("other"), &how()).unwrap();
    let mut from = "b";
    for to in ["file", "link", "other"] {
        rename(&path(from), &path(to)).unwrap();
        assert!(!path(from).exists() && is_container(&path(to)), "{to}");
        from = to;
    }
    let container = Container::open(&path("other")).unwrap();
    assert_eq!(container.attributes().unwrap().inode, inode);
    compare(&container.reader().unwrap(), &bytes);
    std::fs::create_dir(path("folder")).unwrap();
    assert_eq!(rename(&path("other"), &path("folder")).unwrap_err().errno(), libc::EISDIR);
    assert_eq!(rename(&path("none"), &path("x")).unwrap_err().errno(), libc::ENOENT);
    rename(&path("other"), &path("other")).unwrap();
    remove(&path("other")).unwrap();
    assert!(remove(&path("folder")).is_err() && remove(&path("other")).is_err());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn no_part_has_permissions_that_the_file_does_not_have() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    sample(&path);
    let container = Container::open(&path).unwrap();
    for mode in [0o600, 0o664, 0o444, 0o640, 0o666] {
        container.set_mode(mode).unwrap();
        assert_eq!(container.attributes().unwrap().mode, mode);
        for entry in std::fs::read_dir(&path).unwrap() {
            let part = entry.unwrap().metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(part & !0o600, mode & 0o066, "{mode:o}");
        }
        let dir = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(dir & 0o066, mode & 0o066);
    }
}

#[test]
fn times_that_were_set_stay_until_somebody_writes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    sample(&path);
    let container = Container::open(&path).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000, 5);
    container.set_times(Some(time), Some(time)).unwrap();
    container.set_mode(0o600).unwrap();
    let attributes = container.attributes().unwrap();
    assert_eq!((attributes.atime, attributes.mtime), (time, time));
    let writer = container.writer().unwrap();
    writer.write_at(b"x", 0).unwrap();
    writer.close().unwrap();
    assert!(container.attributes().unwrap().mtime > time);
}

#[test]
fn what_is_no_container_is_refused_with_the_right_number() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    sample(&path("blob"));
    symlink("blob", path("link")).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::write(path("file"), b"format aggio-blob 1\n").unwrap();
    assert!(is_container(&path("blob")));
    for (name, errno) in [
        ("link", libc::ENOTDIR),
        ("folder", libc::EINVAL),
        ("file", libc::ENOTDIR),
        ("no", libc::ENOENT),
    ] {
        assert!(!is_container(&path(name)), "{name}");
        assert_eq!(Container::open(&path(name)).unwrap_err().errno(), errno, "{name}");
    }
    let exclusive = Create { exclusive: true, ..how() };
    assert_eq!(Container::create(&path("blob"), &exclusive).unwrap_err().errno(), libc::EEXIST);
    assert_eq!(Container::create(&path("no/blob"), &how()).unwrap_err().errno(), libc::ENOENT);
}
