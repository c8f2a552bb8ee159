//! Which set a name stands for, and which files belong to one.

mod names;

use crate::cdf::Dialect;
use crate::error::{Kind, Result};
use crate::files::{Files, Folder, OnDisk};
use crate::logical::{Logical, Options};
use crate::stripes::{self, Members};
use crate::{e3sm, subfiling};
use std::collections::HashMap;
use std::sync::Arc;

/// A kind of set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `name.0000`, `name.0001`, ...
    Blobs,
    /// `name`, `name.subfile_0.nc`, ...
    Subfiles,
    /// `name`, `name.subfile_INODE_1_of_N`, ..., `name.subfile_INODE.config`.
    Stripes,
}

/// Files that stand for one.
#[derive(Clone, Debug)]
pub struct Set {
    folder: Folder,
    name: String,
    layout: Layout,
    count: usize,
    /// The files of HDF5's subfiling, which have names without a rule.
    stripes: Option<Members>,
}

/// The set that a file's name says it belongs to: the set's name, and a number, which is the file's
/// own unless HDF5 made the name.
#[must_use]
pub fn named_after(name: &str) -> Option<(&str, usize)> {
    if let Some((set, number)) =
        name.strip_suffix(".nc").and_then(|name| name.rsplit_once(".subfile_"))
    {
        let number = number.parse().ok().filter(|parsed: &usize| parsed.to_string() == number)?;
        return (!set.is_empty()).then_some((set, number));
    }
    if let Some((set, _)) = stripes::named_after(name) {
        return Some((set, 0));
    }
    let (set, digits) = name.rsplit_once('.')?;
    let number = digits.parse().ok().filter(|number| format!("{number:04}") == digits)?;
    (!set.is_empty()).then_some((set, number))
}

impl Set {
    /// The set that `name` stands for in a folder: one of blobs if there is no file of that name,
    /// or of subfiles if the file is their master or stub.
    ///
    /// # Errors
    ///
    /// If the system refuses to tell, or it is a stub of HDF5's subfiling and it is not clear which
    /// files belong to it. Anything that is no set, or looks like none, is none.
    pub fn find(folder: &Folder, name: &str) -> Result<Option<Self>> {
        let there = |name: &str| std::fs::symlink_metadata(folder.path.join(name)).is_ok();
        let made = |layout, count, stripes| Set {
            folder: folder.clone(),
            name: name.into(),
            layout,
            count,
            stripes,
        };
        if there(name) {
            if let Some(members) = stripes::find(folder, name)? {
                return Ok(Some(made(Layout::Stripes, members.count, Some(members))));
            }
            if !there(&subfiling::name_of(name, 0)) {
                return Ok(None);
            }
            let count = probe(folder, name, |files| {
                let header = e3sm::read_header(files, 0, Dialect::default())?;
                Ok(subfiling::subfiles(&header))
            })?;
            return Ok(count.map(|count| made(Layout::Subfiles, count, None)));
        }
        let first = blob_name(name, 0);
        if !there(&first) {
            return Ok(None);
        }
        let count = probe(folder, &first, e3sm::subfiles_of)?;
        Ok(count.map(|count| made(Layout::Blobs, count, None)))
    }

    /// Whether `name`, which no file has, might stand for a set: one look or two, without any
    /// content.
    #[must_use]
    pub fn may_be(folder: &Folder, name: &str) -> bool {
        let is_there =
            |number| folder.path.join(blob_name(name, number)).symlink_metadata().is_ok();
        is_there(0) || is_there(1)
    }

    /// As [`Set::find`]; also finds a set of blobs without its first file, so that opening it
    /// reports that.
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
                let (layout, stripes) = (Layout::Blobs, None);
                return Ok(Some(Set { folder, name, layout, count, stripes }));
            }
        }
        Ok(None)
    }

    /// Whether a file is one of those that the set's name stands for.
    fn has(&self, name: &str, number: usize) -> bool {
        let subfile = match (self.layout, &self.stripes) {
            (_, Some(members)) => return members.names[1..].iter().any(|one| one == name),
            (Layout::Blobs, _) => blob_name(&self.name, number),
            (_, None) => subfiling::name_of(&self.name, number),
        };
        number < self.count && subfile == name
    }

    /// The name that it stands for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its first file, which has the attributes of all.
    #[must_use]
    pub fn first(&self) -> String {
        match self.layout {
            Layout::Blobs => blob_name(&self.name, 0),
            Layout::Subfiles | Layout::Stripes => self.name.clone(),
        }
    }

    /// The names of all its files, one behind the other.
    pub fn files(&self) -> impl Iterator<Item = String> {
        let (name_of, count) = self.names();
        (0..count).filter_map(name_of)
    }

    fn names(&self) -> (impl Fn(usize) -> Option<String> + Send + Sync + 'static, usize) {
        let (name, layout, count) = (self.name.clone(), self.layout, self.count);
        let members = self.stripes.as_ref().map(|members| Arc::clone(&members.names));
        let all = match layout {
            Layout::Blobs => count,
            Layout::Subfiles => count + 1,
            Layout::Stripes => count + 2,
        };
        let name_of = move |file: usize| match layout {
            _ if file >= all => None,
            Layout::Blobs => Some(blob_name(&name, file)),
            Layout::Stripes => members.as_ref()?.get(file).cloned(),
            Layout::Subfiles => Some(match file.checked_sub(1) {
                None => name.clone(),
                Some(subfile) => subfiling::name_of(&name, subfile),
            }),
        };
        (name_of, all)
    }

    /// The file that it stands for.
    ///
    /// # Errors
    ///
    /// If a file is missing, damaged, or does not belong to the others.
    pub fn open(&self, options: &Options) -> Result<Logical> {
        let names = Box::new(self.names().0);
        let files = OnDisk::named(self.folder.clone(), names, options.most_open);
        let (files, name) = (Arc::new(files), self.folder.shown(&self.name));
        match (self.layout, &self.stripes) {
            (_, Some(members)) => {
                stripes::open(files, &name, (members.stripe, members.count), options)
            }
            (Layout::Blobs, _) => e3sm::open(files, &name, self.count, options),
            (_, None) => subfiling::open(files, &name, options),
        }
    }
}

/// The sets of a folder, each looked for once.
pub struct Sets {
    folder: Folder,
    found: HashMap<String, Option<Set>>,
}

impl Sets {
    /// The sets of a folder.
    #[must_use]
    pub fn of(folder: Folder) -> Self {
        Sets { folder, found: HashMap::new() }
    }

    /// The set that a name stands for.
    ///
    /// # Errors
    ///
    /// If the system refuses to tell.
    pub fn find(&mut self, name: &str) -> Result<Option<&Set>> {
        if !self.found.contains_key(name) {
            let found = Set::find(&self.folder, name)?;
            self.found.insert(name.into(), found);
        }
        Ok(self.found.get(name).and_then(Option::as_ref))
    }

    /// The set that the file of this name is a part of, and that stands for another name.
    ///
    /// # Errors
    ///
    /// If the system refuses to tell.
    pub fn that_has(&mut self, name: &str) -> Result<Option<&Set>> {
        let Some((set, number)) = named_after(name) else { return Ok(None) };
        Ok(self.find(set)?.filter(|set| set.has(name, number)))
    }
}

/// Whether the file of this name is a blob of a set. A file that cannot be understood is none.
#[must_use]
pub fn is_blob(folder: &Folder, name: &str) -> bool {
    matches!(probe(folder, name, e3sm::subfiles_of), Ok(Some(_)))
}

fn blob_name(set: &str, number: usize) -> String {
    format!("{set}.{number:04}")
}

/// Looks at one file. One that cannot be understood, or is no regular file, is no part of a set.
fn probe(
    folder: &Folder,
    name: &str,
    look: impl Fn(&dyn Files) -> Result<Option<usize>>,
) -> Result<Option<usize>> {
    if folder.look(name).is_ok_and(|found| !found.is_file()) {
        return Ok(None);
    }
    let files = OnDisk::new(folder.clone(), vec![name.into()], 1);
    match look(&files) {
        Err(why) if matches!(why.kind, Kind::System(_)) => Err(why),
        Err(_) => Ok(None),
        Ok(count) => Ok(count),
    }
}

/// A set of blobs, from files that are at hand already.
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
