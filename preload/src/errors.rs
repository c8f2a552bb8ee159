//! Engine errors as MPI error codes with messages, and the way to the error handler.
//!
//! The code of an error is one of our own in the right class. Its text names the rank, the file,
//! the bytes and the errno. There are a few codes for each class; a new text replaces the oldest
//! one of its class.

use crate::abi::{Abi, Constants};
use crate::handles::OpenFile;
use crate::{active, attached, invoke, mpi};
use agg_core::{Error, ErrorClass, error_classes};
use libc::{c_char, c_int};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// Codes of one class; more errors than this at a time overwrite each other's texts.
const CODES_A_CLASS: usize = 4;

/// The error codes that exist, in the order in which their texts were last set.
static CODES: Mutex<Vec<Code>> = Mutex::new(Vec::new());

struct Code {
    code: c_int,
    class: ErrorClass,
    text: String,
}

/// An error after the call of its handler.
#[derive(Clone, Copy, Debug)]
pub struct Raised {
    code: c_int,
    /// The code as the handler left it. Open MPI too returns this from `MPI_File_close` and
    /// `MPI_File_set_errhandler`, when their arguments are wrong.
    pub left: c_int,
}

impl Raised {
    /// The result of the call: in MPICH the code that the handler left, in Open MPI always the
    /// error.
    pub fn answer(self) -> c_int {
        let left = active::abi().is_some_and(Abi::errors_are_what_handlers_leave);
        if left { self.left } else { self.code }
    }
}

/// Reports `error` to the error handler of `file`.
pub fn on_file(file: &OpenFile, error: Error) -> Raised {
    let Some(abi) = active::abi() else { return Raised { code: 1, left: 1 } };
    let error = error.with_path(&file.path);
    let code = code_of(abi, &error);
    let handler = file.errhandler.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = error.to_string();
    let left = invoke::handler(abi, &handler, file.handle, file.comm, code, &text);
    Raised { code, left }
}

/// Reports `error` to the handler of `MPI_FILE_NULL`, as opens and wrong handles do.
pub fn on_no_file(error: &Error) -> Raised {
    let Some(abi) = active::abi() else { return Raised { code: 1, left: 1 } };
    let code = code_of(abi, error);
    let handler = attached::default_handler();
    let (null, nobody) = (abi.handles.file_null, abi.handles.comm_null);
    let left = invoke::handler(abi, &handler, null, nobody, code, &error.to_string());
    Raised { code, left }
}

/// Reports `error` to the error handler of `file`; the code that the caller returns.
pub fn raise_on_file(file: &OpenFile, error: Error) -> c_int {
    on_file(file, error).answer()
}

/// Reports `error` to the handler of `MPI_FILE_NULL`; the code that the caller returns.
pub fn raise(error: &Error) -> c_int {
    on_no_file(error).answer()
}

/// Reports that `function` was called with a handle that is null or closed.
pub fn invalid_handle(function: &str) -> Raised {
    let text = "the file handle is MPI_FILE_NULL or has been closed";
    on_no_file(&Error::new(ErrorClass::File, text).with_operation(function))
}

/// Reports that a count does not fit the only function that the real library has.
pub fn count_too_large(function: &str) -> c_int {
    let text = "this MPI library has int counts only and the count does not fit";
    raise(&Error::new(ErrorClass::Count, text).with_operation(function))
}

/// An MPI error code for `error`: of its class, with its message as the code's text.
pub fn code_of(abi: &Abi, error: &Error) -> c_int {
    let class = class_value(abi.constants, error.class());
    let text = shortened(error.to_string(), abi.constants.max_error_string);
    let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    let of_class = |code: &Code| code.class == error.class();
    if let Some(known) = codes.iter().find(|code| of_class(code) && code.text == text) {
        return known.code;
    }
    let code = if codes.iter().filter(|code| of_class(code)).count() < CODES_A_CLASS {
        let mut code: c_int = 0;
        // SAFETY: asks for a new code in a predefined class.
        if unsafe { mpi::Add_error_code(class, &raw mut code) } != 0 {
            return class;
        }
        code
    } else {
        match codes.iter().position(of_class) {
            Some(oldest) => codes.remove(oldest).code,
            None => return class,
        }
    };
    if let Ok(text) = CString::new(text.as_str()) {
        // SAFETY: a code of our own and a C string within the library's limit.
        unsafe { mpi::Add_error_string(code, text.as_ptr()) };
    }
    codes.push(Code { code, class: error.class(), text });
    code
}

/// `MPI_Error_string`: the texts of our codes come from us, because MPICH mistakes codes that were
/// added to a predefined class for its own.
///
/// # Safety
/// `text` has room for `MPI_MAX_ERROR_STRING` characters.
pub unsafe fn string(_: &Abi, code: c_int, text: *mut c_char, length: *mut c_int) -> c_int {
    let codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = codes.iter().find(|known| known.code == code) else {
        drop(codes);
        // SAFETY: the caller's arguments, passed on.
        return unsafe { mpi::Error_string(code, text, length) };
    };
    let bytes = known.text.as_bytes();
    // SAFETY: texts are shorter than MPI_MAX_ERROR_STRING.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), text, bytes.len());
        *text.add(bytes.len()) = 0;
        *length = c_int::try_from(bytes.len()).unwrap_or(0);
    }
    0
}

/// `text` in at most `limit - 1` bytes. The end is kept, because it contains the cause; the middle,
/// usually a long path, is left out.
fn shortened(text: String, limit: c_int) -> String {
    let limit = usize::try_from(limit).unwrap_or(256).saturating_sub(1);
    if text.len() <= limit {
        return text;
    }
    let (head, tail) = (limit / 3, limit - limit / 3 - 3);
    let head = (0..=head).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let tail = (text.len() - tail..=text.len()).find(|&at| text.is_char_boundary(at));
    format!("{}...{}", &text[..head], &text[tail.unwrap_or(text.len())..])
}

macro_rules! class_values {
    ($($class:ident $constant:ident $name:literal $meaning:literal $errno:ident [$($of:ident)*];)*)
    => {
        /// The value of an error class in the ABI.
        pub fn class_value(c: &Constants, class: ErrorClass) -> c_int {
            match class { $(ErrorClass::$class => c.$constant),* }
        }
    };
}
error_classes!(class_values);

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end_within_the_limit() {
        let long = format!("MPI_File_open: {}: No such file", "ä".repeat(600));
        let short = shortened(long, 256);
        assert!(short.len() <= 255, "{}", short.len());
        assert!(short.starts_with("MPI_File_open: ") && short.ends_with(": No such file"));
    }
}
