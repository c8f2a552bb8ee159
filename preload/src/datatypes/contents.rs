//! The construction of a datatype: its envelope and contents in one form for all functions that
//! return them.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::mpi;
use agg_core::allocate;
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;

/// The way a type was constructed, in the order of MPI-4.1, section 5.1.13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    F90Real,
    F90Complex,
    F90Integer,
    Resized,
    ValueIndex,
}

impl Combiner {
    /// The meaning of `code` in this ABI.
    fn of(abi: &Abi, code: c_int) -> Result<Combiner> {
        let c = abi.constants;
        let table = [
            (c.combiner_named, Combiner::Named),
            (c.combiner_dup, Combiner::Dup),
            (c.combiner_contiguous, Combiner::Contiguous),
            (c.combiner_vector, Combiner::Vector),
            (c.combiner_hvector, Combiner::Hvector),
            (c.combiner_hvector_integer, Combiner::Hvector),
            (c.combiner_indexed, Combiner::Indexed),
            (c.combiner_hindexed, Combiner::Hindexed),
            (c.combiner_hindexed_integer, Combiner::Hindexed),
            (c.combiner_indexed_block, Combiner::IndexedBlock),
            (c.combiner_hindexed_block, Combiner::HindexedBlock),
            (c.combiner_struct, Combiner::Struct),
            (c.combiner_struct_integer, Combiner::Struct),
            (c.combiner_subarray, Combiner::Subarray),
            (c.combiner_darray, Combiner::Darray),
            (c.combiner_f90_real, Combiner::F90Real),
            (c.combiner_f90_complex, Combiner::F90Complex),
            (c.combiner_f90_integer, Combiner::F90Integer),
            (c.combiner_resized, Combiner::Resized),
            (c.combiner_value_index, Combiner::ValueIndex),
        ];
        table.iter().find(|row| row.0 == code).map(|row| row.1).ok_or_else(|| {
            Error::new(ErrorClass::Type, format!("a datatype with unknown combiner {code}"))
        })
    }

    /// Whether the type is predefined: it has no constituents to decode and must not be freed.
    pub(super) fn is_predefined(self) -> bool {
        use Combiner::{F90Complex, F90Integer, F90Real, Named, ValueIndex};
        matches!(self, Named | F90Real | F90Complex | F90Integer | ValueIndex)
    }
}

/// How many values of each sort describe a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub(super) combiner: Combiner,
    integers: usize,
    addresses: usize,
    counts: usize,
    datatypes: usize,
    /// Whether the large-count functions answered.
    large: bool,
}

/// The values themselves. Derived handles among `datatypes` are the caller's to free.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) integers: Vec<i64>,
    pub(super) counts: Vec<i64>,
    pub(super) datatypes: Vec<usize>,
    addresses: Vec<i64>,
}

impl Contents {
    /// The constructor's numbers in the order of its arguments, wherever the library keeps them: a
    /// large-count constructor has them all in `counts`, the others have integers before addresses.
    pub(super) fn arguments(&self) -> Vec<i64> {
        if self.counts.is_empty() {
            [self.integers.as_slice(), self.addresses.as_slice()].concat()
        } else {
            self.counts.clone()
        }
    }
}

/// Asks how `handle` was made.
///
/// Only the large-count functions return the envelopes of types of the `_c` constructors.
pub(super) fn envelope(abi: &Abi, handle: usize) -> Result<Envelope> {
    let mut code: c_int = 0;
    if mpi::has(&mpi::symbol::Type_get_envelope_c) && mpi::has(&mpi::symbol::Type_get_contents_c) {
        let [mut integers, mut addresses, mut counts, mut datatypes] = [0i64; 4];
        // SAFETY: the five variables outlive the call.
        unsafe {
            mpi::check(mpi::Type_get_envelope_c(
                handle,
                &raw mut integers,
                &raw mut addresses,
                &raw mut counts,
                &raw mut datatypes,
                &raw mut code,
            ))?;
        }
        return Ok(Envelope {
            combiner: Combiner::of(abi, code)?,
            integers: number(integers)?,
            addresses: number(addresses)?,
            counts: number(counts)?,
            datatypes: number(datatypes)?,
            large: true,
        });
    }
    let [mut integers, mut addresses, mut datatypes]: [c_int; 3] = [0; 3];
    // SAFETY: the four variables outlive the call.
    unsafe {
        mpi::check(mpi::Type_get_envelope(
            handle,
            &raw mut integers,
            &raw mut addresses,
            &raw mut datatypes,
            &raw mut code,
        ))?;
    }
    Ok(Envelope {
        combiner: Combiner::of(abi, code)?,
        integers: number(i64::from(integers))?,
        addresses: number(i64::from(addresses))?,
        counts: 0,
        datatypes: number(i64::from(datatypes))?,
        large: false,
    })
}

/// Bytes that one of the values takes, about, while a tree is made of them.
const PER_VALUE: usize = 128;

/// Asks for the values that `envelope` announced.
///
/// # Errors
/// `NoMem` if there is no memory for the values and for the type built of them.
pub(super) fn contents(abi: &Abi, handle: usize, envelope: Envelope) -> Result<Contents> {
    let values = envelope.integers + envelope.addresses + envelope.counts + envelope.datatypes;
    allocate::require(values.saturating_mul(PER_VALUE))?;
    let mut integers: Vec<c_int> = vec![0; envelope.integers];
    let mut addresses = vec![0i64; envelope.addresses];
    let mut counts = vec![0i64; envelope.counts];
    // Room for the largest handles.
    let mut raw = vec![0usize; envelope.datatypes];
    let room: Opaque = raw.as_mut_ptr().cast();
    // SAFETY: each array has the length that is passed with it.
    unsafe {
        if envelope.large {
            mpi::check(mpi::Type_get_contents_c(
                handle,
                integers.len() as i64,
                addresses.len() as i64,
                counts.len() as i64,
                raw.len() as i64,
                integers.as_mut_ptr(),
                addresses.as_mut_ptr(),
                counts.as_mut_ptr(),
                room,
            ))?;
        } else {
            let length = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
            mpi::check(mpi::Type_get_contents(
                handle,
                length(integers.len()),
                length(addresses.len()),
                length(raw.len()),
                integers.as_mut_ptr(),
                addresses.as_mut_ptr(),
                room,
            ))?;
        }
    }
    // SAFETY: the library stored so many handles of this ABI.
    let datatypes = (0..raw.len()).map(|i| unsafe { abi.load(room, i) }).collect();
    let integers = integers.into_iter().map(i64::from).collect();
    Ok(Contents { integers, counts, datatypes, addresses })
}

fn number(n: i64) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::new(ErrorClass::Type, "a datatype without description"))
}
