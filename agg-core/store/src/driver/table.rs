//! The table of drivers, and which one a file name selects.

use super::blob::Containers;
use super::latency::Meters;
use super::{Driver, Offer, OpenHow};
use aggio_base::{Error, Result};
use std::fmt::Debug;
use std::sync::Arc;

/// One kind of storage.
pub trait Kind: Debug + Send + Sync {
    /// The driver's name, shown to users.
    fn name(&self) -> &'static str;

    /// File-name prefixes that select it, each with its colon; the prefix is not part of the path.
    fn prefixes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Ranks that do not need the file do not open it, unless a hint says otherwise.
    fn defers(&self) -> bool {
        true
    }

    /// Whether an ordinary name means a file of this kind, regardless of other files there. Called
    /// before an ordinary file is opened, so it must cost nothing where the answer is no.
    ///
    /// # Errors
    /// The system's error while looking at the file.
    fn claims(&self, drivers: &Drivers, how: &OpenHow) -> Result<bool> {
        let _ = (drivers, how);
        Ok(false)
    }

    /// Whether a file of this kind may be why the ordinary file `path` failed with `error`.
    fn explains(&self, path: &str, error: &Error) -> bool {
        let _ = (path, error);
        false
    }

    /// Whether this process sees a file of this kind where it sees no ordinary one.
    fn stands_in(&self, how: &OpenHow) -> bool {
        let _ = how;
        false
    }

    /// Whether the ordinary name of `how` means a file of this kind that another process offers.
    fn adopts(&self, how: &OpenHow) -> bool {
        let _ = how;
        false
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The system's error.
    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>>;

    /// Takes a file that another process of the node has open; opens it by name if that is all
    /// that can be done.
    ///
    /// # Errors
    /// The system's error.
    fn adopt(&self, drivers: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        let _ = offer;
        self.open(drivers, how)
    }

    /// Whether the file, or the directory in which it is to be created, is there.
    fn sees(&self, how: &OpenHow) -> bool;

    /// Deletes a file by name, for the rank given.
    ///
    /// # Errors
    /// The system's error.
    fn delete(&self, drivers: &Drivers, path: &str, rank: usize) -> Result<()>;

    /// Called before the ordinary file `path` is deleted; returns an action for afterwards.
    fn before_delete(&self, path: &str) -> Option<AfterDelete> {
        let _ = path;
        None
    }

    /// A container called `path` has been removed, which hid a file of this kind: removes that,
    /// too, if it belonged to the container.
    ///
    /// # Errors
    /// The system's error.
    fn remove_hidden(&self, drivers: &Drivers, path: &str) -> Result<()> {
        let _ = (drivers, path);
        Ok(())
    }
}

/// An action to take when a file has been deleted.
pub type AfterDelete = Box<dyn FnOnce()>;

/// The drivers of an engine, in the order in which prefixes are looked up.
///
/// The first one serves ordinary names, which have no prefix. The others may
/// [claim](Kind::claims) such a name, the last one first.
#[derive(Clone, Debug)]
pub struct Drivers {
    pub(super) kinds: Vec<Arc<dyn Kind>>,
    pub(super) containers: Arc<Containers>,
    pub(super) meters: Arc<Meters>,
    /// Ordinary names belong to the test driver.
    pub(super) test: bool,
}

/// The place of the test driver in the table.
const TEST: usize = 1;

impl Drivers {
    /// Adds a kind of storage. An ordinary name that it claims is served by no other kind.
    #[must_use]
    pub fn with(mut self, kind: Arc<dyn Kind>) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Adds a kind of storage that claims ordinary names only where no other one does.
    #[must_use]
    pub fn with_last(mut self, kind: Arc<dyn Kind>) -> Self {
        self.kinds.insert(TEST + 1, kind);
        self
    }

    /// The driver of ordinary files.
    pub fn ordinary(&self) -> &dyn Kind {
        &*self.kinds[0]
    }

    /// All drivers.
    pub fn kinds(&self) -> &[Arc<dyn Kind>] {
        &self.kinds
    }

    /// The containers among them.
    pub fn containers(&self) -> &Containers {
        &self.containers
    }

    /// The driver that serves `name`, the path behind a known prefix, and whether the name is an
    /// ordinary one, which another driver may claim.
    ///
    /// An unknown prefix is part of the name: `C:data` and `run:3` are files.
    pub fn probe<'a>(&self, name: &'a str) -> (&dyn Kind, &'a str, bool) {
        // Most names have no colon, and so no prefix.
        let kinds = if name.contains(':') { &*self.kinds } else { &[] };
        for (number, kind) in kinds.iter().enumerate() {
            let mut paths = kind.prefixes().iter().filter_map(|prefix| name.strip_prefix(prefix));
            if let Some(path) = paths.next() {
                return (&**kind, path, number == 0);
            }
        }
        (&*self.kinds[if self.test { TEST } else { 0 }], name, !self.test)
    }

    /// `name` without a known driver prefix: the path that the system sees.
    pub fn path_of<'a>(&self, name: &'a str) -> &'a str {
        self.probe(name).1
    }

    /// `name` with a path that means the same in any working directory.
    pub fn absolute(&self, name: &str) -> String {
        let path = self.path_of(name);
        let prefix = &name[..name.len() - path.len()];
        let absolute = std::path::absolute(path).ok();
        let text = absolute.as_ref().and_then(|absolute| absolute.to_str());
        text.map_or_else(|| name.to_owned(), |text| format!("{prefix}{text}"))
    }

    /// Those that may claim an ordinary name, the one that is asked first at the front.
    fn claimants(&self) -> impl Iterator<Item = &dyn Kind> {
        self.kinds[1..].iter().rev().map(|kind| &**kind)
    }

    /// The driver that claims an ordinary name before ordinary files are looked up.
    fn claimant(&self, how: &OpenHow) -> Result<Option<&dyn Kind>> {
        for kind in self.claimants() {
            if kind.claims(self, how)? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// The driver that can explain why an ordinary file failed with `error`.
    fn explained(&self, path: &str, error: &Error) -> Option<&dyn Kind> {
        self.claimants().find(|kind| kind.explains(path, error))
    }

    /// Opens the file that `how.path` names, with the driver that its name selects.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let (kind, path, is_ordinary) = self.probe(&how.path);
        let how = OpenHow { path: path.to_owned(), ..how.clone() };
        if !is_ordinary {
            return kind.open(self, &how);
        }
        if let Some(claimant) = self.claimant(&how)? {
            return claimant.open(self, &how);
        }
        kind.open(self, &how).or_else(|error| self.open_instead(&how, error))
    }

    /// Opens a file with another driver after the driver of ordinary files has failed.
    ///
    /// # Errors
    /// `error`, if no driver can explain it; the other driver's error.
    pub fn open_instead(&self, how: &OpenHow, error: Error) -> Result<Box<dyn Driver>> {
        match self.explained(&how.path, &error) {
            // If it has no such file either, its error is the same.
            Some(other) => other.open(self, how),
            None => Err(error),
        }
    }

    /// As [`Drivers::open`]; where the permissions forbid a reading that is optional, without it.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_or_less(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        self.open(how).or_else(|error| {
            if !(how.read && how.write && how.read_is_optional) {
                return Err(error);
            }
            self.open(&OpenHow { read: false, ..how.clone() })
        })
    }

    /// Takes the file that `how.path` names from the process that offers it.
    pub(super) fn adopt(&self, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        let (kind, path, is_ordinary) = self.probe(&how.path);
        let how = OpenHow { path: path.to_owned(), ..how.clone() };
        let other = self.claimants().find(|other| is_ordinary && other.adopts(&how));
        let adopted = other.unwrap_or(kind).adopt(self, &how, offer);
        adopted.or_else(|error| match is_ordinary && error.errno() == libc::EISDIR {
            true => self.containers.adopt(self, &how, offer),
            false => Err(error),
        })
    }

    /// Whether ranks that do not need the file `name` are not to open it.
    pub fn may_defer(&self, name: &str) -> bool {
        self.probe(name).0.defers()
    }

    /// Whether this process sees the file, or at least the directory in which it is to be created.
    pub fn is_in_sight(&self, how: &OpenHow) -> bool {
        let (kind, path, is_ordinary) = self.probe(&how.path);
        let how = OpenHow { path: path.to_owned(), ..how.clone() };
        kind.sees(&how) || is_ordinary && self.claimants().any(|kind| kind.stands_in(&how))
    }

    /// Deletes the file `name`; `ErrorClass::NoSuchFile` if there is none. `rank` is the caller's.
    ///
    /// # Errors
    /// The system's error.
    pub fn delete(&self, name: &str, rank: usize) -> Result<()> {
        let (kind, path, is_ordinary) = self.probe(name);
        if !is_ordinary {
            return kind.delete(self, path, rank);
        }
        let how = OpenHow { path: path.to_owned(), ..OpenHow::default() };
        if let Some(claimant) = self.claimant(&how)? {
            return claimant.delete(self, path, rank);
        }
        let after: Vec<_> = self.claimants().filter_map(|kind| kind.before_delete(path)).collect();
        kind.delete(self, path, rank).or_else(|error| match self.explained(path, &error) {
            Some(other) => other.delete(self, path, rank),
            None => Err(error),
        })?;
        after.into_iter().for_each(|after| after());
        Ok(())
    }

    /// A container called `path` has been removed: removes the files that it hid and that belonged
    /// to it.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove_hidden(&self, path: &str) -> Result<()> {
        self.claimants().try_for_each(|kind| kind.remove_hidden(self, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_prefix_selects_the_driver_and_leaves_the_path() {
        let drivers = Drivers { test: false, ..Drivers::default() };
        for (name, driver, path) in [
            ("ufs:/a/b", "posix", "/a/b"),
            ("lustre:x", "posix", "x"),
            ("testfs:x:y", "test", "x:y"),
            ("/plain", "posix", "/plain"),
        ] {
            let (kind, rest, is_ordinary) = drivers.probe(name);
            assert_eq!((kind.name(), rest, is_ordinary), (driver, path, driver == "posix"));
        }
    }

    #[test]
    fn an_unknown_prefix_is_part_of_the_name() {
        let drivers = Drivers { test: false, ..Drivers::default() };
        for name in ["C:data", "u:x", "UFS:x", "run:3", ":x", "nfs", "a/ufs:b", "ufsx:b", ""] {
            assert_eq!(drivers.probe(name).0.name(), "posix");
            assert_eq!(drivers.path_of(name), name);
        }
    }

    #[test]
    fn names_without_a_prefix_go_to_the_test_driver_on_request() {
        let drivers = Drivers { test: true, ..Drivers::default() };
        assert_eq!(drivers.probe("out.nc").0.name(), "test");
        assert_eq!(drivers.probe("ufs:out.nc").0.name(), "posix");
    }

    #[test]
    fn tables_with_different_rules_are_apart() {
        let rule = |text: &str| {
            let mut complaints = aggio_base::diagnostics::Diagnostics::default();
            let variable = |name: &str| (name == "AGGIO_BLOB").then(|| text.to_owned());
            let names = ["AGGIO_BLOB".to_owned()];
            aggio_config::settings::Settings::read(&variable, &names, &mut complaints).blobs
        };
        let scratch = super::super::scratch::Scratch::new();
        let (plain, all) = (Drivers::default(), Drivers::new(&rule("*.nc"), true));
        let how = |name: &str| OpenHow {
            path: scratch.file(name),
            create: true,
            write: true,
            ..OpenHow::default()
        };
        assert_eq!(plain.open(&how("a.nc")).unwrap().name(), "posix");
        assert_eq!(all.open(&how("b.nc")).unwrap().name(), "blob");
        // An existing file or container is opened as such, by either.
        assert_eq!(all.open(&how("a.nc")).unwrap().name(), "posix");
        assert_eq!(plain.open(&how("b.nc")).unwrap().name(), "blob");
    }
}
