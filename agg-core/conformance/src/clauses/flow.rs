//! Random sequences of operations beside a vector of bytes.

use super::{Found, create, done, get, holds, pattern, put, same};
use crate::Subject;
use crate::report::Verdict::Holds;
use agg_core::driver::{Closing, Driver};

/// Operations of one sequence.
const STEPS: usize = 300;
/// No file becomes longer.
const LONGEST: u64 = 40_000;

/// Numbers that look random and are the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// One operation on the file and on the model.
fn step(file: &dyn Driver, model: &mut Vec<u8>, numbers: &mut Numbers) -> Result<(), String> {
    let (kind, at) = (numbers.below(10), numbers.below(LONGEST / 2));
    let len = match numbers.below(3) {
        0 => numbers.below(10),
        1 => numbers.below(600),
        _ => numbers.below(LONGEST / 2),
    };
    match kind {
        0..=4 => {
            let bytes = pattern(index(len), numbers.below(256) as u8);
            put(file, &bytes, at)?;
            let (start, end) = (index(at), index(at + len));
            if len > 0 {
                model.resize(model.len().max(end), 0);
                model[start..end].copy_from_slice(&bytes);
            }
        }
        5..=6 => {
            let end = model.len().min(index(at + len));
            let expected = model.get(index(at)..end.max(index(at))).unwrap_or_default();
            same(&get(file, at, index(len))?, expected, at)?;
        }
        7 => {
            done("resizing", file.set_size(at))?;
            model.resize(index(at), 0);
        }
        8 => {
            done("reserving room", file.preallocate(at))?;
            model.resize(model.len().max(index(at)), 0);
        }
        _ => done("a sync", file.sync())?,
    }
    Ok(())
}

pub(super) fn random(subject: &dyn Subject, name: &str) -> Found {
    for seed in [7, 11_111, 987_654_321] {
        let (file, mut model, mut numbers) = (create(subject, name)?, Vec::new(), Numbers(seed));
        done("resizing", file.set_size(0))?;
        for number in 0..STEPS {
            let result = step(&*file, &mut model, &mut numbers);
            result.map_err(|why| format!("seed {seed}, step {number}: {why}"))?;
        }
        holds(&*file, &model).map_err(|why| format!("seed {seed}: {why}"))?;
        done("closing", file.close(Closing::Complete))?;
        holds(&*create(subject, name)?, &model).map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(Holds)
}
