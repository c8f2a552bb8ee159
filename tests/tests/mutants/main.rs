//! Mutants of containers, and of other stored state: bits changed, parts cut, lengthened,
//! exchanged, replaced and removed at random. A reader gets the right bytes, or an error that names
//! the place; a check that calls a mutant clean, or repairs it, is right.

mod journals;
mod spools;

use agg_core::blob::{Check, Container, Create, Verify, Writer, check};
use aggio_tests::{Directory, factor, told};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

const DATA: Check = Check { data: true, repair: false, salvage: false };
const REPAIR: Check = Check { data: true, repair: true, salvage: false };

/// How the writers of a container ended.
#[derive(Clone, Copy)]
enum End {
    Closed,
    /// Killed between two writes: all that was written was acknowledged, and nothing was sealed.
    Killed,
}

/// A container that three writers have made, and its bytes: with an index if there are many frames.
fn original(path: &Path, frames: usize, end: End) -> Vec<u8> {
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let container = Container::create(path, &how).unwrap();
    let writers: Vec<_> = (0..3).map(|_| container.writer().unwrap()).collect();
    let len = 3 * 64;
    let mut model = vec![0; frames * len];
    for frame in 0..frames {
        let start = frame * len;
        for (at, byte) in model[start..start + len].iter_mut().enumerate() {
            *byte = (at * 7 + frame * 13 + 1) as u8;
        }
        let part = |third: usize| {
            let from = start + third * 64;
            (from as u64, &model[from..from + 64])
        };
        // Strips, pieces in no order, and single ones.
        match frame % 3 {
            0 => writers[frame % 3].write_pieces(&[part(0), part(1), part(2)]).unwrap(),
            1 => writers[frame % 3].write_pieces(&[part(2), part(0), part(1)]).unwrap(),
            _ => (0..3).for_each(|third| {
                let (offset, bytes) = part(third);
                assert_eq!(writers[third].write_at(bytes, offset).unwrap(), 64);
            }),
        }
    }
    match end {
        End::Closed => writers.into_iter().for_each(|writer| writer.close().unwrap()),
        // Killed between two writes.
        End::Killed => writers.into_iter().for_each(Writer::abandon),
    }
    model
}

fn parts(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.sort();
    parts
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for part in parts(from) {
        fs::copy(&part, to.join(part.file_name().unwrap())).unwrap();
    }
}

/// Changes one part, or two; returns a description. Changes after a kill lose nothing: the end of
/// the logs is not recorded, and a shorter log is one that an earlier kill would have left.
fn mutate(path: &Path, end: End, random: &mut Random) -> String {
    let parts = parts(path);
    let part = &parts[random.below(parts.len())];
    // Another one: nothing is exchanged with itself.
    let others: Vec<_> = parts.iter().filter(|other| *other != part).collect();
    let other = others[random.below(others.len())];
    let bytes = fs::read(part).unwrap();
    let at = random.below(bytes.len());
    let open = || fs::File::options().write(true).open(part).unwrap();
    let kinds: &[usize] = match end {
        End::Closed => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        End::Killed => &[0, 1, 2, 3, 6, 8, 9],
    };
    let what = match kinds[random.below(kinds.len())] {
        0..4 => {
            let bit = random.below(8);
            open()
                .write_all_at(&[bytes.get(at).copied().unwrap_or(0) ^ 1 << bit], at as u64)
                .unwrap();
            format!("bit {bit} of byte {at} changed")
        }
        4 => {
            open().set_len(at as u64).unwrap();
            format!("cut at byte {at}")
        }
        5 => {
            open().set_len(0).unwrap();
            "emptied".into()
        }
        6 => {
            let (file, more) = (open(), 1 << random.below(44));
            file.set_len(bytes.len() as u64 + more).unwrap();
            format!("{more} zeros longer")
        }
        7 => {
            fs::remove_file(part).unwrap();
            "removed".into()
        }
        8 => {
            let aside = path.join("aside");
            fs::rename(part, &aside).unwrap();
            let _ = fs::rename(other, part);
            let _ = fs::rename(&aside, other);
            format!("exchanged with {}", other.display())
        }
        _ => {
            let theirs = fs::read(other).unwrap();
            fs::write(part, theirs).unwrap();
            format!("replaced by {}", other.display())
        }
    };
    format!("{}: {what}", part.display())
}

fn content(path: &Path, how: Verify, step: usize) -> agg_core::Result<Vec<u8>> {
    let reader = Container::open(path)?.reader()?.verifying(how)?;
    let mut bytes = vec![0; usize::try_from(reader.size()).unwrap()];
    for (number, part) in bytes.chunks_mut(step).enumerate() {
        reader.read_at(part, (number * step) as u64)?;
    }
    Ok(bytes)
}

/// The right bytes, or an error that names a part of the container.
#[track_caller]
fn is_right_or_named(
    path: &Path,
    found: agg_core::Result<Vec<u8>>,
    model: &[u8],
    what: &str,
) -> bool {
    match found {
        Ok(bytes) => {
            assert!(bytes == model, "{what}: wrong bytes with success");
            true
        }
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains(&*path.to_string_lossy()), "{what}: {words}");
            false
        }
    }
}

#[test]
fn mutants_of_containers_are_read_right_or_refused_with_the_place() {
    let _alone = alone();
    let place = Directory::new();
    let originals: Vec<_> = [(6, End::Closed), (200, End::Closed), (9, End::Killed)]
        .map(|(frames, end)| {
            let path = place.path().join(format!("original.{frames}"));
            let model = original(&path, frames, end);
            (path, model, end)
        })
        .into();
    let began = std::time::Instant::now();
    let (mut random, mut right) = (Random(0x5EED_CAFE), 0);
    let count = if factor() > 1 { 6_500 } else { 400 };
    for number in 0..count {
        let (from, model, end) = &originals[number % originals.len()];
        let path = place.path().join("mutant");
        copy(from, &path);
        let what = format!("mutant {number}, {}", mutate(&path, *end, &mut random));
        let readers =
            [(Verify::Whole, model.len()), (Verify::Always, model.len()), (Verify::Always, 100)];
        let mut all = true;
        for (how, step) in readers {
            all &= is_right_or_named(&path, content(&path, how, step), model, &what);
        }
        right += usize::from(all);
        let checked = check(&path, &DATA);
        let clean = checked.as_ref().is_ok_and(|found| found.exit_code() == 0);
        assert!(!clean || all, "{what}: called clean");
        // Completion after a crash, and a repair, make no wrong bytes valid.
        let sealed = Container::open(&path).and_then(|it| it.writer()).and_then(|it| it.close());
        drop(sealed);
        is_right_or_named(&path, content(&path, Verify::Always, 4096), model, &what);
        let repaired = check(&path, &REPAIR).is_ok_and(|found| found.exit_code() < 4);
        let after = is_right_or_named(&path, content(&path, Verify::Always, 4096), model, &what);
        assert!(after || !repaired, "{what}: called repaired");
        fs::remove_dir_all(&path).unwrap();
    }
    told("mutants", &format!("containers, {right} of them read right"), count, began);
    assert!(right > 0 && right < count);
}
