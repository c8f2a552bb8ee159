//! Records of netCDF files that are read while the file is being written (`ready=step`). Each value
//! of each visible record is compared, for all pairs of writing and reading libraries.

use aggio_tests::coupling::{Coupling, ranks};
use aggio_tests::waiting::{connected, until_agents, waiting};
use aggio_tests::{Family, compile_with, installed, library};

const RECORDS: u32 = 12;

/// The command of the program that writes or reads with PnetCDF; `None` without PnetCDF.
fn pnetcdf(count: u32) -> Option<String> {
    library()?;
    let mpi = installed().into_iter().find(|mpi| mpi.family == Family::OpenMpi)?;
    let program = compile_with("coupled_steps.c", &mpi, &["-lpnetcdf"]);
    Some(format!("{} {}", ranks(&mpi, count), program.path.display()))
}

const PYTHON: &str = "/usr/bin/python3 $PROGRAMS/coupled_steps.py";

/// Runs both, the reader first or second. Returns the numbers of records that the reader saw, which
/// end with all records.
#[track_caller]
fn exchanged(keys: &str, writer: &str, reader: &str, reader_first: bool) -> Vec<u32> {
    let coupling = Coupling::of(&format!("out.nc:ready=step{keys}")).expect("a library");
    let first = coupling.start(if reader_first { reader } else { writer });
    let is_begun = |agents: &[_]| match reader_first {
        true => waiting(agents) > 0,
        false => connected(agents) > 0,
    };
    until_agents(|| coupling.status(), is_begun);
    let second = coupling.start(if reader_first { writer } else { reader });
    let (first, second) = (first.succeeds(), second.succeeds());
    let printed = if reader_first { first } else { second };
    let seen: Vec<u32> = printed.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(seen.is_sorted() && seen.last() == Some(&RECORDS), "{writer} to {reader}: {seen:?}");
    assert_eq!(coupling.on_disk(), [] as [&str; 0]);
    seen
}

#[test]
fn records_of_pnetcdf_and_netcdf_are_read_while_others_are_written() {
    let (mut round, mut parts) = (0, 0);
    for width in [3, 5000] {
        for format in [1, 2, 5] {
            let mut writers = vec![
                format!("{PYTHON} write out.nc {format} {RECORDS} {width}"),
                format!("{PYTHON} write out.nc {format} {RECORDS} {width} share"),
            ];
            let parallel = pnetcdf(3);
            writers.extend(
                parallel
                    .map(|program| format!("{program} write out.nc {format} {RECORDS} {width} 4")),
            );
            for writer in writers {
                let mut readers = vec![
                    format!("{PYTHON} read out.nc {RECORDS} {width} reopen"),
                    format!("{PYTHON} read out.nc {RECORDS} {width} sync"),
                ];
                let parallel = pnetcdf(2);
                readers.extend(
                    parallel.map(|program| format!("{program} read out.nc {RECORDS} {width}")),
                );
                round += 1;
                let reader = &readers[round % readers.len()];
                let keys = ["", ":numrecs=now"][round / 3 % 2];
                let seen = exchanged(keys, &writer, reader, round % 2 == 0);
                parts += usize::from(seen.len() > 2);
            }
        }
    }
    // Some readers start too late to see a part.
    assert!(3 * parts > round, "{parts} of {round} readers saw a part of the records");
}

#[test]
fn a_file_that_is_no_longer_than_a_look_at_its_kind_is_read_by_netcdf() {
    let Some(coupling) = Coupling::of("out.nc") else { return };
    coupling.run(&format!("{PYTHON} write out.nc 1 12 3"));
    assert_eq!(coupling.run(&format!("{PYTHON} read out.nc 12 3 reopen")), "12\n");
}

#[test]
fn a_file_that_is_being_written_cannot_be_mapped_and_is_copied_as_far_as_it_goes() {
    let Some(coupling) = Coupling::of("out.nc:ready=step") else { return };
    let python = "import mmap, netCDF4, os, subprocess, sys
data = netCDF4.Dataset('out.nc', 'w', format='NETCDF3_CLASSIC')
data.createDimension('time', None)
data.createVariable('t', 'i4', ('time',))[0] = 7
data.sync()
subprocess.run(['cp', 'out.nc', 'copy.nc'], check=True)
reader = 'import mmap, os; fd = os.open(\"out.nc\", os.O_RDONLY); mmap.mmap(fd, 8, prot=1)'
failed = subprocess.run([sys.executable, '-c', reader], capture_output=True, text=True)
print(failed.stderr.splitlines()[-1])
print(netCDF4.Dataset('copy.nc')['t'][:].tolist())
data.close()";
    std::fs::write(coupling.path().join("map.py"), python).expect("a script");
    let printed = coupling.run("/usr/bin/python3 map.py");
    assert!(printed.contains("No such device") && printed.ends_with("[7]\n"), "{printed}");
}
