//! `MPI_Info` objects: from them and into them.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::mpi;
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};

/// The pairs in `info`, in its own order; none for `MPI_INFO_NULL`.
///
/// # Errors
/// `Info` if the library does not accept the object.
pub fn pairs(abi: &Abi, info: usize) -> Result<Vec<(String, String)>> {
    if info == abi.handles.info_null {
        return Ok(Vec::new());
    }
    let mut keys: c_int = 0;
    // SAFETY: the program claims that `info` is an info object; the library checks it.
    check(unsafe { mpi::Info_get_nkeys(info, &raw mut keys) }, "MPI_Info_get_nkeys")?;
    (0..keys).map(|n| pair(abi, info, n)).collect()
}

fn pair(abi: &Abi, info: usize, n: c_int) -> Result<(String, String)> {
    let mut key = vec![0u8; length(abi.constants.max_info_key) + 1];
    // SAFETY: the buffer has room for the longest key and its end.
    let code = unsafe { mpi::Info_get_nthkey(info, n, key.as_mut_ptr().cast()) };
    check(code, "MPI_Info_get_nthkey")?;
    let (mut size, mut found): (c_int, c_int) = (0, 0);
    let name = key.as_ptr().cast::<c_char>();
    // SAFETY: `name` is the C string just filled.
    let code = unsafe { mpi::Info_get_valuelen(info, name, &raw mut size, &raw mut found) };
    check(code, "MPI_Info_get_valuelen")?;
    let mut value = vec![0u8; length(size) + 1];
    let address = value.as_mut_ptr().cast();
    // SAFETY: the buffer has room for `size` characters and their end.
    let code = unsafe { mpi::Info_get(info, name, size, address, &raw mut found) };
    check(code, "MPI_Info_get")?;
    Ok((text(&key), text(&value)))
}

fn length(n: c_int) -> usize {
    usize::try_from(n).unwrap_or(0)
}

fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes).map_or_else(
        |_| String::from_utf8_lossy(bytes).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// Creates an info object that holds `pairs` and stores its handle at `out`.
///
/// Pairs that are longer than this MPI allows are left out.
///
/// # Errors
/// `Info` if the library refuses.
///
/// # Safety
/// `out` has room for a handle.
pub unsafe fn create(abi: &Abi, pairs: &[(String, String)], out: Opaque) -> Result<()> {
    // SAFETY: `out` has room for a handle.
    check(unsafe { mpi::Info_create(out) }, "MPI_Info_create")?;
    // SAFETY: just stored.
    let info = unsafe { abi.load(out, 0) };
    for (key, value) in pairs {
        let fits = key.len() < length(abi.constants.max_info_key)
            && value.len() < length(abi.constants.max_info_val);
        let (Ok(key), Ok(value)) = (CString::new(key.as_str()), CString::new(value.as_str()))
        else {
            continue;
        };
        if fits && !key.is_empty() && !value.is_empty() {
            // SAFETY: a live info object and two C strings.
            check(unsafe { mpi::Info_set(info, key.as_ptr(), value.as_ptr()) }, "MPI_Info_set")?;
        }
    }
    Ok(())
}

fn check(code: c_int, function: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorClass::Info, format!("{function} failed with code {code}")))
}
