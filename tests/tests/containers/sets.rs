//! Sets of netCDF files are the one file that they stand for, to unmodified programs
//! (`AGGIO_SETS`).

use aggio_formats::files::Folder;
use aggio_formats::{Options, Set};
use aggio_tests::{
    Directory, Finished, Job, Mpi, Program, compile, factor, installed, library, netcdf_samples,
    repository, skip,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Sets of E3SM-IO that stand for one and the same file.
const BLOBS: [&str; 5] =
    ["blob1_h1.nc", "blob4_h1.nc", "blobq_h1.nc", "h5blob1_h1.h5", "h5blob4_h1.h5"];

struct Samples(Directory);

impl Samples {
    fn new() -> Self {
        Samples(netcdf_samples())
    }

    fn e3sm(&self, name: &str) -> PathBuf {
        self.0.path().join("e3sm").join(name)
    }

    fn subfiling(&self, name: &str) -> PathBuf {
        self.0.path().join("pnetcdf_subfiling").join(name)
    }

    /// Every file with its content.
    fn all(&self) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
        aggio_tests::snapshot(self.0.path())
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.e3sm(name)).expect("a file of the samples");
    }
}

/// Runs `sets.c` on four ranks.
fn ranks(mpi: &Mpi, sets: Option<&str>, arguments: &[&Path]) -> Finished {
    let mut job = Job::new(&compile("sets.c", mpi)).ranks(4).preload(library().as_deref());
    if let Some(sets) = sets {
        job = job.variable("AGGIO_SETS", sets);
    }
    for argument in arguments {
        job = job.argument(argument);
    }
    job.run()
}

#[track_caller]
fn content(finished: &Finished, what: &str) {
    assert!(
        finished.succeeded() && finished.stdout.contains("ok"),
        "{what}: {}",
        finished.report()
    );
}

#[test]
fn mpi_programs_read_a_set_as_the_canonical_file_and_cannot_change_it() {
    let Some(_) = library() else { return };
    let samples = Samples::new();
    let before = samples.all();
    for mpi in installed() {
        for name in BLOBS {
            let finished = ranks(&mpi, None, &[&samples.e3sm(name), &samples.e3sm("can_h1.nc")]);
            content(&finished, &format!("{} {name}", mpi.name));
            assert!(finished.stderr.contains("aggio merge"), "{}", finished.stderr);
        }
    }
    assert!(samples.all() == before, "a file was changed, or another one made");
}

#[test]
fn a_master_of_subfiles_is_its_set_only_where_it_is_named() {
    let Some(_) = library() else { return };
    let samples = Samples::new();
    for name in ["sub0.nc", "sub2.nc"] {
        let (master, whole) = (samples.subfiling(name), samples.subfiling("whole"));
        let (folder, base) = Folder::of(&master).expect("a name");
        let set = Set::find(&folder, &base).expect("it can be read").expect("a set");
        let file = set.open(&Options::default()).expect("a whole set");
        let mut bytes = vec![0; file.size() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).expect("its bytes"), bytes.len());
        assert!(bytes != std::fs::read(&master).expect("the master"));
        std::fs::write(&whole, bytes).expect("a file");
        for mpi in installed() {
            let named = ranks(&mpi, Some("*.h5,sub?.nc"), &[&master, &whole]);
            content(&named, &format!("{} {name}", mpi.name));
        }
    }
    // Otherwise it is the file that it is.
    let mpi = installed().remove(0);
    for sets in [None, Some("on"), Some("other.nc")] {
        let others = Samples::new();
        let master = others.subfiling("sub0.nc");
        let size = master.metadata().expect("the master").len();
        let finished = ranks(&mpi, sets, &[&master, &samples.subfiling("whole")]);
        let told = format!("the size is {size}, not");
        assert!(finished.stderr.contains(&told), "{sets:?}: {}", finished.report());
    }
}

#[test]
fn a_missing_file_of_a_set_is_an_error_that_names_it() {
    let Some(_) = library() else { return };
    for missing in ["blob4_h1.nc.0002", "blob4_h1.nc.0000", "h5blob4_h1.h5.0003"] {
        let samples = Samples::new();
        samples.remove(missing);
        let set = missing.rsplit_once('.').expect("a number").0;
        for mpi in installed() {
            let arguments = [&samples.e3sm(set), Path::new("refused"), Path::new(missing)];
            content(&ranks(&mpi, None, &arguments), &format!("{} {missing}", mpi.name));
        }
    }
}

#[test]
fn without_the_variable_there_is_nothing_of_that_name() {
    let Some(_) = library() else { return };
    let samples = Samples::new();
    for mpi in installed() {
        for sets in ["off", "0", "other.nc"] {
            let arguments = [&samples.e3sm("blob4_h1.nc"), Path::new("none")];
            content(&ranks(&mpi, Some(sets), &arguments), &format!("{} {sets}", mpi.name));
        }
    }
}

/// Runs a script of the shell in a directory; with `variables`, under the library.
fn shell(script: &str, place: &Path, variables: Option<&[(&str, &str)]>) -> Output {
    let mut command = Command::new("/bin/bash");
    command.args(["-o", "pipefail", "-c", script]).current_dir(place);
    for name in ["LD_PRELOAD", "AGGIO_TESTS", "AGGIO_LIBRARY", "AGGIO_POSIX", "AGGIO_BLOB"] {
        command.env_remove(name);
    }
    if let Some(variables) = variables {
        command.env("LD_PRELOAD", library().expect("a library"));
        command.envs(variables.iter().copied());
    }
    command.output().unwrap_or_else(|error| panic!("{script}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const ON: &[(&str, &str)] = &[("AGGIO_SETS", "on")];

/// Ways to read a file `$1`; a file `copy` may be made.
const READERS: &[&str] = &[
    "cat $1",
    "cat < $1",
    "md5sum $1",
    "cp $1 copy && cat copy",
    "cp --preserve=timestamps,mode --sparse=always $1 copy && cat copy && stat -c '%s %a' copy",
    "dd if=$1 bs=1000 status=none",
    "dd if=$1 bs=1000 skip=31 count=77 iflag=fullblock status=none",
    "tail -c 100000 $1; head -c 100001 $1; wc -c $1; wc -c < $1",
    "od -A d -t x1 -j 20000 -N 5000 $1",
    "stat -c '%s %a %h %F %u' $1; test -r $1 -a -f $1 -a -s $1 && ls $1",
    "exec 7< $1; head -c 10 <&7; tail -c 50 /dev/fd/7; python3 -c 'import os; print(os.pread(7, \
        99, 5000))'",
    "python3 -c \"print(open('$1', 'rb').read())\"",
    "python3 -c \"import shutil; shutil.copyfile('$1', 'copy')\" && cat copy",
    "tar -c $1 | tar -xO",
    "gzip -c $1 | gzip -d",
    "cmp $1 $1 && sort $1 | cksum",
    "ncdump $1",
    "ncdump -k $1; ncdump -h $1; nccopy -k nc6 $1 copy && ncdump -h -n same copy",
    "ncdump nothing-of-this-name; ls $1.0007",
];

#[test]
fn programs_without_mpi_read_a_set_as_they_read_the_canonical_file() {
    let Some(_) = library() else { return };
    let (samples, plain) = (Samples::new(), Directory::new());
    let set = samples.e3sm("").join("");
    for name in BLOBS {
        std::fs::copy(samples.e3sm("can_h1.nc"), plain.path().join(name)).expect("a copy");
        // One set by all programs, the others by some: they differ below the level that programs
        // see.
        let readers = READERS.iter().filter(|reader| {
            name == "blob4_h1.nc" || reader.contains("md5sum") || reader.contains("ncdump $1")
        });
        for reader in readers {
            let script = reader.replace("$1", name);
            let native = shell(&script, plain.path(), None);
            let served = shell(&script, &set, Some(ON));
            let same =
                (native.status.code(), &native.stdout) == (served.status.code(), &served.stdout);
            assert!(same, "{script}: {:?}: {}", served.status, text(&served.stderr));
        }
    }
    let before = samples.e3sm("can_h1.nc");
    let script = format!("md5sum < {}", before.display());
    let canonical = shell(&script, &set, None).stdout;
    for (variables, sees) in [
        (&[("AGGIO_BLOB", "/nowhere/at/all")][..], true),
        (&[("AGGIO_SETS", "blob4*")], true),
        (&[("AGGIO_SETS", "h5*")], false),
        (&[("AGGIO_SETS", "off")], false),
        (&[("AGGIO_BLOB", "/nowhere/at/all"), ("AGGIO_SETS", "off")], false),
        (&[("AGGIO_POSIX", "*:close")], false),
        (&[], false),
    ] {
        let served = shell("md5sum < blob4_h1.nc", &set, Some(variables));
        assert_eq!(served.stdout == canonical, sees, "{variables:?}: {}", text(&served.stderr));
        assert_eq!(served.status.success(), sees, "{variables:?}");
    }
}

#[test]
fn every_call_on_a_set_gives_the_bytes_of_the_canonical_file_and_none_changes_it() {
    let Some(_) = library() else { return };
    let samples = Samples::new();
    let before = samples.all();
    let script = repository().join("tests/programs/sets.py");
    for seed in 0..2 * factor() {
        let name = BLOBS[seed % BLOBS.len()];
        let command = format!("python3 {} {name} can_h1.nc {seed}", script.display());
        let served = shell(&command, &samples.e3sm(""), Some(ON));
        assert_eq!(text(&served.stdout), "ok\n", "{name} {seed}: {}", text(&served.stderr));
        assert!(text(&served.stderr).contains("aggio merge"), "{}", text(&served.stderr));
    }
    assert!(samples.all() == before, "a file was changed, or another one made");
}

#[test]
fn programs_that_would_change_a_set_are_refused() {
    let Some(_) = library() else { return };
    let samples = Samples::new();
    let before = samples.all();
    for change in [
        "echo x > $1",
        "echo x >> $1",
        "rm -f $1",
        "mv -f $1 other",
        "mv -f can_h1.nc $1",
        "ln can_h1.nc $1",
        "cp -f can_h1.nc $1",
        "truncate -s 0 $1",
        "touch $1",
        "chmod 600 $1",
        "dd if=/dev/zero of=$1 conv=notrunc count=1",
        "ncks -O can_h1.nc $1 2>&1 || nccopy can_h1.nc $1",
    ] {
        let script = change.replace("$1", "blob4_h1.nc");
        let served = shell(&script, &samples.e3sm(""), Some(ON));
        let told = text(&served.stderr);
        assert!(!served.status.success(), "{script} succeeded");
        // A program that asks for a new file gets the error that there is one.
        let is_clear = told.contains("aggio merge") || told.contains("File exists");
        assert!(is_clear, "{script}: {told}");
        assert!(samples.all() == before, "{script} changed a file, or made one");
    }
}

#[test]
fn an_incomplete_set_gives_no_bytes_to_programs_without_mpi_but_an_error_that_names_the_file() {
    let Some(_) = library() else { return };
    for damaged in ["blob4_h1.nc.0002", "blob4_h1.nc.0000", "h5blob4_h1.h5.0003"] {
        for is_missing in [true, false] {
            let samples = Samples::new();
            let path = samples.e3sm(damaged);
            if is_missing {
                samples.remove(damaged);
            } else {
                let file = std::fs::File::options().write(true).open(&path).expect("a file");
                file.set_len(path.metadata().expect("a file").len() / 2).expect("a shorter one");
            }
            let name = damaged.rsplit_once('.').expect("a number").0;
            for reader in ["cat $1", "stat $1", "cp $1 copy", "ncdump $1", "dd if=$1"] {
                let script = reader.replace("$1", name);
                let served = shell(&script, &samples.e3sm(""), Some(ON));
                let told = text(&served.stderr);
                assert!(!served.status.success() && served.stdout.is_empty(), "{script}: {told}");
                let names_it = told.contains(damaged) || damaged.ends_with("0000") && !is_missing;
                assert!(names_it, "{damaged}, {is_missing}: {script}: {told}");
            }
        }
    }
}

#[test]
fn files_that_only_look_like_those_of_a_set_are_in_nobodys_way() {
    let Some(_) = library() else { return };
    let place = Directory::new();
    let make = "mkdir a.0000 a.0001; mkfifo b.0000; touch c.0000; seq 100000 > d.0000; ln -s \
        nothing e.0000; \
                cp -r a.0000 f.0001";
    assert!(shell(make, place.path(), None).status.success());
    let script = "for name in a b c d e f; do
            cat $name; stat -c %s $name; echo $name > $name && cat $name && rm $name; done 2>&1";
    let native = shell(script, place.path(), None);
    let served = shell(script, place.path(), Some(&[("AGGIO_SETS", "on")]));
    assert_eq!(text(&served.stdout), text(&native.stdout));
    for mpi in installed() {
        for name in ["a", "d"] {
            let path = place.path().join(name);
            content(&ranks(&mpi, None, &[&path, Path::new("none")]), name);
            let file = ranks(&mpi, None, &[&path, Path::new("made")]);
            content(&file, name);
            std::fs::remove_file(path).expect("it was made");
        }
    }
}

#[test]
fn a_master_of_subfiles_is_read_by_other_programs_as_its_set_only_where_it_is_named() {
    let Some(_) = library() else { return };
    let samples = Samples::new();
    let place = samples.subfiling("");
    let read = |variables| shell("cat sub1.nc; stat -c %s sub1.nc", &place, Some(variables)).stdout;
    let master = shell("cat sub1.nc; stat -c %s sub1.nc", &place, None).stdout;
    let named = read(&[("AGGIO_SETS", "*.nc")]);
    let (folder, base) = Folder::of(&samples.subfiling("sub1.nc")).expect("a name");
    let set = Set::find(&folder, &base).expect("it can be read").expect("a set");
    let file = set.open(&Options::default()).expect("a whole set");
    let mut bytes = vec![0; file.size() as usize];
    file.read_at(&mut bytes, 0).expect("its bytes");
    bytes.extend(format!("{}\n", file.size()).into_bytes());
    assert!(named == bytes && named != master);
    assert!(read(ON) == master && read(&[("AGGIO_SETS", "sub2*")]) == master);
}

#[test]
fn the_tool_of_pnetcdf_reads_a_set_on_several_ranks() {
    let Some(library) = library() else { return };
    let path = PathBuf::from("/usr/bin/ncmpidump");
    let Some(mpi) = installed().into_iter().find(|mpi| mpi.name == "openmpi") else { return };
    if !path.exists() {
        skip("pnetcdf-bin is not installed (tests/setup.sh check)");
        return;
    }
    let samples = Samples::new();
    let program = Program { path, mpi };
    // The first line has the name of the file.
    let content = |finished: Finished| {
        assert!(finished.succeeded(), "{}", finished.report());
        finished.stdout.split_once('\n').expect("lines").1.to_owned()
    };
    let native = content(Job::new(&program).argument(samples.e3sm("can_h1.nc")).run());
    assert!(native.contains("dimensions:"));
    for name in ["blob4_h1.nc", "h5blob4_h1.h5"] {
        let job = Job::new(&program).argument(samples.e3sm(name));
        let served = job.preload(Some(&library)).variable("AGGIO_SETS", "on").run();
        assert!(content(served) == native, "{name}");
    }
}
