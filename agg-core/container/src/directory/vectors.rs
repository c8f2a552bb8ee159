//! Vectors of requests that the kernel has carried out in part.

/// The vectors without their first `n` bytes.
pub(crate) fn advance(vectors: &mut [libc::iovec], mut n: usize) -> &mut [libc::iovec] {
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
