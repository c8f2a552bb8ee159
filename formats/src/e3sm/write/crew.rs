//! Parts of a subfile that several threads write side by side.

use super::content::Sink;
use super::out::Out;
use super::{Step, Stop};
use agg_core::workers::together;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads at most: each has up to 24 MiB of memory.
const MOST: usize = 4;
/// Bytes that a thread writes one behind the other, so that its writes are long.
const BATCH: u64 = if cfg!(test) { 100 } else { 8 << 20 };

/// The parts that are left, and the failure that ended the work.
struct Work<I: Iterator> {
    parts: I,
    failure: Option<Stop>,
}

/// Writes parts of a subfile, which are disjoint and each have so many bytes, as `write` does it.
pub(super) fn each<T: Send>(
    sink: &dyn Sink,
    parts: impl Iterator<Item = (T, u64)> + Send,
    write: impl Fn(T, &mut Out<'_>) -> Step<()> + Sync,
) -> Step<()> {
    let work = Mutex::new(Work { parts: parts.fuse(), failure: None });
    let labour = || {
        let mut out = Out::new(sink);
        loop {
            let batch = batch(&mut locked(&work));
            if batch.is_empty() {
                return;
            }
            let written = batch.into_iter().try_for_each(|part| write(part, &mut out));
            if let Err(why) = written.and_then(|()| Ok(out.flush()?)) {
                locked(&work).failure.get_or_insert(why);
                return;
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    together(cores.min(MOST), "aggio-blob", None, labour);
    match work.into_inner().unwrap_or_else(PoisonError::into_inner).failure {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next parts for one thread; none if there are no more, or something went wrong.
fn batch<T, I: Iterator<Item = (T, u64)>>(work: &mut Work<I>) -> Vec<T> {
    let (mut parts, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH && work.failure.is_none() {
        let Some((part, len)) = work.parts.next() else { break };
        bytes += len;
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Result};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A file with one byte, at `bad`, that cannot be written.
    struct Broken {
        bytes: Mutex<Vec<u8>>,
        bad: u64,
    }

    impl Sink for Broken {
        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            if (offset..offset + bytes.len() as u64).contains(&self.bad) {
                return Err(Error::corrupt("memory", "bad"));
            }
            self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn set_len(&self, _: u64) -> Result<()> {
            Ok(())
        }
    }

    fn run(bad: u64) -> (std::result::Result<(), String>, Vec<u8>, u64) {
        let sink = Broken { bytes: Mutex::new(vec![0; 10_000]), bad };
        let count = AtomicU64::new(0);
        let parts = (0..1000).map(|number: u64| (number, 10));
        let done = each(&sink, parts, |number, out| {
            count.fetch_add(1, Ordering::Relaxed);
            out.at(number * 10)?;
            out.put(&[1 + (number % 200) as u8; 10], 0);
            Ok(())
        });
        let done = done.map_err(|why| match why {
            Stop::Failed(why) => why.to_string(),
            Stop::Unsuited(what) => what,
        });
        (done, sink.bytes.into_inner().unwrap(), count.into_inner())
    }

    #[test]
    fn all_parts_are_written_once() {
        let (done, bytes, count) = run(u64::MAX);
        assert_eq!((done, count), (Ok(()), 1000));
        assert!(
            bytes.chunks(10).zip(0..).all(|(part, number)| part == [1 + (number % 200) as u8; 10])
        );
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        assert!(run(105).0.unwrap_err().contains("bad"));
    }
}
