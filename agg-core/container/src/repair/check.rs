//! Checking a container, and bringing it back into order.

use crate::directory::{Dir, MANIFEST, ORDER, drain_all, log_name};
use crate::errors::refused;
use crate::format::{Manifest, Run};
use crate::index::Index;
use crate::order::Sequencer;
use crate::reading::{Descriptors, View};
use crate::repair::examination::{Examined, examine};
use crate::repair::findings::{Check, Findings, Severity};
use crate::repair::losses::lost_by_indexes;
use crate::repair::rebuilding::repair;
use crate::repair::remains::{Remain, kind};
use aggio_base::{ErrorClass, Result};
use std::path::Path;

/// Checks the container at `path`.
///
/// # Errors
///
/// If it is not the directory of a container, cannot be read, or is to be repaired while somebody
/// writes. Damage is no error but a finding.
pub fn check(path: &Path, how: &Check) -> Result<Findings> {
    let dir = Dir::open(path)?;
    let names = dir.names()?;
    if !names.iter().any(|name| name == MANIFEST) && dir.logs()?.is_empty() {
        let words = "it is not a container: there is neither a manifest nor a log in it";
        return Err(refused((ErrorClass::BadFile, libc::EINVAL), path, words));
    }
    if how.repair || how.salvage {
        // A repair needs all logs in the container.
        drain_all(&dir)?;
    }
    let (mut findings, examined) = look(&dir, how)?;
    if (how.repair || how.salvage) && findings.exit_code() != 0 {
        let repairs = repair(&dir, &examined, how)?;
        (findings, _) = look(&dir, how)?;
        findings.repairs = repairs;
    }
    Ok(findings)
}

/// Returns the findings and the state of each log.
fn look(dir: &Dir, how: &Check) -> Result<(Findings, Vec<Examined>)> {
    let mut findings = Findings::default();
    let manifest = match Manifest::load(dir) {
        Ok(manifest) => Some(manifest),
        Err(error) if error.class() == ErrorClass::Access => return Err(error),
        Err(error) => {
            findings.add(Severity::Repairable, MANIFEST, None, error.to_string());
            None
        }
    };
    let live = is_live(dir)?;
    let mut logs = Vec::new();
    for id in dir.logs()? {
        let sealed = manifest.as_ref().and_then(|manifest| manifest.log(id)).copied();
        logs.push(examine(dir, id, sealed, how.data, live, &mut findings)?);
    }
    if manifest.is_none() {
        for log in lost_by_indexes(dir, &logs)? {
            let words = format!("an index tells of {} bytes of it that are not there", log.length);
            findings.add(Severity::Damaged, &log_name(log.id), None, words);
        }
    }
    if let Some(manifest) = &manifest {
        missing_logs(manifest, &logs, &mut findings);
        // If logs are damaged themselves, index and size cannot be checked.
        if findings.exit_code() < 4 {
            check_index(dir, manifest, &mut findings);
            check_size(dir, manifest, &mut findings);
        }
    }
    look_for_remains(dir, manifest.as_ref(), live, &mut findings)?;
    findings.problems.sort_by(|a, b| (&a.part, a.place).cmp(&(&b.part, b.place)));
    Ok((findings, logs))
}

/// Reports files that belong to no part of the container.
fn look_for_remains(
    dir: &Dir,
    manifest: Option<&Manifest>,
    live: bool,
    findings: &mut Findings,
) -> Result<()> {
    for name in dir.names()? {
        let (severity, words) = match kind(&name, manifest) {
            Some(Remain::Unfinished | Remain::OfSet) if live => {
                (Severity::Note, "somebody may be writing it")
            }
            Some(Remain::Unfinished | Remain::OfSet) => {
                (Severity::Repairable, "an unfinished file of a crash")
            }
            Some(Remain::OldIndex) if live => (Severity::Note, "an index that may be replaced now"),
            Some(Remain::OldIndex) => (Severity::Repairable, "an index that nobody uses"),
            Some(Remain::Aside | Remain::Cut(..)) => (Severity::Note, "a repair put it aside"),
            None if name.starts_with('.') => (Severity::Note, "it belongs to nothing here"),
            None => continue,
        };
        findings.add(severity, &name, None, words);
    }
    Ok(())
}

/// Whether somebody writes now.
fn is_live(dir: &Dir) -> Result<bool> {
    if dir.length_of(ORDER)?.is_none() {
        return Ok(false);
    }
    // Nothing is locked for it, so that reading is enough.
    match dir.part(ORDER, false) {
        Ok(file) => Sequencer::of(file, dir.path_of(ORDER)).is_used(),
        // If the lock cannot be queried, assume a writer: a torn end may be a frame that is being
        // written.
        Err(_) => Ok(true),
    }
}

fn missing_logs(manifest: &Manifest, logs: &[Examined], findings: &mut Findings) {
    let there = |id: u64| logs.iter().any(|log| log.id == id);
    for log in manifest.logs.iter().filter(|log| log.length > 0 && !there(log.id)) {
        let words =
            format!("the manifest names this log of {} bytes, and it is missing", log.length);
        findings.add(Severity::Damaged, &log_name(log.id), None, words);
    }
}

/// Whether the index says the same as the logs.
fn check_index(dir: &Dir, manifest: &Manifest, findings: &mut Findings) {
    let Some(line) = &manifest.index else { return };
    if let Err(error) = compare_index(dir, manifest) {
        findings.add(Severity::Repairable, &line.name, None, error.to_string());
    }
}

fn compare_index(dir: &Dir, manifest: &Manifest) -> Result<()> {
    let Some(line) = &manifest.index else { return Ok(()) };
    let length_of = |id: u64| manifest.log(id).map(|log| log.length);
    let file = dir.part(&line.name, false)?;
    let index = Index::open(file, dir.path_of(&line.name), line.crc, length_of)?;
    let mut told = 0_u64;
    index.all(&mut |run| told = told.wrapping_add(print_of(run, index.logs[run.log as usize])))?;
    let plain = Manifest { index: None, ..manifest.clone() };
    let view = View::of(plain, dir, &Descriptors::new())?;
    let mut true_print = 0_u64;
    let mut newer = 0_u64;
    view.all_runs(&mut |run, id, sealed| {
        let print = print_of(run, id);
        if sealed { true_print = true_print.wrapping_add(print) } else { newer += 1 }
    });
    if told != true_print && newer == 0 {
        return Err(crate::errors::damaged("the index has other pieces than the logs"));
    }
    Ok(())
}

/// A number that is the same however pieces are put into runs.
fn print_of(run: &Run, id: u64) -> u64 {
    let mix = |sum: u64, n: u64| (sum ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    (0..run.count).fold(0, |sum: u64, k| {
        let piece = run.piece(k);
        let numbers = [piece.offset, piece.len, id, run.place_of(k)];
        sum.wrapping_add(numbers.into_iter().fold(1, mix))
    })
}

/// Checks the size in the manifest, and that no run reaches beyond its log.
fn check_size(dir: &Dir, manifest: &Manifest, findings: &mut Findings) {
    let plain = Manifest { index: None, ..manifest.clone() };
    // Logs that cannot be read as a whole were reported already.
    let Ok(view) = View::of(plain, dir, &Descriptors::new()) else { return };
    view.all_runs(&mut |run, id, _| {
        let end = run.place_of(run.count - 1).saturating_add(run.length);
        if view.logs[run.log as usize].length < end {
            let words = format!("bytes {} of the file should end at its byte {end}", run.span());
            findings.add(Severity::Damaged, &log_name(id), None, words);
        }
    });
    if view.is_sealed() && view.size() != manifest.size {
        let words = format!("size {} should be {}", manifest.size, view.size());
        findings.add(Severity::Repairable, MANIFEST, None, words);
    }
}
