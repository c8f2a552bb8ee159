//! Which set a name stands for, and which files belong to one.

use crate::cdf::Dialect;
use crate::error::{Kind, Result};
use crate::files::{Files, Folder, OnDisk};
use crate::logical::{Logical, Options};
use crate::{e3sm, subfiling};
use std::sync::Arc;

/// A kind of set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `name.0000`, `name.0001`, ...
    Blobs,
    /// `name`, `name.subfile_0.nc`, ...
    Subfiles,
}

/// Files that stand for one.
#[derive(Clone, Debug)]
pub struct Set {
    folder: Folder,
    name: String,
    layout: Layout,
    count: usize,
}

/// The set that a file's name says it belongs to: the set's name, and the file's number.
#[must_use]
pub fn named_after(name: &str) -> Option<(&str, usize)> {
    if let Some((set, number)) =
        name.strip_suffix(".nc").and_then(|name| name.rsplit_once(".subfile_"))
    {
        let number = number.parse().ok().filter(|parsed: &usize| parsed.to_string() == number)?;
        return (!set.is_empty()).then_some((set, number));
    }
    let (set, digits) = name.rsplit_once('.')?;
    let number = digits.parse().ok().filter(|number| format!("{number:04}") == digits)?;
    (!set.is_empty()).then_some((set, number))
}

impl Set {
    /// The set that `name` stands for in a folder: one of blobs if there is no file of that name, or of subfiles if the
    /// file is their master.
    ///
    /// # Errors
    ///
    /// If the system refuses to tell. What is no set, or looks like none, is none.
    pub fn find(folder: &Folder, name: &str) -> Result<Option<Self>> {
        let there = |name: &str| std::fs::symlink_metadata(folder.path.join(name)).is_ok();
        let made = |layout, count| Set { folder: folder.clone(), name: name.into(), layout, count };
        if there(name) {
            if !there(&subfiling::name_of(name, 0)) {
                return Ok(None);
            }
            let count = probe(folder, name, |files| {
                let header = e3sm::read_header(files, 0, Dialect::default())?;
                Ok(subfiling::subfiles(&header))
            })?;
            return Ok(count.map(|count| made(Layout::Subfiles, count)));
        }
        let first = blob_name(name, 0);
        if !there(&first) {
            return Ok(None);
        }
        let count = probe(folder, &first, e3sm::subfiles_of)?;
        Ok(count.map(|count| made(Layout::Blobs, count)))
    }

    /// As [`Set::find`]; finds also a set of blobs whose first is missing, so that opening it tells what is.
    ///
    /// # Errors
    ///
    /// If the system refuses to tell.
    pub fn find_rest(folder: &Folder, name: &str) -> Result<Option<Self>> {
        let found = Self::find(folder, name)?;
        if found.is_some() || folder.path.join(name).symlink_metadata().is_ok() {
            return Ok(found);
        }
        let Ok(entries) = std::fs::read_dir(&folder.path) else { return Ok(None) };
        for entry in entries.flatten() {
            let other = entry.file_name();
            let Some(other) = other.to_str() else { continue };
            if named_after(other).is_some_and(|(set, _)| set == name)
                && let Some(count) = probe(folder, other, e3sm::subfiles_of)?
            {
                let (folder, name) = (folder.clone(), name.to_owned());
                return Ok(Some(Set { folder, name, layout: Layout::Blobs, count }));
            }
        }
        Ok(None)
    }

    /// Whether the file of this name is part of a set that stands for another name.
    ///
    /// # Errors
    ///
    /// If the system refuses to tell.
    pub fn hides(folder: &Folder, name: &str) -> Result<bool> {
        let Some((set, number)) = named_after(name) else { return Ok(false) };
        let found = Self::find(folder, set)?;
        Ok(found.is_some_and(|found| found.has(name, number)))
    }

    /// Whether a file is one of those that the set's name stands for.
    fn has(&self, name: &str, number: usize) -> bool {
        let subfile = match self.layout {
            Layout::Blobs => blob_name(&self.name, number),
            Layout::Subfiles => subfiling::name_of(&self.name, number),
        };
        number < self.count && subfile == name
    }

    /// The name that it stands for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of all its files; the first has the attributes of all.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        match self.layout {
            Layout::Blobs => (0..self.count).map(|file| blob_name(&self.name, file)).collect(),
            Layout::Subfiles => std::iter::once(self.name.clone())
                .chain((0..self.count).map(|file| subfiling::name_of(&self.name, file)))
                .collect(),
        }
    }

    /// The file that it stands for.
    ///
    /// # Errors
    ///
    /// If a file is missing, damaged, or does not belong to the others.
    pub fn open(&self, options: &Options) -> Result<Logical> {
        let files = OnDisk::new(self.folder.clone(), self.files(), options.most_open);
        let (files, name) = (Arc::new(files), self.folder.shown(&self.name));
        match self.layout {
            Layout::Blobs => e3sm::open(files, &name, self.count, options),
            Layout::Subfiles => subfiling::open(files, &name, options),
        }
    }
}

fn blob_name(set: &str, number: usize) -> String {
    format!("{set}.{number:04}")
}

/// Looks at one file. One that cannot be understood is no part of a set.
fn probe(
    folder: &Folder,
    name: &str,
    look: impl Fn(&dyn Files) -> Result<Option<usize>>,
) -> Result<Option<usize>> {
    let files = OnDisk::new(folder.clone(), vec![name.into()], 1);
    match look(&files) {
        Err(why) if matches!(why.kind, Kind::System(_)) => Err(why),
        Err(_) => Ok(None),
        Ok(count) => Ok(count),
    }
}

/// A set of blobs whose files are at hand already.
///
/// # Errors
///
/// If a file is missing, damaged, or does not belong to the others.
pub fn open_blobs(files: Arc<dyn Files>, count: usize, options: &Options) -> Result<Logical> {
    e3sm::open(files, "set", count, options)
}

/// A master and its subfiles that are at hand already.
///
/// # Errors
///
/// If a file is missing, damaged, or does not belong to the others.
pub fn open_subfiles(files: Arc<dyn Files>, options: &Options) -> Result<Logical> {
    subfiling::open(files, "set", options)
}
