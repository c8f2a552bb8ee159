//! The agent that the first open of a program has started is killed at any step of that open: the
//! program continues with another agent.

use aggio_tests::coupling::{Coupling, Ended, ranks};
use aggio_tests::{Directory, compile, installed, library, names_in};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// Dies at a step of the first open; when started again, runs the real agent.
const AGENT: &str = "#!/usr/bin/python3
import os, select, socket, sys
if os.path.exists('DEAD'): os.execv('AGENT', ['AGENT'] + sys.argv[1:])
def die_at(step):
    if step == os.environ['AGGIO_TEST_STEP']:
        os.mkdir('DEAD')
        os.kill(os.getpid(), 9)
die_at('start')
place = sys.argv[sys.argv.index('--dir') + 1]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(os.path.join(place, socket.gethostname() + '.sock'))
listener.listen()
os.write(3, b'R')
os.close(3)
die_at('ready')
select.select([listener], [], [])
die_at('connected')
one, _ = listener.accept()
die_at('accepted')
hello = one.recv(1 << 16)
die_at('greeted')
one.send(hello[:4] + bytes(1))
one.recv(1 << 16)
die_at('asked')
";

const STEPS: [&str; 6] = ["start", "ready", "connected", "accepted", "greeted", "asked"];

/// A coupling, and an agent that is killed at `step` the first time.
struct Scene {
    coupling: Coupling,
    scripts: Directory,
}

impl Scene {
    fn new(rules: &str, step: &str) -> Option<Self> {
        let coupling = Coupling::of(rules)?;
        let (scripts, agent) = (Directory::new(), library()?.with_file_name("aggio"));
        let path = scripts.path().join("agent");
        let dead = scripts.path().join("dead").display().to_string();
        let text = AGENT.replace("DEAD", &dead);
        let text = text.replace("AGENT", &agent.display().to_string());
        aggio_tests::write_program(&text, &path);
        let coupling = coupling.variable("AGGIO_TEST_AGENT", &path.display().to_string());
        let coupling = coupling.variable("AGGIO_TEST_STEP", step);
        Some(Self { coupling, scripts })
    }

    /// Starts a reader and waits until its agent is killed, then runs a writer, which must succeed.
    fn run(&self, reader: &str, writer: &str) -> Ended {
        let reader = self.coupling.start(reader);
        let began = Instant::now();
        while !self.scripts.path().join("dead").exists() {
            assert!(began.elapsed() < SOON, "no agent was killed: {reader:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.coupling.run(writer);
        reader.ends()
    }
}

/// Waits until the agent has ended by itself and nothing is left.
#[track_caller]
fn is_clean(place: &Directory) {
    let began = Instant::now();
    while !names_in(place.path()).is_empty() {
        assert!(began.elapsed() < SOON, "left: {:?}", names_in(place.path()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn surviving(place: &Directory) -> String {
    format!("ck.*:level=process:spill={}", place.path().display())
}

#[test]
fn a_program_goes_on_with_another_agent_at_every_step_of_its_first_open() {
    for step in STEPS {
        let place = Directory::new();
        let Some(scene) = Scene::new(&surviving(&place), step) else { return };
        let ended = scene.run("cat ck.1", "echo text > ck.1");
        assert!(ended.status.success() && ended.stdout == "text\n", "{step}: {ended:?}");
        is_clean(&place);
    }
}

/// It is unknown whether the agent has carried out a request that it has not answered.
#[test]
fn only_a_request_that_was_sent_fails_where_nothing_survives_the_agent() {
    for step in STEPS {
        let Some(scene) = Scene::new("ck.*", step) else { return };
        let ended = scene.run("cat ck.1", "echo text > ck.1");
        if step == "asked" {
            assert!(ended.stderr.contains("Input/output error"), "{ended:?}");
        } else {
            assert!(ended.status.success() && ended.stdout == "text\n", "{step}: {ended:?}");
        }
    }
}

#[test]
fn all_ranks_of_a_reader_go_on_when_the_agent_is_killed_while_it_starts() {
    for mpi in &installed() {
        let place = Directory::new();
        let Some(scene) = Scene::new(&surviving(&place), "start") else { return };
        let program = compile("coupled_mpi.c", mpi).path;
        let job = |how| format!("{} {} {how} ck.1 5 30 1000", ranks(mpi, 2), program.display());
        let ended = scene.run(&job("read columns"), &job("write rows"));
        let all: String = (1..=5).map(|number| format!("generation {number}: right\n")).collect();
        assert!(ended.status.success() && ended.stdout == all, "{}: {ended:?}", mpi.name);
        is_clean(&place);
    }
}
