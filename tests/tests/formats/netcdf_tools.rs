//! The programs of netCDF and netCDF4-python, unmodified: they read a set like the file for which
//! it stands, and leave the same files as without the library.

use agg_core::blob::{Container, is_container};
use aggio_tests::{Directory, Job, Mpi, compile, installed, library, repository, skip};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

type Variables<'a> = &'a [(&'a str, &'a str)];

/// Ways to read `out.nc`; their output files go to `$OUT`.
const READERS: &[&str] = &[
    "ncdump -k out.nc; ncdump out.nc",
    "ncdump -v temperature,label -b f out.nc",
    "for kind in nc3 nc6 cdf5; do nccopy -k $kind out.nc $OUT/copy.nc && cksum < $OUT/copy.nc; \
        done",
    "nccopy -4 -d 1 out.nc $OUT/packed.nc && ncdump -n same $OUT/packed.nc",
    "nccopy -V time,label -3 out.nc $OUT/part.nc && cksum < $OUT/part.nc",
    "nccopy -w out.nc $OUT/whole.nc && cksum < $OUT/whole.nc",
    "ncdump out.nc > $OUT/out.cdl && ncgen -k cdf5 -o $OUT/again.nc $OUT/out.cdl && cksum < \
        $OUT/again.nc",
];

const PYTHON: &str = "/usr/bin/python3 $REPOSITORY/tests/programs/netcdf4.py";

/// Ways to write; every file is compared.
const WRITERS: &[&str] = &[
    "for kind in classic 64-bit-offset 64-bit-data; do ncgen -k $kind -o $kind.nc c.cdl; ncdump \
        $kind.nc; done",
    "ncgen -k classic -o in.nc c.cdl; nccopy -3 in.nc out3.nc; nccopy -6 in.nc out6.nc; nccopy -k \
        cdf5 in.nc out5.nc; for kind in 3 6 5; do ncdump -k out$kind.nc; done",
    "ncgen -k nc6 -o in.nc c.cdl; nccopy -m 3000 -h 100 -r in.nc r.nc; nccopy -w -k cdf5 in.nc \
        w.nc; cmp w.nc in.nc; ls",
    "ncgen -k cdf5 -o a.nc c.cdl; nccopy -4 a.nc b.nc; nccopy -3 b.nc a.nc; ncdump a.nc; rm b.nc",
];

/// The settings under which writers are served.
const SERVED: &[Variables<'static>] = &[
    &[("AGGIO_POSIX", "*:close")],
    &[("AGGIO_BLOB", "*.nc")],
    &[("AGGIO_DEFER", "*"), ("AGGIO_HINTS", "*:aggio_tune=defer_always=true")],
    &[
        ("AGGIO_DEFER", "*"),
        ("AGGIO_HINTS", "*:aggio_tune=defer_always=true"),
        ("AGGIO_STAGE", "/dev/shm"),
    ],
    &[("AGGIO_DEFER", "*"), ("AGGIO_POSIX", "*:close")],
    &[("AGGIO_DEFER", "*"), ("AGGIO_BLOB", "*.nc")],
];

/// Whether netCDF's programs are there, and netCDF4-python; if the tests are required, they are.
fn are_there() -> (bool, bool) {
    let works = |command: &str| {
        let status = Command::new("/bin/sh").args(["-c", command]).output().expect("a shell");
        if !status.status.success() {
            skip(&format!("{command} fails (tests/setup.sh check)"));
        }
        status.status.success()
    };
    (
        works("command -v nccopy && command -v ncgen && command -v ncdump"),
        works("/usr/bin/python3 -c 'import netCDF4'"),
    )
}

/// Runs a script in a directory; its additional files go elsewhere.
fn shell(script: &str, place: &Path, variables: Option<Variables<'_>>) -> Output {
    let out = Directory::new();
    let mut command = Command::new("/bin/bash");
    command.args(["-o", "pipefail", "-c", script]).current_dir(place).env("OUT", out.path());
    let spool = out.path().join("spool");
    std::fs::create_dir(&spool).expect("a directory");
    command.env("REPOSITORY", repository()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("AGGIO_SPOOL", spool);
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY"] {
        command.env_remove(name);
    }
    if let Some(variables) = variables {
        command.env("LD_PRELOAD", library().expect("a library")).envs(variables.iter().copied());
    }
    command.output().unwrap_or_else(|error| panic!("{script}: {error}"))
}

#[track_caller]
fn same(native: &Output, served: &Output, what: &str) {
    let of = |output: &Output| (output.status.code(), output.stdout.clone());
    assert!(of(native) == of(served), "{what}\nnatively: {native:?}\nserved: {served:?}");
}

/// A directory with `out.nc` as `climate.c` leaves it.
fn climate(mpi: &Mpi, version: &str, variables: Variables<'_>) -> Directory {
    let directory = Directory::new();
    let job = Job::new(&compile("climate.c", mpi)).ranks(4);
    let job = job.argument(directory.path().join("out.nc")).argument(version);
    let job = variables.iter().fold(job, |job, (name, value)| job.variable(name, value));
    let finished = job.preload(library().filter(|_| !variables.is_empty()).as_deref()).run();
    assert!(finished.succeeded(), "{}", finished.report());
    directory
}

fn aggio() -> PathBuf {
    library().expect("a library").with_file_name("aggio")
}

/// A mount that ends with the input of its process.
struct Mount {
    child: Child,
    point: Directory,
}

impl Mount {
    fn of(backing: &Path) -> Option<Self> {
        let point = Directory::new();
        let mut child = Command::new(aggio())
            .args(["mount", "--until-end-of-input"])
            .args([backing, point.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("aggio starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it tells when it is ready");
        let mount = Mount { child, point };
        if line == "mounted\n" {
            return Some(mount);
        }
        skip("FUSE cannot be mounted here (/dev/fuse, fuse3; tests/setup.sh check)");
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The directory below is removed next, and must not be mounted then.
        let _ = self.child.wait();
    }
}

#[test]
fn programs_read_a_set_by_the_library_by_a_mount_and_merged() {
    let (true, has_python) = are_there() else { return };
    let (Some(_), Some(mpi)) = (library(), installed().into_iter().next()) else { return };
    let python = format!("{PYTHON} read out.nc");
    let readers: Vec<&str> =
        READERS.iter().copied().chain(has_python.then_some(python.as_str())).collect();
    for (version, rule) in
        [("1", "*.nc:e3sm:blobs=3"), ("2", "*.nc:e3sm"), ("5", "*.nc:e3sm-h5:blobs=2")]
    {
        let plain = climate(&mpi, version, &[]);
        let set = climate(&mpi, version, &[("AGGIO_BLOB", rule)]);
        assert!(!set.path().join("out.nc").exists() && set.path().join("out.nc.0000").exists());
        let merged = Directory::new();
        let mut merge = Command::new(aggio());
        merge.arg("merge").args([set.path(), merged.path()].map(|place| place.join("out.nc")));
        assert!(merge.status().is_ok_and(|status| status.success()));
        let mount = Mount::of(set.path());
        for reader in &readers {
            let native = shell(reader, plain.path(), None);
            let what = format!("CDF-{version}: {reader}");
            assert!(native.status.success() && native.stdout.len() > 10, "{what}: {native:?}");
            let served = shell(reader, set.path(), Some(&[("AGGIO_SETS", "on")]));
            same(&native, &served, &format!("by the library, {what}"));
            same(&native, &shell(reader, merged.path(), None), &format!("merged, {what}"));
            if let Some(mount) = &mount {
                let mounted = shell(reader, mount.point.path(), None);
                same(&native, &mounted, &format!("by a mount, {what}"));
            }
        }
    }
}

/// Every file of a directory with its bytes; those of a container are those of its file.
fn left(place: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(place).expect("a directory").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let bytes = |path: &Path| {
        if !is_container(path) {
            return std::fs::read(path).expect("a file");
        }
        let reader = Container::open(path).and_then(|it| it.reader()).expect("a container");
        let mut bytes = vec![0; reader.size() as usize];
        assert_eq!(reader.read_at(&mut bytes, 0).expect("its bytes"), bytes.len());
        bytes
    };
    let name = |path: &Path| path.strip_prefix(place).expect("below it").to_path_buf();
    paths.iter().map(|path| (name(path), bytes(path))).collect()
}

/// A directory with a description of a file of 100 KB. Its variables need no padding, because
/// netCDF-C pads with undefined bytes of memory.
fn described() -> Directory {
    let place = Directory::new();
    let values: Vec<String> = (0..12_480).map(|value| value.to_string()).collect();
    let text = format!(
        "netcdf c {{ dimensions: t = UNLIMITED ; y = 40 ; x = 52 ; variables: double v(t, y, x) ; \
            v:units = \"K\" ; \
         int time(t) ; char name(x) ; byte odd(t, x) ; data: time = 0, 1, 2, 3, 4, 5 ; name = \
         \"letters\" ; v = {} ; }}",
        values.join(", ")
    );
    std::fs::write(place.path().join("c.cdl"), text).expect("a file");
    place
}

#[test]
fn programs_that_write_leave_and_tell_what_they_do_without_the_library() {
    let (true, has_python) = are_there() else { return };
    let Some(_) = library() else { return };
    let python = format!("{PYTHON} write .");
    let writers = WRITERS.iter().copied().chain(has_python.then_some(python.as_str()));
    for writer in writers {
        let plain = described();
        let native = shell(writer, plain.path(), None);
        assert!(native.stderr.is_empty() && native.stdout.len() > 10, "{writer}: {native:?}");
        for variables in SERVED {
            let place = described();
            let served = shell(writer, place.path(), Some(variables));
            let what = format!("{variables:?}: {writer}");
            same(&native, &served, &what);
            let makes_containers = variables.iter().any(|(name, _)| *name == "AGGIO_BLOB");
            let entries = std::fs::read_dir(place.path()).expect("a directory").flatten();
            for path in entries.map(|entry| entry.path()).filter(|path| !path.ends_with("c.cdl")) {
                assert_eq!(is_container(&path), makes_containers, "{}: {what}", path.display());
            }
            let (wanted, found) = (left(plain.path()), left(place.path()));
            let names = |of: &[(PathBuf, Vec<u8>)]| {
                of.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&wanted), names(&found), "{what}");
            let other = wanted.iter().zip(&found).find(|(one, other)| one.1 != other.1);
            assert_eq!(other.map(|(one, _)| &one.0), None, "it has other bytes: {what}");
        }
    }
}
