//! What applications do in the benchmark: programs, their arguments and the numbers of ranks.

use crate::server::{Mpi, SERVERS};

/// A program of `tools/bench/programs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// `tridiagonal.c`, MPI-IO.
    Tridiagonal,
    /// `decompositions.c`, PnetCDF.
    Decompositions,
}

impl Program {
    pub(super) const ALL: [Self; 2] = [Self::Tridiagonal, Self::Decompositions];

    /// Its source file without the suffix.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tridiagonal => "tridiagonal",
            Self::Decompositions => "decompositions",
        }
    }
}

/// One row of the table for each number of ranks and each MPI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// What a reader of the table is told.
    pub(super) name: &'static str,
    pub(super) program: Program,
    /// Behind the name of the file; smaller ones where requests take long.
    pub(super) arguments: [&'static str; 3],
    pub(super) where_slow: [&'static str; 3],
    pub(super) ranks: &'static [u32],
}

const fn tridiagonal(name: &'static str, how: &'static str) -> Case {
    let (program, ranks) = (Program::Tridiagonal, &[4, 16]);
    let (arguments, where_slow) = ([how, "64", "10"], [how, "16", "10"]);
    Case { name, program, arguments, where_slow, ranks }
}

const fn decomposed(
    name: &'static str,
    arguments: [&'static str; 3],
    where_slow: [&'static str; 3],
    ranks: &'static [u32],
) -> Case {
    Case { name, program: Program::Decompositions, arguments, where_slow, ranks }
}

pub(super) const CASES: &[Case] = &[
    tridiagonal("block-tridiagonal, subarrays", "collective"),
    tridiagonal("block-tridiagonal, structs in memory", "structs"),
    tridiagonal("block-tridiagonal, rows of one rank", "independent"),
    decomposed("3-D checkpoint", ["checkpoint", "64", "2"], ["checkpoint", "24", "2"], &[4, 8]),
    decomposed("ocean", ["ocean", "4000", "5"], ["ocean", "1000", "1"], &[4, 16]),
    decomposed("land", ["land", "2000", "1"], ["land", "500", "1"], &[4, 16]),
    decomposed("atmosphere", ["atmosphere", "866", "1"], ["atmosphere", "400", "1"], &[4, 16]),
];

/// Who serves a job.
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
