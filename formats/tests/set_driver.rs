//! Sets of files hold the part of the contract of drivers that concerns reading.

use agg_core::blob::ReadOnlyFile;
use agg_core::driver::{Driver, Drivers, OpenHow};
use agg_core::{Error, Result};
use aggio_driver_conformance::{Subject, check_reading};
use aggio_formats::set_driver::{Free, OpenSet};
use aggio_formats::{Finder, SetDriver};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Files of one directory.
struct Files {
    directory: tempfile::TempDir,
    drivers: Drivers,
}

impl Files {
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Subject for Files {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        self.drivers.open(&OpenHow { path: self.path(&how.path), ..how.clone() })
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.drivers.delete(&self.path(name), 0)
    }
}

/// A set of files, NAME.0 and NAME.1, with bytes that follow each other.
#[derive(Debug)]
struct Parts([std::fs::File; 2]);

impl ReadOnlyFile for Parts {
    fn size(&self) -> u64 {
        self.0.iter().map(|part| part.metadata().map_or(0, |facts| facts.len())).sum()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let border = self.0[0].metadata().map_or(0, |facts| facts.len());
        let failed = |error| Error::os("pread", &error);
        let (head, rest) =
            buffer.split_at_mut(buffer.len().min(border.saturating_sub(offset) as usize));
        self.0[0].read_exact_at(head, offset).map_err(failed)?;
        let behind = (offset + head.len() as u64).max(border) - border;
        Ok(head.len() + self.0[1].read_at(rest, behind).map_err(failed)?)
    }
}

fn first_part(path: &str) -> Result<Option<String>> {
    let first = format!("{path}.0");
    Ok(Path::new(&first).exists().then_some(first))
}

fn open_parts(path: &str) -> Result<Option<OpenSet>> {
    let part = |number| std::fs::File::open(format!("{path}.{number}"));
    Ok(Some(Box::new(Parts([part(0), part(1)].map(|part| part.expect("a part"))))))
}

#[test]
fn sets_hold_what_concerns_reading() {
    let (remove, rename) = (|_: &str| Ok(()), |_: &str, _: &str, _: &Free<'_>| Ok(()));
    let (names, first, open) = (|_: &str| false, first_part, open_parts);
    let sets = SetDriver::new(Finder { names, first, open, remove, rename });
    let directory = tempfile::tempdir().expect("a directory");
    let drivers = Drivers::default().with(Arc::new(sets));
    let files = Files { directory, drivers };
    let bytes: Vec<u8> = (0..30_000u32).map(|n| ((n * 7) >> 3) as u8).collect();
    for (number, part) in [&bytes[..12_345], &bytes[12_345..]].into_iter().enumerate() {
        std::fs::write(files.path(&format!("whole.{number}")), part).expect("a part");
    }
    let report = check_reading(&files, "whole", &bytes);
    report.assert_holds();
    assert_eq!(report.held.len(), 6, "{report}");
}
