//! Access modes: the `amode` argument of an open.

use crate::Direction;
use aggio_base::error::{Error, ErrorClass, Result};

/// The access mode of an open file, as bits. The values are the engine's own; the layer above
/// translates those of its MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Amode(pub u32);

impl Amode {
    /// Create the file if it does not exist.
    pub const CREATE: Amode = Amode(1);
    /// Reading only.
    pub const RDONLY: Amode = Amode(2);
    /// Writing only.
    pub const WRONLY: Amode = Amode(4);
    /// Reading and writing.
    pub const RDWR: Amode = Amode(8);
    /// Delete the file when it is closed.
    pub const DELETE_ON_CLOSE: Amode = Amode(16);
    /// The file is open on these ranks only; a promise by the caller.
    pub const UNIQUE_OPEN: Amode = Amode(32);
    /// Creating a file that exists is an error.
    pub const EXCL: Amode = Amode(64);
    /// All file pointers start at the end of the file.
    pub const APPEND: Amode = Amode(128);
    /// The file is accessed through the shared file pointer only.
    pub const SEQUENTIAL: Amode = Amode(256);

    const ALL_BITS: u32 = 511;

    /// Both modes together.
    pub const fn with(self, other: Amode) -> Amode {
        Amode(self.0 | other.0)
    }

    /// Whether every bit of `other` is set.
    pub fn has(self, other: Amode) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the file may be read.
    pub fn is_readable(self) -> bool {
        !self.has(Amode::WRONLY)
    }

    /// Whether the file may be written.
    pub fn is_writable(self) -> bool {
        !self.has(Amode::RDONLY)
    }

    /// Checks the combination (MPI-4.1, 14.2.1).
    ///
    /// # Errors
    /// `Amode`, with the offending part named.
    pub fn check(self) -> Result<()> {
        let wrong = |why: &str| Err(Error::new(ErrorClass::Amode, format!("amode {self}: {why}")));
        if self.0 & !Self::ALL_BITS != 0 {
            return wrong("unknown bits");
        }
        let directions = [Self::RDONLY, Self::WRONLY, Self::RDWR];
        match directions.into_iter().filter(|&direction| self.has(direction)).count() {
            0 => return wrong("one of RDONLY, WRONLY and RDWR must be given"),
            1 => {}
            _ => return wrong("only one of RDONLY, WRONLY and RDWR may be given"),
        }
        if self.has(Self::RDONLY) && (self.has(Self::CREATE) || self.has(Self::EXCL)) {
            return wrong("CREATE and EXCL need a file that may be written");
        }
        if self.has(Self::RDWR) && self.has(Self::SEQUENTIAL) {
            return wrong("SEQUENTIAL goes with RDONLY or WRONLY only");
        }
        Ok(())
    }

    /// Checks that the mode permits access in this direction.
    ///
    /// # Errors
    /// `Access` for a read, `ReadOnly` for a write that it does not permit.
    pub(super) fn check_access(self, direction: Direction) -> Result<()> {
        let (permits, class) = match direction {
            Direction::Read => (self.is_readable(), ErrorClass::Access),
            Direction::Write => (self.is_writable(), ErrorClass::ReadOnly),
        };
        let refused = || Error::new(class, format!("the file was opened {self}"));
        if permits { Ok(()) } else { Err(refused()) }
    }

    /// Checks that the file is accessed through other pointers than the shared one.
    ///
    /// # Errors
    /// `UnsupportedOperation` for SEQUENTIAL.
    pub(super) fn check_not_sequential(self) -> Result<()> {
        if !self.has(Self::SEQUENTIAL) {
            return Ok(());
        }
        let text = "a file opened SEQUENTIAL is accessed through its shared file pointer only";
        Err(Error::new(ErrorClass::UnsupportedOperation, text))
    }

    /// SEQUENTIAL files have views at the current place only, other files never (MPI-4.1, 14.3).
    ///
    /// # Errors
    /// `Arg` if `is_current` does not go with the mode.
    pub(super) fn check_displacement(self, is_current: bool) -> Result<()> {
        if self.has(Self::SEQUENTIAL) == is_current {
            return Ok(());
        }
        let text = "MPI_DISPLACEMENT_CURRENT goes with files opened SEQUENTIAL, and only with them";
        Err(Error::new(ErrorClass::Arg, text))
    }
}

impl std::fmt::Display for Amode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(Amode, &str); 9] = [
            (Amode::CREATE, "CREATE"),
            (Amode::RDONLY, "RDONLY"),
            (Amode::WRONLY, "WRONLY"),
            (Amode::RDWR, "RDWR"),
            (Amode::DELETE_ON_CLOSE, "DELETE_ON_CLOSE"),
            (Amode::UNIQUE_OPEN, "UNIQUE_OPEN"),
            (Amode::EXCL, "EXCL"),
            (Amode::APPEND, "APPEND"),
            (Amode::SEQUENTIAL, "SEQUENTIAL"),
        ];
        let mut first = true;
        for (_, name) in NAMES.into_iter().filter(|&(mode, _)| self.has(mode)) {
            write!(f, "{}{name}", if first { "" } else { "|" })?;
            first = false;
        }
        let unknown = self.0 & !Self::ALL_BITS;
        if unknown != 0 || first {
            write!(f, "{}{unknown:#x}", if first { "" } else { "|" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_direction_must_be_given() {
        assert!(Amode::RDONLY.check().is_ok());
        assert!(Amode::CREATE.with(Amode::WRONLY).check().is_ok());
        for wrong in [Amode(0), Amode::CREATE, Amode::RDONLY.with(Amode::WRONLY), Amode(14)] {
            assert_eq!(wrong.check().unwrap_err().class(), ErrorClass::Amode, "{wrong}");
        }
    }

    #[test]
    fn contradictions_and_unknown_bits_are_refused() {
        for wrong in [
            Amode::RDONLY.with(Amode::CREATE),
            Amode::RDONLY.with(Amode::EXCL),
            Amode::RDWR.with(Amode::SEQUENTIAL),
            Amode::RDWR.with(Amode(512)),
        ] {
            assert_eq!(wrong.check().unwrap_err().class(), ErrorClass::Amode, "{wrong}");
        }
        assert!(Amode::WRONLY.with(Amode::SEQUENTIAL).check().is_ok());
    }

    #[test]
    fn a_mode_permits_directions_pointers_and_displacements() {
        let (read, write) = (Direction::Read, Direction::Write);
        let class = |checked: Result<()>| checked.err().map(|error| error.class());
        assert_eq!(class(Amode::RDONLY.check_access(write)), Some(ErrorClass::ReadOnly));
        assert_eq!(class(Amode::WRONLY.check_access(read)), Some(ErrorClass::Access));
        assert!([read, write].into_iter().all(|one| Amode::RDWR.check_access(one).is_ok()));
        let sequential = Amode::RDONLY.with(Amode::SEQUENTIAL);
        let refused = class(sequential.check_not_sequential());
        assert_eq!(refused, Some(ErrorClass::UnsupportedOperation));
        assert!(Amode::RDONLY.check_not_sequential().is_ok());
        for is_current in [true, false] {
            assert_eq!(sequential.check_displacement(is_current).is_ok(), is_current);
            assert_eq!(Amode::RDWR.check_displacement(is_current).is_ok(), !is_current);
        }
    }

    #[test]
    fn a_mode_is_shown_by_its_names() {
        assert_eq!(Amode::CREATE.with(Amode::RDWR).to_string(), "CREATE|RDWR");
        assert_eq!(Amode(8 + 1024).to_string(), "RDWR|0x400");
        assert_eq!(Amode(0).to_string(), "0x0");
    }
}
