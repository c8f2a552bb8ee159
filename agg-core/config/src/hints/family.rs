//! The origin of a hint: a standard, or the library that introduced it.

/// The standard or library that introduced a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Reserved by the MPI standard (MPI-4.1, 14.2.8).
    Standard,
    /// ROMIO, all file systems.
    Romio,
    /// ROMIO's drivers of single file systems.
    RomioDriver,
    /// Open MPI's OMPIO.
    Ompio,
    /// Cray MPICH.
    Cray,
    /// PnetCDF and its I/O layer GIO.
    Pnetcdf,
    /// aggio.
    Aggio,
}

impl Family {
    /// Every family, in the order of the documentation.
    pub const ALL: &'static [Family] = &[
        Family::Standard,
        Family::Romio,
        Family::RomioDriver,
        Family::Ompio,
        Family::Cray,
        Family::Pnetcdf,
        Family::Aggio,
    ];

    /// The name for the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Family::Standard => "MPI standard",
            Family::Romio => "ROMIO",
            Family::RomioDriver => "ROMIO's file system drivers",
            Family::Ompio => "OMPIO",
            Family::Cray => "Cray MPICH",
            Family::Pnetcdf => "PnetCDF and GIO",
            Family::Aggio => "aggio",
        }
    }
}
