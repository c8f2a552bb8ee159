//! Coupled files below a mount point, for programs that cannot be preloaded. Such programs do not
//! count as readers: no writer waits for them.

use aggio_tests::coupling::Coupling;
use aggio_tests::mounted::Mounted;
use aggio_tests::{Directory, MARK, names_in};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Mounts the directory of a coupling with its variables.
fn mounted(coupling: &Coupling, point: &Directory) -> Option<Mounted> {
    let dir = coupling.meeting().display().to_string();
    // The mount may start an agent where one was killed.
    let variables = [("AGGIO_COUPLE", "ck.*"), ("AGGIO_COUPLE_DIR", &*dir), (MARK, &*dir)];
    Mounted::new(&["--rw"], coupling.path(), point.path(), &variables)
}

/// The script that writes a generation of `count` bytes, all of them `byte`.
fn write(byte: char, count: u32) -> String {
    format!("head -c {count} /dev/zero | tr '\\0' {byte} > ck.1")
}

#[test]
fn a_mount_shows_the_newest_generation_and_takes_nothing_from_readers() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    std::fs::write(coupling.path().join("other"), b"on disk").expect("a file");
    let point = Directory::new();
    let Some(mount) = mounted(&coupling, &point) else { return };
    let seen = point.path().join("ck.1");
    assert!(!seen.exists() && names_in(point.path()) == ["other"]);

    coupling.run(&write('a', 300_000));
    assert_eq!(names_in(point.path()), ["ck.1", "other"]);
    assert_eq!(coupling.on_disk(), ["other"]);
    let facts = seen.metadata().expect("it is there");
    assert_eq!((facts.len(), facts.nlink(), facts.mode() & 0o170_000), (300_000, 1, 0o100_000));
    assert!(std::fs::read(&seen).expect("it can be read") == [b'a'; 300_000]);

    let mut first = File::open(&seen).expect("it can be opened");
    coupling.run(&write('b', 200_000));
    assert!(std::fs::read(&seen).expect("it can be read") == [b'b'; 200_000]);
    let mut bytes = Vec::new();
    first.read_to_end(&mut bytes).expect("the first generation");
    assert!(bytes == [b'a'; 300_000], "what is open stays what it was");
    first.rewind().expect("a file");
    assert_eq!(coupling.run("head -c 1 ck.1; tail -c 1 ck.1"), "aa", "the reader's first");
    assert_eq!(coupling.run("cat ck.1 | tail -c 1; cat ck.1 | tail -c 2"), "abb");
    first.read_exact(&mut [0; 1000]).expect("it was given up, but not for who has it open");
    drop(first);
    mount.end();
}

#[test]
fn what_a_mount_shows_of_memory_cannot_be_changed_there() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let point = Directory::new();
    let Some(mount) = mounted(&coupling, &point) else { return };
    let seen = point.path().join("ck.1");
    coupling.run(&write('a', 5000));
    for error in [
        File::options().write(true).open(&seen).map(drop),
        std::fs::remove_file(&seen),
        std::fs::rename(&seen, point.path().join("elsewhere")),
        std::fs::hard_link(&seen, point.path().join("elsewhere")),
    ] {
        assert!(error.is_err());
    }
    assert!(std::fs::read(&seen).expect("it can be read") == [b'a'; 5000]);
    std::fs::write(point.path().join("file"), b"bytes").expect("others can be made");
    assert_eq!(coupling.on_disk(), ["file"]);
    mount.end();
}

#[test]
fn a_mount_neither_starts_an_agent_nor_keeps_one() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let point = Directory::new();
    let Some(mount) = mounted(&coupling, &point) else { return };
    let seen = point.path().join("ck.1");
    let has_agent = || names_in(coupling.meeting()).iter().any(|name| name.ends_with(".sock"));
    assert!(!seen.exists() && !has_agent());
    coupling.run(&write('a', 5000));
    assert!(seen.exists() && has_agent());
    coupling.run("cat ck.1 > copy; rm ck.1 2>/dev/null; true");
    for _ in 0..1000 {
        if !has_agent() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!has_agent(), "nothing is left to do: {:?}", names_in(coupling.meeting()));
    assert!(!seen.exists() && names_in(point.path()) == ["copy"]);
    mount.end();
}

#[test]
fn a_mount_answers_soon_although_the_agent_stands_still() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    std::fs::write(coupling.path().join("other"), b"on disk").expect("a file");
    std::fs::write(coupling.path().join("ck.1"), b"older, on disk").expect("a file");
    let point = Directory::new();
    let Some(mount) = mounted(&coupling, &point) else { return };
    let seen = point.path().join("ck.1");
    coupling.run(&write('a', 300_000));
    let mut open = File::open(&seen).expect("it is there");
    coupling.signal_agent(libc::SIGSTOP);
    let began = Instant::now();
    let failed = |result: std::io::Result<()>| {
        result.err().and_then(|error| error.raw_os_error()) == Some(libc::EIO)
    };
    assert!(failed(seen.metadata().map(drop)), "neither the generation nor what is on disk");
    assert!(failed(std::fs::read(&seen).map(drop)));
    let listed = std::fs::read_dir(point.path());
    let listed = listed.and_then(|mut entries| entries.try_for_each(|entry| entry.map(drop)));
    assert!(failed(listed), "a list that lacks it is wrong");
    assert_eq!(std::fs::read(point.path().join("other")).expect("no rule names it"), b"on disk");
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).expect("what is open needs no agent");
    assert!(bytes == [b'a'; 300_000]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    coupling.signal_agent(libc::SIGCONT);
    while failed(seen.metadata().map(drop)) {
        assert!(began.elapsed() < Duration::from_secs(40));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(seen.metadata().expect("the agent goes on").len(), 300_000);
    drop(open);
    mount.end();
}

#[test]
fn what_is_open_below_a_mount_keeps_its_bytes_when_the_agent_is_killed() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let point = Directory::new();
    let Some(mount) = mounted(&coupling, &point) else { return };
    let seen = point.path().join("ck.1");
    coupling.run(&write('a', 300_000));
    let mut open = File::open(&seen).expect("it is there");
    open.read_exact(&mut [0; 1000]).expect("its beginning");
    coupling.signal_agent(libc::SIGKILL);
    while !coupling.processes("", "agent").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    open.rewind().expect("a file");
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).expect("the bytes of its generation");
    assert!(bytes == [b'a'; 300_000]);
    assert_eq!(open.metadata().expect("its facts").len(), 300_000);
    assert!(!seen.exists(), "nobody knows the generation any more");
    drop(open);
    mount.end();
}
