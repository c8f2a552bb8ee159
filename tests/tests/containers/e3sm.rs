//! netCDF files of MPI programs that become blobs of E3SM-IO when they are closed.

use agg_core::blob::is_container;
use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{
    Directory, Family, Finished, Job, Mpi, Program, compile, factor, installed, installed_for,
    library, names_in, read_container, read_set, repository, skip,
};
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "out.nc";

/// The results of a run of `climate.c`, with `words` as arguments besides the file.
struct Left {
    directory: Directory,
    finished: Finished,
}

impl Left {
    fn of(
        mpi: &Mpi,
        words: &[&str],
        variables: &[(&str, &str)],
        cluster: Option<&Cluster>,
    ) -> Self {
        let directory = Directory::new();
        let mut job = Job::new(&compile("climate.c", mpi)).ranks(4);
        if let Some(cluster) = cluster {
            job = job.on(cluster);
            if mpi.family == Family::OpenMpi {
                job = job.variable("OMPI_MCA_osc", "pt2pt");
            }
        }
        job = job.argument(directory.path().join(NAME));
        job = words.iter().fold(job, |job, word| job.argument(word));
        job = variables.iter().fold(job, |job, (name, value)| job.variable(name, value));
        let served = !variables.is_empty();
        let finished = job.preload(library().filter(|_| served).as_deref()).run();
        assert!(finished.succeeded(), "{}, {words:?}: {}", mpi.name, finished.report());
        Left { directory, finished }
    }

    /// With every file by this rule of `AGGIO_BLOB`.
    fn by(mpi: &Mpi, words: &[&str], rule: &str) -> Self {
        let rule = format!("*.nc:{rule}");
        Left::of(mpi, words, &[("AGGIO_BLOB", &rule), ("AGGIO_REPORT", "json")], None)
    }

    fn natively(mpi: &Mpi, words: &[&str]) -> Vec<u8> {
        let left = Left::of(mpi, words, &[], None);
        std::fs::read(left.path()).expect("the file that the program wrote")
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }

    fn names(&self) -> Vec<String> {
        names_in(self.directory.path())
    }

    /// The end of the container, from the report.
    fn sealed(&self) -> &str {
        let told = self.finished.stderr.split("\"sealed\":\"").nth(1);
        told.and_then(|rest| rest.split('"').next()).unwrap_or_else(|| {
            panic!("the report tells nothing: {}", self.finished.report());
        })
    }

    /// The file that the set stands for, by our own reader.
    fn whole(&self) -> Vec<u8> {
        read_set(&self.path()).expect("a set")
    }

    /// The same by a reader that shares nothing with ours, and takes places from the file that is
    /// compared.
    fn rebuilt(&self, native: &[u8]) -> Vec<u8> {
        let places = self.directory.path().join("places");
        std::fs::write(&places, native).expect("a file");
        let mut reader = Command::new("python3");
        reader.arg(repository().join("tests/netcdf_reader.py")).arg("canonical");
        let output = reader.arg(self.path()).arg(&places).output().expect("python3 starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{NAME}.{number:04}")).collect()
}

/// Runs a tool of the format on a file; it must be content.
fn accept(tool: &[&str], path: &Path) {
    match Command::new(tool[0]).args(&tool[1..]).arg(path).output() {
        Ok(output) => assert!(
            output.status.success(),
            "{tool:?} {}: {}{}",
            path.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(_) => skip(&format!("{} is missing (tests/setup.sh check)", tool[0])),
    }
}

/// All ways to ask for blobs, and the number of files of 4 ranks on one node.
const RULES: [(&str, usize); 4] =
    [("e3sm", 1), ("e3sm:blobs=3", 3), ("e3sm:blobs=9:nocrc", 4), ("e3sm-h5:blobs=2", 2)];

#[test]
fn blobs_stand_for_the_file_that_is_written_natively() {
    if library().is_none() {
        return;
    }
    for (row, version) in ["1", "2", "5"].into_iter().enumerate() {
        for mpi in installed_for(row) {
            let native = Left::natively(&mpi, &[version]);
            for (rule, files) in RULES {
                let left = Left::by(&mpi, &[version], rule);
                let what = format!("{}, CDF-{version}, {rule}", mpi.name);
                assert_eq!(left.names(), numbered(files), "{what}: {}", left.finished.report());
                assert_eq!(left.sealed(), format!("became {files} blobs"), "{what}");
                assert!(left.whole() == native, "{what}");
                assert!(left.rebuilt(&native) == native, "{what}, by another reader");
            }
        }
    }
}

#[test]
fn tools_of_the_formats_accept_the_blobs() {
    if library().is_none() {
        return;
    }
    let Some(mpi) = installed().into_iter().next() else { return };
    let left = Left::by(&mpi, &["5"], "e3sm:blobs=4");
    for name in numbered(4) {
        let path = left.directory.path().join(name);
        [&["ncvalidator", "-q"][..], &["ncdump"]].iter().for_each(|tool| accept(tool, &path));
    }
    let left = Left::by(&mpi, &["5"], "e3sm-h5:blobs=2");
    numbered(2).iter().for_each(|name| {
        accept(&["h5dump", "-H"], &left.directory.path().join(name));
    });
}

#[test]
fn what_blobs_cannot_express_stays_a_container_and_the_report_says_why() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let native = Left::natively(&mpi, &["5", "moving"]);
        let left = Left::by(&mpi, &["5", "moving"], "e3sm");
        assert_eq!(left.names(), [NAME]);
        let why = left.sealed();
        assert!(why.starts_with("stays a container: ") && why.contains("temperature"), "{why}");
        assert!(is_container(&left.path()));
        assert!(read_container(&left.path()) == native, "{}", mpi.name);
    }
}

#[test]
fn who_wrote_what_is_known_whatever_hints_ask_for() {
    if library().is_none() {
        return;
    }
    // Borders of such windows lie inside of elements.
    let hints = "*:romio_cb_write=enable:cb_buffer_size=1001";
    for mpi in installed() {
        let native = Left::natively(&mpi, &["1"]);
        for (rule, files) in RULES {
            let rule = format!("*.nc:{rule}");
            let variables = [("AGGIO_BLOB", &*rule), ("AGGIO_HINTS", hints)];
            let left = Left::of(&mpi, &["1"], &variables, None);
            let what = format!("{}, {rule}: {}", mpi.name, left.finished.report());
            assert_eq!(left.names(), numbered(files), "{what}");
            assert!(left.whole() == native, "{what}");
            let plain = Left::of(&mpi, &["1"], &variables[..1], None);
            for name in numbered(files) {
                let bytes = |left: &Left| std::fs::read(left.directory.path().join(&name));
                assert!(bytes(&left).expect("a blob") == bytes(&plain).expect("a blob"), "{what}");
            }
        }
    }
}

#[test]
fn the_end_of_the_program_says_why_there_is_no_set_and_what_to_do() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        for (way, reason, cure) in [
            (
                "moving",
                "temperature: not every record was written by the same writers",
                "aggio merge ",
            ),
            ("unclosed", "the program did not close it", "aggio merge --to e3sm "),
        ] {
            let left = Left::by(&mpi, &["5", way], "e3sm");
            let told =
                |line: &&str| line.contains("stays a container") && !line.contains("\"sealed\"");
            let lines: Vec<&str> = left.finished.stderr.lines().filter(told).collect();
            let what = format!("{}, {way}: {}", mpi.name, left.finished.report());
            let [line] = lines[..] else { panic!("one line: {what}") };
            let path = left.path().display().to_string();
            for part in [reason, cure, &path, "out.nc: stays a container: "] {
                assert!(line.contains(part), "{part}: {what}");
            }
            assert!(is_container(&left.path()), "{what}");
        }
    }
}

#[test]
fn a_set_that_is_opened_again_to_add_a_record_stays_a_set() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let native = Left::natively(&mpi, &["1", "late"]);
        for (rule, files) in RULES {
            let left = Left::by(&mpi, &["1", "late"], rule);
            let what = format!("{}, {rule}: {}", mpi.name, left.finished.report());
            assert_eq!(left.names(), numbered(files), "{what}");
            assert!(left.whole() == native, "{what}");
            assert!(left.rebuilt(&native) == native, "{what}");
        }
    }
}

/// Runs a shell script beside the file, with or without the rule that makes sets of files.
fn shell(left: &Left, script: &str, rule: bool) -> std::process::Output {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).current_dir(left.directory.path());
    command.env("LD_PRELOAD", library().expect("the library")).env("AGGIO_SETS", "on");
    if rule {
        command.env("AGGIO_BLOB", "*.nc:e3sm");
    }
    command.output().expect("a shell starts")
}

#[test]
fn programs_without_mpi_change_and_remove_a_set_where_a_rule_makes_sets() {
    if library().is_none() {
        return;
    }
    let Some(mpi) = installed().into_iter().next() else { return };
    let native = Left::natively(&mpi, &["5"]);
    let done = [
        ("printf tail >> out.nc; cat out.nc", [&native[..], b"tail"].concat()),
        ("truncate -s 100 out.nc; cat out.nc", native[..100].to_vec()),
        ("truncate -s 0 out.nc; wc -c < out.nc", b"0\n".to_vec()),
        ("echo new > out.nc; cat out.nc", b"new\n".to_vec()),
        ("test -w out.nc && rm out.nc; ls", Vec::new()),
        ("printf x >> out.nc; rm out.nc; ls", Vec::new()),
    ];
    for (script, wanted) in done {
        let left = Left::by(&mpi, &["5"], "e3sm:blobs=2");
        let output = shell(&left, script, true);
        assert!(output.stdout == wanted, "{script}: {output:?}");
    }
    let left = Left::by(&mpi, &["5"], "e3sm:blobs=2");
    for script in
        ["printf tail >> out.nc", "truncate -s 0 out.nc", "rm -f out.nc", "test -w out.nc"]
    {
        let output = shell(&left, script, false);
        assert!(!output.status.success(), "{script}: {output:?}");
    }
    assert_eq!(left.names(), numbered(2));
    assert!(left.whole() == native);
}

#[test]
fn elements_that_nobody_writes_and_writes_that_wait_change_nothing() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        // Natively Open MPI leaves anything where nobody writes.
        let plain = Left::of(&mpi, &["2", "gap"], &[("AGGIO_STRICT", "1")], None);
        let plain = std::fs::read(plain.path()).expect("a file");
        for waiting in ["", "*"] {
            let variables = [("AGGIO_BLOB", "*:e3sm:blobs=2"), ("AGGIO_DEFER", waiting)];
            let left = Left::of(&mpi, &["2", "gap"], &variables, None);
            assert_eq!(left.names(), numbered(2), "{}", left.finished.report());
            assert!(left.whole() == plain, "{}, waiting: {waiting}", mpi.name);
        }
    }
}

#[test]
fn each_node_has_a_blob_of_its_own() {
    if library().is_none() {
        return;
    }
    let agent = Path::new(env!("CARGO_BIN_EXE_aggio-test-host"));
    let Some(cluster) = Plan::new(3, 2).start_if_possible(agent) else { return };
    // With one aggregator two of the nodes have none.
    let one = "*:romio_cb_write=enable:cb_nodes=1:cb_buffer_size=1001";
    for mpi in installed() {
        let native = Left::natively(&mpi, &["5"]);
        for hints in ["", one] {
            let variables = [("AGGIO_BLOB", "*:e3sm"), ("AGGIO_HINTS", hints)];
            let left = Left::of(&mpi, &["5"], &variables, Some(&cluster));
            let what = format!("{}, {hints}: {}", mpi.name, left.finished.report());
            assert_eq!(left.names(), numbered(3), "{what}");
            assert!(left.whole() == native, "{what}");
        }
    }
}

/// Words for the program, and the layout of its blobs.
type Way<'a> = (&'a [&'a str], &'a str);

/// Runs the program on two ranks in `directory`; rank 0 is killed at its system call `number`.
fn run_and_kill(mpi: &Mpi, directory: &Path, way: Way<'_>, number: Option<u64>) -> Finished {
    let program = compile("climate.c", mpi);
    let killer = PathBuf::from(env!("CARGO_BIN_EXE_aggio-test-kill"));
    let killer = Program { path: killer, mpi: program.mpi.clone() };
    let job = match number {
        None => Job::new(&program),
        Some(number) => {
            let job = Job::new(&killer).argument("--rank").argument("0");
            job.argument(number.to_string()).argument(&program.path)
        }
    };
    let job = job.ranks(2).argument(directory.join(NAME));
    let job = way.0.iter().fold(job, |job, word| job.argument(word));
    let rule = format!("*.nc:{}:blobs=2", way.1);
    let job = job.variable("AGGIO_BLOB", &rule).variable("AGGIO_REPORT", "json");
    job.preload(library().as_deref()).run()
}

/// The file as it stands after a kill: the container if there is one, else the set, else nothing.
fn after_kill(directory: &Path) -> Option<Vec<u8>> {
    let path = directory.join(NAME);
    if is_container(&path) {
        return Some(read_container(&path));
    }
    let first = directory.join(format!("{NAME}.0000"));
    first.exists().then(|| read_set(&path).expect("a set"))
}

/// Kills rank 0 at so many calls of the last third of a job, those that this MPI has a turn at
/// ([`installed_for`]). Its file can be read, and a set has the bytes that the job writes, or those
/// that it had written when it closed the file before; the job can be run again.
fn kill(mpi: &Mpi, way: Way<'_>, jobs: u64) {
    let native = Left::natively(mpi, way.0);
    let is_late = way.0.contains(&"late");
    // The number of records grows with the last one.
    let is_older = |bytes: &[u8]| bytes.len() > 8 && native[8..].starts_with(&bytes[8..]);
    let is_whole = |bytes: &[u8]| *bytes == native || is_late && is_older(bytes);
    let directory = Directory::new();
    let counted = run_and_kill(mpi, directory.path(), way, Some(u64::MAX));
    let said = counted.stdout.split("ended after ").nth(1).unwrap_or_default();
    let calls: u64 = said.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!(calls > 200, "{}", counted.report());
    let has_turn =
        |job: &u64| installed_for(*job as usize).iter().any(|turn| turn.name == mpi.name);
    for job in (0..jobs).filter(has_turn) {
        // A set is made in the last calls, before those that end MPI, which vary in number.
        let number = calls - calls * job / jobs / 3;
        let directory = Directory::new();
        let finished = run_and_kill(mpi, directory.path(), way, Some(number));
        let what =
            format!("{}, {way:?}, call {number} of {calls}: {}", mpi.name, finished.report());
        assert!(finished.status.is_some(), "a rank is left waiting: {what}");
        let is_set = !directory.path().join(NAME).exists();
        let bytes = after_kill(directory.path());
        if is_set {
            assert!(bytes.is_none_or(|bytes| is_whole(&bytes)), "a set is whole: {what}");
        }
        let again = run_and_kill(mpi, directory.path(), way, None);
        assert!(again.succeeded(), "{what}\nagain: {}", again.report());
        assert!(after_kill(directory.path()) == Some(native.clone()), "{what}");
        let names = names_in(directory.path());
        let seen = names.iter().filter(|name| !name.starts_with('.')).count();
        // A set becomes a container if its header is overwritten so that there is a record too
        // many.
        let expected = if is_late && directory.path().join(NAME).exists() { 3 } else { 2 };
        assert_eq!(seen, expected, "{what}\nagain: {names:?}: {}", again.report());
    }
}

/// How many jobs are killed: `few` in `make check`, `many` times the factor in longer runs.
fn jobs(few: u64, many: u64) -> u64 {
    if factor() > 1 { many * factor() as u64 } else { few }
}

#[test]
fn a_kill_leaves_the_container_or_the_whole_set_and_the_job_can_be_run_again() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        kill(&mpi, (&["5"], "e3sm"), jobs(8, 24));
    }
}

#[test]
fn a_kill_while_a_set_is_changed_leaves_the_old_or_the_new_one_or_a_container() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        for layout in ["e3sm", "e3sm-h5"] {
            kill(&mpi, (&["1", "late"], layout), jobs(2, 4));
        }
    }
}
