//! Mutants of the journal and the copy of a merge that was interrupted: the next merge gets the
//! right bytes.

use super::{End, Random, alone, copy, mutate};
use agg_core::blob::{Container, Create, Merge, merge};
use agg_core::output::Unfinished;
use aggio_tests::{Directory, factor, names_in, told};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of the file: one window of a merge, and a part of another.
const SIZE: usize = (8 << 20) + 5000;

/// A container of pieces with holes between them, and its bytes.
fn container(path: &Path) -> Vec<u8> {
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let container = Container::create(path, &how).expect("a container");
    let (writer, mut bytes) = (container.writer().expect("a writer"), vec![0; SIZE]);
    for at in [0, 100_000, (8 << 20) - 700, (8 << 20) + 2000, SIZE - 900] {
        bytes[at..at + 900].fill((at % 251 + 1) as u8);
        writer.write_at(&bytes[at..at + 900], at as u64).expect("it is written");
    }
    writer.close().expect("it is closed");
    bytes
}

/// Merges, and keeps the copy if that is interrupted.
fn run(from: &Path, to: &Path, progress: &(dyn Fn(u64, u64) + Sync)) -> agg_core::Result<()> {
    let how = Merge {
        threads: 1,
        verify: false,
        replace: false,
        resume: true,
        progress: Some(progress),
        unfinished: &Unfinished::default(),
    };
    merge(from, to, &how).map(|_| ())
}

/// The directory with the journal.
fn kept(place: &Path) -> Option<PathBuf> {
    let names = names_in(place);
    names.iter().find(|name| name.starts_with(".aggio-merge-")).map(|name| place.join(name))
}

#[test]
fn mutants_of_journals_of_merges_give_the_right_bytes_or_are_named() {
    let _alone = alone();
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { Directory::below(memory) } else { Directory::new() };
    let (from, to) = (place.path().join("container"), place.path().join("to"));
    let bytes = container(&from);
    // Somebody takes the name at the last moment, and gives it back.
    run(&from, &to, &|_, _| drop(fs::create_dir(&to))).expect_err("the name is taken");
    fs::remove_dir(&to).expect("a directory");
    let journal = kept(place.path()).expect("a journal");
    let original = place.path().join("original");
    fs::rename(&journal, &original).expect("it is put aside");
    let began = std::time::Instant::now();
    let (mut random, mut right) = (Random(0x5EED_70B1), 0);
    let count = if factor() > 1 { 1_000 } else { 40 };
    for number in 0..count {
        copy(&original, &journal);
        fs::set_permissions(&journal, PermissionsExt::from_mode(0o700)).expect("a mode");
        let what =
            format!("mutant {number} of a journal, {}", mutate(&journal, End::Closed, &mut random));
        match run(&from, &to, &|_, _| ()) {
            Ok(()) => {
                assert!(fs::read(&to).expect("a file") == bytes, "{what}: wrong with success");
                fs::remove_file(&to).expect("a file");
                right += 1;
            }
            Err(error) => {
                let words = error.to_string();
                let place = place.path().to_string_lossy();
                assert!(words.contains(&*place) && !to.exists(), "{what}: {words}");
            }
        }
        while let Some(left) = kept(place.path()) {
            fs::remove_dir_all(left).expect("a directory");
        }
    }
    told("mutants", &format!("journals, {right} of them read right"), count, began);
    assert!(right > 0);
}
