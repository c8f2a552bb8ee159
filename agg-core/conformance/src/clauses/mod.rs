//! The clauses of the contract, one function each.

mod files;
mod flow;
mod limits;
mod reading;
mod sharing;
mod sizes;
mod transfers;

use crate::Subject;
use crate::report::Verdict;
use agg_core::driver::{Driver, OpenHow, Outcome};
use agg_core::report::Counters;

/// The finding of a clause; the text describes the deviation of the driver.
type Found = Result<Verdict, String>;

/// One sentence of the contract and its check, which may use one file of the name given.
pub(crate) struct Clause {
    pub(crate) name: &'static str,
    pub(crate) check: fn(&dyn Subject, &str) -> Found,
}

/// One sentence about reading and its check on a file of known bytes.
pub(crate) struct ReadingClause {
    pub(crate) name: &'static str,
    pub(crate) check: fn(&dyn Subject, &str, &[u8]) -> Found,
}

/// Ends a check unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use ensure;

/// Names clauses by their functions' sentences.
macro_rules! clauses {
    ($kind:ident: $($name:literal $check:path;)*) => {
        &[$($kind { name: $name, check: $check }),*]
    };
}

/// Everything that a driver which reads and writes must do.
pub(crate) const CLAUSES: &[Clause] = clauses![Clause:
    "a file that is missing is opened only if it may be created" files::missing;
    "creating a file that exists keeps its bytes" files::creating_again;
    "an exclusive open creates a file, and fails if it exists" files::exclusive;
    "a deleted file is gone, and deleting it again fails" files::deleting;
    "after a close every operation fails" files::closing;
    "the facts name the file system and a block size" files::facts;
    "an identity tells files apart" files::identity;
    "what is written is read, and the counts are right" transfers::round_trip;
    "an empty transfer moves nothing and succeeds" transfers::empty;
    "of writes that overlap the last one counts" transfers::overlapping;
    "one attempt moves a prefix of its buffers" transfers::vectors;
    "a strided write changes its bytes and no other" transfers::strided;
    "file bytes as memory are the file's bytes" transfers::in_place;
    "random operations do what they do to a vector of bytes" flow::random;
    "a read at or behind the end delivers what there is" sizes::past_the_end;
    "holes read as zeros" sizes::holes;
    "a file that shrinks loses its tail, and grows with zeros" sizes::resizing;
    "room that is reserved changes no byte and shortens nothing" sizes::preallocating;
    "the size is what it is now" sizes::current;
    "a sync keeps what was written for who opens the file next" sharing::reopening;
    "two open files see each other's bytes after a sync" sharing::two_opens;
    "threads that write different bytes do not disturb each other" sharing::threads;
    "locks of two opens exclude each other where they overlap" sharing::locks;
    "who may only read cannot write" limits::read_only;
    "who may only write cannot read" limits::write_only;
    "an offset that no file can have is refused" limits::offsets;
    "on a full disk the error says so, and the count is what was stored" limits::full;
];

/// Clauses for every file that can be read.
pub(crate) const READING: &[ReadingClause] = clauses![ReadingClause:
    "the bytes are the file's, in one read and in many" reading::bytes;
    "a read at or behind the end delivers what there is" reading::past_the_end;
    "scattered bytes are read into their places" reading::strided;
    "several threads read the same file" reading::threads;
    "the size is the file's" reading::size;
    "nothing can be written" reading::no_writing;
];

fn how(name: &str) -> OpenHow {
    OpenHow { path: name.into(), create: true, read: true, write: true, ..OpenHow::default() }
}

/// A new file, or an error if it cannot be made.
fn create(subject: &dyn Subject, name: &str) -> Result<Box<dyn Driver>, String> {
    subject.open(&how(name)).map_err(|error| format!("cannot create a file: {error}"))
}

fn done<T>(what: &str, result: agg_core::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what} failed: {error}"))
}

/// Writes all bytes, which must succeed.
fn put(driver: &dyn Driver, bytes: &[u8], offset: u64) -> Result<(), String> {
    let Outcome { bytes: moved, result } = driver.write_contig(bytes, offset, &Counters::default());
    let len = bytes.len();
    done(&format!("writing {len} bytes at {offset}"), result)?;
    ensure!(moved == len as u64, "of {len} bytes written at {offset} it counts {moved}");
    Ok(())
}

/// Reads up to `len` bytes; memory behind the delivered bytes must be untouched.
fn get(driver: &dyn Driver, offset: u64, len: usize) -> Result<Vec<u8>, String> {
    const CANARY: u8 = 0xC5;
    let mut buffer = vec![CANARY; len];
    let Outcome { bytes, result } = driver.read_contig(&mut buffer, offset, &Counters::default());
    done(&format!("reading {len} bytes at {offset}"), result)?;
    let moved = usize::try_from(bytes).unwrap_or(usize::MAX);
    ensure!(moved <= len, "a read of {len} bytes counts {moved}");
    let untouched = buffer[moved..].iter().all(|byte| *byte == CANARY);
    ensure!(untouched, "a read of {moved} bytes at {offset} changed memory behind them");
    buffer.truncate(moved);
    Ok(buffer)
}

/// The file must hold exactly `expected`, and be as long.
fn holds(driver: &dyn Driver, expected: &[u8]) -> Result<(), String> {
    let size = done("asking for the size", driver.size())?;
    ensure!(size == expected.len() as u64, "the size is {size}, not {}", expected.len());
    let found = get(driver, 0, expected.len() + 100)?;
    same(&found, expected, 0)
}

/// Names the first byte that differs.
fn same(found: &[u8], expected: &[u8], offset: u64) -> Result<(), String> {
    let (got, want) = (found.len(), expected.len());
    if let Some(at) = found.iter().zip(expected).position(|(one, other)| one != other) {
        let place = offset + at as u64;
        return Err(format!("byte {place} is {}, not {}", found[at], expected[at]));
    }
    ensure!(got == want, "{got} bytes are delivered at {offset}, not {want}");
    Ok(())
}

/// Bytes without equal stretches and without zeros.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    let byte = |n: usize| (n.wrapping_mul(31) ^ (n >> 8).wrapping_mul(17)) as u8 ^ seed;
    (0..len).map(|n| byte(n) | 1).collect()
}
