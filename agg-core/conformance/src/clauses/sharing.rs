//! Several opens, several threads, one file.

use super::{Found, create, done, ensure, get, holds, pattern, put, same};
use crate::Subject;
use crate::report::Verdict::{Holds, NotOffered};
use agg_core::driver::{Closing, Driver};
use agg_core::{ErrorClass, Extent};
use std::thread;

pub(super) fn reopening(subject: &dyn Subject, name: &str) -> Found {
    let bytes = pattern(30_000, 12);
    let file = create(subject, name)?;
    put(&*file, &bytes[..10_000], 0)?;
    done("a sync", file.sync())?;
    holds(&*create(subject, name)?, &bytes[..10_000])?;
    put(&*file, &bytes[10_000..], 10_000)?;
    done("closing", file.close(Closing::Complete))?;
    holds(&*create(subject, name)?, &bytes)?;
    Ok(Holds)
}

pub(super) fn two_opens(subject: &dyn Subject, name: &str) -> Found {
    let (one, other) = (create(subject, name)?, create(subject, name)?);
    for round in 0..4 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let bytes = pattern(5000, round + 20);
        put(&**writer, &bytes, u64::from(round) * 2500)?;
        done("a sync", writer.sync())?;
        reader.renew();
        let offset = u64::from(round) * 2500;
        same(&get(&**reader, offset, 5000)?, &bytes, offset)?;
    }
    Ok(Holds)
}

/// Threads that write.
const THREADS: usize = 4;
/// Pieces that each of them writes, all threads' in turn, and their length.
const PIECES: usize = 60;
const PIECE: usize = 333;

fn write_turns(file: &dyn Driver, bytes: &[u8], thread: usize) -> Result<(), String> {
    for turn in 0..PIECES {
        let at = (turn * THREADS + thread) * PIECE;
        put(file, &bytes[at..at + PIECE], at as u64)?;
        // The bytes of this thread are there, regardless of other threads.
        same(&get(file, at as u64, PIECE)?, &bytes[at..at + PIECE], at as u64)?;
    }
    Ok(())
}

pub(super) fn threads(subject: &dyn Subject, name: &str) -> Found {
    let bytes = pattern(THREADS * PIECES * PIECE, 14);
    let file = create(subject, name)?;
    let file = &*file;
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let bytes = &bytes;
        let start = |thread| scope.spawn(move || write_turns(file, bytes, thread));
        let running: Vec<_> = (0..THREADS).map(start).collect();
        let lost = |_| Err("a thread panicked".to_owned());
        running.into_iter().map(|one| one.join().unwrap_or_else(lost)).collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    holds(file, &bytes)?;
    Ok(Holds)
}

pub(super) fn locks(subject: &dyn Subject, name: &str) -> Found {
    let (one, other) = (create(subject, name)?, create(subject, name)?);
    let wanted = Extent::new(100, 50);
    let held = match one.try_lock(wanted, true) {
        Ok(Some(guard)) => guard,
        Ok(None) => return Err("a lock that nobody else wants is not to be had".into()),
        Err(error) if error.class() == ErrorClass::UnsupportedOperation => return Ok(NotOffered),
        Err(error) => return Err(format!("a lock fails: {error}")),
    };
    let free = |extent, exclusive| {
        done("a lock", other.try_lock(extent, exclusive)).map(|guard| guard.is_some())
    };
    for (extent, exclusive) in [(wanted, true), (wanted, false), (Extent::new(149, 9), true)] {
        ensure!(!free(extent, exclusive)?, "{extent} can be locked twice");
    }
    for extent in [Extent::new(0, 100), Extent::new(150, 10)] {
        ensure!(free(extent, true)?, "{extent} is locked beside {wanted}");
    }
    drop(held);
    ensure!(free(wanted, true)?, "a lock outlives its guard");
    let shared = done("a shared lock", one.try_lock(wanted, false))?;
    ensure!(shared.is_some(), "a shared lock is not to be had");
    ensure!(free(wanted, false)?, "shared locks exclude each other");
    ensure!(!free(wanted, true)?, "an exclusive lock is to be had beside a shared one");
    Ok(Holds)
}
