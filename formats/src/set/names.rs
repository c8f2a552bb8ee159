//! A set gets another name.
//!
//! At any moment one of both names has all files of the set: they get the new names beside the old
//! ones, the first file last ([`Set::link`]), and then lose the old ones, the first file first
//! ([`Set::unlink`]).

use super::{Layout, Set, blob_name, is_blob};
use crate::files::Folder;
use agg_core::output::Aside;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const EEXIST: i32 = 17;
const EROFS: i32 = 30;
/// `EPERM`, `EMLINK`, `ENOSYS` and `EOPNOTSUPP` of Linux: a file system, or a file, that has one
/// name only.
const NO_LINKS: [i32; 4] = [1, 31, 38, 95];

/// A file that gets a new name: the old one, one that nobody sees, and the new one.
struct Step {
    old: PathBuf,
    aside: PathBuf,
    new: PathBuf,
}

impl Set {
    /// Removes its files, the first one first: without it the others are a set of nothing.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn remove(&self) -> Result<()> {
        self.files().try_for_each(|name| match fs::remove_file(self.folder.path.join(name)) {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        })
    }

    /// Takes its names away from files that have others as well. One that has no other was not
    /// given a name by [`link`](Set::link): both names are the same.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn unlink(&self) -> Result<()> {
        let mut names = self.files().map(|name| self.folder.path.join(name));
        names.try_for_each(|path| match path.symlink_metadata() {
            Ok(facts) if facts.nlink() > 1 => fs::remove_file(path),
            Ok(_) => Ok(()),
            // They were renamed.
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
            Err(why) => Err(why),
        })
    }

    /// Gives its files the names of the set `name` of another folder as well, or, where a file
    /// cannot have two names, instead. An older set of that name is replaced.
    ///
    /// # Errors
    ///
    /// The error of the system call, `EXDEV` if the folder is of another file system; if a name
    /// belongs to something else. Until all files can have a further name, nothing is changed.
    pub fn link(&self, to: &Folder, name: &str) -> Result<()> {
        if self.layout != Layout::Blobs {
            return Err(Error::from_raw_os_error(EROFS));
        }
        let made = Aside::make(&to.path.join(name));
        let aside = made.map_err(|why| why.to_io())?;
        let steps: Vec<Step> =
            (0..self.count).map(|number| self.step(&aside, to, name, number)).collect();
        for (number, step) in steps.iter().enumerate() {
            if step.new.symlink_metadata().is_ok() && !is_blob(to, &blob_name(name, number)) {
                return Err(Error::from_raw_os_error(EEXIST));
            }
        }
        let renamed = match steps.iter().try_for_each(link_aside) {
            Ok(()) => rename_all(&steps, |step| &step.aside),
            Err(why) if why.raw_os_error().is_some_and(|errno| NO_LINKS.contains(&errno)) => {
                rename_all(&steps, |step| &step.old)
            }
            Err(why) => Err(why),
        };
        // Also of a file that had the new name already: the system leaves both names then.
        steps.iter().for_each(|step| drop(fs::remove_file(&step.aside)));
        renamed?;
        self.remove_further(to, name)
    }

    fn step(&self, aside: &Aside, to: &Folder, name: &str, number: usize) -> Step {
        let new = blob_name(name, number);
        let old = self.folder.path.join(blob_name(&self.name, number));
        Step { old, aside: aside.path_of(&new), new: to.path.join(new) }
    }

    /// Removes files of an older set that had more of them, the last one first.
    fn remove_further(&self, to: &Folder, name: &str) -> Result<()> {
        let names = (self.count..).map(|number| blob_name(name, number));
        let further: Vec<String> = names.take_while(|name| is_blob(to, name)).collect();
        further.iter().rev().try_for_each(|name| fs::remove_file(to.path.join(name)))
    }
}

fn link_aside(step: &Step) -> Result<()> {
    fs::hard_link(&step.old, &step.aside)
}

/// Gives all files the new names, the first one, by which a set is known, last.
fn rename_all(steps: &[Step], from: impl Fn(&Step) -> &PathBuf) -> Result<()> {
    steps.iter().rev().try_for_each(|step| fs::rename(from(step), &step.new))
}
