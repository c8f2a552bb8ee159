//! The content of the spool files of `aggio-test-spools`, and the bytes of the files before and
//! after.

/// The files; the last one is a container.
pub const NAMES: [&str; 3] = ["first", "second", "third"];

/// Their bytes before.
pub const OLD: &[u8; 40] = b"........................................";

/// The buffered writes to each: their places, and their bytes.
pub const PIECES: [&[(u64, &[u8])]; 3] = [
    &[(2, b"abcdef"), (4, b"XY"), (30, b"0123456789abc")],
    &[(0, b"one run of bytes from the beginning")],
    &[(10, b"in a container"), (38, b"longer")],
];

/// The bytes of a file after.
pub fn new(pieces: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = OLD.to_vec();
    for (offset, piece) in pieces {
        let (from, end) = (*offset as usize, *offset as usize + piece.len());
        bytes.resize(bytes.len().max(end), 0);
        bytes[from..end].copy_from_slice(piece);
    }
    bytes
}
