//! A program that exchanges files in memory dies: the others end soon, with the right bytes or the
//! right error, and nothing is left.

use aggio_tests::compile_plain;
use aggio_tests::coupling::Coupling;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

fn program() -> String {
    compile_plain("coupled.c", &[]).display().to_string()
}

/// A writer that prints `half` when it has written half of a file, and then waits.
const HALF: &str = "exec 5> ck.1; head -c 100000 /dev/zero >&5; echo half; exec sleep 60";

#[test]
fn a_reader_of_a_killed_writer_fails_soon_and_names_it() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let mut writer = coupling.start(HALF);
    writer.until("half");
    let mut reader = coupling.start("cat ck.1");
    coupling.until_waiting(1);
    assert!(reader.runs() && reader.printed().is_empty());
    writer.kill();
    let ended = reader.ends_within(SOON);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains("Input/output error"), "{ended:?}");
    assert!(ended.stderr.contains("aggio") && ended.stderr.contains("died"), "{ended:?}");
    assert!(ended.stderr.contains("ck.1"), "{ended:?}");
    // A later reader, in another session, gets the same error.
    let late = coupling.start("exec setsid -w cat ck.1").ends_within(SOON);
    assert!(late.stderr.contains("Input/output error"), "{late:?}");
}

#[test]
fn a_writer_that_is_started_again_serves_the_reader_that_waits_for_it() {
    let Some(coupling) = Coupling::of("ck.*:on_writer_death=wait") else { return };
    let mut writer = coupling.start(HALF);
    writer.until("half");
    let mut reader = coupling.start("cat ck.1");
    coupling.until_waiting(1);
    // How a program ends cannot be determined while it calls `execve`.
    writer.until_executes("sleep");
    writer.kill();
    coupling.until_connected(1);
    assert!(reader.runs(), "{reader:?}");
    coupling.run("echo whole > ck.1");
    assert_eq!(reader.succeeds(), "whole\n");
}

#[test]
fn the_file_on_disk_is_read_instead_of_one_whose_writer_died() {
    let Some(coupling) = Coupling::of("ck.*:on_writer_death=file") else { return };
    std::fs::write(coupling.path().join("ck.1"), "from the disk\n").expect("a file");
    let mut writer = coupling.start(HALF);
    writer.until("half");
    let reader = coupling.start("cat ck.1");
    coupling.until_waiting(1);
    writer.until_executes("sleep");
    writer.kill();
    let ended = reader.ends_within(SOON);
    assert_eq!((ended.status.success(), &*ended.stdout), (true, "from the disk\n"), "{ended:?}");
}

#[test]
fn an_abort_and_a_signal_are_deaths_and_an_exit_is_none() {
    for (end, complete) in [
        ("os.abort()", false),
        ("os.kill(os.getpid(), 15)", false),
        ("os.kill(os.getpid(), 11)", false),
        ("os._exit(3)", true),
        ("sys.exit(3)", true),
    ] {
        let Some(coupling) = Coupling::of("ck.*") else { return };
        let python = format!(
            "import os, sys; f = os.open('ck.1', os.O_WRONLY | os.O_CREAT); os.write(f, b'text'); \
             {end}"
        );
        let reader = coupling.start("cat ck.1");
        let writer = coupling.start(&format!("ulimit -c 0; exec /usr/bin/python3 -c \"{python}\""));
        assert!(!writer.ends_within(SOON).status.success(), "{end}");
        let ended = reader.ends_within(SOON);
        assert_eq!(ended.status.success(), complete, "{end}: {ended:?}");
        assert_eq!(ended.stdout, if complete { "text" } else { "" }, "{end}: {ended:?}");
    }
}

#[test]
fn a_killed_child_of_a_writer_makes_the_file_incomplete() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let python = "import os, time; f = os.open('ck.1', os.O_WRONLY | os.O_CREAT); c = os.fork()\n\
                  if c == 0: os.write(f, b'some'); time.sleep(60)\n\
                  os.close(f); time.sleep(0.3); os.kill(c, 9); os.wait()";
    let reader = coupling.start("cat ck.1");
    coupling.run(&format!("/usr/bin/python3 -c \"{python}\""));
    let ended = reader.ends_within(SOON);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
}

#[test]
fn a_writer_goes_on_when_its_reader_is_killed() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let program = program();
    let mut reader = coupling.start("exec 4< ck.1; echo open; exec sleep 60");
    let writer = coupling.start(&format!("{program} write plain ck.1 40 100000 5"));
    reader.until("open");
    reader.kill();
    writer.succeeds();
    // Another reader gets the whole of a generation.
    assert_eq!(coupling.run("cat ck.1 | wc -c").trim(), "100000");
}

#[test]
fn a_signal_ends_a_wait_and_the_next_open_goes_on() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let python = "import signal\n\
                  def wake(*_): raise KeyError\n\
                  signal.signal(signal.SIGALRM, wake)\n\
                  signal.setitimer(signal.ITIMER_REAL, 0.2)\n\
                  try: open('ck.1')\n\
                  except KeyError: print('woken', flush=True)\n\
                  print(open('ck.1').read(), flush=True)";
    let mut reader = coupling.start(&format!("/usr/bin/python3 -c \"{python}\""));
    reader.until("woken");
    coupling.run("echo text > ck.1");
    assert_eq!(reader.succeeds(), "woken\ntext\n\n");
}

/// The end of a child that is not registered would go unnoticed.
#[test]
fn a_parent_returns_from_fork_when_the_agent_knows_the_child() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let python = "import os, time
file = open('ck.1', 'w')
file.write('of the parent, '); file.flush()
print('open', flush=True)
while not os.path.exists('go'): time.sleep(0.001)
began = time.monotonic()
child = os.fork()
if child == 0:
    file.write('of the child'); file.flush()
    os._exit(0)
waited = time.monotonic() - began
assert os.waitpid(child, 0)[1] == 0
print('waited' if waited > 0.2 else waited)";
    std::fs::write(coupling.path().join("fork.py"), python).expect("a script");
    let mut writer = coupling.start("/usr/bin/python3 fork.py");
    writer.until("open");
    coupling.signal_agent(libc::SIGSTOP);
    std::fs::write(coupling.path().join("go"), "").expect("a file");
    std::thread::sleep(Duration::from_millis(400));
    coupling.signal_agent(libc::SIGCONT);
    assert_eq!(writer.succeeds(), "open\nwaited\n");
    assert_eq!(coupling.run("cat ck.1"), "of the parent, of the child");
}

/// The agent cannot register a child that has not run one instruction: its parent reports the end.
#[test]
fn a_child_that_is_killed_before_its_first_instruction_makes_the_file_incomplete() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let program = compile_plain("coupled_fork.c", &[]).display().to_string();
    let reader = coupling.start("cat ck.1");
    let writer = coupling.start(&format!("{program} killed ck.1")).ends_within(SOON);
    let told = "fork: a child\nkilled\nclose: Input/output error\n";
    assert_eq!(writer.stdout, told, "{writer:?}");
    assert!(writer.stderr.contains("a child of coupled_fork"), "{writer:?}");
    let ended = reader.ends_within(SOON);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    let told =
        ["Input/output error", "a child of coupled_fork", "before generation 1 was complete"];
    assert!(told.iter().all(|text| ended.stderr.contains(text)), "{ended:?}");
}

#[test]
fn a_fork_that_fails_and_a_child_that_ends_in_order_leave_the_file_complete() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let program = compile_plain("coupled_fork.c", &[]).display().to_string();
    for (how, forked) in [("refused", "Resource temporarily unavailable"), ("ends", "a child")] {
        let reader = coupling.start("cat ck.1");
        let writer = coupling.start(&format!("{program} {how} ck.1")).ends_within(SOON);
        assert_eq!(writer.stdout, format!("fork: {forked}\nclose: done\n"), "{writer:?}");
        let ended = reader.ends_within(SOON);
        assert_eq!((ended.status.success(), &*ended.stdout), (true, "text"), "{ended:?}");
    }
}
