//! Wide characters on streams of ours. The C library's cookie streams have none: their functions
//! are made here of those for narrow characters.

use super::errno;
use super::host::process;
use super::next;
use libc::{FILE, c_char, c_int, c_void, size_t, wchar_t};
use std::sync::atomic::Ordering::Relaxed;

/// The end of a stream, or an error.
pub const NONE: u32 = u32::MAX;
/// In the first word of a stream of glibc: the end was seen; there was an error.
const END: c_int = 0x10;
const FAILED: c_int = 0x20;
/// Offsets in a cookie stream of glibc: its descriptor (ours have one), its table of functions and
/// its cookie.
const DESCRIPTOR: usize = 112;
const TABLE: usize = 216;
const VALUE: usize = 224;
/// Words of a list of arguments.
const WORDS: usize = if cfg!(target_arch = "x86_64") { 3 } else { 4 };
/// Bytes that are looked at first when they are scanned.
const SCANNED: usize = 4096;

/// The state of the conversion of a character that comes in parts.
type State = [u64; 1];

unsafe extern "C" {
    fn wcrtomb(to: *mut c_char, character: wchar_t, state: *mut State) -> size_t;
    fn mbrtowc(to: *mut wchar_t, from: *const c_char, len: size_t, state: *mut State) -> size_t;
    fn open_wmemstream(to: *mut *mut wchar_t, len: *mut size_t) -> *mut FILE;
}

/// # Safety
/// `stream` is a stream of glibc.
unsafe fn word(stream: *mut FILE, at: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { stream.cast::<u8>().add(at).cast::<usize>().read() }
}

/// Remembers how cookie streams are known.
///
/// # Safety
/// `stream` is a cookie stream of glibc.
pub unsafe fn learn(stream: *mut FILE) {
    // SAFETY: the caller's promise.
    process().cookie.store(unsafe { word(stream, TABLE) }, Relaxed);
}

/// Whether a stream has our functions.
///
/// # Safety
/// `stream` is a stream or null.
pub unsafe fn is_ours(stream: *mut FILE) -> bool {
    let cookie = process().cookie.load(Relaxed);
    if cookie == 0 || stream.is_null() {
        return false;
    }
    // SAFETY: every stream has a table of functions and a descriptor; a cookie stream has a cookie,
    // which is the descriptor if it is ours.
    unsafe {
        let descriptor = stream.cast::<u8>().add(DESCRIPTOR).cast::<c_int>().read();
        word(stream, TABLE) == cookie && usize::try_from(descriptor) == Ok(word(stream, VALUE))
    }
}

/// # Safety
/// `stream` is a stream of glibc.
unsafe fn mark(stream: *mut FILE, what: c_int) {
    // SAFETY: the caller's promise.
    unsafe { *stream.cast::<c_int>() |= what };
}

/// Adds the bytes of a character; `false` if there are none for it.
fn convert(character: wchar_t, bytes: &mut Vec<u8>) -> bool {
    let (mut part, mut state): ([u8; 16], State) = ([0; 16], [0]);
    // SAFETY: there is room for the longest character.
    let len = unsafe { wcrtomb(part.as_mut_ptr().cast(), character, &raw mut state) };
    if len > part.len() {
        return false;
    }
    bytes.extend_from_slice(&part[..len]);
    true
}

/// Writes characters; `false` if that failed.
///
/// # Safety
/// `stream` is ours.
unsafe fn put_all(stream: *mut FILE, characters: &[wchar_t]) -> bool {
    let mut bytes = Vec::with_capacity(characters.len());
    let known = characters.iter().all(|character| convert(*character, &mut bytes));
    // SAFETY: the caller's promise; the bytes outlive the call.
    unsafe {
        let written = libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) == bytes.len();
        if !known {
            mark(stream, FAILED);
            errno::set(libc::EILSEQ);
        }
        known && written
    }
}

/// The characters before the zero at their end.
///
/// # Safety
/// There is one.
unsafe fn text<'a>(from: *const wchar_t) -> &'a [wchar_t] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(from, libc::wcslen(from)) }
}

/// `fputwc`.
///
/// # Safety
/// `stream` is ours.
pub unsafe fn put(character: wchar_t, stream: *mut FILE) -> u32 {
    // SAFETY: the caller's promise.
    if unsafe { put_all(stream, &[character]) } { character.cast_unsigned() } else { NONE }
}

/// `fputws`.
///
/// # Safety
/// `stream` is ours, `from` ends with a zero.
pub unsafe fn put_text(from: *const wchar_t, stream: *mut FILE) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { put_all(stream, text(from)) } { 1 } else { -1 }
}

/// `fgetwc`.
///
/// # Safety
/// `stream` is ours.
pub unsafe fn get(stream: *mut FILE) -> u32 {
    let (mut state, mut character): (State, wchar_t) = ([0], 0);
    for index in 0.. {
        // SAFETY: the caller's promise; one byte is looked at.
        let len = unsafe {
            let byte = libc::fgetc(stream);
            if byte < 0 && index == 0 {
                return NONE;
            }
            let byte_here = byte as u8;
            match byte {
                0.. => {
                    mbrtowc(&raw mut character, (&raw const byte_here).cast(), 1, &raw mut state)
                }
                _ => usize::MAX,
            }
        };
        match len {
            0 => return 0,
            1 => return character.cast_unsigned(),
            usize::MAX => break,
            _ => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe { mark(stream, FAILED) };
    errno::set(libc::EILSEQ);
    NONE
}

/// `fgetws`.
///
/// # Safety
/// `stream` is ours; there is room for `len` characters.
pub unsafe fn get_text(to: *mut wchar_t, len: c_int, stream: *mut FILE) -> *mut wchar_t {
    let mut done = 0;
    while done + 1 < usize::try_from(len).unwrap_or(0) {
        // SAFETY: the caller's promise.
        let character = unsafe { get(stream) };
        if character == NONE {
            break;
        }
        // SAFETY: the place is inside.
        unsafe { *to.add(done) = character.cast_signed() };
        done += 1;
        if character == u32::from(b'\n') {
            break;
        }
    }
    // SAFETY: the caller's promise; the place is inside.
    unsafe {
        if done == 0 || libc::ferror(stream) != 0 {
            return std::ptr::null_mut();
        }
        *to.add(done) = 0;
    }
    to
}

/// `ungetwc`.
///
/// # Safety
/// `stream` is ours.
pub unsafe fn unget(character: u32, stream: *mut FILE) -> u32 {
    let mut bytes = Vec::new();
    if character == NONE || !convert(character.cast_signed(), &mut bytes) {
        return NONE;
    }
    for byte in bytes.iter().rev() {
        // SAFETY: the caller's promise.
        if unsafe { libc::ungetc((*byte).into(), stream) } < 0 {
            return NONE;
        }
    }
    character
}

/// `vfwprintf`.
///
/// # Safety
/// `stream` is ours; format and arguments are as the C library demands.
pub unsafe fn print(stream: *mut FILE, format: *const wchar_t, list: *mut c_void) -> c_int {
    let (mut to, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the caller's promise; the memory is the C library's until it is freed here.
    unsafe {
        let memory = open_wmemstream(&raw mut to, &raw mut len);
        if memory.is_null() {
            return -1;
        }
        let printed = next::vfwprintf(memory, format, list);
        let closed = libc::fclose(memory);
        let written =
            printed >= 0 && closed == 0 && put_all(stream, std::slice::from_raw_parts(to, len));
        let _errno = errno::Keep::new();
        libc::free(to.cast());
        if written { printed } else { -1 }
    }
}

/// `vfwscanf`: a stream that can do it gets the bytes that come next.
///
/// # Safety
/// `stream` is ours; format and arguments are as the C library demands.
pub unsafe fn scan(stream: *mut FILE, format: *const wchar_t, list: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let start = unsafe { libc::ftello(stream) };
    let mut room = SCANNED;
    loop {
        let mut bytes = vec![0; room];
        // SAFETY: the caller's promise; so many bytes can be written.
        let read = unsafe {
            if start < 0 || libc::fseeko(stream, start, libc::SEEK_SET) != 0 {
                return -1;
            }
            libc::fread(bytes.as_mut_ptr().cast(), 1, room, stream)
        };
        bytes.truncate(read);
        // SAFETY: the list is copied, as it may be needed again.
        let mut arguments = unsafe { *list.cast::<[usize; WORDS]>() };
        // SAFETY: the caller's format and arguments.
        let scanned = unsafe { scan_bytes(&bytes, format, (&raw mut arguments).cast()) };
        let Some((fields, used, ended)) = scanned else { return -1 };
        if ended && read == room {
            room *= 4;
            continue;
        }
        // SAFETY: the caller's promise.
        unsafe {
            *list.cast() = arguments;
            libc::fseeko(stream, start + used, libc::SEEK_SET);
            if ended {
                mark(stream, END);
            }
        }
        return fields;
    }
}

/// Scans bytes: the number of fields, the number of bytes that were used, and whether the end was
/// seen.
///
/// # Safety
/// As [`scan`].
unsafe fn scan_bytes(
    bytes: &[u8],
    format: *const wchar_t,
    list: *mut c_void,
) -> Option<(c_int, i64, bool)> {
    // SAFETY: a file in memory that is ours; the bytes outlive the call.
    unsafe {
        let memory = libc::memfd_create(c"aggio-scan".as_ptr(), libc::MFD_CLOEXEC);
        if memory < 0 {
            return None;
        }
        let stored = next::pwrite64(memory, bytes.as_ptr().cast(), bytes.len(), 0);
        let stream = next::fdopen(memory, c"r".as_ptr());
        if stored != bytes.len() as isize || stream.is_null() {
            next::close(memory);
            return None;
        }
        let fields = next::__isoc99_vfwscanf(stream, format, list);
        let told = (fields, libc::ftello(stream), libc::feof(stream) != 0);
        let _errno = errno::Keep::new();
        libc::fclose(stream);
        Some(told)
    }
}
