//! Makes a set of blobs of a container, as the ranks of an MPI job do when they close it, in one
//! process and without MPI.
//!
//! ```text
//! aggio-test-sealer FILE LAYOUT FILES [WANTED FROM]
//! ```
//!
//! LAYOUT is `e3sm` or `e3sm-h5`. If FILE is a set, it becomes a container before. With WANTED
//! three ranks open FILE and write the bytes of WANTED from byte FROM on, a third each, in their
//! order; then the first one writes the number of records.

use agg_core::blob::{Layout, Part, Recast, Sealing, is_container};
use agg_core::diagnostics::Diagnostics;
use agg_core::driver::{Closing, Driver, Drivers, OpenHow};
use agg_core::settings::Settings;
use aggio_formats::files::Folder;
use aggio_formats::set_driver::OpenSet;
use aggio_formats::{E3sm, Finder, OneFile, Options, Set, SetDriver, told};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// As many as wrote the file.
const RANKS: u32 = 3;
/// Where a file of CDF-5 has its number of records.
const RECORDS: std::ops::Range<usize> = 4..12;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [file, layout, files] => seal(file, layout, files, None),
        [file, layout, files, wanted, from] => seal(file, layout, files, Some((wanted, from))),
        _ => Err("usage: aggio-test-sealer FILE LAYOUT FILES [WANTED FROM]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("aggio-test-sealer: {why}");
            ExitCode::from(2)
        }
    }
}

/// The drivers that the library has at the start of a program.
fn drivers(file: &str, layout: &str) -> (Drivers, SetDriver) {
    let variable = |name: &str| (name == "AGGIO_BLOB").then(|| format!("{file}:{layout}"));
    let settings =
        Settings::read(&variable, &["AGGIO_BLOB".to_owned()], &mut Diagnostics::default());
    let first = |path: &str| {
        Ok(find(path)?.map(|set| Path::new(path).with_file_name(set.first()).display().to_string()))
    };
    let open = |path: &str| match find(path)? {
        Some(set) => {
            let opened = set.open(&Options::default()).map_err(|why| told(&why))?;
            Ok(Some(Box::new(OneFile(opened)) as OpenSet))
        }
        None => Ok(None),
    };
    let sets = SetDriver::new(Finder {
        names: |_| false,
        first,
        open,
        remove: |_| Ok(()),
        rename: |_, _, _| Ok(()),
    });
    (Drivers::new(&settings.blobs, true).with(Arc::new(sets)), sets)
}

fn find(path: &str) -> agg_core::Result<Option<Set>> {
    let path = Path::new(path);
    let folder = Folder::of(path).filter(|_| path.symlink_metadata().is_err());
    let found = folder.map(|(folder, name)| Set::find(&folder, &name)).transpose();
    found.map(Option::flatten).map_err(|why| told(&why))
}

fn seal(file: &str, layout: &str, files: &str, adds: Option<(&String, &String)>) -> Outcome<()> {
    let (drivers, sets) = drivers(file, layout);
    let logs = match adds {
        Some((wanted, from)) => add(&drivers, file, &std::fs::read(wanted)?, from.parse()?)?,
        None => {
            if !is_container(Path::new(file)) {
                sets.change(&drivers, file, true)?;
            }
            vec![0; RANKS as usize]
        }
    };
    let files: u32 = files.parse()?;
    let first = |file: u32| file * RANKS / files;
    let recast = Recast {
        path: file.into(),
        layout: if layout == "e3sm" { Layout::E3sm } else { Layout::E3smHdf5 },
        logs,
        groups: (0..files).map(|file| (first(file)..first(file + 1)).collect()).collect(),
        durable: true,
    };
    let made: Vec<Part> = (0..recast.groups.len())
        .map(|part| recast.write(&E3sm, part))
        .collect::<agg_core::Result<_>>()?;
    match made[0] {
        Part::Made { generation } if made.iter().all(|part| *part == made[0]) => {
            Ok(recast.publish(&E3sm, generation)?)
        }
        _ => Err(format!("{made:?}").into()),
    }
}

/// Three ranks write the new bytes; returns their logs.
fn add(drivers: &Drivers, file: &str, wanted: &[u8], from: usize) -> Outcome<Vec<u64>> {
    let how = OpenHow { path: file.into(), read: true, write: true, ..OpenHow::default() };
    let ranks: Vec<Box<dyn Driver>> =
        (0..RANKS).map(|_| drivers.open(&how)).collect::<agg_core::Result<_>>()?;
    let share = (wanted.len() - from).div_ceil(ranks.len());
    let chunks = wanted[from..].chunks(share).enumerate();
    for (rank, (number, bytes)) in ranks.iter().zip(chunks) {
        rank.pwrite(bytes, (from + number * share) as u64)?;
    }
    ranks[0].pwrite(&wanted[RECORDS], RECORDS.start as u64)?;
    ranks.iter().try_for_each(|rank| rank.sync())?;
    let sealing: Vec<Sealing> = ranks.iter().filter_map(|rank| rank.sealing()).collect();
    ranks.iter().try_for_each(|rank| rank.close(Closing::Complete))?;
    Ok(sealing.iter().map(|one| one.log).collect())
}
