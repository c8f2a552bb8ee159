//! An agent leaves its generations to the next one, which trusts no damaged or foreign file.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::PathBuf;

/// A place of an agent, and a directory for its generations.
struct Scene {
    scratch: tempfile::TempDir,
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("kept")).unwrap();
        let place = Place::open(scratch.path().join("place").to_str().unwrap()).unwrap();
        Self { scratch, place }
    }

    fn open(&self) -> io::Result<Spool> {
        Spool::open(self.scratch.path().join("kept").to_str().unwrap(), &self.place)
    }

    fn inner(&self) -> PathBuf {
        let mut all = fs::read_dir(self.scratch.path().join("kept")).unwrap();
        all.next().unwrap().unwrap().path()
    }

    fn names(&self) -> Vec<String> {
        let all = fs::read_dir(self.inner()).unwrap();
        let mut all: Vec<_> =
            all.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }
}

fn write(spool: &Spool, bytes: &[u8]) -> OwnedFd {
    let file = spool.file().unwrap();
    let writes = owned(os::reopen(file.as_raw_fd(), libc::O_RDWR).unwrap());
    File::from(writes).write_all_at(bytes, 0).unwrap();
    file
}

fn record(area: Area, file: &OwnedFd) -> Record {
    let facts = File::from(file.try_clone().unwrap()).metadata().unwrap();
    let (size, inode) = (facts.len(), facts.ino());
    let modified = (facts.mtime(), facts.mtime_nsec());
    let kept = Kept { area, number: 3, size, mode: 0o600, inode, modified, ..Kept::default() };
    let (boot, generations) = ("now".to_owned(), vec![kept]);
    Record { boot, path: b"/d/f".to_vec(), generations, ..Record::default() }
}

#[test]
fn complete_generations_and_what_is_known_of_them_are_found_again() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    assert!(scene.open().is_err(), "another agent has it");
    let (kept, lost) = (write(&spool, b"kept"), write(&spool, b"lost"));
    for numbers in [[1; 4], [2; 4]] {
        spool.write(7, &Record { numbers, ..record(5, &kept) }).unwrap();
    }
    spool.keep(5, &kept).unwrap();
    assert_eq!(scene.names(), ["bytes-5", "record-7"]);
    drop((spool, kept, lost));
    let spool = scene.open().unwrap();
    let found = spool.find("now").unwrap();
    assert!(found.strange.is_empty(), "{:?}", found.strange);
    let [(7, record)] = &found.records[..] else { panic!("{:?}", found.records) };
    assert_eq!(record.numbers, [2; 4]);
    let mut bytes = [0; 4];
    File::from(spool.kept(&record.generations[0]).unwrap()).read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"kept");
    spool.give_up(5).unwrap();
    assert_eq!(spool.kept(&record.generations[0]).unwrap_err().kind(), io::ErrorKind::NotFound);
    spool.forget(7).unwrap();
    spool.close();
    assert_eq!(fs::read_dir(scene.scratch.path().join("kept")).unwrap().count(), 0);
}

#[test]
fn a_record_that_was_about_to_replace_another_one_is_the_newer_one() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    let file = write(&spool, b"kept");
    spool.write(7, &record(5, &file)).unwrap();
    fs::rename(scene.inner().join("record-7"), scene.inner().join("record-7.new")).unwrap();
    fs::write(scene.inner().join("record-7"), "half").unwrap();
    let found = spool.find("now").unwrap();
    assert_eq!((found.records.len(), found.strange.len()), (1, 0));
    // Later records depend on it, so that nothing older may come back.
    assert_eq!(scene.names(), ["record-7"]);
    assert_eq!(spool.find("now").unwrap().records[0].1.generations[0].area, 5);
    fs::write(scene.inner().join("record-7.new"), "half").unwrap();
    let found = spool.find("now").unwrap();
    assert_eq!(found.records[0].1.generations[0].area, 5);
    assert_eq!(found.strange[0].0, "record-7.new");
    spool.write(7, &record(6, &file)).unwrap();
    assert_eq!(scene.names(), ["record-7"]);
    assert_eq!(spool.find("now").unwrap().records[0].1.generations[0].area, 6);
}

#[test]
fn what_was_damaged_or_is_no_file_of_an_agent_is_named_and_left() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    spool.write(1, &record(10, &write(&spool, b"kept"))).unwrap();
    let whole = fs::read(scene.inner().join("record-1")).unwrap();
    let make = |name: &str, bytes: &[u8], mode: u32| {
        let path = scene.inner().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    make("record-2", &whole[..whole.len() - 1], 0o600);
    make("record-3", &whole, 0o644);
    make("record-04", &whole, 0o600);
    make("notes.txt", b"of somebody", 0o600);
    make("bytes-99", b"nobody's", 0o600);
    symlink("record-1", scene.inner().join("record-5")).unwrap();
    fs::create_dir(scene.inner().join("record-6")).unwrap();
    fs::hard_link(scene.inner().join("record-3"), scene.inner().join("record-8")).unwrap();
    let before = scene.names();
    let found = spool.find("now").unwrap();
    assert_eq!(found.records.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
    let mut strange: Vec<_> = found.strange.iter().map(|(name, _)| name.as_str()).collect();
    strange.sort_unstable();
    let wanted = [
        "bytes-99",
        "notes.txt",
        "record-04",
        "record-2",
        "record-3",
        "record-5",
        "record-6",
        "record-8",
    ];
    assert_eq!(strange, wanted);
    assert_eq!(scene.names(), before, "nothing is removed");
    assert_eq!(found.last, 99, "its name is not given again");
    let later = spool.find("after the next start").unwrap();
    assert!(later.records.is_empty(), "nobody knows what the disk has by then");
}

#[test]
fn bytes_that_are_not_as_their_record_says_are_not_read() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    let first = write(&spool, b"kept");
    let kept = |area| record(area, &first).generations.remove(0);
    spool.keep(1, &first).unwrap();
    assert!(spool.kept(&kept(1)).is_ok());
    spool.keep(2, &write(&spool, b"kept")).unwrap();
    assert!(spool.kept(&kept(2)).is_err(), "another file, such as a copy");
    assert!(spool.kept(&Kept { size: 3, ..kept(1) }).is_err(), "another size");
    let known = kept(1);
    let path = scene.inner().join("bytes-1");
    fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"K", 0).unwrap();
    assert!(spool.kept(&known).is_err(), "written to");
    assert!(spool.kept(&kept(1)).is_ok());
    fs::set_permissions(scene.inner().join("bytes-1"), Permissions::from_mode(0o644)).unwrap();
    assert!(spool.kept(&kept(1)).is_err(), "another mode");
    symlink("bytes-2", scene.inner().join("bytes-3")).unwrap();
    assert!(spool.kept(&kept(3)).is_err(), "a link");
    if user() == 0 {
        spool.keep(4, &write(&spool, b"kept")).unwrap();
        std::os::unix::fs::chown(scene.inner().join("bytes-4"), Some(1234), None).unwrap();
        assert!(spool.kept(&kept(4)).is_err(), "another user's");
    }
}

#[test]
fn a_directory_that_others_made_or_may_enter_is_refused() {
    let scene = Scene::new();
    drop(scene.open().unwrap());
    let inner = scene.inner();
    fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
    let error = scene.open().unwrap_err().to_string();
    assert!(error.contains("mode 755") && error.contains(inner.to_str().unwrap()), "{error}");
    fs::remove_dir(&inner).unwrap();
    symlink("/tmp", &inner).unwrap();
    assert!(scene.open().is_err(), "a link");
    fs::remove_file(&inner).unwrap();
    fs::write(&inner, "").unwrap();
    assert!(scene.open().is_err(), "a file");
}

#[test]
fn of_two_records_of_one_file_the_one_that_was_begun_later_is_read() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    let file = write(&spool, b"kept");
    for number in [9, 10, 8] {
        spool.write(number, &record(number, &file)).unwrap();
    }
    let found = spool.find("now").unwrap();
    assert_eq!(found.records.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [10]);
    let mut strange: Vec<_> = found.strange.iter().map(|(name, _)| name.as_str()).collect();
    strange.sort_unstable();
    assert_eq!(strange, ["record-8", "record-9"]);
}

#[test]
fn an_agent_that_is_on_its_way_out_is_waited_for_and_another_one_is_not_for_ever() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    let error = scene.open().unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(PATIENCE / 4);
            drop(spool);
        });
        assert!(scene.open().is_ok());
    });
}

#[test]
fn a_record_that_would_not_be_read_is_not_written() {
    let scene = Scene::new();
    let spool = scene.open().unwrap();
    let record = Record { path: vec![7; LONGEST as usize], ..Record::default() };
    let error = spool.write(1, &record).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
    assert!(scene.names().is_empty());
}
