//! `aggio merge`: a container, or a set of netCDF files, becomes an ordinary file or another set.

use super::assemble::Assembly;
use super::blobs::Writing;
use super::destination::Destination;
use super::guarded::guarded;
use super::in_container::InContainer;
use super::{at, not_made, poured, sets};
use crate::{Answer, numbers, progress};
use agg_core::blob::{self, Check, Merge};
use agg_core::output::Unfinished;
use aggio_formats::blobs::{Content, Kind, Outcome, Owned, Plan};
use aggio_formats::{Logical, Result};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The format of the new file or set.
#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// The file as it is
    #[default]
    Plain,
    /// A netCDF file of CDF-5 that holds the same
    Cdf5,
    /// A set of blobs as E3SM-IO writes it with PnetCDF: FILE.0000, ...
    E3sm,
    /// The same with HDF5
    Hdf5Blob,
}

/// Arguments of `aggio merge`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The container, or the name that a set of netCDF files stands for
    container: PathBuf,
    /// The file that is made, or the name that the set stands for; it appears when it is complete.
    /// FIFOs and devices are written to, and - is standard output
    file: PathBuf,
    /// The kind of file to make
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    to: To,
    /// Files of the new set; by default one of a container, as many of a set as it has
    #[arg(long, value_name = "NUMBER", value_parser = numbers::subfiles())]
    subfiles: Option<u32>,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Keep the copied bytes if the run is interrupted, and go on with those of an earlier run;
    /// only for --to plain and a container
    #[arg(long)]
    resume: bool,
    /// Check all checksums first, and compare the new file with its source at the end
    #[arg(long)]
    verify: bool,
    /// Threads that copy; 0 for as many as there are cores
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = numbers::threads())]
    threads: usize,
    #[command(flatten)]
    sets: sets::Flags,
}

/// A set as the source of another one.
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

/// The parts of all writers, the writers of each file, and the kind of the new set.
type Parts<'a> = (&'a mut dyn Iterator<Item = Result<Owned>>, &'a [Vec<u32>], Kind);

/// `0..writers` in so many groups of nearly the same size.
fn grouped(writers: usize, groups: usize) -> Vec<Vec<u32>> {
    let border = |group: usize| (writers * group / groups) as u32;
    (0..groups).map(|group| (border(group)..border(group + 1)).collect()).collect()
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        match self.check().and_then(|()| guarded(|unfinished| self.merge(unfinished))) {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("merge: {why}")),
        }
    }

    fn merge(&self, unfinished: &Unfinished) -> std::result::Result<(), String> {
        let to = Destination::of(&self.file, self.force)?;
        if let (Destination::Stream(_), Some(why)) = (&to, self.needs_a_file()) {
            return Err(at(&self.file, format!("{why} needs an ordinary file")));
        }
        if blob::is_container(&self.container) {
            self.merge_container(to, unfinished)
        } else {
            self.merge_set(to, unfinished)
        }
    }

    /// An option or kind that needs an ordinary file, not a stream of bytes.
    fn needs_a_file(&self) -> Option<&'static str> {
        let wanted = [
            (self.kind().is_some(), "a set"),
            (self.verify, "--verify"),
            (self.resume, "--resume"),
        ];
        wanted.into_iter().find(|(is, _)| *is).map(|(_, what)| what)
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
        if self.resume && self.to != To::Plain {
            return Err("--resume is for --to plain".into());
        }
        Ok(())
    }

    fn merge_container(
        &self,
        to: Destination,
        unfinished: &Unfinished,
    ) -> std::result::Result<(), String> {
        if self.to == To::Plain {
            return self.merge_plain(to, unfinished);
        }
        if self.verify {
            self.refuse_damage()?;
        }
        let from = InContainer::open(&self.container)?;
        let mode = from.mode;
        match self.kind() {
            Some(kind) => {
                let groups = self.groups(from.logs.len(), None)?;
                self.write_set(&from, (&mut from.owned(), &groups[..], kind), mode, unfinished)
            }
            None => {
                let file = from.into_netcdf()?;
                let file = file.ok_or_else(|| at(&self.container, "not a netCDF classic file"))?;
                self.write_cdf5(file, mode, to, unfinished)
            }
        }
    }

    fn merge_plain(
        &self,
        to: Destination,
        unfinished: &Unfinished,
    ) -> std::result::Result<(), String> {
        progress::show("merging", |progress| {
            if let Destination::Stream(mut stream) = to {
                return poured::container(&self.container, (&mut stream, &self.file), progress);
            }
            let how = Merge {
                threads: self.threads,
                verify: self.verify,
                replace: self.force,
                resume: self.resume,
                progress: Some(progress),
                unfinished,
            };
            match blob::merge(&self.container, &self.file, &how) {
                Ok(_) => Ok(()),
                Err(why) if why.errno() == EEXIST => Err(not_made(&self.file, &why)),
                Err(why) => Err(at(&self.container, why)),
            }
        })
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

    fn merge_set(
        &self,
        to: Destination,
        unfinished: &Unfinished,
    ) -> std::result::Result<(), String> {
        let neither = || at(&self.container, "neither a container nor a set of netCDF files");
        let from = sets::open(&self.container, self.sets)?.ok_or_else(neither)?;
        let first = from.describe().files.into_iter().next().ok_or_else(neither)?;
        let found = std::fs::metadata(&first.name).map_err(|why| at(first.name.as_ref(), why))?;
        let mode = found.mode() & 0o777;
        match (self.to, self.kind()) {
            (To::Cdf5, _) => self.write_cdf5(from, mode, to, unfinished),
            (_, None) => self.assemble(&from, mode, to, unfinished),
            (_, Some(kind)) => {
                let unknown = || at(&self.container, "its files do not tell who wrote what");
                let told = from.written().ok_or_else(unknown)?;
                let writers = told.groups().iter().map(Vec::len).sum();
                let groups = self.groups(writers, Some(told.groups()))?;
                let parts = (&mut told.owned().map(Ok) as &mut _, &groups[..], kind);
                self.write_set(&OfSet(&from), parts, mode, unfinished)
            }
        }
    }

    /// The writers of each file of a set that is made; `own` are those of the set that it is made
    /// of.
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

    fn write_cdf5(
        &self,
        from: Logical,
        mode: u32,
        to: Destination,
        unfinished: &Unfinished,
    ) -> std::result::Result<(), String> {
        let file = from.into_cdf5().map_err(|why| why.to_string())?;
        self.assemble(&file, mode, to, unfinished)
    }

    fn assemble(
        &self,
        from: &Logical,
        mode: u32,
        to: Destination,
        unfinished: &Unfinished,
    ) -> std::result::Result<(), String> {
        progress::show("merging", |progress| {
            let (threads, verify, replace) = (self.threads, self.verify, self.force);
            if let Destination::Stream(mut stream) = to {
                return poured::set(from, threads, (&mut stream, &self.file), progress);
            }
            Assembly { threads, verify, replace, mode, progress, unfinished }.run(from, &self.file)
        })
    }

    fn write_set(
        &self,
        from: &dyn Content,
        (owned, groups, kind): Parts<'_>,
        mode: u32,
        unfinished: &Unfinished,
    ) -> std::result::Result<(), String> {
        let plan = match Plan::of(from, owned, groups, kind).map_err(|why| why.to_string())? {
            Outcome::Plan(plan) => plan,
            Outcome::Unsuited(what) => {
                return Err(at(&self.container, format!("no set can be made of it: {what}")));
            }
        };
        progress::show("merging", |progress| {
            let (threads, verify, replace) = (self.threads, self.verify, self.force);
            let how = Writing { threads, verify, replace, mode, progress, unfinished };
            how.run(&plan, from, &self.file)
        })
    }
}

/// The error that something has the name already.
pub(super) const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();
