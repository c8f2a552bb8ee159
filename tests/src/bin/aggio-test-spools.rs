//! Leaves spool files behind, as a killed program does, in each of the directories that are given.
//!
//! ```text
//! aggio-test-spools DIRECTORY...
//! ```
//!
//! Each directory has two files and a container, `first`, `second` and `third`, of the bytes
//! `OLD`; the spool file keeps back the writes that turn them into `NEW` (`aggio_tests::spools`).

use agg_core::spool::layout::SLOT_DATA;
use agg_core::spool::{Ask, Spool, born};
use aggio_tests::spools::{NAMES, PIECES};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn leave(directory: &Path) -> std::io::Result<()> {
    let mut spool = Spool::create(directory).map_err(std::io::Error::other)?;
    for (name, pieces) in NAMES.iter().zip(PIECES) {
        let path = directory.join(name);
        let file = File::open(&path)?;
        let facts = file.metadata()?;
        let identity = [facts.dev(), facts.ino(), born(file.as_raw_fd())];
        let slot = spool.slot(path.as_os_str().as_bytes(), identity, SLOT_DATA)?;
        slot.belong_to_file(file.as_raw_fd(), Ask::Machine);
        let mut place = 0;
        for (index, (offset, bytes)) in pieces.iter().enumerate() {
            // SAFETY: the slot has room for them.
            unsafe { slot.data().add(place).copy_from(bytes.as_ptr(), bytes.len()) };
            // As small writes that follow one another.
            slot.push(index, *offset, 1, place);
            slot.extend(index, bytes.len() - 1);
            place += bytes.len();
        }
    }
    // Its name stays, and its lock goes with the process.
    std::mem::forget(spool);
    Ok(())
}

fn main() {
    for directory in std::env::args_os().skip(1) {
        leave(Path::new(&directory)).expect("a spool file");
    }
}
