//! Generations that survive the agent (`level=process`): whichever process is killed, complete
//! generations are read once and in order, and nothing is left behind.

use aggio_tests::coupling::Coupling;
use aggio_tests::{Directory, SmallFileSystem, compile_plain, names_in, skip};
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

/// Returns the names of files of the agent that begin with `start`.
fn files(place: &Directory, start: &str) -> Vec<String> {
    names_in(&inner(place)).into_iter().filter(|name| name.starts_with(start)).collect()
}

/// Waits until the agent has ended by itself and nothing is left.
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

/// Checks that readers of the family that has read two generations continue with the third,
/// although the agent is killed several times.
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

/// A writer that writes a generation again if it gets an error, and a reader.
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
    // On a busy machine, no agent would live long enough.
    while kills < 100 && (writer.runs() || reader.runs()) {
        std::thread::sleep(Duration::from_millis(60 + kills * 37 % 190));
        coupling.kill_agent();
        kills += 1;
    }
    assert!(kills >= 3);
    let (written, read) = (writer.succeeds(), reader.succeeds());
    let (told, seen) = read.rsplit_once("read ").expect("a last line");
    let mut seen: Vec<u32> = seen.split_whitespace().map(|one| one.parse().unwrap()).collect();
    // A generation that is read twice was reported as lost to the writer, or failed in the reader.
    let (all, again) = (seen.len(), told.lines().count() + written.lines().count());
    seen.dedup();
    assert_eq!(seen, (1..=count).collect::<Vec<_>>(), "{written}{told}");
    assert!(all - seen.len() <= again, "{all} {written}{told}");
    // The last agent may have been killed before it could clean up; the next one does.
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
    // The name is free for another file.
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
    // An agent that is started by hand finds the generations.
    coupling.run("$AGGIO_TEST_AGENT agent --dir $AGGIO_COUPLE_DIR");
    let listed = coupling.run("$AGGIO_TEST_AGENT couple --dir $AGGIO_COUPLE_DIR");
    assert!(listed.contains("ck.2") && listed.contains("complete"), "{listed}");
    coupling.run("$AGGIO_TEST_AGENT couple drop ck.1 --dir $AGGIO_COUPLE_DIR");
    assert_eq!(files(&place, "bytes-").len(), 2);
    coupling
        .run("until $AGGIO_TEST_AGENT agent --quit --dir $AGGIO_COUPLE_DIR; do sleep 0.02; done");
    let began = Instant::now();
    while inner.exists() {
        assert!(began.elapsed() < SOON, "{:?}", names_in(&inner));
        std::thread::sleep(Duration::from_millis(10));
    }
    is_clean(&place);
}

/// Writes a generation, waits for the file `then`, and executes it.
const ONE: &str = "import os, time
with open('ck.1', 'w') as file: file.write('whole')
print('written', flush=True)
while not os.path.exists('then'): time.sleep(0.01)
exec(open('then').read())";

#[test]
fn a_writer_that_dies_between_two_generations_is_noticed_by_the_next_agent_too() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    std::fs::write(coupling.path().join("one.py"), ONE).expect("a script");
    let mut writer = coupling.start("exec /usr/bin/python3 one.py");
    writer.until("written");
    let mut reader = coupling.start("exec 3<&0; cat ck.1; echo; cat ck.1");
    reader.until("whole\n");
    coupling.until_waiting(1);
    coupling.kill_agent();
    coupling.until_waiting(1);
    assert!(reader.runs(), "{reader:?}");
    writer.kill();
    let ended = reader.ends_within(SOON);
    assert!(!ended.status.success(), "{ended:?}");
    assert!(ended.stderr.contains("died before generation 2 was complete"), "{ended:?}");
    is_clean(&place);
}

#[test]
fn a_writer_that_ends_in_order_after_the_agent_was_killed_has_not_died() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    std::fs::write(coupling.path().join("one.py"), ONE).expect("a script");
    let mut writer = coupling.start("exec /usr/bin/python3 one.py");
    writer.until("written");
    let mut reader = coupling.start("cat ck.1; echo; cat ck.1");
    reader.until("whole\n");
    coupling.until_waiting(1);
    coupling.kill_agent();
    coupling.until_waiting(1);
    std::fs::write(coupling.path().join("then"), "pass").expect("a file");
    writer.succeeds();
    coupling.until_connected(1);
    assert!(reader.runs(), "{reader:?}");
    coupling.run("echo more > ck.1");
    assert_eq!(reader.succeeds(), "whole\nmore\n");
    is_clean(&place);
}

#[test]
fn names_are_removed_and_changed_under_the_next_agent() {
    let place = Directory::new();
    let Some(coupling) = coupling(&place) else { return };
    std::fs::write(coupling.path().join("one.py"), ONE).expect("a script");
    let then = "os.rename('ck.1', 'ck.2')
with open('ck.1', 'w') as file: file.write('other')
os.unlink('ck.1')
assert not os.path.exists('ck.1')
os.truncate('ck.2', 0)
with open('ck.2', 'r+') as file: file.write('more')";
    let mut writer = coupling.start("exec /usr/bin/python3 one.py");
    writer.until("written");
    coupling.kill_agent();
    std::fs::write(coupling.path().join("then.new"), then).expect("a file");
    std::fs::rename(coupling.path().join("then.new"), coupling.path().join("then")).expect("one");
    writer.succeeds();
    coupling.kill_agent();
    // Readers still get the generation that had the name before.
    assert_eq!(coupling.run("cat ck.2; echo; cat ck.2; echo; cat ck.1"), "whole\nmore\nother");
    is_clean(&place);
}

#[test]
fn a_file_of_another_rule_is_not_waited_for_under_an_agent_that_has_lost_it() {
    let place = Directory::new();
    let rules = format!("ck.*:level=process:spill={},me.*", place.path().display());
    let Some(coupling) = Coupling::of(&rules) else { return };
    let python = "import time
with open('ck.1', 'w') as file: file.write('kept')
print('ready', flush=True)
time.sleep(0.5)
print(open('ck.2').read(), flush=True)
try: open('me.1')
except OSError as error: print(error.strerror, flush=True)
print(open('me.1').read())";
    std::fs::write(coupling.path().join("read.py"), python).expect("a script");
    coupling.run("echo lost > me.1; printf kept > ck.2");
    let mut reader = coupling.start("/usr/bin/python3 read.py");
    reader.until("ready");
    coupling.kill_agent();
    reader.until("Input/output error");
    coupling.run("printf next > me.1");
    assert_eq!(reader.succeeds(), "ready\nkept\nInput/output error\nnext\n");
    coupling.run("cat ck.1");
    is_clean(&place);
}

#[test]
fn a_writer_is_told_that_there_is_no_room_to_make_its_generation_survive() {
    const SIZE: u64 = 64 << 10;
    let Some(small) = SmallFileSystem::mount_if_possible(SIZE) else { return };
    let rules = format!("ck.*:level=process:spill={}", small.path().display());
    let Some(coupling) = Coupling::of(&rules) else { return };
    let coupling = coupling.with_small(&small);
    // There is room for the bytes, but not for the record of the generation.
    let python = "import os
fd = os.open('ck.1', os.O_WRONLY | os.O_CREAT)
size = 0
try:
    while True: size += os.write(fd, bytes(4096))
except OSError as error: print('write', error.strerror, flush=True)
try: os.close(fd)
except OSError as error: print('close', error.strerror)
print(size)";
    std::fs::write(coupling.path().join("fill.py"), python).expect("a script");
    let filled = coupling.run("/usr/bin/python3 fill.py");
    let no_room = "No space left on device";
    let start = format!("write {no_room}\nclose {no_room}\n");
    assert!(filled.starts_with(&start), "{filled} {}", coupling.log());
    let line = "ck.1: generation 1 does not survive this agent";
    assert!(coupling.log().contains(line), "{}", coupling.log());
    // Nothing is lost while the agent lives, and there is room again once the generation is read.
    let size: u64 = filled[start.len()..].trim().parse().expect("a number");
    assert_eq!(coupling.run("cat ck.1 | wc -c").trim(), size.to_string());
    coupling.run("until echo whole > ck.2; do sleep 0.02; done");
    coupling.kill_agent();
    assert_eq!(coupling.run("cat ck.2"), "whole\n");
}

#[test]
fn readers_learn_what_is_lost_when_its_writer_ends_and_does_not_write_it_again() {
    for (end, told) in [("os._exit(0)", ""), ("os.close(fd)", "Stale file handle")] {
        let place = Directory::new();
        let Some(coupling) = coupling(&place) else { return };
        let python = format!(
            "import os, time\nopen('ck.1', 'w').write('whole')\n\
             fd = os.open('ck.1', os.O_WRONLY | os.O_TRUNC)\nos.write(fd, b'half')\n\
             print('half', flush=True)\nwhile not os.path.exists('end'): time.sleep(0.01)\n\
             {end}"
        );
        std::fs::write(coupling.path().join("write.py"), python).expect("a script");
        let mut writer = coupling.start("exec /usr/bin/python3 write.py");
        writer.until("half");
        let mut reader = coupling.start("cat ck.1; echo; cat ck.1");
        reader.until("whole\n");
        coupling.until_waiting(1);
        coupling.kill_agent();
        coupling.until_waiting(1);
        assert!(reader.runs(), "{reader:?}");
        std::fs::write(coupling.path().join("end"), "").expect("a file");
        assert!(writer.ends_within(SOON).stderr.contains(told));
        let ended = reader.ends_within(SOON);
        assert!(!ended.status.success() && ended.stdout == "whole\n", "{end}: {ended:?}");
        let text = ": the agent of python3 (process ";
        assert!(ended.stderr.contains(text), "{end}: {ended:?}");
        is_clean(&place);
    }
}
