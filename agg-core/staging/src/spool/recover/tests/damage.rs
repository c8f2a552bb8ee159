//! Spool files that are damaged, unfinished, or of another version.

use super::*;
use crate::spool::layout::{MAGIC, Piece, SLOT_HEAD, UNCHECKED};

/// A directory with the files `first` and `second`, and the spool of a dead process with `two`
/// pieces of one and one of the other.
struct Two {
    directory: tempfile::TempDir,
    spool: PathBuf,
}

const NAMES: [&str; 2] = ["first", "second"];
const OLD: [&[u8]; 2] = [b"..........", b"----------"];
const NEW: [&[u8]; 2] = [b"..abde....", b"------xyz-"];

impl Two {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(directory.path()).unwrap();
        let pieces: [&[(u64, &[u8])]; 2] = [&[(2, b"abc"), (4, b"de")], &[(6, b"xyz")]];
        for ((name, old), pieces) in NAMES.iter().zip(OLD).zip(pieces) {
            let path = directory.path().join(name);
            let file = File::create(&path).unwrap();
            file.write_all_at(old, 0).unwrap();
            keep_back(&mut spool, &path, &file, pieces);
        }
        let path = spool.path().to_path_buf();
        die(spool);
        Self { directory, spool: path }
    }

    fn change(&self, with: impl FnOnce(&File)) {
        with(&File::options().read(true).write(true).open(&self.spool).unwrap());
    }

    fn content(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.directory.path().join(name)).unwrap()
    }

    /// Recovers; each file has the bytes that were kept back, or none of them and an error that
    /// names the spool file, which is still there. How many files have theirs.
    fn right_or_named(&self, what: &str) -> usize {
        let done = recovered(self.directory.path());
        let errors = done.iter().filter(|one| one.error.is_some());
        let named = errors.filter(|one| one.spool == self.spool).count();
        let right = |at: &usize| self.content(NAMES[*at]) == NEW[*at];
        let (right, other): (Vec<_>, Vec<_>) = [0, 1].into_iter().partition(right);
        for at in &other {
            assert!(self.content(NAMES[*at]) == OLD[*at], "{what}: wrong bytes");
        }
        assert_eq!(named > 0, self.spool.exists(), "{what}: {done:?}");
        assert!(other.is_empty() || named > 0, "{what}: bytes are lost without a word");
        right.len()
    }
}

/// The bit `bit` of the byte `at` is another.
fn flip(file: &File, at: usize, bit: usize) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], at as u64).unwrap();
}

/// Where the slots begin.
const SLOTS: [usize; 2] = [HEAD, HEAD + SLOT_HEAD + SLOT_DATA];

#[test]
fn any_bit_that_changes_gives_the_bytes_or_an_error_that_names_the_spool_file() {
    let pieces = offset_of!(SlotHead, pieces);
    let of_slot = |slot: usize, count: usize| {
        let name = offset_of!(SlotHead, path);
        let path = name..name + 8;
        let table = pieces..pieces + count * size_of::<Piece>();
        let end = offset_of!(SlotHead, stored)..offset_of!(SlotHead, check) + 4;
        let data = SLOT_HEAD..SLOT_HEAD + 5;
        let fields = (0..name).chain(path).chain(table).chain(end).chain(data);
        fields.map(move |at| SLOTS[slot] + at)
    };
    let head = 0..size_of::<Head>();
    for (number, at) in head.chain(of_slot(0, 2)).chain(of_slot(1, 1)).enumerate() {
        let two = Two::new();
        let bit = number % 8;
        two.change(|file| flip(file, at, bit));
        two.right_or_named(&format!("bit {bit} of byte {at}"));
    }
}

#[test]
fn bytes_that_changed_are_told_with_their_piece_and_their_range_and_other_files_get_theirs() {
    let two = Two::new();
    two.change(|file| flip(file, SLOTS[0] + SLOT_HEAD + 4, 3));
    let done = recovered(two.directory.path());
    let [damaged, written] = &done[..] else { panic!("{done:?}") };
    let error = damaged.error.as_ref().unwrap();
    let words = error.to_string();
    let place = SLOTS[0] + SLOT_HEAD + 3;
    assert!(words.contains("piece 1 of slot 0"), "{words}");
    assert!(words.contains(&format!("its bytes {place}..{}", place + 2)), "{words}");
    assert!(words.contains(two.directory.path().join("first").to_str().unwrap()), "{words}");
    assert_eq!(error.extent(), Some(Extent::new(4, 2)));
    assert_eq!(damaged.spool, two.spool);
    // Not even the piece before it is written; another file is none of its business.
    assert_eq!(two.content("first"), OLD[0]);
    assert!(written.error.is_none() && two.content("second") == NEW[1], "{done:?}");
    assert!(two.spool.exists());
}

#[test]
fn a_spool_file_that_lost_its_end_says_so() {
    let whole = SLOTS[1] + SLOT_HEAD + SLOT_DATA;
    let lengths = [0, 1, HEAD - 1, HEAD, HEAD + 1, SLOTS[0] + SLOT_HEAD, SLOTS[1] - 1, SLOTS[1]];
    for len in lengths.into_iter().chain([SLOTS[1] + SLOT_HEAD, whole - 1]) {
        let two = Two::new();
        two.change(|file| file.set_len(len as u64).unwrap());
        assert!(two.right_or_named(&format!("{len} bytes")) < 2, "{len} bytes");
    }
    let two = Two::new();
    two.change(|file| file.set_len(1 << 40).unwrap());
    assert_eq!(two.right_or_named("longer"), 2);
}

#[test]
fn a_slot_in_the_place_of_another_and_a_spool_file_of_another_name_say_so() {
    let two = Two::new();
    two.change(|file| {
        let mut slot = vec![0; SLOT_HEAD + SLOT_DATA];
        file.read_exact_at(&mut slot, SLOTS[0] as u64).unwrap();
        file.write_all_at(&slot, SLOTS[1] as u64).unwrap();
    });
    assert_eq!(two.right_or_named("two of the first slot"), 1);
    // A spool file has the content of another process' one.
    let (two, other) = (Two::new(), Two::new());
    std::fs::copy(&other.spool, &two.spool).unwrap();
    assert_eq!(two.right_or_named("another spool file"), 0);
    assert_eq!(other.right_or_named("itself"), 2);
}

#[test]
fn what_a_killed_owner_had_not_acknowledged_is_no_damage() {
    // A piece that does not count yet.
    let two = Two::new();
    two.change(|file| {
        let third = SLOTS[0] + offset_of!(SlotHead, pieces) + 2 * size_of::<Piece>();
        file.write_all_at(&[0xff; 16], third as u64).unwrap();
        file.write_all_at(b"not acknowledged", (SLOTS[0] + SLOT_HEAD + 5) as u64).unwrap();
    });
    assert_eq!(two.right_or_named("a piece was begun"), 2);
    // A slot that was given room, and was none yet.
    let two = Two::new();
    two.change(|file| {
        let end = file.metadata().unwrap().len();
        file.set_len(end + (SLOT_HEAD + SLOT_DATA) as u64).unwrap();
        file.write_all_at(&[0xff; 40], end + 8).unwrap();
    });
    assert_eq!(two.right_or_named("a slot was begun"), 2);
}

#[test]
fn pieces_that_grow_count_with_every_byte_that_was_added() {
    let (directory, path) = abandoned_with(&[]);
    let file = File::open(&path).unwrap();
    let mut spool = Spool::create(directory.path()).unwrap();
    let slot = spool.slot(path.as_os_str().as_bytes(), identity_of(&file), SLOT_DATA).unwrap();
    slot.belong_to(Version::known(file.as_raw_fd()));
    // SAFETY: the slot has room for them.
    unsafe { slot.data().copy_from(b"onetwothree".as_ptr(), 11) };
    slot.push(0, 4, 3, 0);
    slot.extend(0, 3);
    slot.extend(0, 5);
    assert_eq!(slot.piece(0), (4, 11, 0));
    die(spool);
    let done = recovered(directory.path());
    assert!(done.iter().all(|one| one.error.is_none()), "{done:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"....onetwothree");
}

#[test]
fn a_spool_file_whose_owner_died_before_it_was_one_goes_when_it_is_old() {
    let directory = tempfile::tempdir().unwrap();
    // SAFETY: asks for a number.
    let uid = unsafe { libc::geteuid() };
    let path = directory.path().join(format!("{}1-0.new", crate::spool::prefix(uid)));
    let mut how = File::options();
    let file = how.write(true).create_new(true).mode(0o600).open(&path).unwrap();
    assert!(recover(directory.path()).unwrap().is_empty() && path.exists());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(61);
    file.set_times(std::fs::FileTimes::new().set_modified(long_ago)).unwrap();
    drop(file);
    let gone = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(recover(directory.path()).unwrap().is_empty());
        !path.exists()
    });
    assert!(gone, "no byte was in it");
}

/// Makes a spool file as the version before wrote it, which had no checks.
fn make_unchecked(file: &File) {
    let set = |at: usize, bytes: &[u8]| file.write_all_at(bytes, at as u64).unwrap();
    set(offset_of!(Head, version), &UNCHECKED.to_ne_bytes());
    set(offset_of!(Head, slots), &[0; 12]);
    for (slot, lengths) in SLOTS.into_iter().zip([&[3_u64, 2][..], &[3]]) {
        set(slot + offset_of!(SlotHead, used), &1_u32.to_ne_bytes());
        set(slot + offset_of!(SlotHead, count), &(lengths.len() as u32).to_ne_bytes());
        set(slot + offset_of!(SlotHead, room), &(SLOT_DATA as u64).to_ne_bytes());
        set(slot + offset_of!(SlotHead, check), &[0; 4]);
        for (index, len) in lengths.iter().enumerate() {
            let piece = offset_of!(SlotHead, pieces) + index * size_of::<Piece>();
            set(slot + piece + offset_of!(Piece, run), &len.to_ne_bytes());
        }
    }
}

#[test]
fn a_spool_file_of_the_version_before_is_finished_by_its_own_rules() {
    let two = Two::new();
    two.change(make_unchecked);
    assert_eq!(two.right_or_named("the version before"), 2);
    // As far as they go.
    let pieces = HEAD + offset_of!(SlotHead, pieces);
    let damages = [
        (pieces + offset_of!(Piece, run), u64::MAX),
        // Alone it would fit.
        (pieces + offset_of!(Piece, run), SLOT_DATA as u64),
        (pieces + offset_of!(Piece, place), SLOT_DATA as u64),
        (pieces + offset_of!(Piece, offset), u64::MAX - 1),
        (HEAD + offset_of!(SlotHead, count), 0xffff_ffff),
        (HEAD + offset_of!(SlotHead, room), 4095),
        (HEAD + offset_of!(SlotHead, room), u64::MAX),
        (HEAD + offset_of!(SlotHead, inode), 1),
        (HEAD + offset_of!(SlotHead, born), 1),
        (HEAD + offset_of!(SlotHead, path_len), u64::MAX),
    ];
    for (at, with) in damages {
        let two = Two::new();
        two.change(|file| {
            make_unchecked(file);
            file.write_all_at(&with.to_ne_bytes(), at as u64).unwrap();
        });
        assert!(two.right_or_named(&format!("byte {at}")) < 2);
    }
}

#[test]
fn a_version_that_is_not_known_is_named_and_its_spool_file_stays() {
    for version in [1_u32, 2, VERSION + 1, 99] {
        let two = Two::new();
        let at = offset_of!(Head, version) as u64;
        two.change(|file| file.write_all_at(&version.to_ne_bytes(), at).unwrap());
        let done = recovered(two.directory.path());
        let words = done[0].error.as_ref().unwrap().to_string();
        assert!(words.contains(&format!("version {version} of spool files")), "{words}");
        assert!(words.contains(two.spool.to_str().unwrap()), "{words}");
        assert_eq!(two.right_or_named("another version"), 0);
    }
    let two = Two::new();
    two.change(|file| file.write_all_at(&(!MAGIC).to_ne_bytes(), 0).unwrap());
    assert_eq!(two.right_or_named("no spool file"), 0);
}
