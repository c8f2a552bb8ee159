//! Programs without MPI read files of programs on other hosts: only the bytes that they read are
//! fetched, and they find all bytes with every way of reading.

use aggio_tests::hosts::{CoupledHosts, Plan, end};
use aggio_tests::{Directory, Mpi, compile, installed};
use std::path::Path;
use std::process::{Child, Command};

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Kibibytes of a generation. Each of two hosts writes half of them.
const KIBIBYTES: u64 = 6 << 10;

/// The ways of reading of `coupled_reads.c`.
const WAYS: [&str; 15] = [
    "read", "sparse", "readv", "stream", "mmap", "fork", "exec", "vfork", "syscall", "aio",
    "sendfile", "passed", "holes", "again", "read",
];

/// Starts a job on the first two hosts that writes `generations` generations.
fn writers(place: &CoupledHosts, mpi: &Mpi, file: &str, generations: usize) -> Child {
    let (program, kibibytes) = (compile("coupled_parts.c", mpi), KIBIBYTES.to_string());
    let words = ["write", "contiguous", "random", file, &generations.to_string(), &kibibytes];
    place.spread(mpi, (1, 2), &program, &words).spawn().expect("mpirun")
}

/// Starts a program on a host that reads one generation in each of these ways.
fn reader(place: &CoupledHosts, mpi: &Mpi, host: &str, file: &str, ways: &[&str]) -> Child {
    let program = compile("coupled_reads.c", mpi);
    let mut command = place.cluster.launch().command(host);
    command.arg(&program.path).args([file, &KIBIBYTES.to_string()]).args(ways);
    place.prepare(command, mpi).spawn().expect("the program starts")
}

/// Returns the bytes that a host receives when a program reads in these ways, in generations.
fn received(place: &CoupledHosts, mpi: &Mpi, ways: &[&str]) -> f64 {
    let file = place.file(&format!("{}.dat", ways.concat()));
    let wrote = writers(place, mpi, &file, ways.len());
    place.succeeds("the writers", wrote);
    let before = place.cluster.traffic();
    let text = place.succeeds(&ways.concat(), reader(place, mpi, "node3", &file, ways));
    assert_eq!(text.matches(": right").count(), ways.len(), "{text}");
    let moved = place.cluster.traffic()[2] - before[2];
    moved.bytes_in as f64 / (ways.len() as u64 * KIBIBYTES * 1024) as f64
}

#[test]
fn all_ways_of_reading_find_what_two_other_hosts_wrote() {
    let Some(place) = CoupledHosts::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    for mpi in installed() {
        // The host of the owner has half of the bytes, the other one none.
        for host in ["node3", "node1"] {
            let file = place.file(&format!("{}{host}.dat", mpi.name));
            let wrote = writers(&place, &mpi, &file, WAYS.len());
            place.succeeds("the writers", wrote);
            let what = format!("{}, {host}", mpi.name);
            let text = place.succeeds(&what, reader(&place, &mpi, host, &file, &WAYS));
            for way in WAYS {
                assert!(text.contains(&format!("{way}: right")), "{what}: {text}");
            }
        }
    }
    place.leaves_nothing();
}

#[test]
fn a_program_that_reads_a_hundredth_of_a_file_gets_little_more() {
    let Some(place) = CoupledHosts::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    for mpi in installed().into_iter().take(1) {
        let few = received(&place, &mpi, &["sparse"]);
        assert!(few < 0.03, "{few} of a generation");
        let all = received(&place, &mpi, &["read", "mmap"]);
        assert!(all > 1.0 && all < 1.1, "{all} generations");
    }
    place.leaves_nothing();
}

#[test]
fn bytes_that_are_lost_are_errors_in_every_way_of_reading_and_never_zeros() {
    let Some(place) = CoupledHosts::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    for mpi in installed().into_iter().take(1) {
        for way in &WAYS[..WAYS.len() - 1] {
            let file = place.file(&format!("lost{way}.dat"));
            let wrote = writers(&place, &mpi, &file, 1);
            place.succeeds("the writers", wrote);
            place.cluster.output("node2", &["pkill", "-KILL", "-f", "agent --foregroun[d]"]);
            let (succeeded, text) = end(reader(&place, &mpi, "node3", &file, &[way]));
            assert!(!succeeded && !text.contains("is wrong"), "{way}: {text}");
            assert!(text.contains("node2"), "{way}: {text}");
        }
    }
}

/// Starts a shell script on a host, in the directory of the coupled files.
fn script(place: &CoupledHosts, mpi: &Mpi, host: &str, text: &str) -> Child {
    let mut command = place.cluster.launch().command(host);
    command.args(["sh", "-c", &format!("cd {} && {text}", place.files.path().display())]);
    place.prepare(command, mpi).spawn().expect("sh")
}

/// Makes a netCDF file of a kind with a large variable and a small one, and returns its name.
fn made(directory: &Directory, kind: &str) -> String {
    let (text, file) = (directory.path().join("in.cdl"), directory.path().join("made.cdf"));
    let values: Vec<String> = (1..=400_000).map(|number| format!("{number}.5")).collect();
    let cdl = format!(
        "netcdf made {{ dimensions: n = 400000; m = 3; variables: double large(n); int small(m);\n\
         data: large = {}; small = 7, 8, 9; }}",
        values.join(",\n")
    );
    std::fs::write(&text, cdl).expect("a directory of this test");
    let done = Command::new("ncgen").args(["-k", kind, "-o"]).arg(&file).arg(&text).status();
    assert!(done.expect("ncgen").success(), "{kind}");
    file.display().to_string()
}

#[test]
fn tools_of_netcdf_fetch_the_variables_that_they_print() {
    let Some(place) = CoupledHosts::new(Plan::new(2, 1), Path::new(AGENT)) else { return };
    let Some(mpi) = installed().into_iter().next() else { return };
    let directory = Directory::new();
    for kind in ["classic", "nc4"] {
        let copies = format!("cp {} out.nc", made(&directory, kind));
        place.succeeds(kind, script(&place, &mpi, "node1", &copies));
        let before = place.cluster.traffic();
        let text = place.succeeds(kind, script(&place, &mpi, "node2", "ncdump -v small out.nc"));
        assert!(text.contains("small = 7, 8, 9 ;"), "{kind}: {text}");
        let moved = (place.cluster.traffic()[1] - before[1]).bytes_in;
        assert!(moved < 320_000, "{kind}: {moved} bytes of 3,200,000");
    }
    place.leaves_nothing();
}

/// Commands that must print the same for a local file with the same bytes and time.
const TOOLS: [&str; 18] = [
    "cat FILE | sha256sum",
    "sha256sum < FILE",
    "cp FILE /dev/stdout | sha256sum",
    "dd if=FILE bs=7001 skip=100 count=20 2>/dev/null | sha256sum",
    "tail -c 100001 FILE | sha256sum",
    "head -c -100001 FILE | sha256sum",
    "gzip -c FILE | gzip -dc | sha256sum",
    "tar -cPf - FILE 2>/dev/null | tar -xOPf - | sha256sum",
    "grep -c -a Q FILE",
    "od -An -tx1 -j 1500000 -N 3000 FILE | sha256sum",
    "split -n 2/3 FILE | sha256sum",
    "cmp FILE LOCAL && echo same",
    "wc -lwc < FILE",
    "tac FILE | sha256sum",
    "stat -c %Y.%s FILE && head -c 5000 FILE | sha256sum && stat -c %Y.%s FILE",
    "perl -e 'open F, \"FILE\"; seek F, 1234567, 0; read F, $x, 500000; print $x' | sha256sum",
    "python3 -c \"$MAPS\" FILE",
    "python3 -c \"$PARTS\" FILE",
];

/// Python programs that these commands run.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "MAPS",
        "import hashlib, mmap, sys
file = open(sys.argv[1], 'rb')
print(hashlib.sha256(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).hexdigest())",
    ),
    (
        "PARTS",
        "import hashlib, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
parts = [os.pread(file, 999, size - part * 70001) for part in range(1, 40)]
print(hashlib.sha256(b''.join(parts)).hexdigest())",
    ),
];

/// Makes a file on disk with bytes that follow no simple pattern.
fn local_file(directory: &Directory) -> String {
    let bytes = (0..3_000_007_u32).map(|at| (at.wrapping_mul(at | 77) >> 9) as u8);
    let local = directory.path().join("local");
    std::fs::write(&local, bytes.collect::<Vec<u8>>()).expect("a directory of this test");
    local.display().to_string()
}

#[test]
fn what_a_program_writes_on_another_host_than_the_owner_stays_there_until_it_is_read() {
    let Some(place) = CoupledHosts::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    let Some(mpi) = installed().into_iter().next() else { return };
    let copies = "head -c 4000000 /dev/zero | tr '\\0' HOST > out.dat";
    for (host, letter) in [("node1", "a"), ("node2", "b")] {
        let writes = script(&place, &mpi, host, &copies.replace("HOST", letter));
        place.succeeds(host, writes);
    }
    let before = place.cluster.traffic();
    let reads = "for i in 1 2; do cat out.dat | md5sum; done";
    let text = place.succeeds("the reader", script(&place, &mpi, "node3", reads));
    let expected = ["a", "b"].map(|letter| {
        let words = format!("head -c 4000000 /dev/zero | tr '\\0' {letter} | md5sum");
        let output = Command::new("sh").args(["-c", &words]).output().expect("sh").stdout;
        String::from_utf8_lossy(&output).into_owned()
    });
    assert_eq!(text, expected.concat());
    let moved: Vec<_> =
        place.cluster.traffic().into_iter().zip(before).map(|(n, b)| n - b).collect();
    assert!(moved[0].bytes_in < 400_000, "the owner received what was read: {moved:?}");
    assert!(moved[0].bytes_out < 4_400_000 && moved[1].bytes_out < 4_400_000, "{moved:?}");
    place.leaves_nothing();
}

#[test]
fn tools_of_the_system_find_all_bytes() {
    let Some(place) = CoupledHosts::new(Plan::new(2, 1), Path::new(AGENT)) else { return };
    let Some(mpi) = installed().into_iter().next() else { return };
    let directory = Directory::new();
    let local = local_file(&directory);
    let writes = format!("for i in $(seq {}); do cp -p {local} out.dat; done", 2 * TOOLS.len());
    place.succeeds("the writer", script(&place, &mpi, "node1", &writes));
    for tool in TOOLS {
        let tool = tool.replace("LOCAL", &local);
        let of = |file: &str| tool.replace("FILE", file);
        let mut own = Command::new("sh");
        own.args(["-c", &of(&local)]).envs(PROGRAMS);
        let expected = own.output().expect("sh").stdout;
        let expected = String::from_utf8_lossy(&expected).replace(&local, "out.dat");
        let mut other = place.cluster.launch().command("node2");
        let directory = place.files.path().display();
        other.args(["sh", "-c", &format!("cd {directory} && {}", of("out.dat"))]).envs(PROGRAMS);
        let other = place.prepare(other, &mpi).spawn().expect("sh");
        let text = place.succeeds(&tool, other);
        assert!(!expected.is_empty() && text.contains(expected.trim()), "{tool}: {expected}{text}");
    }
}

/// Reads a file by many threads, at places of their own and at the common position.
const THREADS: &str = "import os, random, sys, threading
local = open(sys.argv[2], 'rb').read()
file = os.open(sys.argv[1], os.O_RDONLY)
wrong, parts = [], []
def places(seed):
    chance = random.Random(seed)
    for _ in range(100):
        at = chance.randrange(len(local))
        if os.pread(file, 5000, at) != local[at:at + 5000]: wrong.append(at)
def follows():
    while part := os.read(file, 10007): parts.append(part)
threads = [threading.Thread(target=places, args=(seed,)) for seed in range(6)]
threads += [threading.Thread(target=follows) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
cut = sorted(parts) == sorted(local[at:at + 10007] for at in range(0, len(local), 10007))
print('right' if cut and not wrong else 'wrong: %s %s' % (cut, wrong[:5]))";

#[test]
fn threads_that_read_at_the_same_time_find_all_bytes() {
    let Some(place) = CoupledHosts::new(Plan::new(2, 1), Path::new(AGENT)) else { return };
    let Some(mpi) = installed().into_iter().next() else { return };
    let directory = Directory::new();
    let local = local_file(&directory);
    for _ in 0..3 {
        let copies = format!("cp {local} out.dat");
        place.succeeds("the writer", script(&place, &mpi, "node1", &copies));
        let mut reads = place.cluster.launch().command("node2");
        reads.args(["python3", "-c", THREADS, &place.file("out.dat"), &local]);
        let reads = place.prepare(reads, &mpi).spawn().expect("sh");
        assert_eq!(place.succeeds("the threads", reads), "right\n");
    }
}

/// Reads the beginning of a file, and the rest when another file is there.
const LATER: &str = "import os, sys, time
local = open(sys.argv[2], 'rb').read()
file = os.open(sys.argv[1], os.O_RDONLY)
found = os.read(file, 5000)
open(sys.argv[3], 'w').close()
while not os.path.exists(sys.argv[4]): time.sleep(0.01)
try:
    while part := os.read(file, 100000): found += part
    print('all', found == local)
except OSError as error:
    print('error', error.errno, found == local[:len(found)])";

#[test]
fn a_reader_whose_agent_is_killed_gets_an_error_and_no_zeros() {
    let Some(place) = CoupledHosts::new(Plan::new(2, 1), Path::new(AGENT)) else { return };
    let Some(mpi) = installed().into_iter().next() else { return };
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let local = local_file(&directory);
    let copies = format!("cp {local} out.dat");
    place.succeeds("the writer", script(&place, &mpi, "node1", &copies));
    let mut reads = place.cluster.launch().command("node2");
    let (opened, goes_on) = (path("opened"), path("goes_on"));
    let words = ["python3", "-c", LATER, &place.file("out.dat"), &local, &opened, &goes_on];
    let reads = place
        .prepare(
            {
                reads.args(words);
                reads
            },
            &mpi,
        )
        .spawn()
        .expect("python3");
    while !Path::new(&opened).exists() {
        std::thread::yield_now();
    }
    place.cluster.output("node2", &["pkill", "-KILL", "-f", "agent --foregroun[d]"]);
    std::fs::write(&goes_on, "").expect("a directory of this test");
    let text = place.succeeds("the reader", reads);
    assert!(text.contains("error 5 True"), "{text}");
}
