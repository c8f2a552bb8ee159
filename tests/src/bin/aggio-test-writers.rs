//! Two processes write records of one blob container by turns, and list the acknowledged ones in
//! another file: as `programs/two_writers.c`, without a system call that a library would have to
//! see.
//!
//! ```text
//! aggio-test-writers CONTAINER ACKNOWLEDGED RECORDS LENGTH
//! ```

use agg_core::blob::{Container, Create};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let numbers: Option<Vec<u64>> = arguments.iter().skip(3).map(|n| n.parse().ok()).collect();
    let (Some([records, length]), 5) = (numbers.as_deref(), arguments.len()) else {
        eprintln!("usage: aggio-test-writers CONTAINER ACKNOWLEDGED RECORDS LENGTH");
        return ExitCode::from(2);
    };
    // SAFETY: there is one thread.
    let child = unsafe { libc::fork() };
    let process = u64::from(child == 0);
    let work = work(Path::new(&arguments[1]), Path::new(&arguments[2]), process, *records, *length);
    if let Err(error) = &work {
        eprintln!("process {process}: {error}");
    }
    let mut status = 0;
    if child > 0 {
        // SAFETY: the status is a local variable.
        unsafe { libc::waitpid(child, &mut status, 0) };
    }
    ExitCode::from(u8::from(work.is_err() || status != 0))
}

fn work(
    path: &Path,
    acknowledged: &Path,
    process: u64,
    records: u64,
    length: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut acks = OpenOptions::new().create(true).append(true).open(acknowledged)?;
    let mut tell = |what, record| -> std::io::Result<()> {
        let line = format!("{what} {process} {record}\n");
        let file: &mut File = &mut acks;
        file.write_all(line.as_bytes())
    };
    let how = Create { mode: 0o644, exclusive: false, data_crc: true };
    let writer = Container::create(path, &how)?.writer()?;
    for record in 0..records {
        let data = vec![(1 + (7 * record + process) % 255) as u8; length as usize];
        writer.write_at(&data, (2 * record + process) * length)?;
        tell("w", record)?;
        if record == records / 2 {
            writer.sync()?;
            tell("s", record)?;
        }
    }
    writer.close()?;
    tell("c", records)?;
    Ok(())
}
