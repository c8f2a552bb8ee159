//! `AGGIO_STAGE`: the place for small staged writes.

/// Where small writes wait so that all ranks of the node see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StagePlace {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In memory that has no name.
    Memory,
    /// In a directory.
    Directory(String),
}

impl StagePlace {
    /// The directory, if it is one.
    pub fn directory(&self) -> Option<&str> {
        match self {
            Self::Directory(name) => Some(name),
            _ => None,
        }
    }

    /// Some files are to be staged: in memory, unless the user chooses another place.
    pub(super) fn begin(&mut self) -> bool {
        *self = Self::Memory;
        true
    }

    /// Parses the user's value.
    pub(super) fn set(&mut self, text: &str) -> bool {
        *self = match text {
            "none" => Self::Nowhere,
            "memory" => Self::Memory,
            name if name.starts_with('/') => Self::Directory(name.to_owned()),
            _ => return false,
        };
        true
    }
}
