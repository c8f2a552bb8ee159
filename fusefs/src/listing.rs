//! The entries of an open directory.

use fuser::FileType;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::io::Result;
use std::sync::Arc;

/// An entry of a directory.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
}

impl Entry {
    /// Whether it stands for the directory itself or its parent.
    pub(crate) fn is_dot(&self) -> bool {
        self.name == "." || self.name == ".."
    }
}

/// The entries as they were when the program began to read.
pub(crate) struct Listing {
    /// The number of the directory.
    pub(crate) id: u64,
    entries: Mutex<Option<Arc<Vec<Entry>>>>,
}

impl Listing {
    pub(crate) fn new(id: u64) -> Self {
        Listing { id, entries: Mutex::default() }
    }

    /// The entries; read anew when the program starts from the beginning.
    pub(crate) fn entries(
        &self,
        offset: u64,
        read: impl FnOnce() -> Result<Vec<Entry>>,
    ) -> Result<Arc<Vec<Entry>>> {
        let mut entries = self.entries.lock();
        if let Some(entries) = entries.as_ref().filter(|_| offset > 0) {
            return Ok(Arc::clone(entries));
        }
        let fresh = Arc::new(read()?);
        *entries = Some(Arc::clone(&fresh));
        Ok(fresh)
    }
}

/// The entries from `offset` on, each with the offset of the next one.
pub(crate) fn from(entries: &[Entry], offset: u64) -> impl Iterator<Item = (u64, &Entry)> {
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    entries.iter().enumerate().skip(skip).map(|(index, entry)| (index as u64 + 1, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&str]) -> Vec<Entry> {
        let kind = FileType::RegularFile;
        names.iter().map(|name| Entry { number: 7, kind, name: name.into() }).collect()
    }

    #[test]
    fn entries_are_read_anew_from_the_beginning_only() {
        let listing = Listing::new(7);
        let read = |offset, names: &[&str]| {
            let found = listing.entries(offset, || Ok(entries(names))).unwrap();
            found.iter().map(|entry| entry.name.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(read(2, &["."]), ["."]);
        assert_eq!(read(1, &["a", "b"]), ["."]);
        assert_eq!(read(0, &["a", "b"]), ["a", "b"]);
        let failed = listing.entries(0, || Err(rustix::io::Errno::STALE.into()));
        assert!(failed.is_err());
        assert_eq!(read(1, &[]), ["a", "b"]);
    }

    #[test]
    fn an_offset_is_that_of_the_next_entry() {
        let entries = entries(&[".", "..", "a"]);
        let next: Vec<u64> = from(&entries, 1).map(|(next, _)| next).collect();
        assert_eq!(next, [2, 3]);
        assert_eq!(from(&entries, 3).count(), 0);
        assert_eq!(from(&entries, u64::MAX).count(), 0);
        assert!(entries[1].is_dot() && !entries[2].is_dot());
    }
}
