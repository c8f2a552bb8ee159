//! Calls that must fail, with the right error and the right number of bytes.

use super::{Found, create, done, ensure, get, holds, how, pattern, put};
use crate::Subject;
use crate::report::Verdict::{Holds, NotOffered};
use agg_core::ErrorClass;
use agg_core::driver::{Closing, OpenHow, Outcome};
use agg_core::report::Counters;

/// An operation that must fail with a number of the system and move nothing.
fn refused(what: &str, outcome: Outcome) -> Result<(), String> {
    let Err(error) = outcome.result else { return Err(format!("{what} succeeds")) };
    ensure!(outcome.bytes == 0, "{what} counts {} bytes", outcome.bytes);
    ensure!(error.errno() != 0, "{what} gives no errno: {error}");
    Ok(())
}

pub(super) fn read_only(subject: &dyn Subject, name: &str) -> Found {
    let made = create(subject, name)?;
    put(&*made, b"bytes", 0)?;
    done("closing", made.close(Closing::Complete))?;
    let only = OpenHow { create: false, write: false, ..how(name) };
    let file = done("opening for reading", subject.open(&only))?;
    refused("a write", file.write_contig(b"other", 0, &Counters::default()))?;
    ensure!(file.set_size(1).is_err(), "who may only read can resize");
    holds(&*file, b"bytes")?;
    Ok(Holds)
}

pub(super) fn write_only(subject: &dyn Subject, name: &str) -> Found {
    let only = OpenHow { read: false, ..how(name) };
    let file = done("opening for writing", subject.open(&only))?;
    put(&*file, b"bytes", 0)?;
    refused("a read", file.read_contig(&mut [0; 5], 0, &Counters::default()))?;
    done("closing", file.close(Closing::Complete))?;
    holds(&*create(subject, name)?, b"bytes")?;
    Ok(Holds)
}

pub(super) fn offsets(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    put(&*file, b"bytes", 0)?;
    let last = i64::MAX.unsigned_abs();
    for offset in [last, last + 1, u64::MAX - 2] {
        let outcome = file.write_contig(b"other", offset, &Counters::default());
        ensure!(outcome.result.is_err(), "a write at {offset} succeeds");
        ensure!(outcome.bytes == 0, "a write at {offset} counts {} bytes", outcome.bytes);
    }
    ensure!(file.set_size(last + 1).is_err(), "a size of 2^63 is set");
    holds(&*file, b"bytes")?;
    Ok(Holds)
}

pub(super) fn full(subject: &dyn Subject, name: &str) -> Found {
    const ROOM: usize = 64 << 10;
    let Some(opened) = subject.full(name, ROOM as u64) else { return Ok(NotOffered) };
    let file = done("opening on small storage", opened)?;
    let bytes = pattern(2 * ROOM, 16);
    let outcome = file.write_contig(&bytes, 0, &Counters::default());
    let Err(error) = outcome.result else {
        return Err(format!("{} bytes are stored where {ROOM} have room", 2 * ROOM));
    };
    let is_full = matches!(error.errno(), libc::ENOSPC | libc::EDQUOT);
    ensure!(is_full, "the error has errno {}: {error}", error.errno());
    let class = error.class();
    let says_so = matches!(class, ErrorClass::NoSpace | ErrorClass::Quota);
    ensure!(says_so, "the error is of class {class:?}: {error}");
    let stored = usize::try_from(outcome.bytes).unwrap_or(usize::MAX);
    ensure!(stored < bytes.len(), "a write that failed counts all its bytes");
    let found = get(&*file, 0, bytes.len())?;
    ensure!(found.len() == stored, "{} bytes are stored, {stored} are counted", found.len());
    ensure!(found == bytes[..stored], "what was stored before the error is not what was written");
    Ok(Holds)
}
