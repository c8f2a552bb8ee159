//! Reading and writing: the bytes that move, and the counts.

use super::{Found, create, done, ensure, get, holds, pattern, put, same};
use crate::Subject;
use crate::report::Verdict::{Holds, NotOffered};
use agg_core::Extent;
use agg_core::datatype::Datatype;
use agg_core::driver::InPlace;
use agg_core::independent::Strategy;
use agg_core::memory::Memory;
use agg_core::report::Counters;
use agg_core::view::{Representation, View};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Result};

pub(super) fn round_trip(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let bytes = pattern(100_000, 3);
    let counters = Counters::default();
    let outcome = file.write_contig(&bytes, 0, &counters);
    done("writing", outcome.result)?;
    ensure!(outcome.bytes == 100_000, "a write of 100000 bytes counts {}", outcome.bytes);
    let totals = counters.totals();
    ensure!(totals.bytes_written_out == 100_000, "the report has {totals:?}");
    ensure!(totals.writes_out > 0, "the report has no request");
    for (offset, len) in [(0, 1), (1, 99_999), (4095, 2), (50_000, 4096), (99_999, 1)] {
        let found = get(&*file, offset, len)?;
        let at = usize::try_from(offset).unwrap_or_default();
        same(&found, &bytes[at..at + len], offset)?;
    }
    holds(&*file, &bytes)?;
    Ok(Holds)
}

pub(super) fn empty(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    put(&*file, &[], 1000)?;
    ensure!(get(&*file, 0, 0)?.is_empty(), "a read of nothing delivers bytes");
    holds(&*file, &[])?;
    Ok(Holds)
}

pub(super) fn overlapping(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let mut expected = vec![0; 9000];
    for (seed, (at, len)) in (1..).zip([(0, 9000), (100, 5000), (4000, 3000), (4096, 1), (50, 60)])
    {
        let bytes = pattern(len, seed);
        put(&*file, &bytes, at as u64)?;
        expected[at..at + len].copy_from_slice(&bytes);
    }
    holds(&*file, &expected)?;
    Ok(Holds)
}

/// Repeats `attempt` from byte to byte until all of `len` have been moved.
fn repeat(
    len: usize,
    mut attempt: impl FnMut(usize) -> Result<usize>,
) -> core::result::Result<(), String> {
    let mut moved = 0;
    while moved < len {
        match attempt(moved) {
            Ok(0) => return Err(format!("an attempt moves nothing after {moved} bytes")),
            Ok(more) if more <= len - moved => moved += more,
            Ok(more) => return Err(format!("an attempt for {} bytes counts {more}", len - moved)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("an attempt fails: {error}")),
        }
    }
    Ok(())
}

pub(super) fn vectors(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let bytes = pattern(10_000, 5);
    // Buffers of all lengths, empty ones among them.
    let cuts = [0, 0, 1, 1, 100, 4096, 4096, 9000, 10_000];
    repeat(bytes.len(), |moved| {
        let piece = |pair: &[usize]| IoSlice::new(&bytes[pair[0].max(moved)..pair[1].max(moved)]);
        let slices: Vec<_> = cuts.windows(2).map(piece).collect();
        file.pwritev(&slices, 7 + moved as u64)
    })?;
    let mut found = vec![0; bytes.len()];
    repeat(bytes.len(), |moved| {
        let (head, tail) = found[moved..].split_at_mut((bytes.len() - moved) / 3);
        let mut slices = [IoSliceMut::new(&mut []), IoSliceMut::new(head), IoSliceMut::new(tail)];
        file.preadv(&mut slices, 7 + moved as u64)
    })?;
    same(&found, &bytes, 7)?;
    holds(&*file, &[vec![0; 7], bytes].concat())?;
    Ok(Holds)
}

/// Blocks of 3, 50 and 1 bytes with gaps, every 97 bytes from byte 11 on.
pub(super) const BLOCKS: [(u64, i64); 3] = [(3, 0), (50, 10), (1, 90)];
pub(super) const PERIOD: usize = 97;
pub(super) const START: usize = 11;

pub(super) fn comb() -> agg_core::Result<View> {
    let blocks = Datatype::hindexed(&BLOCKS, &Datatype::bytes(1))?.resized(0, PERIOD as i64)?;
    View::new(START as u64, Datatype::bytes(1), blocks, Representation::Native, true)
}

/// Where the data bytes of `periods` periods are in the file.
pub(super) fn places(periods: usize) -> Vec<usize> {
    let block = |base: usize, (len, at): (u64, i64)| {
        let start = base + usize::try_from(at).unwrap_or_default();
        start..start + usize::try_from(len).unwrap_or_default()
    };
    let period = |n: usize| BLOCKS.into_iter().flat_map(move |one| block(START + n * PERIOD, one));
    (0..periods).flat_map(period).collect()
}

/// The buffer as memory of the engine.
pub(super) fn memory(bytes: &mut [u8]) -> Memory {
    // SAFETY: callers use the memory while they hold the buffer exclusively.
    unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(bytes.len() as u64), 1) }
}

pub(super) fn strided(subject: &dyn Subject, name: &str) -> Found {
    const PERIODS: usize = 120;
    let file = create(subject, name)?;
    let mut expected = pattern(START + PERIODS * PERIOD + 500, 9);
    put(&*file, &expected, 0)?;
    let (view, places) = (done("a view", comb())?, places(PERIODS));
    let mut data = pattern(places.len(), 77);
    let (strategy, counters) = (Strategy::default(), Counters::default());
    let outcome = file.write_strided(&view, 0, &memory(&mut data), &strategy, &counters);
    done("a strided write", outcome.result)?;
    let len = data.len() as u64;
    ensure!(outcome.bytes == len, "a strided write of {len} bytes counts {}", outcome.bytes);
    for (byte, at) in data.iter().zip(&places) {
        expected[*at] = *byte;
    }
    holds(&*file, &expected)?;
    let mut back = vec![0; data.len()];
    let outcome = file.read_strided(&view, 0, &memory(&mut back), &strategy, &counters);
    done("a strided read", outcome.result)?;
    ensure!(outcome.bytes == len, "a strided read of {len} bytes counts {}", outcome.bytes);
    same(&back, &data, 0)?;
    Ok(Holds)
}

pub(super) fn in_place(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let mut expected = pattern(20_000, 2);
    put(&*file, &expected, 0)?;
    let (at, new) = (4090, pattern(5000, 100));
    let extent = Extent::new(at, new.len() as u64);
    let stored = file.in_place(extent, InPlace::Store(&[extent]), &mut |memory| {
        // SAFETY: the driver gives room for as many bytes as the extent has.
        unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), memory, new.len()) };
    });
    if !stored {
        return Ok(NotOffered);
    }
    expected[4090..9090].copy_from_slice(&new);
    holds(&*file, &expected)?;
    let mut back = vec![0; new.len()];
    let loaded = file.in_place(extent, InPlace::Load, &mut |memory| {
        // SAFETY: as above, for reading.
        unsafe { std::ptr::copy_nonoverlapping(memory, back.as_mut_ptr(), back.len()) };
    });
    if loaded {
        same(&back, &new, at)?;
    }
    Ok(Holds)
}
