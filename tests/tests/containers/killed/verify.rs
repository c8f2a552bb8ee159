//! Checks of the files after a kill.

use super::writers::Records;
use agg_core::blob::{Check, Cleared, Container, check, clear, is_container, is_remain, recover};
use agg_core::spool::{Recovered, recover as recover_spools, recover_all};
use std::cell::Cell;
use std::path::Path;

thread_local! {
    /// After how many kills of this test bytes were kept aside: the other writer had changed the
    /// file in the moment in which this one began or ended, and the author of the change cannot be
    /// determined any more. The error says so, and `aggio recover --changed` writes them.
    pub(crate) static ASIDE: Cell<u64> = const { Cell::new(0) };
}

/// The records that were acknowledged, as (process, record).
fn acknowledged(folder: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(folder.join("acknowledged")).unwrap_or_default();
    let complete = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let written = complete.filter_map(|line| line.strip_prefix("w "));
    let pair = |line: &str| {
        let (process, record) = line.trim().split_once(' ').expect("two numbers");
        (process.parse().expect("a number"), record.parse().expect("a number"))
    };
    written.map(pair).collect()
}

/// All bytes of the file, if the job was not killed before it was made.
pub(crate) fn content_of(path: &Path) -> Option<Vec<u8>> {
    if !path.exists() {
        return None;
    }
    if !is_container(path) {
        return std::fs::read(path).ok();
    }
    let reader = Container::open(path).and_then(|it| it.reader()).expect("it opens after a kill");
    let mut bytes = vec![0; reader.size() as usize];
    let read = reader.read_at(&mut bytes, 0).expect("its bytes can be read");
    assert_eq!(read, bytes.len());
    Some(bytes)
}

/// Acknowledged records are there, others whole or not at all.
pub(crate) fn verify(folder: &Path, records: Records, what: &str) {
    let spools = folder.join("spool");
    if spools.exists() {
        let done = recover_spools(&spools).expect("spools can be read");
        let is_aside = |one: &Recovered| one.error.as_ref().map(|error| error.errno());
        let mut told = done.iter().filter_map(is_aside);
        if told.clone().next().is_some() {
            assert!(told.all(|errno| errno == libc::ESTALE), "{what}: {done:?}");
            eprintln!("kept aside: {what}");
            ASIDE.set(ASIDE.get() + 1);
            let done = recover_all(&spools, true).expect("spools can be read");
            assert!(done.iter().all(|one| one.error.is_none()), "{what}: {done:?}");
        }
    }
    let acknowledged = acknowledged(folder);
    let Some(bytes) = content_of(&folder.join("data")) else {
        assert!(acknowledged.is_empty(), "{what}: nothing is there of {acknowledged:?}");
        return;
    };
    for (process, record) in acknowledged {
        let start = ((2 * record + process) * records.length) as usize;
        let found = bytes.get(start..start + records.length as usize);
        let wanted = Records::value(process, record);
        let right = found.is_some_and(|all| all.iter().all(|byte| *byte == wanted));
        assert!(right, "{what}: record {record} of process {process} was acknowledged");
    }
    for (place, record) in bytes.chunks(records.length as usize).enumerate() {
        let (process, number) = (place as u64 % 2, place as u64 / 2);
        let whole = record.iter().all(|byte| *byte == Records::value(process, number));
        let nothing = record.iter().all(|byte| *byte == 0);
        assert!(whole || nothing, "{what}: record {number} of process {process} is torn");
    }
}

/// A check finds no damage, for a kill makes none; it repairs everything that it calls repairable,
/// and then finds nothing. Neither changes the content of the file.
pub(crate) fn fsck(folder: &Path, what: &str) {
    let path = folder.join("data");
    if is_container(&path) {
        fsck_of(&path, what);
    }
}

/// Recovery changes no byte, leaves nothing that a check would name, and nothing beside the file.
pub(crate) fn recovered(folder: &Path, what: &str) {
    let path = folder.join("data");
    if is_container(&path) {
        let before = content_of(&path);
        let done = recover(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!done.is_used, "{what}: {done:?}");
        let found = check(&path, &Check { data: true, ..Check::default() }).expect("it is checked");
        assert!(found.problems.is_empty(), "{what}: {done:?}, then {:?}", found.problems);
        assert_eq!(content_of(&path), before, "{what}: {done:?}");
    }
    for entry in std::fs::read_dir(folder).expect("a directory").flatten() {
        if is_remain(&entry.file_name(), false) {
            let gone = clear(&entry.path());
            assert!(gone == Ok(Cleared::Removed), "{what}: {}: {gone:?}", entry.path().display());
        }
    }
    let hidden = |name: &String| name.starts_with('.');
    assert!(!aggio_tests::names_in(folder).iter().any(hidden), "{what}");
}

/// The same of this container.
pub(crate) fn fsck_of(path: &Path, what: &str) {
    let before = content_of(path);
    let look = |repair| {
        let found = check(path, &Check { data: true, repair, salvage: false });
        found.unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let found = look(false);
    assert!(found.exit_code() <= 1, "{what}: {:?}", found.problems);
    assert_eq!(content_of(path), before, "{what}: looking changes nothing");
    let repaired = look(true);
    assert_eq!(repaired.exit_code(), found.exit_code(), "{what}: {:?}", repaired.problems);
    assert_eq!(look(false).exit_code(), 0, "{what}: {:?}", look(false).problems);
    assert_eq!(content_of(path), before, "{what}: a repair keeps what is there");
}
