//! Programs that exchange files in memory where descriptors are few.

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
