//! Listings of directories with coupled files of several simulated hosts.

use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{Directory, library};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

struct Place {
    cluster: Cluster,
    meeting: Directory,
    files: Directory,
}

impl Place {
    fn new(hosts: u32) -> Option<Self> {
        library()?;
        let cluster = Plan::new(hosts, 1).start_if_possible(Path::new(AGENT))?;
        Some(Self { cluster, meeting: Directory::new(), files: Directory::new() })
    }

    /// Runs `script` with a shell on a host, in the directory of the files. Returns its output.
    #[track_caller]
    fn shell(&self, host: &str, script: &str) -> String {
        let library = library().expect("a library");
        let mut command: Command = self.cluster.launch().command(host);
        command
            .args(["timeout", "-s", "KILL", "60", "sh", "-c"])
            .arg(format!("cd {} && {script}", self.files.path().display()))
            .env("LD_PRELOAD", &library)
            .env("AGGIO_COUPLE", "*.dat")
            .env("AGGIO_COUPLE_DIR", self.meeting.path().join("couple"))
            .env("AGGIO_TEST_AGENT", library.with_file_name("aggio"))
            .stdin(Stdio::null());
        let output = command.output().expect("a shell");
        let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into();
        assert!(output.status.success(), "{host}: {script}: {text}");
        text
    }
}

#[test]
fn a_listing_has_the_coupled_files_of_all_nodes() {
    let Some(place) = Place::new(3) else { return };
    assert_eq!(place.shell("node2", "ls"), "", "nobody has written anything");
    assert!(!place.meeting.path().join("couple/node2.sock").exists(), "an agent for nothing");
    place.shell("node1", "mkdir sub && echo 1 > b.1.dat && echo 2 > a.dat && echo 3 > sub/x.dat");
    place.shell("node3", "echo 4 > c.dat && echo 5 > on_disk.txt");
    assert_eq!(place.shell("node2", "ls"), "a.dat\nb.1.dat\nc.dat\non_disk.txt\nsub\n");
    assert_eq!(place.shell("node2", "ls sub"), "x.dat\n");
    assert_eq!(place.shell("node3", "echo *.dat"), "a.dat b.1.dat c.dat\n");
    place.shell("node2", "echo 6 > d.dat");
    assert_eq!(place.shell("node1", "echo *.dat"), "a.dat b.1.dat c.dat d.dat\n");
    let tool = library().expect("a library").with_file_name("aggio");
    let script = format!("exec 3< c.dat; {} couple | head -n 1", tool.display());
    let told = place.shell("node1", &script);
    assert!(told.contains("4.0 KiB in copies of other nodes' files, other nodes by tcp"), "{told}");
    // A generation that its reader has read is gone, as on one node.
    assert_eq!(place.shell("node2", "cat a.dat b.1.dat; echo *.dat"), "2\n1\nc.dat d.dat\n");
}

#[test]
fn a_listing_goes_on_without_a_node_whose_agent_was_killed() {
    let Some(place) = Place::new(3) else { return };
    place.shell("node1", "echo 1 > a.dat");
    place.shell("node3", "echo 2 > c.dat");
    assert_eq!(place.shell("node2", "echo *"), "a.dat c.dat\n");
    place.cluster.output("node3", &["sh", "-c", "kill -9 $(pgrep -f 'agent --foregroun[d]')"]);
    let began = Instant::now();
    assert_eq!(place.shell("node2", "echo *"), "a.dat\n");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // The next writer becomes the owner.
    place.shell("node1", "echo 3 > c.dat");
    assert_eq!(place.shell("node2", "echo *; cat c.dat"), "a.dat c.dat\n3\n");
}

#[test]
fn a_listing_of_thousands_of_files_of_two_nodes_is_complete() {
    let Some(place) = Place::new(3) else { return };
    let some =
        |first: u32| format!("for i in $(seq {first} 2 1999); do : > a-long-name.$i.dat; done");
    place.shell("node1", &some(1));
    place.shell("node3", &some(2));
    let mut expected: Vec<String> = (1..2000).map(|i| format!("a-long-name.{i}.dat")).collect();
    expected.sort();
    let listed = place.shell("node2", "LC_ALL=C ls");
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_mount_shows_files_of_other_nodes() {
    let Some(place) = Place::new(2) else { return };
    let point = Directory::new();
    let tool = library().expect("a library").with_file_name("aggio");
    let (tool, point) = (tool.display(), point.path().display());
    place.shell("node1", "echo 1 > a.dat && seq 300000 > b.dat");
    let script = format!(
        "unset LD_PRELOAD; mkfifo {point}.end; \
         {tool} mount --until-end-of-input . {point} < {point}.end > {point}.out & \
         exec 3> {point}.end; until grep -qs mounted {point}.out; do sleep 0.05; done; \
         ls {point}; cat {point}/a.dat; seq 300000 | cmp - {point}/b.dat; \
         exec 3>&-; wait; rm {point}.end {point}.out"
    );
    assert_eq!(place.shell("node2", &script), "a.dat\nb.dat\n1\n");
    // A mount does not count as a reader.
    assert_eq!(place.shell("node2", "cat a.dat"), "1\n");
}
