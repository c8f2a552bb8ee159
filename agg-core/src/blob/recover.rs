//! Finishes what killed writers have begun: whoever is the only one cuts off what was never acknowledged, seals, and
//! removes what belongs to nothing.

use super::container::Container;
use super::dir::{Dir, log_name};
use super::failed;
use super::frame::{Frame, HEADER, Lengths, MAGIC};
use super::log;
use super::manifest::{Manifest, part_mode};
use super::order::Order;
use super::remains::{Remain, kind};
use super::scan::{Scan, Step, detail};
use super::seal::seal;
use super::search;
use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What was done about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// In words, one of each change.
    pub done: Vec<String>,
    /// Whether somebody writes, so that not all could be done.
    pub is_used: bool,
}

/// Brings a container to the state in which its last writer would have left it.
///
/// # Errors
///
/// If it is damaged, which only [`check`](super::check()) may repair, or cannot be changed.
pub fn recover(path: &Path) -> Result<Recovered> {
    let container = Container::open(path)?;
    let dir = &container.shared.dir;
    let manifest = Manifest::load(dir)?;
    if container.attributes()?.sealed && left(dir, &manifest)?.is_empty() {
        return Ok(Recovered::default());
    }
    container.may_write()?;
    let order = Order::open(dir, part_mode(manifest.mode), false)?;
    let is_alone = order.be_alone()?;
    let finished = finish(dir, &order, is_alone);
    if is_alone {
        order.leave()?;
    }
    finished
}

fn finish(dir: &Dir, order: &Order, is_alone: bool) -> Result<Recovered> {
    let _turn = order.manifest_turn()?;
    let mut done = Recovered { is_used: !is_alone, ..Recovered::default() };
    if is_alone {
        for id in dir.logs()? {
            done.done.extend(cut(dir, id)?);
        }
        let before = Manifest::load(dir)?.generation;
        if seal(dir)?.generation != before {
            done.done.push("sealed".into());
        }
    }
    let manifest = Manifest::load(dir)?;
    // Nobody else needs the parts: no set is being made of them.
    let no_set = is_alone && order.take_parts().unwrap_or(false);
    for (name, kind) in left(dir, &manifest)? {
        if kind == Remain::OfSet && !no_set {
            done.is_used = true;
            continue;
        }
        dir.remove(&name)?;
        done.done.push(format!("{name}: removed"));
    }
    Ok(done)
}

/// The parts that belong to nothing and hold nothing that is not in the logs.
fn left(dir: &Dir, manifest: &Manifest) -> Result<Vec<(String, Remain)>> {
    let mut left = Vec::new();
    for name in dir.names()? {
        match kind(&name, Some(manifest)) {
            Some(Remain::Cut(id, place)) if !is_torn_copy(dir, &name, (id, place))? => {}
            Some(kind) => left.push((name, kind)),
            None => {}
        }
    }
    Ok(left)
}

/// Whether a repair put aside what a killed writer had begun, and nothing else.
fn is_torn_copy(dir: &Dir, name: &str, (id, place): (u64, u64)) -> Result<bool> {
    let file = dir.part(name, false)?;
    let path = dir.path_of(name);
    let len = file.metadata().map_err(|error| failed("fstat", &error, &path))?.len();
    is_torn(&Tail { file: &file, path: &path, start: 0, len, log: id, place })
}

/// Cuts off what the killed writer of a log had begun; what was done.
fn cut(dir: &Dir, id: u64) -> Result<Option<String>> {
    let name = log_name(id);
    let path = dir.path_of(&name);
    let file = dir.part(&name, true)?;
    let mut scan = Scan::new(&file, &path, id, 0)?;
    let why = loop {
        match scan.step()? {
            Step::Frame(_) => {}
            Step::End => return Ok(None),
            Step::Broken(why) => break why,
        }
    };
    let (end, len) = (scan.place(), scan.length() - scan.place());
    let tail = Tail { file: &file, path: &path, start: end, len, log: id, place: end };
    let sealed = Manifest::load(dir)?.log(id).map_or(0, |log| log.length);
    if end < sealed || !is_torn(&tail)? || !search::all(&file, &path, &mut scan)?.is_empty() {
        return Err(unclear(&why, &path));
    }
    if !log::is_abandoned(&file) {
        return Ok(None);
    }
    file.set_len(end).map_err(|error| failed("ftruncate", &error, &path))?;
    file.sync_all().map_err(|error| failed("fsync", &error, &path))?;
    Ok(Some(format!("{name}: {len} bytes of an unfinished frame cut off at byte {end}")))
}

fn unclear(why: &Error, path: &Path) -> Error {
    let words = "a killed writer leaves no such end; `aggio fsck --repair` cuts it off and keeps \
                 the bytes, `--salvage` takes intact frames behind it";
    super::damaged(format!("{}; {words}", detail(why))).with_path(&path.display().to_string())
}

/// Bytes of a log behind its last intact frame, or a copy of them.
struct Tail<'a> {
    file: &'a File,
    path: &'a Path,
    /// Where they begin in the file, and how many they are.
    start: u64,
    len: u64,
    /// The log, and where they begin in it.
    log: u64,
    place: u64,
}

/// Whether they are the beginning of a frame that its writer did not live to finish: it was never acknowledged. Bytes of
/// whole frames that were changed are none.
fn is_torn(tail: &Tail<'_>) -> Result<bool> {
    let read = |bytes: &mut [u8]| {
        let read = tail.file.read_exact_at(bytes, tail.start);
        read.map_err(|error| failed("pread", &error, tail.path))
    };
    let mut head = [0; HEADER];
    let have = tail.len.min(HEADER as u64) as usize;
    read(&mut head[..have])?;
    if head.iter().all(|byte| *byte == 0) {
        // The header of pages that are to be mapped is written last.
        return Ok(true);
    }
    if have < HEADER {
        return Ok(MAGIC.starts_with(&head[..have.min(MAGIC.len())]));
    }
    let Ok(lengths) = Lengths::of(&head) else { return Ok(false) };
    if lengths.head > tail.len {
        return Ok(true);
    }
    let mut whole = vec![0; lengths.head as usize];
    read(&mut whole)?;
    let Ok(frame) = Frame::decode(&whole) else { return Ok(false) };
    let is_own = (frame.log, frame.place) == (tail.log, tail.place);
    Ok(is_own && lengths.head.checked_add(lengths.data).is_none_or(|len| len > tail.len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::{Check, Create, check};

    /// A container whose writer was killed after two frames, and the path of its log.
    fn killed(place: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
        let path = place.join("c");
        let how = Create { mode: 0o644, exclusive: true, data_crc: true };
        let container = Container::create(&path, &how).unwrap();
        let writer = container.writer().unwrap();
        writer.write_at(b"first", 0).unwrap();
        writer.write_at(b"second", 5).unwrap();
        let log = path.join(log_name(writer.log_id().unwrap()));
        writer.abandon();
        (path, log)
    }

    fn bytes(path: &Path) -> Vec<u8> {
        let reader = Container::open(path).unwrap().reader().unwrap();
        let mut bytes = vec![0; reader.size() as usize];
        reader.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn is_clean(path: &Path) -> bool {
        let findings = check(path, &Check { data: true, ..Check::default() }).unwrap();
        findings.problems.is_empty() && findings.exit_code() == 0
    }

    #[test]
    fn a_torn_end_at_any_byte_is_cut_off_and_no_byte_of_a_whole_frame() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let whole = std::fs::read(&log).unwrap();
        let second = whole.len() / 2;
        let first = super::super::frame::SHORT + 5;
        for len in first..whole.len() {
            std::fs::write(&log, &whole[..len]).unwrap();
            let recovered = recover(&path).unwrap();
            assert!(!recovered.is_used, "{len}");
            assert!(is_clean(&path), "{len} of {second}: {recovered:?}");
            assert_eq!(
                (bytes(&path), recover(&path).unwrap()),
                (b"first".to_vec(), Recovered::default())
            );
            // As it was before.
            let manifest = Manifest::new(0o644, true).unwrap();
            manifest.store(&Dir::open(&path).unwrap()).unwrap();
        }
    }

    #[test]
    fn damage_of_whole_frames_is_told_and_nothing_changes() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let whole = std::fs::read(&log).unwrap();
        let second = super::super::frame::SHORT + 5;
        for at in [0, 20, 70, second, second + 20, second + 70] {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            std::fs::write(&log, &changed).unwrap();
            let error = recover(&path).unwrap_err().to_string();
            assert!(error.contains(".log"), "{at}: {error}");
            assert_eq!(std::fs::read(&log).unwrap(), changed, "{at}");
        }
    }

    #[test]
    fn what_belongs_to_nothing_goes_and_what_is_nowhere_else_stays() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let torn = std::fs::read(&log).unwrap()[..40].to_vec();
        let name = log.file_name().unwrap().to_str().unwrap();
        let gone = [
            ".aggio-manifest.0123456789abcdef".to_owned(),
            ".index.4.0123456789abcdef".into(),
            ".part.0000".into(),
            "index.99".into(),
            "backup.0123456789abcdef.aggio-manifest".into(),
            format!("backup.0123456789abcdef.{name}.from-0"),
        ];
        let stays = [".nfs0001".to_owned(), format!("backup.0123456789abcdef.{name}.from-9")];
        for name in gone.iter().chain(&stays) {
            std::fs::write(path.join(name), &torn).unwrap();
        }
        std::fs::write(path.join(&stays[1]), [7; 100]).unwrap();
        let findings = check(&path, &Check::default()).unwrap();
        for name in gone.iter().chain(&stays) {
            assert!(findings.problems.iter().any(|one| one.part == *name), "{name}: {findings:?}");
        }
        let recovered = recover(&path).unwrap();
        for name in &gone {
            assert!(!path.join(name).exists(), "{name}: {recovered:?}");
        }
        assert!(stays.iter().all(|name| path.join(name).exists()));
        assert_eq!(bytes(&path), b"firstsecond");
        assert_eq!(check(&path, &Check::default()).unwrap().exit_code(), 0);
    }

    #[test]
    fn a_living_writer_keeps_its_unfinished_frame() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let whole = std::fs::read(&log).unwrap();
        std::fs::write(&log, &whole[..whole.len() - 1]).unwrap();
        let writer = Container::open(&path).unwrap().writer().unwrap();
        std::fs::write(path.join(".index.4.0123456789abcdef"), b"").unwrap();
        let recovered = recover(&path).unwrap();
        // What is only made with others waiting is nobody's.
        assert!(recovered.is_used && recovered.done.len() == 1, "{recovered:?}");
        assert_eq!(std::fs::read(&log).unwrap().len(), whole.len() - 1);
        writer.close().unwrap();
        assert!(!recover(&path).unwrap().is_used && is_clean(&path));
    }
}
