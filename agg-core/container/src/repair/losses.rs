//! Logs that were lost together with the manifest that named them.

use crate::directory::Dir;
use crate::format::{FILE_END, SealedLog, u32_at};
use crate::index::Index;
use crate::index::header::HEADER;
use crate::repair::examination::Examined;
use aggio_base::Result;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

/// Logs that the indexes of any manifest cover and that are missing from `logs` or shorter there.
/// Without a manifest, nothing else shows which logs were lost.
pub(crate) fn lost_by_indexes(dir: &Dir, logs: &[Examined]) -> Result<Vec<SealedLog>> {
    let mut reach: BTreeMap<u64, u64> = BTreeMap::new();
    for name in dir.names()?.iter().filter(|name| name.starts_with("index.")) {
        let Ok(file) = dir.part(name, false) else { continue };
        let mut header = [0; HEADER];
        if file.read_exact_at(&mut header, 0).is_err() {
            continue;
        }
        let crc = u32_at(&header, HEADER - 4);
        let any = |_| Some(FILE_END);
        let Ok(index) = Index::open(file, dir.path_of(name), crc, any) else { continue };
        // A damaged block gives no information about the logs; the other blocks still count.
        let _ = index.all(&mut |run| {
            let end = run.place_of(run.count - 1) + run.length;
            let known = reach.entry(index.logs[run.log as usize]).or_default();
            *known = end.max(*known);
        });
    }
    let holds = |id: u64, length: u64| logs.iter().any(|log| log.id == id && log.end >= length);
    let lost = reach.into_iter().filter(|(id, length)| !holds(*id, *length));
    Ok(lost.map(|(id, length)| SealedLog { id, length, frames: 0, crc: 0 }).collect())
}
