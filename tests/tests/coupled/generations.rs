//! Programs without MPI that exchange files in memory (`AGGIO_COUPLE`): the generation and the
//! bytes that each open gets, by various calls, and that nothing is left.

use aggio_tests::coupling::Coupling;
use aggio_tests::{compile_plain, required};
use std::time::{Duration, Instant};

fn program() -> String {
    compile_plain("coupled.c", &[]).display().to_string()
}

fn streams() -> String {
    compile_plain("coupled_streams.cc", &[]).display().to_string()
}

/// The output of a reader of `count` generations.
fn generations(count: u32, bytes: u32) -> String {
    (1..=count).map(|number| format!("generation {number}: {bytes} bytes\n")).collect()
}

/// Runs both scripts, the reader first or second. Returns the output of the reader.
#[track_caller]
fn exchanged(writer: &str, reader: &str, reader_first: bool) -> String {
    let Some(coupling) = Coupling::of("ck.*") else { return String::new() };
    let (mut first, second) = match reader_first {
        true => (coupling.start(reader), writer),
        false => (coupling.start(writer), reader),
    };
    if reader_first {
        coupling.until_waiting(1);
        assert!(first.runs(), "a reader waits for its writer: {first:?}");
    }
    let second = coupling.start(second);
    let (first, second) = (first.succeeds(), second.succeeds());
    assert!(!coupling.on_disk().iter().any(|name| name.starts_with("ck.")), "nothing on disk");
    if reader_first { first } else { second }
}

fn has_library() -> bool {
    aggio_tests::library().is_some() || required()
}

#[test]
fn each_open_of_a_reader_gets_the_next_generation_by_whatever_calls_either_side_uses() {
    if !has_library() {
        return;
    }
    let program = program();
    let ways = [
        ("plain", "plain"),
        ("backwards", "stdio"),
        ("stdio", "pread"),
        ("sparse", "mapped"),
        ("mapped", "plain"),
        ("append", "pread"),
        ("fork", "stdio"),
    ];
    for (number, (writes, reads)) in ways.into_iter().enumerate() {
        let writer = format!("{program} write {writes} ck.1 4 100000");
        let reader = format!("WRITTEN={writes} {program} read {reads} ck.1 4 100000");
        let printed = exchanged(&writer, &reader, number % 2 == 0);
        assert_eq!(printed, generations(4, 100_000), "{writes} to {reads}");
    }
}

#[test]
fn streams_of_cplusplus_exchange_text() {
    if !has_library() {
        return;
    }
    let streams = streams();
    for reader_first in [true, false] {
        let writer = format!("{streams} write ck.txt 3 5000");
        let printed = exchanged(&writer, &format!("{streams} read ck.txt 3 5000"), reader_first);
        let wanted: String =
            (1..=3).map(|number| format!("generation {number}: 5000 numbers\n")).collect();
        assert_eq!(printed, wanted);
    }
}

#[test]
fn cp_and_cat_and_redirections_of_the_shell_exchange_files() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    coupling.run("seq 1 20000 > plain; cp plain ck.1 && cat ck.1 > back && cmp plain back");
    coupling.run("(seq 1 5; seq 6 20000) > ck.2; cp ck.2 again; cmp plain again");
    let reader = coupling.start("cat < ck.3 > got; cmp plain got");
    coupling.run("exec 5> ck.3; cat plain >&5; exec 5>&-");
    reader.succeeds();
    let names = coupling.on_disk();
    assert!(!names.iter().any(|name| name.starts_with("ck.")), "{names:?}");
}

#[test]
fn a_file_is_there_for_its_reader_when_it_is_complete() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let waits = "while [ ! -e ck.1 ]; do sleep 0.01; done; stat -c %s ck.1; ls; \
                 test -r ck.1 && ! test -x ck.1 && cat ck.1 | wc -c";
    let mut reader = coupling.start(waits);
    let mut writer = coupling.start(
        "(head -c 5000 /dev/zero; echo half; sleep 0.5; head -c 5000 /dev/zero) \
                        > ck.1; echo done",
    );
    writer.until("done");
    writer.succeeds();
    reader.until("10005");
    let printed = reader.succeeds();
    assert_eq!(printed, "10005\nck.1\n10005\n");
}

#[test]
fn directories_list_the_files_that_a_program_may_open() {
    let Some(coupling) = Coupling::of("ck.*").filter(|_| has_library()) else { return };
    coupling.run("touch other; echo one > ck.1; echo two > ck.2");
    let python = "import os, glob\n\
                  print(sorted(os.listdir('.'))); print(sorted(glob.glob('ck.*')))\n\
                  print(sorted((e.name, e.is_file(), e.stat().st_size) for e in os.scandir('.')))";
    let printed = coupling.run(&format!("/usr/bin/python3 -c \"{python}\"; echo ck.*; ls -1"));
    assert_eq!(
        printed,
        "['ck.1', 'ck.2', 'other']\n['ck.1', 'ck.2']\n\
         [('ck.1', True, 4), ('ck.2', True, 4), ('other', True, 0)]\n\
         ck.1 ck.2\nck.1\nck.2\nother\n"
    );
    assert_eq!(coupling.on_disk(), ["other"]);
}

#[test]
fn a_rename_publishes_a_complete_file() {
    if !has_library() {
        return;
    }
    let program = program();
    // Only the last name is coupled, or both names are.
    for (rules, name) in [("out", "out"), ("out*", "out")] {
        let Some(coupling) = Coupling::of(rules) else { return };
        let reader = coupling.start(&format!("WRITTEN=rename {program} read plain {name} 3 50000"));
        coupling.run(&format!("{program} write rename {name} 3 50000"));
        assert_eq!(reader.succeeds(), generations(3, 50_000), "{rules}");
        assert_eq!(coupling.on_disk(), [] as [&str; 0], "{rules}");
    }
}

#[test]
fn a_file_that_is_moved_out_of_the_coupling_is_on_disk() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    coupling.run("seq 1 1000 > ck.1");
    coupling.run("mv ck.1 kept && seq 1 1000 | cmp - kept && test ! -e ck.1");
    assert_eq!(coupling.on_disk(), ["kept"]);
    coupling.run("seq 1 9 > ck.1");
    coupling.run("rm ck.1 && test ! -e ck.1 && rm -f ck.1");
}

#[test]
fn python_exchanges_files_by_open_and_numpy() {
    if !has_library() {
        return;
    }
    for kind in ["open", "numpy"] {
        for reader_first in [true, false] {
            let script =
                |what| format!("/usr/bin/python3 $PROGRAMS/coupled.py {what} {kind} ck.npy 3");
            let printed = exchanged(&script("write"), &script("read"), reader_first);
            assert_eq!(printed, "generation 1: right\ngeneration 2: right\ngeneration 3: right\n");
        }
    }
}

#[test]
fn descriptors_are_followed_into_other_programs() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    // The shell opens the file; another program writes it, and ends after the shell has closed it.
    let reader = coupling.start("cat ck.1");
    let writer = "exec 5> ck.1; (sleep 0.3; seq 1 3 >&5) & exec 5>&-; wait";
    coupling.run(writer);
    assert_eq!(reader.succeeds(), "1\n2\n3\n");
    let python = "import os; f = os.open('ck.2', os.O_WRONLY | os.O_CREAT); os.set_inheritable(f, \
                  True); os.execvp('sh', ['sh', '-c', f'echo text >&{f}'])";
    coupling.run(&format!("/usr/bin/python3 -c \"{python}\""));
    assert_eq!(coupling.run("cat ck.2"), "text\n");
}

#[test]
fn the_newest_generation_is_for_those_who_ask_for_it() {
    let Some(coupling) = Coupling::of("ck.*:gen=latest").filter(|_| has_library()) else { return };
    let program = program();
    coupling.run(&format!("{program} write plain ck.1 3 20000"));
    let printed = coupling.run(&format!("{program} read plain ck.1 1 20000 3"));
    assert_eq!(printed, "generation 3: 20000 bytes\n");
}

#[test]
fn so_many_generations_are_kept_as_the_rule_says() {
    let Some(coupling) = Coupling::of("ck.*:keep=2").filter(|_| has_library()) else { return };
    let program = program();
    // The writer keeps running: a generation is dropped when its last user ends.
    let mut writer =
        coupling.start(&format!("{program} write plain ck.1 5 20000; echo written; sleep 5"));
    writer.until("written");
    let printed = coupling.run(&format!("{program} read plain ck.1 2 20000 4"));
    assert_eq!(printed, "generation 4: 20000 bytes\ngeneration 5: 20000 bytes\n");
    writer.kill();
    assert!(!writer.ends().status.success());
}

#[test]
fn what_was_synchronised_is_read_before_the_file_is_closed() {
    let Some(coupling) = Coupling::of("ck.*:ready=sync").filter(|_| has_library()) else { return };
    let python = "import os, sys; f = os.open('ck.1', os.O_WRONLY | os.O_CREAT)\n\
                  os.write(f, b'first '); os.fsync(f); print('synced', flush=True)\n\
                  os.read(0, 1); os.write(f, b'second'); os.close(f)";
    let mut reader = coupling.start("cat ck.1");
    coupling.until_waiting(1);
    assert!(reader.runs());
    let mut writer = coupling.start(&format!("mkfifo go; /usr/bin/python3 -c \"{python}\" < go"));
    while !coupling.path().join("go").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let go = std::fs::OpenOptions::new().write(true).open(coupling.path().join("go"));
    writer.until("synced");
    assert_eq!(reader.succeeds(), "first ");
    drop(go.expect("a pipe"));
    writer.succeeds();
}

#[test]
fn a_report_tells_how_long_an_open_waited() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let coupling = coupling.variable("AGGIO_REPORT", "json");
    let reader = coupling.start("cat ck.1");
    coupling.until_waiting(1);
    let waiting = Instant::now();
    // The time of the report has a resolution.
    while waiting.elapsed() < Duration::from_millis(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let least = waiting.elapsed().as_secs_f64();
    coupling.run("echo 1 > ck.1");
    let ended = reader.ends_within(Duration::from_secs(20));
    let told = r#""coupled":{"generation":1,"writes":false,"seconds_waited":"#;
    let seconds = ended.stderr.split(told).nth(1).and_then(|rest| rest.split('}').next());
    let seconds: Option<f64> = seconds.and_then(|seconds| seconds.parse().ok());
    assert!(seconds.is_some_and(|seconds| (least..20.0).contains(&seconds)), "{ended:?}");
}

#[test]
fn room_for_more_bytes_than_there_is_memory_is_refused() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let python = "import os\n\
                  f = os.open('ck.1', os.O_RDWR | os.O_CREAT)\n\
                  os.posix_fallocate(f, 0, 70000)\n\
                  try: os.posix_fallocate(f, 0, 1 << 50)\n\
                  except OSError as why: print(os.strerror(why.errno))\n\
                  print(os.fstat(f).st_size)\n\
                  os.close(f)";
    let printed = coupling.run(&format!("/usr/bin/python3 -c \"{python}\""));
    assert_eq!(printed, "No space left on device\n70000\n");
    assert_eq!(coupling.run("cat ck.1 | wc -c").trim(), "70000");
}
