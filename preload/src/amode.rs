//! Access modes between the program's MPI and the engine.

use crate::abi::Constants;
use agg_core::file::Amode;
use libc::c_int;

/// Bits that MPI does not define are kept for the engine to refuse, above its own.
const UNKNOWN: u32 = 1 << 16;

fn table(c: &Constants) -> [(c_int, Amode); 9] {
    [
        (c.mode_create, Amode::CREATE),
        (c.mode_rdonly, Amode::RDONLY),
        (c.mode_wronly, Amode::WRONLY),
        (c.mode_rdwr, Amode::RDWR),
        (c.mode_delete_on_close, Amode::DELETE_ON_CLOSE),
        (c.mode_unique_open, Amode::UNIQUE_OPEN),
        (c.mode_excl, Amode::EXCL),
        (c.mode_append, Amode::APPEND),
        (c.mode_sequential, Amode::SEQUENTIAL),
    ]
}

/// The engine's mode for the program's `amode`.
pub fn from_mpi(c: &Constants, amode: c_int) -> Amode {
    let mut mode = Amode(0);
    let mut rest = amode;
    for (bit, engine) in table(c) {
        if rest & bit != 0 {
            mode = mode.with(engine);
            rest &= !bit;
        }
    }
    if rest == 0 { mode } else { mode.with(Amode(UNKNOWN)) }
}

/// The program's value for the engine's mode.
pub fn to_mpi(c: &Constants, mode: Amode) -> c_int {
    table(c)
        .into_iter()
        .filter(|&(_, engine)| mode.has(engine))
        .fold(0, |bits, (bit, _)| bits | bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;

    #[test]
    fn every_mode_survives_the_way_through_every_abi() {
        for constants in [&abi::OMPI, &abi::MPICH, &abi::STD] {
            for bits in 0..512 {
                let mode = Amode(bits);
                assert_eq!(from_mpi(constants, to_mpi(constants, mode)), mode);
            }
        }
    }

    #[test]
    fn unknown_bits_stay_visible_to_the_check_of_the_mode() {
        let mode = from_mpi(&abi::MPICH, 2 | 0x4000);
        assert!(mode.check().is_err(), "{mode}");
    }
}
