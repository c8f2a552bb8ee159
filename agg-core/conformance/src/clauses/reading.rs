//! Reading a file of known bytes.

use super::transfers::{comb, memory, places};
use super::{Found, done, ensure, get, holds, how, same};
use crate::Subject;
use crate::report::Verdict::Holds;
use agg_core::driver::{Driver, OpenHow};
use agg_core::independent::Strategy;
use agg_core::report::Counters;
use std::thread;

fn open(subject: &dyn Subject, name: &str) -> Result<Box<dyn Driver>, String> {
    let only = OpenHow { create: false, write: false, ..how(name) };
    done("opening for reading", subject.open(&only))
}

pub(super) fn bytes(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Found {
    let file = open(subject, name)?;
    holds(&*file, bytes)?;
    for len in [1, 7, 4096, 65_537] {
        for at in (0..bytes.len()).step_by(len.max(bytes.len() / 50)) {
            let end = bytes.len().min(at + len);
            same(&get(&*file, at as u64, end - at)?, &bytes[at..end], at as u64)?;
        }
    }
    Ok(Holds)
}

pub(super) fn past_the_end(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Found {
    let (file, end) = (open(subject, name)?, bytes.len());
    let tail = end.saturating_sub(10);
    same(&get(&*file, tail as u64, 100)?, &bytes[tail..], tail as u64)?;
    for offset in [end as u64, end as u64 + 1, 1 << 40] {
        let found = get(&*file, offset, 100)?.len();
        ensure!(found == 0, "a read at {offset} of {end} bytes delivers {found}");
    }
    Ok(Holds)
}

pub(super) fn strided(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Found {
    let file = open(subject, name)?;
    // The last period is not whole: reading ends where the file does.
    let places = places(bytes.len() / super::transfers::PERIOD + 1);
    let there = places.iter().take_while(|at| **at < bytes.len()).count();
    let mut found = vec![0; places.len()];
    let view = done("a view", comb())?;
    let (strategy, counters) = (Strategy::default(), Counters::default());
    let outcome = file.read_strided(&view, 0, &memory(&mut found), &strategy, &counters);
    done("a strided read", outcome.result)?;
    ensure!(outcome.bytes == there as u64, "of {there} bytes {} are counted", outcome.bytes);
    let expected: Vec<u8> = places[..there].iter().map(|at| bytes[*at]).collect();
    same(&found[..there], &expected, 0)?;
    Ok(Holds)
}

pub(super) fn threads(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Found {
    let file = open(subject, name)?;
    let file = &*file;
    thread::scope(|scope| {
        let running: Vec<_> = (0..4).map(|_| scope.spawn(move || holds(file, bytes))).collect();
        let lost = |_| Err("a thread panicked".to_owned());
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(lost))
    })?;
    Ok(Holds)
}

pub(super) fn size(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Found {
    let file = open(subject, name)?;
    let size = done("asking for the size", file.size())?;
    ensure!(size == bytes.len() as u64, "the size is {size}, not {}", bytes.len());
    Ok(Holds)
}

pub(super) fn no_writing(subject: &dyn Subject, name: &str, bytes: &[u8]) -> Found {
    let file = open(subject, name)?;
    let outcome = file.write_contig(b"other", 0, &Counters::default());
    ensure!(outcome.result.is_err() && outcome.bytes == 0, "a write succeeds");
    ensure!(file.set_size(0).is_err(), "the size can be set");
    holds(&*file, bytes)?;
    Ok(Holds)
}
