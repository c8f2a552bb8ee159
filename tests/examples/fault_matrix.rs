//! Prints the fault matrix with aggio beside the native implementations, as a Markdown table.
//!
//! ```text
//! cargo run --release -p aggio-tests --example fault_matrix
//! ```

use aggio_tests::faults::{Case, Seen};
use aggio_tests::{Family, faults, installed, library};

fn expectation(case: &Case) -> String {
    match case.seen {
        Seen::Nowhere => "SUCCESS everywhere".into(),
        Seen::There => format!("{} on rank {}", case.class, case.rank),
        Seen::Everywhere => format!("{} on every rank", case.class),
    }
}

fn main() {
    let Some(library) = library() else { return };
    println!("# Faults: aggio beside the native implementations\n");
    println!(
        "Three ranks, one operation each (262,144 bytes a rank), the fault injected into the \
            system calls. A cell\n\
         shows each rank's error class and the bytes its status counts.\n"
    );
    println!(
        "`crashes` and `hangs` (for 20 seconds) are of the job. OMPIO leaves a named semaphore \
            behind when it crashes; every\n\
         run here has a file name of its own, since a later open of a file of the same name would \
         hang.\n"
    );
    println!("| MPI | operation | fault | right answer | native | ROMIO in Open MPI | aggio |");
    println!("|---|---|---|---|---|---|---|");
    for mpi in installed() {
        for case in faults::selection() {
            let native = faults::run(&case, &mpi, None, &[]).summary();
            let romio = match mpi.family {
                Family::OpenMpi => {
                    faults::run(&case, &mpi, None, &[("OMPI_MCA_io", "romio321")]).summary()
                }
                Family::Mpich => "-".into(),
            };
            let aggio = faults::run(&case, &mpi, Some(&library), &[]).summary();
            println!(
                "| {} | {} | {} | {} | {native} | {romio} | {aggio} |",
                mpi.name,
                case.mode,
                case.plan,
                expectation(&case)
            );
        }
    }
}
