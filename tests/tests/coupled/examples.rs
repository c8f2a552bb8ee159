//! The worked examples of `tests/programs/coupling/README.md`, run as printed there.

use aggio_tests::coupling::Coupling;
use aggio_tests::{installed, repository, skip};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns the commands of an example and their output, as printed in the guide.
fn example(heading: &str) -> (String, String) {
    let guide = repository().join("tests/programs/coupling/README.md");
    let text = std::fs::read_to_string(guide).expect("the guide");
    let (_, text) = text.split_once(&format!("## {heading}\n")).expect("the example");
    let block = |kind: &str| {
        let (_, rest) = text.split_once(&format!("```{kind}\n")).expect("a block");
        rest.split("```").next().unwrap_or_default().to_owned()
    };
    // The test has already set the library.
    let commands = block("sh").replace("LD_PRELOAD=libaggio.so ", "");
    (commands, block("text"))
}

/// Runs an example in the directory of its programs, and compares its output with the guide.
#[track_caller]
fn check(coupling: &Coupling, heading: &str) {
    let (commands, wanted) = example(heading);
    let names = coupling.on_disk();
    assert_eq!(coupling.run(&commands), wanted, "{heading}");
    assert_eq!(coupling.on_disk(), names, "nothing is on disk");
}

/// Builds the programs of the examples; `None` if one cannot be built here.
fn programs(sources: &[(&str, &[&str])]) -> Option<Coupling> {
    let coupling = Coupling::of("none")?;
    let folder = repository().join("tests/programs/coupling");
    for (source, compiler) in sources {
        let to = coupling.path().join(Path::new(source).file_stem().expect("a name"));
        let Some((compiler, libraries)) = compiler.split_first() else {
            std::fs::copy(folder.join(source), coupling.path().join(source)).expect("a script");
            continue;
        };
        let mut command = Command::new(compiler);
        command.arg("-o").arg(&to).arg(folder.join(source)).args(libraries).args(["-lm"]);
        let made = command.current_dir(coupling.path()).output();
        // h5pcc leaves the object file.
        let _ = std::fs::remove_file(to.with_extension("o"));
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            skip(&format!("{compiler} cannot make {source} (tests/setup.sh check): {made:?}"));
            return None;
        }
    }
    Some(coupling)
}

fn has_both_mpis() -> bool {
    let both = installed().len() > 1;
    if !both {
        skip("one of the MPIs is missing (tests/setup.sh check)");
    }
    both
}

#[test]
fn a_pnetcdf_model_feeds_an_analysis_in_python() {
    let sources: &[(&str, &[&str])] =
        &[("ocean.c", &["mpicc.openmpi", "-lpnetcdf"]), ("mean.py", &[])];
    let Some(coupling) = has_both_mpis().then(|| programs(sources)).flatten() else { return };
    // The guide has `mpirun`; PnetCDF is built for Open MPI.
    let (commands, wanted) = example("A PnetCDF model and an analysis in Python");
    assert_eq!(coupling.run(&commands.replace("mpirun", "mpirun.openmpi")), wanted);
    assert!(!coupling.path().join("sst.nc").exists());
}

#[test]
fn two_hdf5_programs_exchange_images_under_different_mpis() {
    let sources: &[(&str, &[&str])] =
        &[("shots.c", &["h5pcc.mpich"]), ("sums.c", &["h5pcc.openmpi"])];
    let Some(coupling) = has_both_mpis().then(|| programs(sources)).flatten() else { return };
    check(&coupling, "Two HDF5 programs under different MPIs");
}

#[test]
fn a_cycle_of_two_programs_runs_in_constant_memory() {
    let Some(coupling) = programs(&[("forecast.py", &[]), ("filter.py", &[])]) else { return };
    check(&coupling, "A cycle");
}

#[test]
fn memory_of_a_cycle_does_not_grow() {
    let Some(coupling) = programs(&[("forecast.py", &[]), ("filter.py", &[])]) else { return };
    let mut running = coupling.start(&example("A cycle").0);
    let (mut most, end) = (0, Instant::now() + Duration::from_secs(60));
    while running.runs() && Instant::now() < end {
        most = most.max(coupling.memory());
        std::thread::sleep(Duration::from_millis(2));
    }
    running.succeeds();
    // A generation has 1.6 MB. Each side has one that it writes and one that it reads.
    assert!((1_600_000..8 * 1_600_000).contains(&most), "{most} bytes");
}
