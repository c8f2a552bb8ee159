//! Which programs of the battery pass without aggio, as a table.
//!
//! ```text
//! cargo run -p aggio-tests --example native_battery
//! ```

use aggio_tests::battery::{PROGRAMS, failure};
use aggio_tests::installed;

fn main() {
    let mpis = installed();
    for (source, ranks) in PROGRAMS {
        let row = mpis.iter().map(|mpi| match failure(source, *ranks, mpi, None) {
            None => format!("{} pass", mpi.name),
            Some(_) => format!("{} FAIL", mpi.name),
        });
        println!("{source:20} {}", row.collect::<Vec<_>>().join("  "));
    }
}
