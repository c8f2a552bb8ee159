//! HDF5 newer than Debian's, which `tests/hdf5.sh` builds.

use crate::{Mpi, Program, compile_as, factor, postpone, repository, target_directory};
use std::process::Command;

/// Compiles `tests/programs/SOURCE` with a newer HDF5 (`1.14` or `2`) for an MPI.
///
/// `None` if that has not been built, which takes minutes and is done in `make check-long` only.
///
/// # Panics
///
/// If it cannot be built.
pub fn newer_hdf5(version: &str, source: &str, mpi: &Mpi) -> Option<Program> {
    let place = target_directory().join("hdf5").join(format!("{version}-{}", mpi.name));
    if factor() == 1 && !place.join("complete").exists() {
        postpone(&format!("HDF5 {version} is not built (tests/hdf5.sh {} {version})", mpi.name));
        return None;
    }
    let script = repository().join("tests/hdf5.sh");
    let run = Command::new(script).args([&mpi.name, version]).output().expect("a shell");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "HDF5 {version} cannot be built: {said}");
    let installed = String::from_utf8(run.stdout).expect("a path").trim().to_owned();
    let include = format!("-I{installed}/include");
    let library = format!("{installed}/lib/libhdf5.a");
    let options = [&include[..], &library, "-lz", "-ldl"];
    Some(compile_as(source, &format!("hdf5-{version}"), mpi, &options))
}
