//! One pattern: who owns which bytes, how they are moved, whether they arrived.

use crate::file::MpiFile;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::time::Instant;

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Collective,
    Independent,
    Limit,
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Write,
    Read,
}

pub(crate) struct Case {
    method: Method,
    operation: Operation,
    piece: usize,
    total: usize,
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [method, operation, piece, total] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err("want METHOD:OPERATION:PIECE:TOTAL_BYTES".into());
        };
        Ok(Self {
            method: match method {
                "collective" => Method::Collective,
                "independent" => Method::Independent,
                "limit" => Method::Limit,
                _ => return Err(format!("unknown method {method}")),
            },
            operation: match operation {
                "write" => Operation::Write,
                "read" => Operation::Read,
                _ => return Err(format!("unknown operation {operation}")),
            },
            piece: piece.parse().map_err(|_| format!("piece size {piece}"))?,
            total: total.parse().map_err(|_| format!("total bytes {total}"))?,
        })
    }
}

/// The byte that belongs at `offset` of every benchmark file.
fn expected(offset: usize) -> u8 {
    let word = (offset as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (8 * (offset % 8))) as u8
}

impl Case {
    /// Runs the case once; the result is the seconds between the two barriers.
    pub(crate) fn run(&self, directory: &str, world: &SimpleCommunicator) -> Result<f64, String> {
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let share = self.total / size;
        let path = format!("{directory}/bench-{}-{}", self.piece, self.total);
        let mut buffer = vec![0u8; share];
        match self.operation {
            Operation::Write => {
                self.fill(&mut buffer, rank, size);
                if rank == 0 {
                    let _ = std::fs::remove_file(&path);
                }
            }
            // Touch the pages, so that no case pays for another one's first use of memory.
            Operation::Read => buffer.fill(0xa5),
        }
        world.barrier();
        let seconds = match self.method {
            Method::Limit => self.limit(&path, &mut buffer, rank * share, world)?,
            _ => self.through_mpi(&path, &mut buffer, rank, world)?,
        };
        if self.operation == Operation::Read && self.method != Method::Limit {
            self.verify(&buffer, rank, size)?;
        } else if self.operation == Operation::Write && self.method != Method::Limit && rank == 0 {
            self.verify_file(&path)?;
        }
        world.barrier();
        Ok(seconds)
    }

    /// The file offset of byte `index` of this rank's buffer.
    fn offset(&self, index: usize, rank: usize, size: usize) -> usize {
        if self.piece == 0 {
            return rank * (self.total / size) + index;
        }
        (index / self.piece * size + rank) * self.piece + index % self.piece
    }

    fn fill(&self, buffer: &mut [u8], rank: usize, size: usize) {
        for (index, byte) in buffer.iter_mut().enumerate() {
            *byte = expected(self.offset(index, rank, size));
        }
    }

    fn verify(&self, buffer: &[u8], rank: usize, size: usize) -> Result<(), String> {
        let wrong = (0..buffer.len())
            .find(|&index| buffer[index] != expected(self.offset(index, rank, size)));
        wrong.map_or(Ok(()), |index| {
            Err(format!("read a wrong byte at file offset {}", self.offset(index, rank, size)))
        })
    }

    fn verify_file(&self, path: &str) -> Result<(), String> {
        let bytes = std::fs::read(path).map_err(|why| why.to_string())?;
        if bytes.len() != self.total {
            return Err(format!("{path} has {} bytes instead of {}", bytes.len(), self.total));
        }
        let wrong = (0..bytes.len()).find(|&offset| bytes[offset] != expected(offset));
        wrong.map_or(Ok(()), |offset| Err(format!("{path}: wrong byte at offset {offset}")))
    }

    /// Plain system calls on disjoint contiguous parts.
    fn limit(
        &self,
        path: &str,
        buffer: &mut [u8],
        offset: usize,
        world: &SimpleCommunicator,
    ) -> Result<f64, String> {
        let file = open_plain(path, self.operation == Operation::Write)?;
        world.barrier();
        let start = Instant::now();
        match self.operation {
            Operation::Write => file.write_all_at(buffer, offset as u64),
            Operation::Read => file.read_exact_at(buffer, offset as u64),
        }
        .map_err(|why| format!("{path}: {why}"))?;
        world.barrier();
        Ok(start.elapsed().as_secs_f64())
    }

    fn through_mpi(
        &self,
        path: &str,
        buffer: &mut [u8],
        rank: usize,
        world: &SimpleCommunicator,
    ) -> Result<f64, String> {
        let size = world.size() as usize;
        let mut file = MpiFile::open(path, self.operation == Operation::Write)?;
        if self.piece == 0 {
            file.set_contiguous_view(rank * (self.total / size))?;
        } else {
            file.set_interleaved_view(self.piece, rank, size)?;
        }
        world.barrier();
        let start = Instant::now();
        let collective = self.method == Method::Collective;
        match self.operation {
            Operation::Write => file.write(buffer, collective)?,
            Operation::Read => file.read(buffer, collective)?,
        }
        world.barrier();
        let seconds = start.elapsed().as_secs_f64();
        file.close()?;
        Ok(seconds)
    }
}

fn open_plain(path: &str, write: bool) -> Result<File, String> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .create(write)
        .truncate(false)
        .open(path)
        .map_err(|why| format!("{path}: {why}"))
}
