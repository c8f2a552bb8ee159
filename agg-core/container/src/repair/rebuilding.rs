//! Repairs: everything but the logs is made anew from the logs. A file that is changed or removed
//! is kept under another name.

use crate::directory::{Bytes, Dir, MANIFEST, ORDER, holes, log_name, random};
use crate::errors::{failed, refused};
use crate::format::{Frame, Kind, Manifest, NO_DATA_CRC, SealedLog, Strip};
use crate::log::{Log, Words};
use crate::order::Sequencer;
use crate::repair::examination::Examined;
use crate::repair::findings::Check;
use crate::repair::losses::lost_by_indexes;
use crate::repair::remains::{Remain, kind};
use crate::writing::seal_anew;
use aggio_base::{ErrorClass, Result};
use std::fs::{File, Permissions};
use std::io::copy;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// Repairs `dir`; returns descriptions of the changes.
pub(crate) fn repair(dir: &Dir, logs: &[Examined], how: &Check) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let order = match Sequencer::open(dir, 0o600, true) {
        Ok(order) => order,
        Err(_) => {
            keep(dir, ORDER)?;
            done.push(format!("{ORDER}: made anew"));
            Sequencer::open(dir, 0o600, true)?
        }
    };
    if !order.be_alone()? {
        let words = "it cannot be repaired while somebody writes to it";
        return Err(refused((ErrorClass::FileInUse, libc::EBUSY), dir.path(), words));
    }
    let repaired = rebuild(dir, &order, logs, how, &mut done);
    order.leave()?;
    repaired.map(|()| done)
}

fn rebuild(
    dir: &Dir,
    order: &Sequencer,
    logs: &[Examined],
    how: &Check,
    done: &mut Vec<String>,
) -> Result<()> {
    let manifest = match Manifest::load(dir) {
        Ok(manifest) => manifest,
        Err(_) => {
            keep(dir, MANIFEST)?;
            let manifest = lost_manifest(dir, logs)?;
            manifest.store(dir)?;
            manifest
        }
    };
    let _turn = order.manifest_turn()?;
    for log in logs.iter().filter(|log| log.end < log.length) {
        // Without `salvage`, cut off nothing but a torn end.
        if log.is_sound() || how.salvage {
            salvage(dir, log, done)?;
            cut(dir, log, done)?;
        }
    }
    keep_copy(dir, MANIFEST)?;
    if let Some(line) = &manifest.index {
        keep(dir, &line.name)?;
    }
    for name in dir.names()? {
        let what = kind(&name, Some(&manifest));
        if matches!(what, Some(Remain::Unfinished | Remain::OfSet | Remain::OldIndex)) {
            keep(dir, &name)?;
            done.push(format!("{name}: put aside"));
        }
    }
    let lost = |log: &&SealedLog| {
        let holds = |one: &Examined| one.id == log.id && one.whole && one.end >= log.length;
        log.length > 0 && !logs.iter().any(holds)
    };
    let lost: Vec<_> = manifest.logs.iter().filter(lost).copied().collect();
    let damaged = !lost.is_empty() || !logs.iter().all(Examined::is_sound);
    if how.salvage || !damaged {
        done.extend(lost.iter().map(accepted));
        seal_anew(dir, Manifest { logs: Vec::new(), index: None, ..manifest })?;
    } else {
        // Keep the sealed lengths of the logs until the loss is accepted.
        Manifest { index: None, ..manifest }.store(dir)?;
    }
    done.push("manifest and index: made anew from the logs".into());
    Ok(())
}

/// The description of a sealed log that is not whole any more, after a repair has accepted the
/// loss.
fn accepted(log: &SealedLog) -> String {
    let name = log_name(log.id);
    format!("{name}: bytes of the {} that it had when it was sealed are given up", log.length)
}

/// The manifest of a container that has none any more: permissions as those of the parts.
fn lost_manifest(dir: &Dir, logs: &[Examined]) -> Result<Manifest> {
    let modes = dir.names()?.into_iter().filter_map(|name| dir.stat(&name).ok().flatten());
    let mode = modes.map(|stat| stat.st_mode & 0o666).reduce(|a, b| a & b).unwrap_or(0o600);
    let mut manifest = Manifest::new(mode, true)?;
    // Beyond every generation that an index here may have.
    let numbers =
        dir.names()?.into_iter().filter_map(|name| name.strip_prefix("index.")?.parse().ok());
    manifest.generation = numbers.max().unwrap_or(0_u64).saturating_add(1);
    manifest.logs = lost_by_indexes(dir, logs)?;
    Ok(manifest)
}

/// Copies the intact frames behind damaged ones to a new log, with the numbers that they had.
fn salvage(dir: &Dir, log: &Examined, done: &mut Vec<String>) -> Result<()> {
    if log.behind.is_empty() {
        return Ok(());
    }
    let name = log_name(log.id);
    let file = dir.part(&name, false)?;
    let mut new = Log::new(true);
    for frame in &log.behind {
        let data = data_of(&file, frame).map_err(|e| failed("pread", &e, &dir.path_of(&name)))?;
        let Frame { seq, last_seq, .. } = *frame;
        // Copied bytes are not mapped by any process.
        let kind = if frame.kind == Kind::Mapped { Kind::Data } else { frame.kind };
        let strips: &[Strip] = &frame.strips;
        // The existing checksum also shows whether this very copy is right.
        if frame.flags & NO_DATA_CRC == 0 && aggio_base::checksum::crc32c(&data) != frame.data_crc {
            done.push(format!("{name}: the frame at byte {} has damaged data", frame.place));
            continue;
        }
        new.append(dir, &Words { kind, strips, seq, last_seq }, &[&data])?;
    }
    new.sync(dir)?;
    let to = new.id().map_or_else(|| "no log".into(), log_name);
    done.push(format!("{name}: {} frames behind the damage copied to {to}", log.behind.len()));
    Ok(())
}

fn data_of(file: &File, frame: &Frame) -> std::io::Result<Vec<u8>> {
    let bytes = |strip: &Strip| strip.length * strip.count;
    let len = if frame.kind == Kind::Mapped { bytes(&frame.strips[0]) } else { frame.data_len };
    let mut data = vec![0; len as usize];
    file.read_exact_at(&mut data, frame.data_place())?;
    Ok(data)
}

/// Cuts off the bytes behind the last frame that a reader finds, and keeps them in a file.
fn cut(dir: &Dir, log: &Examined, done: &mut Vec<String>) -> Result<()> {
    let name = log_name(log.id);
    let fail = |error: std::io::Error| failed("copy", &error, &dir.path_of(&name));
    let file = dir.part(&name, true)?;
    let backup = format!("backup.{:016x}.{name}.from-{}", random()?, log.end);
    let kept = dir.new_part(&backup, 0o600)?;
    let len = log.length - log.end;
    holes::each(&file, &dir.path_of(&name), (log.end, len), &mut |bytes| match bytes {
        Bytes::Stored(at, bytes) => kept.write_all_at(bytes, at - log.end).map_err(fail),
        Bytes::Zeros(_) => Ok(()),
    })?;
    kept.set_len(len).and_then(|()| kept.sync_all()).map_err(fail)?;
    file.set_len(log.end).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    done.push(format!("{name}: {} bytes cut off, kept in {backup}", log.length - log.end));
    Ok(())
}

/// Copies a part to a backup name; anything but a regular file is renamed to it.
fn keep_copy(dir: &Dir, name: &str) -> Result<()> {
    let Ok(mut file) = dir.part(name, false) else { return keep(dir, name) };
    let backup = format!("backup.{:016x}.{name}", random()?);
    let fail = |error: std::io::Error| failed("copy", &error, &dir.path_of(&backup));
    let mut kept = dir.new_part(&backup, 0o600)?;
    copy(&mut file, &mut kept).map_err(fail)?;
    kept.sync_all().map_err(fail)
}

/// Gives a part a name under which nobody looks for it; there may be none.
fn keep(dir: &Dir, name: &str) -> Result<()> {
    if dir.stat(name)?.is_none() {
        return Ok(());
    }
    let plain = name.trim_start_matches('.');
    let backup = format!("backup.{:016x}.{plain}", random()?);
    let facts = dir.stat(name)?.map_or(0, |stat| stat.st_mode & libc::S_IFMT);
    if facts == libc::S_IFREG {
        let permissions = Permissions::from_mode(0o600);
        let file = dir.part(name, false)?;
        file.set_permissions(permissions).map_err(|e| failed("fchmod", &e, &dir.path_of(name)))?;
    }
    dir.rename(name, &backup)
}
