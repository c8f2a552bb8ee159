//! Generations that survive the agent (`level=process`): whoever is killed, what was complete is
//! read, once and in its order, and nothing is left behind.

use aggio_tests::coupling::Coupling;
use aggio_tests::{Directory, compile_plain, names_in, skip};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

fn coupling(place: &Directory) -> Option<Coupling> {
    Coupling::of(&format!("ck.*:level=process:spill={}", place.path().display()))
}

fn program() -> String {
    compile_plain("coupled.c", &[]).display().to_string()
}

fn generations(first: u32, last: u32) -> String {
    (first..=last).map(|number| format!("generation {number}: 100000 bytes\n")).collect()
}

/// The directory of the agent.
fn inner(place: &Directory) -> PathBuf {
    let names = names_in(place.path());
    assert_eq!(names.len(), 1, "{names:?}");
    place.path().join(&names[0])
}

/// Files of the agent whose names begin so.
fn files(place: &Directory, start: &str) -> Vec<String> {
    names_in(&inner(place)).into_iter().filter(|name| name.starts_with(start)).collect()
}

/// Waits until the agent has ended by itself, which leaves nothing.
#[track_caller]
fn is_clean(place: &Directory) {
    let began = Instant::now();
    while !names_in(place.path()).is_empty() {
        let left = names_in(&place.path().join(&names_in(place.path())[0]));
        assert!(began.elapsed() < SOON, "left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_complete_is_read_after_the_agent_was_killed() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    coupling.run(&format!("{} write plain ck.1 5 100000", program()));
    assert_eq!(files(&place, "bytes-").len(), 5);
    coupling.kill_agent();
    let read = format!("{} read plain ck.1", program());
    assert_eq!(coupling.run(&format!("{read} 2 100000")), generations(1, 2));
    is_clean_but(&place, 3);
    is_read_on(&coupling, &read);
    is_clean(&place);
}

/// Readers of the family that has read two go on behind these, whatever agent there is.
fn is_read_on(coupling: &Coupling, read: &str) {
    let mut reader = coupling.start(&format!(
        "for i in 3 4; do {read} 1 100000 $i || exit; until test -e go.$i; do sleep 0.01; done; \
         done; {read} 1 100000 5"
    ));
    for number in [3, 4] {
        reader.until(&format!("generation {number}:"));
        coupling.kill_agent();
        std::fs::write(coupling.path().join(format!("go.{number}")), "").expect("a file");
    }
    assert_eq!(reader.succeeds(), generations(3, 5));
}

#[track_caller]
fn is_clean_but(place: &Directory, count: usize) {
    let began = Instant::now();
    while files(place, "bytes-").len() != count {
        assert!(began.elapsed() < SOON, "{:?}", files(place, ""));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reader_that_has_a_generation_open_reads_on_under_the_next_agent() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    coupling.run("for i in 1 2 3; do head -c 50000 /dev/zero | tr '\\0' $i > ck.1; done");
    let python = "import time
def read(pause):
    with open('ck.1', 'rb', buffering=0) as file:
        first = file.read(5000)
        print('open', flush=True)
        time.sleep(pause)
        rest = file.read()
        assert len(first + rest) == 50000 and len(set(first + rest)) == 1
        return first[:1].decode()
print(read(1), flush=True)
print(read(0), read(0), flush=True)";
    std::fs::write(coupling.path().join("read.py"), python).expect("a script");
    let mut reader = coupling.start("/usr/bin/python3 read.py");
    reader.until("open");
    coupling.kill_agent();
    assert_eq!(reader.succeeds(), "open\n1\nopen\nopen\n2 3\n");
    is_clean(&place);
}

#[test]
fn what_was_being_written_is_lost_and_its_writer_learns_that() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    let python = "import os, time
fd = os.open('ck.1', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(fd, b'half')
print('half', flush=True)
time.sleep(0.5)
try: os.close(fd)
except OSError as error: print(error.strerror)
with open('ck.1', 'w') as file: file.write('whole')";
    std::fs::write(coupling.path().join("write.py"), python).expect("a script");
    let mut writer = coupling.start("/usr/bin/python3 write.py");
    writer.until("half");
    coupling.kill_agent();
    assert_eq!(writer.succeeds(), "half\nStale file handle\n");
    assert_eq!(coupling.run("cat ck.1"), "whole");
    is_clean(&place);
}

/// A writer that makes what it was told is lost once more, and a reader.
const WRITER: &str = "import sys
for number in range(1, int(sys.argv[1]) + 1):
    while True:
        try:
            with open('ck.1', 'w') as file: file.write(f'{number} ' * 2000)
            break
        except OSError as error: print('again', number, error, flush=True)";
const READER: &str = "import sys
last, seen = int(sys.argv[1]), []
while not seen or seen[-1] != last:
    try:
        with open('ck.1') as file: numbers = set(file.read().split())
        assert len(numbers) == 1, numbers
        seen.append(int(numbers.pop()))
    except OSError as error: print('again', error, flush=True)
print('read', *seen)";

#[test]
fn nothing_is_lost_while_the_agent_is_killed_again_and_again() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    let count: u32 = 100;
    for (name, text) in [("write.py", WRITER), ("read.py", READER)] {
        std::fs::write(coupling.path().join(name), text).expect("a script");
    }
    let mut writer = coupling.start(&format!("/usr/bin/python3 write.py {count}"));
    let mut reader = coupling.start(&format!("/usr/bin/python3 read.py {count}"));
    let mut kills = 0;
    for round in 0u64.. {
        if !writer.runs() && !reader.runs() {
            break;
        }
        std::thread::sleep(Duration::from_millis(60 + round * 37 % 190));
        coupling.kill_agent();
        kills += 1;
        assert!(round < 400, "{writer:?} {reader:?} {}", coupling.log());
    }
    assert!(kills >= 3);
    let (written, read) = (writer.succeeds(), reader.succeeds());
    let (told, seen) = read.rsplit_once("read ").expect("a last line");
    let mut seen: Vec<u32> = seen.split_whitespace().map(|one| one.parse().unwrap()).collect();
    // One that is read again was told to the writer as lost, or the reader as an error.
    let (all, again) = (seen.len(), told.lines().count() + written.lines().count());
    seen.dedup();
    assert_eq!(seen, (1..=count).collect::<Vec<_>>(), "{written}{told}");
    assert!(all - seen.len() <= again, "{all} {written}{told}");
    // The last one may have been killed before it could clear up; the next one does.
    coupling.run("! test -e ck.2");
    is_clean(&place);
}

#[test]
fn damaged_records_and_files_of_others_are_named_and_left() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    coupling.run("for i in 1 2 3; do echo text > ck.$i; done");
    coupling.kill_agent();
    let inner = inner(&place);
    let records = files(&place, "record-");
    assert_eq!(records.len(), 3);
    let bytes = std::fs::read(inner.join(&records[0])).expect("a record");
    std::fs::write(inner.join(&records[0]), &bytes[..bytes.len() / 2]).expect("a record");
    std::fs::write(inner.join("notes"), "of somebody").expect("a file");
    let read = coupling.start("cat ck.1 & cat ck.2 & cat ck.3 & wait");
    let began = Instant::now();
    while read.printed() != "text\ntext\n" {
        assert!(began.elapsed() < SOON, "{read:?} {}", coupling.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = coupling.log();
    for name in [&*records[0], "notes"] {
        let line = format!("{}/{name}: ", inner.display());
        assert!(log.contains(&line) && log.contains("it is left there"), "{log}");
        assert!(inner.join(name).exists());
    }
    // Its name is free for another one.
    coupling.run("for i in 1 2 3; do echo other > ck.$i; done");
    assert!(read.ends_within(SOON).stdout.ends_with("other\n"));
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    coupling.run("echo text > ck.1");
    coupling.kill_agent();
    let inner = inner(&place);
    if chown(&inner, Some(1234), None).is_err() {
        skip("only root can give a directory away");
        return;
    }
    for script in ["echo other > ck.1", "cat ck.1"] {
        let ended = coupling.start(script).ends_within(SOON);
        assert!(!ended.status.success(), "{ended:?}");
        let named = ended.stderr.contains(&inner.display().to_string());
        assert!(named && ended.stderr.contains("it belongs to user 1234"), "{ended:?}");
    }
    chown(&inner, Some(0), None).expect("root may");
    assert_eq!(coupling.run("cat ck.1"), "text\n");
}

#[test]
fn files_go_when_generations_are_dropped_and_when_the_agent_is_told_to_end() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    coupling.run("for i in 1 2 3; do echo text > ck.$i; done");
    let inner = inner(&place);
    coupling.kill_agent();
    // An agent that is started by hand finds them.
    coupling.run("$AGGIO_AGENT agent --dir $AGGIO_COUPLE_DIR");
    let listed = coupling.run("$AGGIO_AGENT couple --dir $AGGIO_COUPLE_DIR");
    assert!(listed.contains("ck.2") && listed.contains("complete"), "{listed}");
    coupling.run("$AGGIO_AGENT couple drop ck.1 --dir $AGGIO_COUPLE_DIR");
    assert_eq!(files(&place, "bytes-").len(), 2);
    coupling.run("until $AGGIO_AGENT agent --quit --dir $AGGIO_COUPLE_DIR; do sleep 0.1; done");
    let began = Instant::now();
    while inner.exists() {
        assert!(began.elapsed() < SOON, "{:?}", names_in(&inner));
        std::thread::sleep(Duration::from_millis(10));
    }
    is_clean(&place);
}
