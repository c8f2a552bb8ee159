//! A container or a set, written to something that takes bytes one after the other.

use super::{PIECE, at, source, stream};
use aggio_formats::Logical;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Receives the progress: bytes done, and their total.
type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

fn put(to: &mut File, name: &Path, bytes: &[u8]) -> Result<(), String> {
    to.write_all(bytes).map_err(|why| match why.kind() {
        ErrorKind::BrokenPipe => at(name, "nobody reads any more"),
        _ => at(name, why),
    })
}

/// Writes the container `from`. No byte of a frame is written before its checksum was found right:
/// written bytes cannot be taken back.
pub(super) fn container(
    from: &Path,
    (to, name): (&mut File, &Path),
    progress: &Progress<'_>,
) -> Result<(), String> {
    let told = |why: agg_core::Error| at(from, why);
    let reader = source::verifying(from)?;
    let (mut place, mut buffer) = (0, vec![0; PIECE]);
    while place < reader.size() {
        let count = reader.read_at(&mut buffer, place).map_err(told)?;
        if count == 0 {
            return Err(at(from, format!("ends at byte {place} of {}", reader.size())));
        }
        put(to, name, &buffer[..count])?;
        place += count as u64;
        progress(place, reader.size());
    }
    Ok(())
}

/// Writes the set `from`, with so many threads.
pub(super) fn set(
    from: &Logical,
    threads: usize,
    (to, name): (&mut File, &Path),
    progress: &Progress<'_>,
) -> Result<(), String> {
    let mut done = 0;
    let mut take = |bytes: &[u8]| {
        put(to, name, bytes)?;
        done += bytes.len() as u64;
        progress(done, from.size());
        Ok(true)
    };
    stream::all(from, threads, &mut take).map(|_| ())
}
