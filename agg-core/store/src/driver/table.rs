//! The table of drivers, and which one a file name selects.

use super::{Driver, Offer, OpenHow, blob, fault, posix, set};
use aggio_base::{Error, ErrorClass, Result};
use aggio_container::blob::is_container;
use std::path::Path;
use std::sync::OnceLock;

/// One kind of storage.
pub struct Entry {
    /// The driver's name, shown to users.
    pub name: &'static str,
    /// File-name prefixes that select it, each with its colon; the prefix is not part of the path.
    pub prefixes: &'static [&'static str],
    /// Opens a file.
    pub open: fn(&OpenHow) -> Result<Box<dyn Driver>>,
    /// Takes a file that another process of the node has open.
    pub adopt: fn(&OpenHow, Offer) -> Result<Box<dyn Driver>>,
    /// Whether the file, or the directory in which it is to be created, is there.
    pub sees: fn(&OpenHow) -> bool,
    /// Ranks that do not need the file do not open it, unless a hint says otherwise.
    pub defers: bool,
    /// Deletes a file by name, for the rank given.
    pub delete: fn(&str, usize) -> Result<()>,
}

impl Entry {
    /// Whether names without a prefix are this driver's.
    fn is_first(&self) -> bool {
        self.name == DRIVERS[0].name
    }

    /// Whether the `error` of this driver for `path` is that a container is no ordinary file.
    fn holds_container(&self, error: &Error, path: &str) -> bool {
        self.is_first() && error.errno() == libc::EISDIR && is_container(Path::new(path))
    }

    /// Whether after this `error` a set of files may be what `path` means.
    fn may_be_set(&self, error: &Error) -> bool {
        self.is_first() && error.class() == ErrorClass::NoSuchFile
    }
}

/// All drivers; the first one also serves names without a prefix.
///
/// The prefixes are those that ROMIO knows: programs and job scripts carry them.
pub static DRIVERS: &[Entry] = &[
    Entry {
        name: "posix",
        prefixes: &[
            "ufs:", "nfs:", "xfs:", "pfs:", "piofs:", "pvfs:", "pvfs2:", "panfs:", "gpfs:",
            "lustre:", "daos:", "ime:", "quobyte:",
        ],
        open: posix::open,
        adopt: posix::adopt,
        sees: posix::sees,
        defers: true,
        delete: posix::delete,
    },
    Entry {
        name: "test",
        prefixes: &["testfs:"],
        open: fault::open,
        adopt: fault::adopt,
        sees: fault::sees,
        defers: false,
        delete: fault::delete,
    },
    Entry {
        name: "blob",
        prefixes: &["blob:"],
        open: blob::open,
        adopt: blob::adopt,
        sees: posix::sees,
        defers: true,
        delete: blob::delete,
    },
    Entry {
        name: "set",
        prefixes: &[],
        open: set::open,
        adopt: set::adopt,
        sees: set::sees,
        defers: true,
        delete: set::delete,
    },
];

const TEST: &Entry = &DRIVERS[1];
const BLOB: &Entry = &DRIVERS[2];
const SET: &Entry = &DRIVERS[3];

/// The driver that serves `name`, and the path behind a known prefix.
///
/// An unknown prefix is part of the name: `C:data` and `run:3` are files. With `test`, names
/// without a prefix belong to the fault-injecting test driver.
pub fn probe(name: &str, test: bool) -> (&'static Entry, &str) {
    for entry in DRIVERS {
        if let Some(path) = entry.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)) {
            return (entry, path);
        }
    }
    (if test { TEST } else { &DRIVERS[0] }, name)
}

/// Whether `AGGIO_TEST_DRIVER=1` gives names without a prefix to the test driver; read once.
fn test_driver_by_default() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| std::env::var_os("AGGIO_TEST_DRIVER").is_some_and(|value| value == "1"))
}

/// `name` without a known driver prefix: the path that the system sees.
pub fn path_of(name: &str) -> &str {
    probe(name, false).1
}

/// Opens the file that `how.path` names, with the driver that its prefix selects.
pub fn open(how: &OpenHow) -> Result<Box<dyn Driver>> {
    let (entry, path) = probe(&how.path, test_driver_by_default());
    let how = OpenHow { path: path.to_owned(), ..how.clone() };
    if entry.is_first() && set::comes_first(&how)? {
        return (SET.open)(&how);
    }
    if entry.is_first() && blob::is_wanted(&how) {
        return (BLOB.open)(&how);
    }
    (entry.open)(&how).or_else(|error| match () {
        () if entry.holds_container(&error, path) => (BLOB.open)(&how),
        // Where there is no set either, the error is the same.
        () if entry.may_be_set(&error) => (SET.open)(&how),
        () => Err(error),
    })
}

/// As [`open`]; where the permissions forbid a reading that is optional, without it.
pub fn open_or_less(how: &OpenHow) -> Result<Box<dyn Driver>> {
    open(how).or_else(|error| {
        if !(how.read && how.write && how.read_is_optional) {
            return Err(error);
        }
        open(&OpenHow { read: false, ..how.clone() })
    })
}

/// Takes the file that `how.path` names from the process that offers it.
pub(super) fn adopt(how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
    let (entry, path) = probe(&how.path, test_driver_by_default());
    (entry.adopt)(&OpenHow { path: path.to_owned(), ..how.clone() }, offer)
}

/// The name of the driver that serves `name`.
pub(super) fn name_of(name: &str) -> &'static str {
    probe(name, test_driver_by_default()).0.name
}

/// Whether ranks that do not need the file `name` are not to open it.
pub fn may_defer(name: &str) -> bool {
    probe(name, test_driver_by_default()).0.defers
}

/// `name` with a path that means the same in any working directory.
pub fn absolute(name: &str) -> String {
    let path = path_of(name);
    let prefix = &name[..name.len() - path.len()];
    let absolute = std::path::absolute(path).ok();
    let text = absolute.as_ref().and_then(|absolute| absolute.to_str());
    text.map_or_else(|| name.to_owned(), |text| format!("{prefix}{text}"))
}

/// Whether this process sees the file, or at least the directory in which it is to be created.
pub fn is_in_sight(how: &OpenHow) -> bool {
    let (entry, path) = probe(&how.path, test_driver_by_default());
    let how = OpenHow { path: path.to_owned(), ..how.clone() };
    (entry.sees)(&how) || entry.is_first() && (SET.sees)(&how)
}

/// Deletes the file `name`; `ErrorClass::NoSuchFile` if there is none. `rank` is the caller's.
pub fn delete(name: &str, rank: usize) -> Result<()> {
    let (entry, path) = probe(name, test_driver_by_default());
    if entry.is_first() && set::replaces(path)? {
        return (SET.delete)(path, rank);
    }
    (entry.delete)(path, rank).or_else(|error| match () {
        () if entry.holds_container(&error, path) => (BLOB.delete)(path, rank),
        () if entry.may_be_set(&error) => (SET.delete)(path, rank),
        () => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_prefix_selects_the_driver_and_leaves_the_path() {
        for (name, driver, path) in [
            ("ufs:/a/b", "posix", "/a/b"),
            ("lustre:x", "posix", "x"),
            ("testfs:x:y", "test", "x:y"),
            ("/plain", "posix", "/plain"),
        ] {
            let (entry, rest) = probe(name, false);
            assert_eq!((entry.name, rest), (driver, path));
        }
    }

    #[test]
    fn an_unknown_prefix_is_part_of_the_name() {
        for name in ["C:data", "u:x", "UFS:x", "run:3", ":x", "nfs", "a/ufs:b", "ufsx:b", ""] {
            assert_eq!(probe(name, false).0.name, "posix");
            assert_eq!(path_of(name), name);
        }
    }

    #[test]
    fn names_without_a_prefix_go_to_the_test_driver_on_request() {
        assert_eq!(probe("out.nc", true).0.name, "test");
        assert_eq!(probe("ufs:out.nc", true).0.name, "posix");
    }
}
