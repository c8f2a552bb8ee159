//! Streams the bytes of a set in order: threads assemble windows of it side by side, and write them
//! one after the other.

use agg_core::workers::together;
use aggio_formats::{Logical, Windows};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Takes bytes; returns whether it accepts more.
pub(super) type Take<'a> = dyn FnMut(&[u8]) -> Result<bool, String> + Send + 'a;

/// The state that the threads share.
struct Pouring<'a, 'b> {
    /// Windows that nobody assembles yet, the first of them with its number.
    left: Mutex<(u64, Windows<'a>)>,
    turn: Mutex<Turn<'b>>,
    next: Condvar,
}

struct Turn<'b> {
    /// The window that is given next.
    number: u64,
    /// Why nothing more is given.
    end: Option<Result<(), String>>,
    take: &'b mut Take<'b>,
}

/// Gives all bytes of `from` to `take`; returns whether it accepts more at the end. `threads`
/// threads, or as many as there are cores if that is 0, have a window each in memory.
pub(super) fn all(from: &Logical, threads: usize, take: &mut Take<'_>) -> Result<bool, String> {
    let turn = Turn { number: 0, end: None, take };
    let (left, turn) = (Mutex::new((0, from.windows())), Mutex::new(turn));
    let pouring = Pouring { left, turn, next: Condvar::new() };
    together(super::threads(threads), "aggio-pour", None, || pouring.work(from));
    let end = locked(&pouring.turn).end.take();
    match end {
        None => Ok(true),
        Some(Ok(())) => Ok(false),
        Some(Err(why)) => Err(why),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pouring<'_, '_> {
    fn work(&self, from: &Logical) {
        let mut bytes = Vec::new();
        while let Some((number, range)) = self.window() {
            let read = read(from, &range, &mut bytes);
            let turn = locked(&self.turn);
            let wait = |turn: &mut Turn<'_>| turn.number != number && turn.end.is_none();
            let mut turn = self.next.wait_while(turn, wait).unwrap_or_else(PoisonError::into_inner);
            if turn.end.is_none() {
                turn.end = match read.and_then(|()| (turn.take)(&bytes)) {
                    Ok(true) => None,
                    Ok(false) => Some(Ok(())),
                    Err(why) => Some(Err(why)),
                };
            }
            turn.number += 1;
            let ended = turn.end.is_some();
            drop(turn);
            self.next.notify_all();
            if ended {
                return;
            }
        }
    }

    /// The next window, and its number.
    fn window(&self) -> Option<(u64, Range<u64>)> {
        let mut left = locked(&self.left);
        let range = left.1.next()?;
        left.0 += 1;
        Some((left.0 - 1, range))
    }
}

/// Assembles a window.
pub(super) fn read(from: &Logical, range: &Range<u64>, bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.resize(usize::try_from(range.end - range.start).unwrap_or(usize::MAX), 0);
    let count = from.read_window(bytes, range.start).map_err(|why| why.to_string())?;
    if count == bytes.len() { Ok(()) } else { Err(format!("{}: ends early", from.name())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::netcdf;

    const BYTES: usize = 40_000_000;

    /// A netCDF file of one variable of bytes, and its content.
    fn file(place: &std::path::Path) -> (Logical, Vec<u8>) {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let (len, begin) = (BYTES as u32, 80);
        let head: [Vec<u8>; 6] = [
            words(&[0x4344_4601, 0, 10, 1, 1]),
            b"x\0\0\0".to_vec(),
            words(&[len, 0, 0, 11, 1, 1]),
            b"v\0\0\0".to_vec(),
            words(&[1, 0, 0, 0, 1, len, begin]),
            Vec::new(),
        ];
        let mut bytes = head.concat();
        assert_eq!(bytes.len(), begin as usize);
        bytes.extend((0..BYTES).map(|k| (k / 1000) as u8));
        std::fs::write(place, &bytes).unwrap();
        (netcdf::of_file(place).unwrap().unwrap(), bytes)
    }

    #[test]
    fn the_windows_come_in_order_from_any_number_of_threads_until_nobody_wants_more() {
        let folder = tempfile::tempdir().unwrap();
        let (file, bytes) = file(&folder.path().join("a.nc"));
        assert!(file.windows().count() > 3);
        for threads in [0, 1, 2, 7] {
            let mut got = Vec::new();
            let mut take = |some: &[u8]| {
                got.extend_from_slice(some);
                Ok(true)
            };
            assert_eq!(all(&file, threads, &mut take), Ok(true));
            assert!(got == bytes, "{threads} threads");
            for end in [Ok(false), Err("full".to_owned())] {
                let mut calls = 0;
                let mut take = |_: &[u8]| {
                    calls += 1;
                    if calls == 2 { end.clone() } else { Ok(true) }
                };
                assert_eq!(all(&file, threads, &mut take), end);
                assert_eq!(calls, 2, "nobody is called again");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_when_its_turn_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nc");
        let (file, bytes) = file(&path);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(20_000_000).unwrap();
        let mut got = Vec::new();
        let mut take = |some: &[u8]| {
            got.extend_from_slice(some);
            Ok(true)
        };
        assert!(all(&file, 2, &mut take).is_err());
        assert!(got.len() <= 20_000_000 && got == bytes[..got.len()]);
    }
}
