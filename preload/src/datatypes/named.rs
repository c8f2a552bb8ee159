//! The predefined datatypes, recognised by the identity of their handles.
//!
//! Names would not do: a program may rename a predefined type. Sizes in memory are asked of the
//! library; sizes in `external32` are those of MPI-4.1, table 14.2 and section 14.5.2.

use crate::abi::{Abi, Kind};
use crate::mpi;
use agg_core::datatype::{Basic, BasicKind, Datatype};
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;
use std::collections::HashMap;
use std::sync::OnceLock;

/// How the basic elements of a predefined type lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// So many equal elements in a row.
    Row(u32),
    /// A value and a C `int` behind it, aligned like in a C struct.
    Pair,
    /// A bound without data (`MPI_LB`, `MPI_UB`).
    Marker,
}

/// One predefined type.
#[derive(Debug)]
struct Row {
    /// Name in the standard without `MPI_`.
    name: &'static str,
    kind: BasicKind,
    /// Size of one element in `external32`, in bytes.
    external_size: u32,
    shape: Shape,
    /// Open MPI's data object without its prefix `ompi_mpi_`; empty if there is none.
    ompi: &'static str,
    /// Handle in MPICH, 0 if there is none.
    mpich: usize,
    /// Handle in the standard ABI, 0 if there is none.
    standard: usize,
}

macro_rules! rows {
    ($($name:literal $kind:ident $external:literal $shape:expr, $ompi:literal $mpich:literal
       $standard:literal;)*) => {
        static ROWS: &[Row] = &[$(Row {
            name: $name, kind: BasicKind::$kind, external_size: $external, shape: $shape,
            ompi: $ompi, mpich: $mpich, standard: $standard,
        }),*];
    };
}

const ONE: Shape = Shape::Row(1);
const TWO: Shape = Shape::Row(2);
const FOUR: Shape = Shape::Row(4);

#[rustfmt::skip]
rows! {
    "BYTE" Opaque 1 ONE, "byte" 0x4c00010d 0x247;
    "PACKED" Opaque 1 ONE, "packed" 0x4c00010f 0x207;
    "CHAR" Character 1 ONE, "char" 0x4c000101 0x243;
    "SIGNED_CHAR" SignedInt 1 ONE, "signed_char" 0x4c000118 0x244;
    "UNSIGNED_CHAR" UnsignedInt 1 ONE, "unsigned_char" 0x4c000102 0x245;
    "WCHAR" WideChar 2 ONE, "wchar" 0x4c00040e 0x23c;
    "SHORT" SignedInt 2 ONE, "short" 0x4c000203 0x208;
    "UNSIGNED_SHORT" UnsignedInt 2 ONE, "unsigned_short" 0x4c000204 0x20c;
    "INT" SignedInt 4 ONE, "int" 0x4c000405 0x209;
    "UNSIGNED" UnsignedInt 4 ONE, "unsigned" 0x4c000406 0x20d;
    "LONG" SignedInt 4 ONE, "long" 0x4c000807 0x20a;
    "UNSIGNED_LONG" UnsignedInt 4 ONE, "unsigned_long" 0x4c000808 0x20e;
    "LONG_LONG" SignedInt 8 ONE, "long_long_int" 0x4c000809 0x20b;
    "UNSIGNED_LONG_LONG" UnsignedInt 8 ONE, "unsigned_long_long" 0x4c000819 0x20f;
    "FLOAT" Float 4 ONE, "float" 0x4c00040a 0x210;
    "DOUBLE" Float 8 ONE, "double" 0x4c00080b 0x214;
    "LONG_DOUBLE" LongDouble 16 ONE, "long_double" 0x4c00100c 0x220;
    "C_BOOL" Logical 1 ONE, "c_bool" 0x4c00013f 0x238;
    "INT8_T" SignedInt 1 ONE, "int8_t" 0x4c000137 0x240;
    "INT16_T" SignedInt 2 ONE, "int16_t" 0x4c000238 0x248;
    "INT32_T" SignedInt 4 ONE, "int32_t" 0x4c000439 0x250;
    "INT64_T" SignedInt 8 ONE, "int64_t" 0x4c00083a 0x258;
    "UINT8_T" UnsignedInt 1 ONE, "uint8_t" 0x4c00013b 0x241;
    "UINT16_T" UnsignedInt 2 ONE, "uint16_t" 0x4c00023c 0x249;
    "UINT32_T" UnsignedInt 4 ONE, "uint32_t" 0x4c00043d 0x251;
    "UINT64_T" UnsignedInt 8 ONE, "uint64_t" 0x4c00083e 0x259;
    "AINT" SignedInt 8 ONE, "aint" 0x4c000843 0x201;
    "COUNT" SignedInt 8 ONE, "count" 0x4c000845 0x202;
    "OFFSET" SignedInt 8 ONE, "offset" 0x4c000844 0x203;
    "C_FLOAT_COMPLEX" Float 4 TWO, "c_float_complex" 0x4c000840 0x212;
    "C_DOUBLE_COMPLEX" Float 8 TWO, "c_double_complex" 0x4c001041 0x216;
    "C_LONG_DOUBLE_COMPLEX" LongDouble 16 TWO, "c_long_double_complex" 0x4c002042 0x224;
    "CXX_BOOL" Logical 1 ONE, "cxx_bool" 0x4c000133 0x239;
    "CXX_FLOAT_COMPLEX" Float 4 TWO, "cxx_cplex" 0x4c000834 0x213;
    "CXX_DOUBLE_COMPLEX" Float 8 TWO, "cxx_dblcplex" 0x4c001035 0x217;
    "CXX_LONG_DOUBLE_COMPLEX" LongDouble 16 TWO, "cxx_ldblcplex" 0x4c002036 0x225;
    "CHARACTER" Character 1 ONE, "character" 0x4c00011a 0x21e;
    "LOGICAL" Logical 4 ONE, "logical" 0x4c00041d 0x218;
    "INTEGER" SignedInt 4 ONE, "integer" 0x4c00041b 0x219;
    "REAL" Float 4 ONE, "real" 0x4c00041c 0x21a;
    "DOUBLE_PRECISION" Float 8 ONE, "dblprec" 0x4c00081f 0x21c;
    "COMPLEX" Float 4 TWO, "cplex" 0x4c00081e 0x21b;
    "DOUBLE_COMPLEX" Float 8 TWO, "dblcplex" 0x4c001022 0x21d;
    "LOGICAL1" Logical 1 ONE, "logical1" 0x4c000147 0x2c0;
    "LOGICAL2" Logical 2 ONE, "logical2" 0x4c000248 0x2c8;
    "LOGICAL4" Logical 4 ONE, "logical4" 0x4c000449 0x2d0;
    "LOGICAL8" Logical 8 ONE, "logical8" 0x4c00084a 0x2d8;
    "LOGICAL16" Logical 16 ONE, "logical16" 0x4c00104b 0x2e0;
    "INTEGER1" SignedInt 1 ONE, "integer1" 0x4c00012d 0x2c1;
    "INTEGER2" SignedInt 2 ONE, "integer2" 0x4c00022f 0x2c9;
    "INTEGER4" SignedInt 4 ONE, "integer4" 0x4c000430 0x2d1;
    "INTEGER8" SignedInt 8 ONE, "integer8" 0x4c000831 0x2d9;
    "INTEGER16" SignedInt 16 ONE, "integer16" 0x4c001032 0x2e1;
    "REAL2" Float 2 ONE, "real2" 0x4c000226 0x2ca;
    "REAL4" Float 4 ONE, "real4" 0x4c000427 0x2d2;
    "REAL8" Float 8 ONE, "real8" 0x4c000829 0x2da;
    "REAL16" Float 16 ONE, "real16" 0x4c00102b 0x2e2;
    "COMPLEX4" Float 2 TWO, "complex4" 0x4c00042e 0x2d3;
    "COMPLEX8" Float 4 TWO, "complex8" 0x4c000828 0x2db;
    "COMPLEX16" Float 8 TWO, "complex16" 0x4c00102a 0x2e3;
    "COMPLEX32" Float 16 TWO, "complex32" 0x4c00202c 0x2eb;
    "2INT" SignedInt 4 TWO, "2int" 0x4c000816 0x22b;
    "2INTEGER" SignedInt 4 TWO, "2integer" 0x4c000820 0x232;
    "2REAL" Float 4 TWO, "2real" 0x4c000821 0x230;
    "2DOUBLE_PRECISION" Float 8 TWO, "2dblprec" 0x4c001023 0x231;
    "2COMPLEX" Float 4 FOUR, "2cplex" 0x4c001024 0;
    "2DOUBLE_COMPLEX" Float 8 FOUR, "2dblcplex" 0x4c002025 0;
    "FLOAT_INT" Float 4 Shape::Pair, "float_int" 0x8c000000 0x228;
    "DOUBLE_INT" Float 8 Shape::Pair, "double_int" 0x8c000001 0x229;
    "LONG_INT" SignedInt 4 Shape::Pair, "long_int" 0x8c000002 0x22a;
    "SHORT_INT" SignedInt 2 Shape::Pair, "short_int" 0x8c000003 0x22c;
    "LONG_DOUBLE_INT" LongDouble 16 Shape::Pair, "longdbl_int" 0x8c000004 0x22d;
    "C_FLOAT16" Float 2 ONE, "" 0x4c000246 0;
    "BFLOAT16" Opaque 2 ONE, "" 0x4c00024c 0;
    "LB" Opaque 0 Shape::Marker, "lb" 0x4c000010 0;
    "UB" Opaque 0 Shape::Marker, "ub" 0x4c000011 0;
}

/// Rows by handle, in the ABI of this process.
fn by_handle(abi: &Abi) -> &'static HashMap<usize, &'static Row> {
    static MAP: OnceLock<HashMap<usize, &'static Row>> = OnceLock::new();
    MAP.get_or_init(|| {
        let handle = |row: &Row| match abi.kind {
            Kind::OpenMpi if row.ompi.is_empty() => None,
            Kind::OpenMpi => abi.data_symbol(&format!("ompi_mpi_{}", row.ompi)),
            Kind::Mpich => Some(row.mpich),
            Kind::Standard => Some(row.standard),
        };
        ROWS.iter()
            .filter_map(|row| handle(row).filter(|handle| *handle != 0).map(|handle| (handle, row)))
            .collect()
    })
}

/// A predefined type in memory and in an `external32` file.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// Layout in memory.
    pub(super) native: Datatype,
    /// Layout in an `external32` file.
    pub(super) external: Datatype,
}

/// The layouts of the type that the library calls named, or that is known to be predefined.
///
/// A type that is in no table is so many opaque bytes as the library says.
///
/// # Errors
/// Those of the library.
pub(super) fn layouts(abi: &Abi, handle: usize) -> Result<Named> {
    let size = size_of(handle)?;
    let Some(row) = by_handle(abi).get(&handle) else {
        let bytes = super::bounded(handle, Datatype::bytes(size))?;
        return Ok(Named { native: bytes.clone(), external: bytes });
    };
    let named = row.layouts(size)?;
    let native = super::bounded(handle, named.native)?;
    Ok(Named { native, external: named.external })
}

/// Whether `handle` is a predefined type that is in the table.
pub(super) fn is_known(abi: &Abi, handle: usize) -> bool {
    by_handle(abi).contains_key(&handle)
}

/// The size of the type, in bytes.
pub(super) fn size_of(handle: usize) -> Result<u64> {
    let mut size = 0i64;
    if mpi::has(&mpi::symbol::Type_size_x) {
        // SAFETY: `size` outlives the call; the handle is a datatype of the caller.
        unsafe { mpi::check(mpi::Type_size_x(handle, &raw mut size))? };
    } else {
        let mut narrow: c_int = 0;
        // SAFETY: as above.
        unsafe { mpi::check(mpi::Type_size(handle, &raw mut narrow))? };
        size = i64::from(narrow);
    }
    u64::try_from(size).map_err(|_| Error::new(ErrorClass::Type, "a datatype of unknown size"))
}

impl Row {
    /// The layouts, if the library says that the type has `size` bytes of data.
    fn layouts(&self, size: u64) -> Result<Named> {
        match self.shape {
            Shape::Marker => Ok(Named { native: Datatype::bytes(0), external: Datatype::bytes(0) }),
            Shape::Row(count) => {
                let native = self.element(size / u64::from(count))?;
                let external = in_file(native);
                let count = u64::from(count);
                Ok(Named {
                    native: Datatype::contiguous(count, &Datatype::basic(native))?,
                    external: Datatype::contiguous(count, &external)?,
                })
            }
            Shape::Pair => {
                const INT: Basic = Basic::signed(4);
                let value = self.element(size.saturating_sub(4))?;
                let aligned = i64::from(value.size.next_multiple_of(4));
                let (int, first) = (Datatype::basic(INT), Datatype::basic(value));
                Ok(Named {
                    native: Datatype::structure(&[(1, 0, first), (1, aligned, int)])?,
                    external: Datatype::structure(&[
                        (1, 0, in_file(value)),
                        (1, i64::from(value.external_size), in_file(INT)),
                    ])?,
                })
            }
        }
    }

    /// One element of `size` bytes; the library may have made Fortran's default types larger.
    fn element(&self, size: u64) -> Result<Basic> {
        let size = u32::try_from(size).map_err(|_| {
            Error::new(ErrorClass::Type, format!("MPI_{} of {size} bytes", self.name))
        })?;
        let kind = match self.kind {
            BasicKind::LongDouble if size == 8 => BasicKind::Float,
            kind => kind,
        };
        Ok(Basic::new(kind, size, self.external_size))
    }
}

/// The bytes of `element` in an `external32` file, as an opaque type.
pub(super) fn in_file(element: Basic) -> Datatype {
    Datatype::basic(Basic::new(BasicKind::Opaque, element.external_size, element.external_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_handle_stands_for_two_types() {
        let handles = [|row: &Row| row.mpich, |row: &Row| row.standard];
        for handle in handles {
            let mut seen: Vec<usize> =
                ROWS.iter().map(handle).filter(|value| *value != 0).collect();
            let n = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), n);
        }
    }

    #[test]
    fn a_pair_in_memory_is_aligned_and_in_a_file_it_is_not() {
        let row = |name: &str| ROWS.iter().find(|row| row.name == name).unwrap();
        let pair = row("SHORT_INT").layouts(6).unwrap();
        assert_eq!((pair.native.size(), pair.native.true_extent()), (6, 8));
        assert_eq!((pair.external.size(), pair.external.extent()), (6, 6));
        let pair = row("LONG_DOUBLE_INT").layouts(20).unwrap();
        assert_eq!((pair.external.size(), pair.external.extent()), (20, 20));
        let long = row("LONG").layouts(8).unwrap();
        assert_eq!((long.native.size(), long.native.external_size()), (8, 4));
        assert_eq!(long.external.size(), 4);
    }
}
