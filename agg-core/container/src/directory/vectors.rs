//! Requests of several pieces of memory that the kernel carries out in parts.

use std::io;

/// Vectors of one request, as the kernel limits them.
const VECTORS: usize = 1024;

/// Repeats a request from `place` of a file on until all bytes of `vectors` are done. `call` gets
/// the vectors that are left, and their place, and returns as `preadv` does. Returns false if the
/// kernel does not do a single byte.
pub(crate) fn complete(
    vectors: &mut [libc::iovec],
    mut place: u64,
    call: impl Fn(&[libc::iovec], libc::off_t) -> isize,
) -> io::Result<bool> {
    let mut rest = advance(vectors, 0);
    while !rest.is_empty() {
        let done = call(&rest[..rest.len().min(VECTORS)], place as libc::off_t);
        match usize::try_from(done) {
            Ok(0) => return Ok(false),
            Ok(done) => {
                place += done as u64;
                rest = advance(rest, done);
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(true)
}

/// The vectors without their first `n` bytes.
fn advance(vectors: &mut [libc::iovec], mut n: usize) -> &mut [libc::iovec] {
    let mut whole = 0;
    while whole < vectors.len() && vectors[whole].iov_len <= n {
        n -= vectors[whole].iov_len;
        whole += 1;
    }
    let rest = &mut vectors[whole..];
    if let Some(first) = rest.first_mut() {
        first.iov_base = first.iov_base.wrapping_byte_add(n);
        first.iov_len -= n;
    }
    rest
}
