//! The programs of the application benchmark, their arguments and the numbers of ranks.

use crate::server::{Mpi, SERVERS};

/// A program in C, compiled for each MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// `tridiagonal.c`, MPI-IO.
    Tridiagonal,
    /// `decompositions.c`, PnetCDF.
    Decompositions,
    /// `hdf5_chunks.c`, HDF5.
    Chunks,
}

impl Program {
    pub(super) const ALL: [Self; 3] = [Self::Tridiagonal, Self::Decompositions, Self::Chunks];

    /// Its source file without the suffix.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tridiagonal => "tridiagonal",
            Self::Decompositions => "decompositions",
            Self::Chunks => "hdf5_chunks",
        }
    }

    /// The directory of its source file, in the repository.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Tridiagonal | Self::Decompositions => "tools/bench/programs",
            Self::Chunks => "tests/programs",
        }
    }
}

/// One row of the table for each number of ranks and each MPI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// The name in the table.
    pub(super) name: &'static str,
    pub(super) program: Program,
    /// Behind the name of the file; smaller ones where requests take long.
    pub(super) arguments: &'static str,
    pub(super) where_slow: &'static str,
    pub(super) ranks: &'static [u32],
}

const fn case(
    program: Program,
    name: &'static str,
    arguments: &'static str,
    where_slow: &'static str,
    ranks: &'static [u32],
) -> Case {
    Case { name, program, arguments, where_slow, ranks }
}

const fn tridiagonal(
    name: &'static str,
    arguments: &'static str,
    where_slow: &'static str,
) -> Case {
    case(Program::Tridiagonal, name, arguments, where_slow, &[4, 16])
}

const fn decomposed(
    name: &'static str,
    arguments: &'static str,
    where_slow: &'static str,
    ranks: &'static [u32],
) -> Case {
    case(Program::Decompositions, name, arguments, where_slow, ranks)
}

const fn chunks(name: &'static str, arguments: &'static str, where_slow: &'static str) -> Case {
    case(Program::Chunks, name, arguments, where_slow, &[4, 16])
}

pub(super) const CASES: &[Case] = &[
    tridiagonal("block-tridiagonal, subarrays", "collective 64 10", "collective 16 10"),
    tridiagonal("block-tridiagonal, structs in memory", "structs 64 10", "structs 16 10"),
    tridiagonal("block-tridiagonal, rows of one rank", "independent 64 10", "independent 16 10"),
    decomposed("3-D checkpoint", "checkpoint 64 2", "checkpoint 24 2", &[4, 8]),
    decomposed("ocean", "ocean 4000 5", "ocean 1000 1", &[4, 16]),
    decomposed("land", "land 2000 1", "land 500 1", &[4, 16]),
    decomposed("atmosphere", "atmosphere 866 1", "atmosphere 400 1", &[4, 16]),
    chunks(
        "HDF5, independent rows of 1 KiB",
        "mode=independent layout=rows side=2816 chunk=256",
        "mode=independent layout=rows side=512 chunk=256",
    ),
    chunks(
        "HDF5, linked chunks, rows",
        "mode=collective layout=rows side=2896 chunk=362",
        "mode=collective layout=rows side=1024 chunk=128",
    ),
    chunks(
        "HDF5, linked chunks, blocks",
        "mode=collective layout=blocks side=2896 chunk=362",
        "mode=collective layout=blocks side=1024 chunk=128",
    ),
    chunks(
        "HDF5, chunk by chunk, rows",
        "mode=multi layout=rows side=2896 chunk=362",
        "mode=multi layout=rows side=1024 chunk=128",
    ),
    chunks(
        "HDF5, chunk by chunk, blocks",
        "mode=multi layout=blocks side=2896 chunk=362",
        "mode=multi layout=blocks side=1024 chunk=128",
    ),
    chunks(
        "HDF5, chunk by chunk, all collective, blocks",
        "mode=multi0 layout=blocks side=2896 chunk=362",
        "mode=multi0 layout=blocks side=1024 chunk=128",
    ),
    chunks(
        "HDF5, 8 steps of an extended dataset",
        "mode=collective layout=rows side=1024 chunk=128 steps=8",
        "mode=collective layout=rows side=256 chunk=128 steps=8",
    ),
    chunks(
        "HDF5, deflate, linked chunks, blocks",
        "mode=collective layout=blocks side=2048 chunk=256 shuffle=1 deflate=1",
        "mode=collective layout=blocks side=1024 chunk=128 shuffle=1 deflate=1",
    ),
    chunks(
        "HDF5, linked chunks, rows of a dataset of 1 GiB",
        "mode=collective layout=rows side=16384 chunk=1024",
        "mode=collective layout=rows side=2048 chunk=256",
    ),
];

/// The server of a job, and its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Place in [`SERVERS`].
    pub(super) server: usize,
    /// With `AGGIO_DEFER=*`.
    pub(super) defers: bool,
}

/// The native ways of an MPI, then the library without and with deferral.
pub(super) fn ways(mpi: Mpi) -> (Vec<Way>, [Way; 2]) {
    let of_mpi = |server: &usize| SERVERS[*server].mpi == mpi;
    let named = |name: &str| (0..SERVERS.len()).filter(of_mpi).find(|s| SERVERS[*s].name == name);
    let way = |server| Way { server, defers: false };
    let natives = ["ompio", "romio-in-openmpi", "romio"].iter().filter_map(|name| named(name));
    let own = way(named("aggio").unwrap_or_default());
    (natives.map(way).collect(), [own, Way { defers: true, ..own }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mpi_has_its_own_native_ways_beside_the_library() {
        let names =
            |mpi| -> Vec<&str> { ways(mpi).0.iter().map(|way| SERVERS[way.server].name).collect() };
        assert_eq!(names(Mpi::OpenMpi), ["ompio", "romio-in-openmpi"]);
        assert_eq!(names(Mpi::Mpich), ["romio"]);
        for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
            let [plain, deferring] = ways(mpi).1;
            assert!(SERVERS[plain.server].is_aggio() && SERVERS[plain.server].mpi == mpi);
            assert_eq!((plain.defers, deferring.defers), (false, true));
        }
    }
}
