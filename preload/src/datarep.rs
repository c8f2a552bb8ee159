//! Data representations: their names, extents in the file, and user-defined ones.

use crate::abi::{Abi, Kind};
use crate::arguments::Opaque;
use crate::datatypes::{self, Lens};
use crate::entry::Target;
use crate::{errors, resolve};
use agg_core::datatype::Datatype;
use agg_core::view::Representation;
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// A data representation that the program registered.
#[derive(Debug)]
pub struct UserRepresentation {
    name: String,
    /// Addresses of the conversion functions; `None` means that the data stays as it is.
    read: Option<usize>,
    write: Option<usize>,
    extent: usize,
    state: usize,
    /// Whether the conversion functions take large counts.
    large: bool,
}

/// Which conversion is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

static REGISTERED: Mutex<Vec<Arc<UserRepresentation>>> = Mutex::new(Vec::new());

/// The representation that a program calls `name`.
///
/// # Errors
/// `UnsupportedDatarep` if nobody registered that name.
pub fn named(name: &str) -> Result<Representation> {
    match name {
        "native" => Ok(Representation::Native),
        "internal" => Ok(Representation::Internal),
        "external32" => Ok(Representation::External32),
        _ if registered(name).is_some() => Ok(Representation::User(name.into())),
        _ => {
            let text = format!("there is no data representation {name:?}");
            Err(Error::new(ErrorClass::UnsupportedDatarep, text))
        }
    }
}

/// The name of a representation in MPI.
pub fn name_of(representation: &Representation) -> &str {
    match representation {
        Representation::Native => "native",
        Representation::Internal => "internal",
        Representation::External32 => "external32",
        Representation::User(name) => name,
    }
}

/// The representation that the program registered as `name`.
pub fn registered(name: &str) -> Option<Arc<UserRepresentation>> {
    let all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|known| known.name == name).cloned()
}

/// The types of a view as they lie in a file of this representation.
///
/// # Errors
/// `Type` for types that are null or not committed; the error of a user's extent function.
pub fn file_types(
    abi: &Abi,
    etype: usize,
    filetype: usize,
    representation: &Representation,
) -> Result<(Datatype, Datatype)> {
    datatypes::check_committed(abi, etype)?;
    datatypes::check_committed(abi, filetype)?;
    let etype = in_file(abi, etype, representation)?;
    Ok((etype, in_file(abi, filetype, representation)?))
}

/// `datatype` as it lies in a file of this representation.
pub fn in_file(abi: &Abi, datatype: usize, representation: &Representation) -> Result<Datatype> {
    match representation {
        Representation::Native | Representation::Internal => datatypes::decode(abi, datatype),
        Representation::External32 => datatypes::decode_for_file(abi, datatype, &Lens::External32),
        Representation::User(name) => {
            let user = registered(name).ok_or_else(|| {
                let text = format!("there is no data representation {name:?}");
                Error::new(ErrorClass::UnsupportedDatarep, text)
            })?;
            let extent = |datatype| user.extent_of(datatype);
            datatypes::decode_for_file(abi, datatype, &Lens::User(&extent))
        }
    }
}

/// `MPI_File_get_type_extent`.
///
/// # Safety
/// `extent` is a valid address.
pub unsafe fn type_extent(call: &Target, datatype: usize, extent: *mut i64) -> Result<()> {
    if extent.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the address for the extent is null"));
    }
    let view = call.file.engine.view();
    let datatype = in_file(call.abi, datatype, view.representation())?;
    // SAFETY: the caller's promise.
    unsafe { *extent = datatype.extent() };
    Ok(())
}

/// `MPI_Register_datarep`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn register(
    abi: &'static Abi,
    name: *const c_char,
    read: Opaque,
    write: Opaque,
    extent: Opaque,
    state: Opaque,
) -> c_int {
    // SAFETY: the caller's promise about `name`.
    let result = unsafe { add(abi, name, [read, write, extent, state], false) };
    told(result, "MPI_Register_datarep")
}

/// `MPI_Register_datarep_c`, with conversion functions that take large counts.
///
/// # Safety
/// As MPI demands.
pub unsafe fn register_c(
    abi: &'static Abi,
    name: *const c_char,
    read: Opaque,
    write: Opaque,
    extent: Opaque,
    state: Opaque,
) -> c_int {
    // SAFETY: the caller's promise about `name`.
    let result = unsafe { add(abi, name, [read, write, extent, state], true) };
    told(result, "MPI_Register_datarep_c")
}

fn told(result: Result<()>, function: &str) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => errors::raise(&error.with_operation(function)),
    }
}

unsafe fn add(
    abi: &Abi,
    name: *const c_char,
    [read, write, extent, state]: [Opaque; 4],
    large: bool,
) -> Result<()> {
    if name.is_null() || extent.is_null() {
        let text = "a data representation needs a name and an extent function";
        return Err(Error::new(ErrorClass::Arg, text));
    }
    // SAFETY: a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let limit = usize::try_from(abi.constants.max_datarep_string).unwrap_or(128);
    if name.is_empty() || name.len() > limit {
        let text = format!("a data representation's name has 1 to {limit} characters");
        return Err(Error::new(ErrorClass::Arg, text));
    }
    let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let predefined = ["native", "internal", "external32"].contains(&name.as_str());
    if predefined || all.iter().any(|known| known.name == name) {
        let text = format!("the data representation {name:?} exists already");
        return Err(Error::new(ErrorClass::DupDatarep, text));
    }
    let function = |pointer: Opaque| conversion_function(abi, pointer as usize);
    all.push(Arc::new(UserRepresentation {
        name,
        read: function(read),
        write: function(write),
        extent: extent as usize,
        state: state as usize,
        large,
    }));
    Ok(())
}

/// `None` for `MPI_CONVERSION_FN_NULL`, which is a function in Open MPI and null elsewhere.
fn conversion_function(abi: &Abi, pointer: usize) -> Option<usize> {
    let names = [c"MPI_CONVERSION_FN_NULL", c"MPI_CONVERSION_FN_NULL_C"];
    let null = pointer == 0
        || (abi.kind == Kind::OpenMpi
            && names.iter().any(|name| resolve::data(name) == Some(pointer)));
    (!null).then_some(pointer)
}

impl UserRepresentation {
    /// Whether data is converted in this direction.
    pub fn converts(&self, conversion: Conversion) -> bool {
        self.function(conversion).is_some()
    }

    fn function(&self, conversion: Conversion) -> Option<usize> {
        match conversion {
            Conversion::Read => self.read,
            Conversion::Write => self.write,
        }
    }

    /// Bytes that one predefined `datatype` takes in the file.
    ///
    /// # Errors
    /// `Conversion` if the program's function fails.
    pub fn extent_of(&self, datatype: usize) -> Result<i64> {
        let mut extent = 0i64;
        // SAFETY: the program registered a function of this signature.
        let code = unsafe {
            let function: unsafe extern "C" fn(usize, *mut i64, *mut c_void) -> c_int =
                std::mem::transmute(self.extent);
            function(datatype, &raw mut extent, self.state as *mut c_void)
        };
        if code != 0 || extent < 0 {
            return Err(self.failed("extent", code));
        }
        Ok(extent)
    }

    /// Converts `items` predefined elements of `datatype`, tiled from `user` on, to or from the
    /// row in `file` (MPI-4.1, 14.5.3). `item_bytes` says where in `file` the item of a number is.
    ///
    /// # Errors
    /// `Conversion` if the program's function fails.
    ///
    /// # Safety
    /// `user` is a buffer of so many elements of `datatype`; `file` has room for all items.
    pub unsafe fn convert(
        &self,
        conversion: Conversion,
        user: Opaque,
        datatype: usize,
        items: u64,
        file: Opaque,
        item_bytes: impl Fn(u64) -> usize,
    ) -> Result<()> {
        let Some(function) = self.function(conversion) else { return Ok(()) };
        let limit = if self.large { i64::MAX as u64 } else { c_int::MAX as u64 };
        let mut done = 0u64;
        while done < items {
            let count = (items - done).min(limit);
            // SAFETY: the caller's promise; the row of these items starts inside `file`.
            let code = unsafe {
                let row = file.cast::<u8>().add(item_bytes(done)).cast();
                self.call(function, user, datatype, count, row, done)
            };
            if code != 0 {
                let which = if conversion == Conversion::Read { "read" } else { "write" };
                return Err(self.failed(which, code));
            }
            done += count;
        }
        Ok(())
    }

    /// # Safety
    /// As [`UserRepresentation::convert`].
    unsafe fn call(
        &self,
        function: usize,
        user: Opaque,
        datatype: usize,
        count: u64,
        row: Opaque,
        position: u64,
    ) -> c_int {
        type Large = unsafe extern "C" fn(Opaque, usize, i64, Opaque, i64, Opaque) -> c_int;
        type Small = unsafe extern "C" fn(Opaque, usize, c_int, Opaque, i64, Opaque) -> c_int;
        let state = self.state as Opaque;
        // Both fit: `convert` limits them.
        let (count, position) = (count as i64, position as i64);
        // SAFETY: the program registered a function of this signature.
        unsafe {
            if self.large {
                let convert: Large = std::mem::transmute(function);
                convert(user, datatype, count, row, position, state)
            } else {
                let convert: Small = std::mem::transmute(function);
                convert(user, datatype, count as c_int, row, position, state)
            }
        }
    }

    fn failed(&self, which: &str, code: c_int) -> Error {
        let name = &self.name;
        let text = format!("the {which} function of data representation {name:?}: code {code}");
        Error::new(ErrorClass::Conversion, text)
    }
}
