//! Subfiles are put together rightly, and found wherever they were moved.

use super::find::{Members, find, named_after};
use super::set::open;
use crate::error::Kind;
use crate::files::Folder;
use crate::{Options, Set};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

proptest! {
    #[test]
    fn bytes_are_dealt_to_subfiles_stripe_by_stripe(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        stripe in 1..20_usize, count in 1..6_usize, from in 0..200_usize,
    ) {
        let mut files = vec![("stub".to_owned(), Vec::new())];
        files.extend((0..count).map(|number| (format!("s{number}"), Vec::new())));
        for (number, part) in bytes.chunks(stripe).enumerate() {
            files[1 + number % count].1.extend_from_slice(part);
        }
        let (files, options) = (Arc::new(files), Options::default());
        let file = open(files, "x", (stripe as u64, count), &options).unwrap();
        prop_assert_eq!(file.size(), bytes.len() as u64);
        let from = from.min(bytes.len());
        let mut found = vec![1; 300];
        let read = file.read_at(&mut found, from as u64).unwrap();
        prop_assert_eq!(&found[..read], &bytes[from..]);
    }
}

/// A set as HDF5 1.14 writes it: three subfiles of ten bytes each, stripes of four bytes.
fn write(folder: &Path, name: &str) -> u64 {
    fs::write(folder.join(name), b"\x89HDF\r\n\x1a\n...").unwrap();
    let inode = folder.join(name).metadata().unwrap().ino();
    let names: Vec<String> =
        (1..=3).map(|part| format!("{name}.subfile_{inode}_{part}_of_3")).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(folder.join(name), [b'a' + number as u8; 10]).unwrap();
    }
    let text = format!(
        "stripe_size=4\naggregator_count=3\nsubfile_count=3\nhdf5_file=/there/{name}\n\
         subfile_dir=/there\n{}\n",
        names.join("\n")
    );
    fs::write(folder.join(format!("{name}.subfile_{inode}.config")), text).unwrap();
    inode
}

fn read(folder: &Path, name: &str) -> Result<String, crate::Error> {
    let (folder, name) = Folder::of(&folder.join(name)).unwrap();
    let Some(set) = Set::find(&folder, &name)? else { return Ok("none".into()) };
    let file = set.open(&Options::default())?;
    let mut bytes = vec![0; file.size() as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8(bytes).unwrap())
}

fn whole() -> String {
    // The last stripes are cut: the bytes between them were never written.
    "aaaabbbbccccaaaabbbbccccaa\0\0bb\0\0cc".into()
}

#[test]
fn a_set_is_found_by_its_stub_wherever_it_was_moved() {
    let place = tempfile::tempdir().unwrap();
    let old = place.path();
    let inode = write(old, "x.h5");
    assert_eq!(read(old, "x.h5").unwrap(), whole());
    // Only the stub was renamed: the set is found by its inode.
    fs::rename(old.join("x.h5"), old.join("y.h5")).unwrap();
    assert_eq!(read(old, "y.h5").unwrap(), whole());
    fs::rename(old.join("y.h5"), old.join("x.h5")).unwrap();
    // All was copied: another inode, the old names.
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(old).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    assert_ne!(copy.path().join("x.h5").metadata().unwrap().ino(), inode);
    assert_eq!(read(copy.path(), "x.h5").unwrap(), whole());
    // All was copied and renamed: the configuration lists names that are gone.
    for entry in fs::read_dir(copy.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().replace("x.h5", "z.h5");
        fs::rename(&path, path.with_file_name(name)).unwrap();
    }
    assert_eq!(read(copy.path(), "z.h5").unwrap(), whole());
}

#[test]
fn what_is_ambiguous_or_missing_is_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let inode = write(folder, "x.h5");
    let config = format!("x.h5.subfile_{inode}.config");
    // Two configurations, both without the stub's inode.
    for number in [1, 2] {
        let other = folder.join(format!("x.h5.subfile_{number}.config"));
        fs::copy(folder.join(&config), other).unwrap();
    }
    fs::rename(folder.join(&config), folder.join("kept")).unwrap();
    let why = read(folder, "x.h5").unwrap_err();
    assert_eq!(why.kind, Kind::Mismatch);
    let both = "x.h5.subfile_1.config, x.h5.subfile_2.config";
    assert!(why.to_string().contains(both), "{why}");
    for number in [1, 2] {
        fs::remove_file(folder.join(format!("x.h5.subfile_{number}.config"))).unwrap();
    }
    let why = read(folder, "x.h5").unwrap_err();
    assert!(
        why.to_string().contains("its configuration x.h5.subfile_N.config is missing"),
        "{why}"
    );
    fs::rename(folder.join("kept"), folder.join(&config)).unwrap();
    let second = folder.join(format!("x.h5.subfile_{inode}_2_of_3"));
    let bytes = fs::read(&second).unwrap();
    fs::remove_file(&second).unwrap();
    let why = read(folder, "x.h5").unwrap_err();
    assert!(why.kind == Kind::Missing && why.to_string().contains("_2_of_3"), "{why}");
    fs::write(&second, bytes).unwrap();
    fs::write(folder.join(&config), "stripe_size=0\n").unwrap();
    let why = read(folder, "x.h5").unwrap_err();
    assert!(why.to_string().contains("no configuration of HDF5's subfiling"), "{why}");
}

#[test]
fn other_files_are_no_stubs() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("a.h5"), b"\x89HDF\r\n\x1a\n...").unwrap();
    fs::write(place.path().join("b.h5"), "text").unwrap();
    let (folder, _) = Folder::of(&place.path().join("a.h5")).unwrap();
    for name in ["a.h5", "b.h5", "c.h5"] {
        assert_eq!(find(&folder, name).unwrap(), None::<Members>);
    }
    assert_eq!(named_after("a.h5.subfile_12_03_of_10"), Some(("a.h5", 12)));
    assert_eq!(named_after("a.h5.subfile_12.config"), Some(("a.h5", 12)));
    for other in
        ["a.subfile_12_3_of_2", "a.subfile_x.config", "a.subfile_1.nc", ".subfile_1.config"]
    {
        assert_eq!(named_after(other), None, "{other}");
    }
}
