//! Recovery after killed writers. The only process that uses a container cuts off bytes that were
//! never acknowledged, seals, and removes files that belong to nothing.

use crate::directory::{Dir, drain_all, liveness, log_name};
use crate::errors::{damaged_at, failed};
use crate::file::Container;
use crate::format::{Manifest, part_mode};
use crate::log::{Scan, Step, Tail, Torn, detail, search, tail};
use crate::order::Sequencer;
use crate::repair::remains::{Remain, kind};
use crate::writing::seal;
use aggio_base::{Error, Result};
use std::path::Path;

/// The result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// A description of each change.
    pub done: Vec<String>,
    /// Whether the container is being written, so that the recovery is incomplete.
    pub is_used: bool,
}

/// Brings a container to the state in which its last writer would have left it.
///
/// # Errors
///
/// If it is damaged, which only [`check`](crate::repair::check::check()) may repair, or cannot be
/// changed.
pub fn recover(path: &Path) -> Result<Recovered> {
    let container = Container::open(path)?;
    let dir = &container.shared.dir;
    let drained = drain_all(dir);
    let manifest = Manifest::load(dir)?;
    if matches!(drained, Ok(0))
        && container.attributes()?.sealed
        && left(dir, &manifest)?.is_empty()
    {
        return Ok(Recovered::default());
    }
    container.may_write()?;
    let order = Sequencer::open(dir, part_mode(manifest.mode), false)?;
    let is_alone = order.be_alone()?;
    let finished = finish(dir, &order, is_alone);
    if is_alone {
        order.leave()?;
    }
    let mut finished = finished?;
    match drained {
        Ok(0) => {}
        Ok(drained) => finished.done.push(format!("logs moved into the container: {drained}")),
        Err(error) if error.errno() == libc::EBUSY => finished.is_used = true,
        Err(error) => return Err(error),
    }
    Ok(finished)
}

fn finish(dir: &Dir, order: &Sequencer, is_alone: bool) -> Result<Recovered> {
    let _turn = order.manifest_turn()?;
    let mut done = Recovered { is_used: !is_alone, ..Recovered::default() };
    for id in if is_alone { dir.logs()? } else { Vec::new() } {
        match cut(dir, id)? {
            Cut::Nothing => {}
            Cut::Done(words) => done.done.push(words),
            Cut::Used => done.is_used = true,
        }
    }
    if !done.is_used {
        let before = Manifest::load(dir)?.generation;
        if seal(dir)?.generation != before {
            done.done.push("sealed".into());
        }
    }
    let manifest = Manifest::load(dir)?;
    // No other process needs the parts: no set is being made of them.
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

/// Whether a file that a repair put aside holds only the unfinished frame of a killed writer.
fn is_torn_copy(dir: &Dir, name: &str, (id, place): (u64, u64)) -> Result<bool> {
    let file = dir.part(name, false)?;
    let path = dir.path_of(name);
    let len = file.metadata().map_err(|error| failed("fstat", &error, &path))?.len();
    let tail = Tail { file: &file, path: &path, start: 0, len, log: id, place };
    Ok(tail.kind()?.is_some())
}

/// The result of cutting a log.
enum Cut {
    /// Its end is that of a frame.
    Nothing,
    /// The end was cut off; a description of it.
    Done(String),
    /// A writer may be adding a frame.
    Used,
}

/// Cuts off the unfinished frame of a killed writer.
fn cut(dir: &Dir, id: u64) -> Result<Cut> {
    let name = log_name(id);
    let path = dir.path_of(&name);
    let file = dir.part(&name, true)?;
    let mut scan = Scan::new(&file, &path, id, 0)?;
    let why = loop {
        match scan.step()? {
            Step::Frame(_) => {}
            Step::End => return Ok(Cut::Nothing),
            Step::Broken(why) => break why,
        }
    };
    if !liveness::is_abandoned(&file) {
        return Ok(Cut::Used);
    }
    let (end, len) = (scan.place(), scan.length() - scan.place());
    let sealed = Manifest::load(dir)?.log(id).map_or(0, |log| log.length);
    let torn = if end < sealed { None } else { tail::end_of(&file, &path, &scan)? };
    let what = match torn {
        Some(what) if search::all(&file, &path, &mut scan)?.is_empty() => what,
        _ => return Err(unclear(&why, &path)),
    };
    file.set_len(end).map_err(|error| failed("ftruncate", &error, &path))?;
    file.sync_all().map_err(|error| failed("fsync", &error, &path))?;
    let what = match what {
        Torn::Frame => "bytes of an unfinished frame",
        Torn::Room => "zeros that nobody filled",
    };
    Ok(Cut::Done(format!("{name}: {len} {what} cut off at byte {end}")))
}

fn unclear(why: &Error, path: &Path) -> Error {
    let words = "a killed writer leaves no such end; `aggio fsck --repair` cuts it off and keeps \
                 the bytes, `--salvage` takes intact frames behind it";
    damaged_at(path, format!("{}; {words}", detail(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::container::Create;
    use crate::repair::check::check;
    use crate::repair::findings::Check;

    /// A container with a writer that was killed after two frames, and the path of its log.
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
        let first = crate::format::frame::SHORT + 5;
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
        let second = crate::format::frame::SHORT + 5;
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
    fn a_whole_frame_that_was_changed_in_any_way_is_not_cut_off() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let whole = std::fs::read(&log).unwrap();
        let second = crate::format::frame::SHORT + 5;
        let unchanged = |changed: &[u8], what: &str| {
            std::fs::write(&log, changed).unwrap();
            let error = recover(&path).expect_err(what).to_string();
            assert!(error.contains(".log"), "{what}: {error}");
            assert!(std::fs::read(&log).unwrap() == changed, "{what}");
            // The container is not read as if the frame had never been written.
            let read = Container::open(&path).and_then(|container| container.reader());
            let error = read.expect_err(what).to_string();
            assert!(error.contains(".log"), "{what}, read: {error}");
        };
        for bit in 0..crate::format::frame::SHORT * 8 {
            let mut changed = whole.clone();
            changed[second + bit / 8] ^= 1 << (bit % 8);
            unchanged(&changed, &format!("bit {bit}"));
            // The end of the next frame, too, that a killed writer had begun.
            changed.extend(&whole[..40]);
            unchanged(&changed, &format!("bit {bit}, and another frame"));
        }
        for zeros in [crate::format::frame::HEADER, crate::format::frame::SHORT] {
            let mut changed = whole.clone();
            changed[second..second + zeros].fill(0);
            unchanged(&changed, &format!("{zeros} zeros"));
        }
        for runs in [0_u32, 2, 3, 5, 1 << 20, u32::MAX] {
            let mut changed = whole.clone();
            changed[second + 8..second + 12].copy_from_slice(&runs.to_le_bytes());
            unchanged(&changed, &format!("{runs} runs"));
        }
        // A frame of many runs, with a wrong number of them in the header.
        std::fs::write(&log, &whole).unwrap();
        let writer = Container::open(&path).unwrap().writer().unwrap();
        let pieces: Vec<(u64, &[u8])> = (1..8_u64).map(|at| (at * at * 100, &b"x"[..])).collect();
        writer.write_pieces(&pieces).unwrap();
        let log = path.join(log_name(writer.log_id().unwrap()));
        writer.abandon();
        let many = std::fs::read(&log).unwrap();
        for bit in 0..32 {
            let mut changed = many.clone();
            changed[8 + bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&log, &changed).unwrap();
            recover(&path).expect_err("a changed number of runs");
            assert!(std::fs::read(&log).unwrap() == changed, "bit {bit}");
        }
        // A killed writer may leave any prefix of it.
        for len in (1..many.len()).rev() {
            std::fs::write(&log, &many[..len]).unwrap();
            let done = recover(&path).unwrap().done;
            assert!(done[0].contains("of an unfinished frame"), "{len}: {done:?}");
            let manifest = Manifest::new(0o644, true).unwrap();
            manifest.store(&Dir::open(&path).unwrap()).unwrap();
        }
    }

    #[test]
    fn room_that_a_crash_of_the_system_left_goes_and_is_told() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let whole = std::fs::read(&log).unwrap();
        for zeros in [1, 63, 64, 5000, 3 << 20] {
            let file = std::fs::File::options().write(true).open(&log).unwrap();
            file.set_len(whole.len() as u64 + zeros).unwrap();
            let done = recover(&path).unwrap().done;
            assert!(done[0].contains(&format!("{zeros} zeros that nobody filled")), "{done:?}");
            assert_eq!(std::fs::read(&log).unwrap(), whole);
            assert_eq!(bytes(&path), b"firstsecond");
        }
    }

    #[test]
    fn pages_that_a_killed_writer_was_filling_are_cut_off() {
        use crate::log::writer_log::Log;
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let dir = Dir::open(&path).unwrap();
        std::fs::remove_file(&log).unwrap();
        let id = crate::directory::part_names::log_id(log.file_name().unwrap().to_str().unwrap())
            .unwrap();
        let mut new = Log::new(true);
        new.call(id);
        let mut states = Vec::new();
        let pages = (aggio_base::Extent::new(0, 5000), 1, 4096);
        let placed = new.append_pages(&dir, pages, |file, place| {
            states.push(std::fs::read(&log).unwrap());
            std::os::unix::fs::FileExt::write_all_at(file, &[7; 5000], place).unwrap();
            states.push(std::fs::read(&log).unwrap());
            Ok(())
        });
        placed.unwrap();
        let whole = std::fs::read(&log).unwrap();
        drop(new);
        for state in states {
            std::fs::write(&log, &state).unwrap();
            assert_eq!(Container::open(&path).unwrap().reader().unwrap().size(), 0);
            let done = recover(&path).unwrap().done;
            assert!(done[0].contains("of an unfinished frame"), "{done:?}");
            assert!(is_clean(&path));
        }
        // The same bytes when it was complete, and then lost its first page.
        for zeros in [64, 96, 4096] {
            let mut changed = whole.clone();
            changed[..zeros].fill(0);
            std::fs::write(&log, &changed).unwrap();
            recover(&path).expect_err("a frame that was acknowledged");
            assert!(std::fs::read(&log).unwrap() == changed);
        }
    }

    #[test]
    fn a_torn_end_whose_writer_has_a_living_child_is_used_and_nothing_is_sealed() {
        let place = tempfile::tempdir().unwrap();
        let (path, log) = killed(place.path());
        let whole = std::fs::read(&log).unwrap();
        for changed in [&whole[..whole.len() - 1], &[&whole[..], &[0; 64], b"x"].concat()] {
            std::fs::write(&log, changed).unwrap();
            let child = std::fs::File::options().write(true).open(&log).unwrap();
            liveness::keep(&child);
            let recovered = recover(&path).unwrap();
            assert_eq!(recovered, Recovered { done: Vec::new(), is_used: true });
            assert_eq!(std::fs::read(&log).unwrap(), changed);
            drop(child);
        }
        std::fs::write(&log, &whole[..whole.len() - 1]).unwrap();
        let locks = crate::refused::Refusal::of_locks(libc::ENOLCK);
        let file = std::fs::File::open(&log).unwrap();
        assert!(!crate::refused::refusing(&locks, || liveness::is_abandoned(&file)));
        assert_eq!(recover(&path).unwrap().done.len(), 2);
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
        // Unfinished indexes are made under a lock, so this one has no living owner.
        assert!(recovered.is_used && recovered.done.len() == 1, "{recovered:?}");
        assert_eq!(std::fs::read(&log).unwrap().len(), whole.len() - 1);
        writer.close().unwrap();
        assert!(!recover(&path).unwrap().is_used && is_clean(&path));
    }
}
