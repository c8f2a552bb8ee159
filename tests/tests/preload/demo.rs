//! The demonstration's programs: PnetCDF and parallel HDF5 on real data, natively, with aggio and
//! into containers.

use aggio_tests::{library, repository, skip, target_directory};
use std::path::Path;
use std::process::Command;

/// Files of `tests/setup.sh check`: if they are there, all of it is.
const NEEDED: [&str; 4] = [
    "/usr/bin/h5pcc.openmpi",
    "/usr/bin/h5pcc.mpich",
    "/usr/bin/ncmpidiff",
    "/usr/share/gmt-gshhg/binned_GSHHS_i.nc",
];

#[test]
fn containers_of_real_programs_are_the_files_they_write_natively() {
    let Some(library) = library() else { return };
    if let Some(missing) = NEEDED.iter().find(|path| !Path::new(path).exists()) {
        skip(&format!("{missing} is missing (tests/setup.sh check)"));
        return;
    }
    let output = Command::new("/usr/bin/python3")
        .arg(repository().join("tests/demo/run.py"))
        .arg("--quick")
        .env("AGGIO_LIBRARY", library)
        .env("AGGIO_DEMO_DIR", target_directory().join("programs/demo"))
        .output()
        .expect("python3 starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    assert!(said.matches("logs is that file for").count() >= 3, "{said}");
}
