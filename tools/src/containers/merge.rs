//! `aggio merge`: a container, or a set of netCDF files, becomes an ordinary file or another set.

use super::assemble::Assembly;
use super::blobs::Writing;
use super::in_container::InContainer;
use super::unnamed::THERE;
use super::{at, sets};
use crate::{Answer, numbers, progress};
use agg_core::blob::{self, Check, Merge};
use aggio_formats::blobs::{Content, Kind, Outcome, Owned, Plan};
use aggio_formats::{Logical, Result};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What a container or a set becomes.
#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// The file as it is
    #[default]
    Plain,
    /// A netCDF file of CDF-5 that holds the same
    Cdf5,
    /// A set of blobs as E3SM-IO writes it with PnetCDF: FILE.0000, FILE.0001, ...
    E3sm,
    /// A set of blobs as E3SM-IO writes it with HDF5: FILE.0000, FILE.0001, ...
    Hdf5Blob,
}

/// Arguments of `aggio merge`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The container, or the name that a set of netCDF files stands for
    container: PathBuf,
    /// The file that is made, or the name that the set stands for; it appears when it is complete. For a container that
    /// becomes a file as it is, a run that was interrupted goes on
    file: PathBuf,
    /// What is made
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    to: To,
    /// Files of the set that is made; without it one of a container, and of a set as many as it has
    #[arg(long, value_name = "NUMBER", value_parser = numbers::subfiles())]
    subfiles: Option<u32>,
    /// Replace the file, or files of the set, if there are some
    #[arg(short, long)]
    force: bool,
    /// Check all checksums before, and compare the file with the container or the set after
    #[arg(long)]
    verify: bool,
    /// Threads that copy; 0 for as many as there are cores
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = numbers::threads())]
    threads: usize,
    #[command(flatten)]
    sets: sets::Flags,
}

/// A set as what another is made of.
struct OfSet<'a>(&'a Logical);

impl Content for OfSet<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        // All that is asked for is there.
        self.0.read_at(out, offset).map(|_| ())
    }
}

/// `0..writers` in so many groups of nearly the same size.
fn grouped(writers: usize, groups: usize) -> Vec<Vec<u32>> {
    let border = |group: usize| (writers * group / groups) as u32;
    (0..groups).map(|group| (border(group)..border(group + 1)).collect()).collect()
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let merged = self.check().and_then(|()| {
            if blob::is_container(&self.container) {
                self.merge_container()
            } else {
                self.merge_set()
            }
        });
        match merged {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("merge: {why}")),
        }
    }

    /// The kind of set that is made.
    fn kind(&self) -> Option<Kind> {
        match self.to {
            To::Plain | To::Cdf5 => None,
            To::E3sm => Some(Kind::Pnetcdf),
            To::Hdf5Blob => Some(Kind::Hdf5),
        }
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.kind().is_none() && self.subfiles.is_some() {
            return Err("--subfiles is for --to e3sm and --to hdf5-blob".into());
        }
        if self.kind().is_some() && self.sets.holes != sets::Hole::Zero {
            return Err("--holes is for --to plain and --to cdf5: a set keeps its holes".into());
        }
        Ok(())
    }

    fn merge_container(&self) -> std::result::Result<(), String> {
        if self.to == To::Plain {
            return self.merge_plain();
        }
        if self.verify {
            self.refuse_damage()?;
        }
        let from = InContainer::open(&self.container)?;
        let mode = from.mode;
        match self.kind() {
            Some(kind) => {
                let groups = self.groups(from.logs.len(), None)?;
                self.write_set(&from, &mut from.owned(), &groups, kind, mode)
            }
            None => {
                let file = from.into_netcdf()?;
                let file = file.ok_or_else(|| at(&self.container, "not a netCDF classic file"))?;
                self.write_cdf5(file, mode)
            }
        }
    }

    fn merge_plain(&self) -> std::result::Result<(), String> {
        let merged = progress::show("merging", |progress| {
            let how = Merge {
                threads: self.threads,
                verify: self.verify,
                replace: self.force,
                progress: Some(progress),
            };
            blob::merge(&self.container, &self.file, &how)
        });
        match merged {
            Ok(_) => Ok(()),
            Err(why) if why.errno() == EEXIST => Err(at(&self.file, THERE)),
            Err(why) => Err(at(&self.container, why)),
        }
    }

    /// Checks all checksums of the container.
    fn refuse_damage(&self) -> std::result::Result<(), String> {
        let how = Check { data: true, ..Check::default() };
        let found = blob::check(&self.container, &how).map_err(|why| at(&self.container, why))?;
        let worst = found.problems.iter().max_by_key(|problem| problem.severity);
        match worst.filter(|_| found.exit_code() >= 4) {
            Some(worst) => Err(at(&self.container, format!("{}: {}", worst.part, worst.words))),
            None => Ok(()),
        }
    }

    fn merge_set(&self) -> std::result::Result<(), String> {
        let neither = || at(&self.container, "neither a container nor a set of netCDF files");
        let from = sets::open(&self.container, self.sets)?.ok_or_else(neither)?;
        let first = from.describe().files.into_iter().next().ok_or_else(neither)?;
        let found = std::fs::metadata(&first.name).map_err(|why| at(first.name.as_ref(), why))?;
        let mode = found.mode() & 0o777;
        match (self.to, self.kind()) {
            (To::Cdf5, _) => self.write_cdf5(from, mode),
            (_, None) => self.assemble(&from, mode),
            (_, Some(kind)) => {
                let unknown = || at(&self.container, "its files do not tell who wrote what");
                let told = from.written().ok_or_else(unknown)?;
                let writers = told.groups().iter().map(Vec::len).sum();
                let groups = self.groups(writers, Some(told.groups()))?;
                self.write_set(&OfSet(&from), &mut told.owned().map(Ok), &groups, kind, mode)
            }
        }
    }

    /// The writers of each file of a set that is made; `own` are those of the set that it is made of.
    fn groups(
        &self,
        writers: usize,
        own: Option<&[Vec<u32>]>,
    ) -> std::result::Result<Vec<Vec<u32>>, String> {
        match (self.subfiles, own) {
            (None, Some(own)) => Ok(own.to_vec()),
            (wanted, _) => match wanted.unwrap_or(1) as usize {
                count if (1..=writers).contains(&count) => Ok(grouped(writers, count)),
                count => {
                    let what = format!("{count} files cannot have the data of {writers} writers");
                    Err(at(&self.container, what))
                }
            },
        }
    }

    fn write_cdf5(&self, from: Logical, mode: u32) -> std::result::Result<(), String> {
        let file = from.into_cdf5().map_err(|why| why.to_string())?;
        self.assemble(&file, mode)
    }

    fn assemble(&self, from: &Logical, mode: u32) -> std::result::Result<(), String> {
        progress::show("merging", |progress| {
            let (threads, verify, replace) = (self.threads, self.verify, self.force);
            let how = Assembly { threads, verify, replace, mode, progress };
            how.run(from, &self.file)
        })
    }

    fn write_set(
        &self,
        from: &dyn Content,
        owned: &mut dyn Iterator<Item = Result<Owned>>,
        groups: &[Vec<u32>],
        kind: Kind,
        mode: u32,
    ) -> std::result::Result<(), String> {
        let plan = match Plan::of(from, owned, groups, kind).map_err(|why| why.to_string())? {
            Outcome::Plan(plan) => plan,
            Outcome::Unsuited(what) => {
                return Err(at(&self.container, format!("no set can be made of it: {what}")));
            }
        };
        progress::show("merging", |progress| {
            let (threads, verify, replace) = (self.threads, self.verify, self.force);
            Writing { threads, verify, replace, mode, progress }.run(&plan, from, &self.file)
        })
    }
}

/// The error that something has the name already.
pub(super) const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();
