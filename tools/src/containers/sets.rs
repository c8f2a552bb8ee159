//! Sets of netCDF files, as the commands find and open them.

use aggio_formats::files::Folder;
use aggio_formats::{Holes, Logical, Options, Set};
use std::path::Path;

/// The content of a set where no process wrote.
#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hole {
    /// Zeros
    #[default]
    Zero,
    /// The variable's fill value
    Fill,
}

impl From<Hole> for Holes {
    fn from(hole: Hole) -> Self {
        match hole {
            Hole::Zero => Holes::Zero,
            Hole::Fill => Holes::Fill,
        }
    }
}

/// How a set is read.
#[derive(Clone, Copy, Default, clap::Args)]
pub(crate) struct Flags {
    /// What sets of netCDF files contain where no process wrote anything
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(crate) holes: Hole,
    /// Read sets of netCDF files even if some are missing or damaged; their parts are holes
    #[arg(long)]
    pub(crate) partial: bool,
}

impl Flags {
    fn options(self) -> Options {
        Options { holes: self.holes.into(), partial: self.partial, ..Options::default() }
    }
}

/// The set that a path stands for.
pub(super) fn find(path: &Path) -> Result<Option<Set>, String> {
    let Some((folder, name)) = Folder::of(path) else { return Ok(None) };
    Set::find_rest(&folder, &name).map_err(|why| why.to_string())
}

/// Opens the file that a path stands for, if that is a set. Tolerated errors are reported on
/// standard error.
pub(super) fn open(path: &Path, flags: Flags) -> Result<Option<Logical>, String> {
    let Some(set) = find(path)? else { return Ok(None) };
    let file = set.open(&flags.options()).map_err(|why| why.to_string())?;
    if flags.partial {
        for note in file.describe().notes {
            eprintln!("aggio: {}: {note}", path.display());
        }
    }
    Ok(Some(file))
}
