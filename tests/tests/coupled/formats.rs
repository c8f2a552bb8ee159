//! netCDF and HDF5 files that programs exchange in memory, parallel and serial, under different
//! MPIs, in different decompositions: every value is compared by the reader.

use aggio_tests::coupling::{Coupling, ranks};
use aggio_tests::{Family, Mpi, compile_with, installed, library, skip};

/// The output of a reader of three generations.
const THREE: &str = "generation 1: right\ngeneration 2: right\ngeneration 3: right\n";

/// Returns Open MPI, because Debian builds PnetCDF for it, and the command of the program.
fn pnetcdf() -> Option<(Mpi, String)> {
    library()?;
    let mpi = installed().into_iter().find(|mpi| mpi.family == Family::OpenMpi);
    if mpi.is_none() {
        skip("Open MPI is missing (tests/setup.sh check)");
    }
    let mpi = mpi?;
    let program = compile_with("coupled_pnetcdf.c", &mpi, &["-lpnetcdf"]);
    Some((mpi, program.path.display().to_string()))
}

fn python(what: &str, kind: &str, file: &str) -> String {
    format!("/usr/bin/python3 $PROGRAMS/coupled.py {what} {kind} {file} 3")
}

/// Runs both scripts, the reader first or second. Returns the output of the reader.
#[track_caller]
fn exchanged(coupling: &Coupling, writer: &str, reader: &str, reader_first: bool) -> String {
    if reader_first {
        let reader = coupling.start(reader);
        coupling.until_waiting(1);
        coupling.run(writer);
        return reader.succeeds();
    }
    let writer = coupling.start(writer);
    let printed = coupling.run(reader);
    writer.succeeds();
    printed
}

#[test]
fn pnetcdf_exchanges_blocks_slabs_and_columns() {
    let Some((mpi, program)) = pnetcdf() else { return };
    let pairs = [(4, "blocks", 3, "slabs"), (3, "slabs", 4, "blocks"), (1, "slabs", 2, "columns")];
    for (number, (writers, out, readers, into)) in pairs.into_iter().enumerate() {
        let Some(coupling) = Coupling::of("*.nc") else { return };
        let side =
            |count, what, how| format!("{} {program} {what} {how} out.nc 3 4", ranks(&mpi, count));
        let (writer, reader) = (side(writers, "write", out), side(readers, "read", into));
        let printed = exchanged(&coupling, &writer, &reader, number % 2 == 0);
        assert_eq!(printed, THREE, "{out} by {writers} to {into} by {readers}");
        assert_eq!(coupling.on_disk(), [] as [&str; 0]);
    }
}

#[test]
fn pnetcdf_feeds_serial_tools() {
    let Some((mpi, program)) = pnetcdf() else { return };
    let writer = format!("{} {program} write blocks out.nc 1 2", ranks(&mpi, 4));
    for reader in ["ncdump out.nc", "ncmpidump out.nc", "ncdump -h out.nc"] {
        let Some(coupling) = Coupling::of("*.nc") else { return };
        let printed = exchanged(&coupling, &writer, reader, true);
        let native = Coupling::of("none").expect("a library");
        native.run(&writer);
        assert_eq!(printed, native.run(reader), "{reader}");
        assert_eq!(coupling.on_disk(), [] as [&str; 0]);
    }
}

#[test]
fn netcdf_python_reads_what_it_wrote_in_another_process() {
    for reader_first in [true, false] {
        let (writer, reader) =
            (python("write", "netcdf", "a.nc"), python("read", "netcdf", "a.nc"));
        let Some(coupling) = Coupling::of("*.nc") else { return };
        assert_eq!(exchanged(&coupling, &writer, &reader, reader_first), THREE);
        assert_eq!(coupling.on_disk(), [] as [&str; 0]);
    }
}

#[test]
fn h5py_and_tools_read_what_h5py_wrote_in_another_process() {
    for reader_first in [true, false] {
        let (writer, reader) = (python("write", "hdf5", "a.h5"), python("read", "hdf5", "a.h5"));
        let Some(coupling) = Coupling::of("*.h5") else { return };
        assert_eq!(exchanged(&coupling, &writer, &reader, reader_first), THREE);
        assert_eq!(coupling.on_disk(), [] as [&str; 0]);
    }
    let once = python("write", "hdf5", "a.h5").replace(" 3", " 1");
    for reader in ["h5dump a.h5", "h5ls -r a.h5", "h5dump -d /group/t a.h5"] {
        let Some(coupling) = Coupling::of("*.h5") else { return };
        let printed = exchanged(&coupling, &once, reader, true);
        let native = Coupling::of("none").expect("a library");
        native.run(&once);
        assert_eq!(printed, native.run(reader), "{reader}");
    }
}

#[test]
fn a_reader_of_every_generation_may_be_a_loop_of_the_shell() {
    let Some(coupling) = Coupling::of("*.nc") else { return };
    let reader = coupling.start("for i in 1 2 3; do ncdump -h out.nc | grep :generation; done");
    coupling.run(&python("write", "netcdf", "out.nc"));
    let printed = reader.succeeds();
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    assert_eq!(lines, [1, 2, 3].map(|number| format!(":generation = {number} ;")));
}
