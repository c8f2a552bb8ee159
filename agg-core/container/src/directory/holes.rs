//! Reads files with holes. An untrusted length costs nothing where no bytes are stored.

use crate::errors::failed;
use aggio_base::{Result, os};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// The first byte of `file` from `at` on that is stored; `None` if there are only holes. A file
/// system that cannot tell stores everything.
pub(crate) fn next_data(file: &File, path: &Path, at: u64) -> Result<Option<u64>> {
    match os::next_data(file.as_raw_fd(), at) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Some(at)),
        found => found.map_err(|error| failed("lseek", &error, path)),
    }
}

/// The first byte of `file` from `at` on that is in a hole, which the end of the file counts as;
/// `None` if the file system cannot tell.
fn next_hole(file: &File, path: &Path, at: u64) -> Result<Option<u64>> {
    match os::next_hole(file.as_raw_fd(), at) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        found => found.map_err(|error| failed("lseek", &error, path)),
    }
}

/// Consecutive bytes of a file.
pub(crate) enum Bytes<'a> {
    /// Bytes that are stored, a few at a time.
    Stored(u64, &'a [u8]),
    /// Zeros that are not stored, however many.
    Zeros(u64),
}

/// Calls `take` with all bytes of `start..start + len`, in order; the file must have them.
///
/// # Errors
///
/// If the file cannot be read or ends before, and those of `take`.
pub(crate) fn each(
    file: &File,
    path: &Path,
    (start, len): (u64, u64),
    take: &mut dyn FnMut(Bytes<'_>) -> Result<()>,
) -> Result<()> {
    let fail = |error: io::Error| failed("pread", &error, path);
    let end = start + len;
    let length = file.metadata().map_err(fail)?.len();
    if len > 0 && length < end {
        return Err(fail(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut buffer = vec![0; CHUNK.min(len as usize)];
    // A range of one chunk or less is read without looking for holes.
    let (mut at, mut stored) = (start, if len <= CHUNK as u64 { end } else { start });
    while at < end {
        if at >= stored {
            let data = next_data(file, path, at)?.unwrap_or(end).min(end);
            if data > at {
                take(Bytes::Zeros(data - at))?;
                at = data;
                continue;
            }
            stored = next_hole(file, path, at)?.filter(|hole| *hole > at).unwrap_or(end);
        }
        let n = buffer.len().min((end.min(stored) - at) as usize);
        file.read_exact_at(&mut buffer[..n], at).map_err(fail)?;
        take(Bytes::Stored(at, &buffer[..n]))?;
        at += n as u64;
    }
    Ok(())
}

/// The checksum of bytes of a file; holes are not read.
pub(crate) fn sum(file: &File, path: &Path, start: u64, len: u64) -> Result<u32> {
    let mut crc = 0;
    each(file, path, (start, len), &mut |bytes| {
        crc = match bytes {
            Bytes::Stored(_, bytes) => aggio_base::checksum::crc32c_append(crc, bytes),
            Bytes::Zeros(count) => with_zeros(crc, count),
        };
        Ok(())
    })?;
    Ok(crc)
}

/// The checksum of bytes that have this one and of `count` zeros behind them.
fn with_zeros(crc: u32, mut count: u64) -> u32 {
    let (mut crc, mut power, mut length) = (crc, aggio_base::checksum::crc32c(&[0]), 1_usize);
    while count > 0 {
        if count & 1 == 1 {
            crc = aggio_base::checksum::crc32c_combine(crc, power, length);
        }
        count >>= 1;
        if count > 0 {
            power = aggio_base::checksum::crc32c_combine(power, power, length);
            length *= 2;
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_summed_up_without_looking_at_them() {
        for count in [0_usize, 1, 2, 3, 7, 64, 1000, 4096, 70_001] {
            let mut bytes = b"some bytes".to_vec();
            let before = aggio_base::checksum::crc32c(&bytes);
            bytes.resize(bytes.len() + count, 0);
            assert_eq!(
                with_zeros(before, count as u64),
                aggio_base::checksum::crc32c(&bytes),
                "{count}"
            );
        }
    }

    #[test]
    fn holes_of_any_size_cost_no_time_and_the_sum_is_right() {
        let file = tempfile::tempfile().unwrap();
        let path = Path::new("file");
        file.write_all_at(b"begin", 3).unwrap();
        file.write_all_at(&[7; 5000], 3 << 20).unwrap();
        file.set_len(6 << 20).unwrap();
        let mut all = vec![0; 6 << 20];
        file.read_exact_at(&mut all, 0).unwrap();
        for (start, len) in [(0, 6 << 20), (4, 5 << 20), ((3 << 20) - 1, 5001), (5 << 20, 1 << 20)]
        {
            let expected = aggio_base::checksum::crc32c(&all[start..start + len]);
            assert_eq!(sum(&file, path, start as u64, len as u64).unwrap(), expected);
        }
        file.set_len(4 << 40).unwrap();
        sum(&file, path, 0, 4 << 40).unwrap();
        assert!(sum(&file, path, 1, 4 << 40).is_err(), "the file ends before");
    }
}
