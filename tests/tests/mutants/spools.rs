//! Mutants of spool files: recovery of one gives the bytes that were kept back, or an error names
//! it and it stays.

use super::{Random, alone};
use agg_core::blob::{Container, Create};
use agg_core::spool::layout::{HEAD, SLOT_DATA, SLOT_HEAD};
use agg_core::spool::{Recovered, recover_all};
use aggio_tests::spools::{NAMES, OLD, PIECES, new};
use aggio_tests::{Directory, factor, told};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Spool files that one process leaves.
const TOGETHER: usize = 40;
/// Bytes that another program has written to files since.
const ANEW: &[u8] = b"somebody has written the file anew, and nothing of it may go";

/// A directory in which a spool file was left.
struct Left {
    directory: PathBuf,
    spool: PathBuf,
}

impl Left {
    /// So many of them below `place`.
    fn many(place: &Path) -> Vec<Self> {
        let directories: Vec<_> = (0..TOGETHER).map(|at| place.join(at.to_string())).collect();
        for directory in &directories {
            fs::create_dir(directory).expect("a directory");
            for name in &NAMES[..2] {
                fs::write(directory.join(name), OLD).expect("a file");
            }
            let how = Create { mode: 0o644, exclusive: true, data_crc: true };
            let container = Container::create(&directory.join(NAMES[2]), &how).expect("one");
            let writer = container.writer().expect("a writer");
            writer.write_at(OLD, 0).and_then(|_| writer.close()).expect("it is written");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggio-test-spools"));
        assert!(command.args(&directories).status().expect("it starts").success());
        directories.into_iter().map(Self::of).collect()
    }

    fn of(directory: PathBuf) -> Self {
        let names = fs::read_dir(&directory).expect("a directory").flatten();
        let is_spool = |path: &PathBuf| path.to_string_lossy().contains("/aggio-spool-");
        let spool = names.map(|entry| entry.path()).find(is_spool).expect("a spool file");
        Self { directory, spool }
    }

    fn content(&self, name: &str) -> Vec<u8> {
        let path = self.directory.join(name);
        if name != NAMES[2] {
            return fs::read(path).expect("a file");
        }
        let reader = Container::open(&path).and_then(|it| it.reader()).expect("a container");
        let mut bytes = vec![0; reader.size() as usize];
        reader.read_at(&mut bytes, 0).expect("bytes");
        bytes
    }

    /// Whether all files got their bytes; those that did not are as before, and an error names
    /// the spool file, which stays.
    fn is_right(&self, before: &[&[u8]; 3], done: &[Recovered], what: &str) -> bool {
        let is_named = done.iter().any(|one| one.error.is_some() && one.spool == self.spool);
        assert_eq!(is_named, self.spool.exists(), "{what}: {done:?}");
        let mut all = true;
        for (name, (before, pieces)) in NAMES.iter().zip(before.iter().zip(PIECES)) {
            let (found, is_stale) = (self.content(name), *before == ANEW);
            let right = !is_stale && found == new(pieces);
            assert!(right || found == *before, "{what}: wrong bytes in {name}");
            assert!(right || is_named, "{what}: bytes of {name} are lost with success");
            all &= right;
        }
        all
    }
}

/// A place of a spool file that says something, or any.
fn place(random: &mut Random, len: usize) -> usize {
    let slot = HEAD + random.below(3) * (SLOT_HEAD + SLOT_DATA);
    let pieces = std::mem::offset_of!(agg_core::spool::layout::SlotHead, pieces);
    match random.below(7) {
        0 => random.below(160),
        1 => slot + random.below(88),
        2 => slot + 72 + random.below(60),
        3 => slot + pieces + random.below(72),
        4 | 5 => slot + SLOT_HEAD + random.below(24),
        _ => random.below(len),
    }
}

/// Changes a spool file; returns a description.
fn mutate(spool: &Path, other: &Path, random: &mut Random) -> String {
    let file = File::options().read(true).write(true).open(spool).expect("a file");
    let len = file.metadata().expect("it is").len() as usize;
    let at = place(random, len);
    match random.below(12) {
        0..6 => {
            let (mut byte, bit) = ([0], random.below(8));
            file.read_exact_at(&mut byte, at as u64).expect("a byte");
            file.write_all_at(&[byte[0] ^ 1 << bit], at as u64).expect("it is written");
            format!("bit {bit} of byte {at} changed")
        }
        6 => {
            let at = random.below(len);
            file.set_len(at as u64).expect("it is cut");
            format!("cut at byte {at}")
        }
        7 => {
            file.set_len(0).expect("it is cut");
            "emptied".into()
        }
        8 => {
            let more = 1 << random.below(40);
            file.set_len(len as u64 + more).expect("it is longer");
            format!("{more} zeros longer")
        }
        9 => {
            let (from, count) = (at / 4096 * 4096, 4096.min(len - at / 4096 * 4096));
            file.write_all_at(&vec![0; count], from as u64).expect("it is written");
            format!("{count} zeros at byte {from}")
        }
        10 => {
            let (from, count) = (place(random, len), 1 + random.below(200));
            let count = count.min(len - from.max(at));
            let mut bytes = vec![0; count];
            file.read_exact_at(&mut bytes, from as u64).expect("bytes");
            file.write_all_at(&bytes, at as u64).expect("it is written");
            format!("{count} bytes from byte {from} copied to byte {at}")
        }
        _ => {
            file.set_len(0).expect("it is cut");
            file.write_all_at(&fs::read(other).expect("a file"), 0).expect("it is written");
            format!("replaced by {}", other.display())
        }
    }
}

#[test]
fn mutants_of_spools_give_the_bytes_that_were_kept_back_or_are_named_and_stay() {
    let _alone = alone();
    let memory = Path::new("/dev/shm");
    let began = std::time::Instant::now();
    let (mut random, mut right, mut number) = (Random(0x5EED_5B00), 0, 0);
    let count = if factor() > 1 { 3_000 } else { 400 };
    while number < count {
        let place = if memory.is_dir() { Directory::below(memory) } else { Directory::new() };
        let all = Left::many(place.path());
        // The last one serves as the replacement for others.
        let Some((last, others)) = all.split_last() else { break };
        for left in others.iter().take(count - number) {
            number += 1;
            let change = mutate(&left.spool, &last.spool, &mut random);
            let what = format!("mutant {number} of a spool: {change}");
            let mut before: [&[u8]; 3] = [OLD; 3];
            if number.is_multiple_of(3) {
                fs::write(left.directory.join(NAMES[1]), ANEW).expect("a file");
                before[1] = ANEW;
            }
            let done = recover_all(&left.directory, false).expect("a list");
            right += usize::from(left.is_right(&before, &done, &what));
            let again = recover_all(&left.directory, false).expect("a list");
            left.is_right(&before, &again, &format!("{what}, again"));
        }
    }
    told("mutants", &format!("spools, {right} of them read right"), number, began);
    assert!(right > 0 && right < number);
}
