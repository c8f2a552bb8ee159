//! The expected value of every byte: in the file, in memory, and in places that must not change.

use aggio_patterns::{Access, Layout, Pattern, Piece};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The byte that the pattern's owner puts at `offset` of the file.
fn expected(offset: u64) -> u8 {
    let word = (offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (8 * (offset % 8))) as u8
}

/// The byte that lies at `offset` before a write, where the file has holes; never the one that is
/// written.
fn before(offset: u64) -> u8 {
    !expected(offset)
}

/// Fills memory that no call may change.
const CANARY: u8 = 0xc5;

/// Bytes of canary on both sides of a buffer.
const GUARD: usize = 64;

/// The memory of one rank, with canaries around and between the data.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    memory: Layout,
}

impl Buffer {
    pub(crate) fn new(memory: &Layout) -> Self {
        let bytes = vec![CANARY; memory.span() as usize + 2 * GUARD];
        Buffer { bytes, memory: memory.clone() }
    }

    /// Where the memory layout begins.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        let end = self.bytes.len() - GUARD;
        &mut self.bytes[GUARD..end]
    }

    /// Puts contiguous data where the layout places them.
    pub(crate) fn scatter(&mut self, packed: &[u8]) {
        let memory = self.memory.clone();
        let (data, mut at) = (self.data(), 0);
        memory.for_each_piece(0, &mut |piece| {
            data[range(piece)].copy_from_slice(&packed[at..at + piece.len as usize]);
            at += piece.len as usize;
        });
    }

    /// Whether the data are `packed` and all other bytes untouched; wipes the data.
    pub(crate) fn verify(&mut self, packed: &[u8]) -> Result<(), String> {
        let memory = self.memory.clone();
        let (data, mut at, mut wrong) = (self.data(), 0, None);
        memory.for_each_piece(0, &mut |piece| {
            let right = &packed[at..at + piece.len as usize];
            if data[range(piece)] != *right {
                wrong.get_or_insert(piece.offset);
            }
            data[range(piece)].fill(CANARY);
            at += piece.len as usize;
        });
        if let Some(offset) = wrong {
            return Err(format!("wrong data in memory at offset {offset}"));
        }
        match self.bytes.iter().position(|&byte| byte != CANARY) {
            Some(at) => {
                Err(format!("memory at offset {} was overwritten", at as i64 - GUARD as i64))
            }
            None => Ok(()),
        }
    }
}

fn range(piece: Piece) -> std::ops::Range<usize> {
    piece.offset as usize..(piece.offset + piece.len) as usize
}

/// The data of a rank, one after the other.
pub(crate) fn packed(access: &Access) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(access.bytes() as usize);
    access.for_each_file_piece(&mut |piece| {
        bytes.extend((piece.offset..piece.offset + piece.len).map(expected));
    });
    bytes
}

/// Writes this rank's part of a file of `span` bytes: the bytes that reads expect, or old bytes
/// before a write.
pub(crate) fn prepare(
    path: &str,
    span: u64,
    rank: u64,
    ranks: u64,
    for_read: bool,
) -> Result<(), String> {
    let complain = |why: std::io::Error| format!("{path}: {why}");
    let file = File::options().write(true).open(path).map_err(complain)?;
    let (mut start, end) = (span * rank / ranks, span * (rank + 1) / ranks);
    let byte = if for_read { expected } else { before };
    while start < end {
        let until = end.min(start + (1 << 20));
        let chunk: Vec<u8> = (start..until).map(byte).collect();
        file.write_all_at(&chunk, start).map_err(complain)?;
        start = until;
    }
    Ok(())
}

/// Whether the file has the bytes of all ranks, and the old bytes in the holes.
pub(crate) fn verify_file(path: &str, pattern: &Pattern, ranks: u64) -> Result<(), String> {
    let mut bytes = std::fs::read(path).map_err(|why| format!("{path}: {why}"))?;
    let span = pattern.span(ranks);
    if bytes.len() as u64 != span {
        return Err(format!("the file has {} bytes instead of {span}", bytes.len()));
    }
    let mut wrong = None;
    for rank in 0..ranks {
        pattern.access(rank, ranks).for_each_file_piece(&mut |piece| {
            let all = piece.offset..piece.offset + piece.len;
            let found = &mut bytes[range(piece)];
            if !all.clone().zip(&*found).all(|(offset, byte)| *byte == expected(offset)) {
                wrong.get_or_insert((rank, piece.offset));
            }
            all.zip(found).for_each(|(offset, byte)| *byte = before(offset));
        });
    }
    if let Some((rank, offset)) = wrong {
        return Err(format!(
            "the file has a wrong byte of rank {rank} at offset {offset} or behind"
        ));
    }
    let touched = (0..span).zip(&bytes).find(|(offset, byte)| **byte != before(*offset));
    touched
        .map_or(Ok(()), |(offset, _)| Err(format!("offset {offset}, in a hole, was overwritten")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: u64 = 3;

    /// The file that all ranks leave, with the old bytes in the holes.
    fn written(pattern: &Pattern) -> Vec<u8> {
        let mut file: Vec<u8> = (0..pattern.span(RANKS)).map(before).collect();
        for rank in 0..RANKS {
            pattern.access(rank, RANKS).for_each_file_piece(&mut |piece| {
                let right = (piece.offset..piece.offset + piece.len).map(expected);
                file[range(piece)].iter_mut().zip(right).for_each(|(byte, right)| *byte = right);
            });
        }
        file
    }

    fn verified(name: &str, pattern: &Pattern, file: &[u8]) -> Result<(), String> {
        let path = std::env::temp_dir().join(format!("aggio-bytes-{}-{name}", std::process::id()));
        std::fs::write(&path, file).unwrap();
        let result = verify_file(path.to_str().unwrap(), pattern, RANKS);
        std::fs::remove_file(path).unwrap();
        result
    }

    #[test]
    fn any_wrong_byte_of_a_file_is_found() {
        let pattern = "strided,piece=5,hole=3,bytes=90".parse().unwrap();
        let file = written(&pattern);
        verified("right", &pattern, &file).unwrap();
        for index in 0..file.len() {
            let mut wrong = file.clone();
            wrong[index] ^= 0x10;
            verified("wrong", &pattern, &wrong).unwrap_err();
        }
        verified("short", &pattern, &file[1..]).unwrap_err();
    }

    #[test]
    fn any_wrong_byte_in_memory_is_found() {
        let pattern: Pattern = "blocks,array=8x6,element=4,memory=ghost:1".parse().unwrap();
        let access = pattern.access(1, RANKS);
        let packed = packed(&access);
        let mut buffer = Buffer::new(&access.memory);
        for index in 0..buffer.bytes.len() {
            buffer.scatter(&packed);
            buffer.bytes[index] ^= 1;
            buffer.verify(&packed).unwrap_err();
            buffer.bytes.fill(CANARY);
        }
        buffer.scatter(&packed);
        buffer.verify(&packed).unwrap();
    }

    #[test]
    fn what_lay_there_before_is_never_what_is_written() {
        assert!((0..1000).all(|offset| before(offset) != expected(offset)));
    }
}
