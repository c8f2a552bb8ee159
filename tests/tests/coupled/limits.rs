//! Programs exchange files in memory when descriptors are few, or the agent cannot be reached.

use aggio_tests::coupling::Coupling;

const CROWD: &str = "/usr/bin/python3 $PROGRAMS/coupled_crowd.py $AGGIO_COUPLE_DIR";

#[test]
fn an_agent_has_as_many_descriptors_as_the_system_allows() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    coupling.run("ulimit -Sn 100; echo text > ck.1");
    let printed = coupling.run(&format!("{CROWD} 300 cat ck.1"));
    assert_eq!(printed, "served idle\ntext\n");
}

#[test]
fn an_agent_without_descriptors_refuses_programs_and_does_not_spin() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    coupling.run("ulimit -n 64; echo text > ck.1");
    assert_eq!(coupling.run(&format!("{CROWD} 300")), "refused idle\n");
    assert_eq!(coupling.run("cat ck.1"), "text\n", "it serves those that come later");
}

#[test]
fn an_open_for_writing_that_cannot_be_followed_is_refused() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    let python = "import errno, os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 70000), hard))
one = os.open('ck.1', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(one, b'text')
all, refused = [one], 0
try:
    while len(all) < 5000:
        all.append(os.open('ck.1', os.O_WRONLY))
except OSError as error:
    refused = error.errno
print(len(all), errno.errorcode[refused])
reads = os.open('ck.1', os.O_RDONLY)
print(os.read(reads, 9).decode())
for fd in all: os.close(fd)";
    std::fs::write(coupling.path().join("many.py"), python).expect("a script");
    assert_eq!(coupling.run("/usr/bin/python3 many.py"), "4096 EMFILE\ntext\n");
    assert_eq!(coupling.run("cat ck.1"), "text");
}

#[test]
fn a_directory_is_not_listed_without_coupled_files_if_the_agent_cannot_be_asked() {
    let Some(coupling) = Coupling::of("ck.*") else { return };
    coupling.run("echo text > ck.1");
    // Others may now enter the directory of the agent, so clients do not trust the agent.
    for list in ["ls", "/usr/bin/python3 -c 'import os; os.listdir(\".\")'"] {
        let script = format!("chmod 755 $AGGIO_COUPLE_DIR; {list} 2>&1; echo $?");
        let printed = coupling.run(&format!("{script}; chmod 700 $AGGIO_COUPLE_DIR"));
        assert!(printed.contains("error") && !printed.ends_with("\n0\n"), "{printed}");
    }
    assert_eq!(coupling.run("ls"), "ck.1\n");
}

#[test]
fn a_stored_file_is_seen_when_its_agent_has_ended() {
    let Some(coupling) = Coupling::of("ck.*:persist=yes") else { return };
    coupling.run("echo text > ck.1; cat ck.1");
    coupling
        .run("until $AGGIO_TEST_AGENT agent --quit --dir $AGGIO_COUPLE_DIR; do sleep 0.1; done");
    assert_eq!(coupling.on_disk(), ["ck.1"]);
    coupling.run("test -e ck.1 && test $(stat -c %s ck.1) = 5");
}
