//! Ends, holes, growing and shrinking.

use super::{Found, create, done, ensure, get, holds, pattern, put, same};
use crate::Subject;
use crate::report::Verdict::Holds;
use agg_core::driver::Driver;
use std::io::ErrorKind;

pub(super) fn past_the_end(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let bytes = pattern(1000, 4);
    put(&*file, &bytes, 0)?;
    same(&get(&*file, 990, 100)?, &bytes[990..], 990)?;
    for offset in [1000, 1001, 5000, 1 << 40] {
        let found = get(&*file, offset, 100)?.len();
        ensure!(found == 0, "a read at {offset} of a file of 1000 bytes delivers {found}");
    }
    let attempt = loop {
        match file.pread(&mut [0], 1000) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other.map_err(|error| format!("an attempt fails: {error}"))?,
        }
    };
    ensure!(attempt == 0, "an attempt at the end delivers {attempt} bytes");
    holds(&*file, &bytes)?;
    Ok(Holds)
}

pub(super) fn holes(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let bytes = pattern(100, 6);
    put(&*file, &bytes, 300_000)?;
    put(&*file, &bytes, 70_000)?;
    let mut expected = vec![0; 300_100];
    expected[70_000..70_100].copy_from_slice(&bytes);
    expected[300_000..].copy_from_slice(&bytes);
    holds(&*file, &expected)?;
    // Far away: the size is right, and the driver need not store the bytes between.
    let far = (subject.longest() - 100).min(1 << 33);
    put(&*file, &bytes, far)?;
    let size = done("asking for the size", file.size())?;
    ensure!(size == (far + 100).max(300_100), "the size is {size} after a write at {far}");
    let middle = far / 2 + 300_100;
    if middle + 5000 < far {
        same(&get(&*file, middle, 5000)?, &[0; 5000], middle)?;
    }
    same(&get(&*file, far, 100)?, &bytes, far)?;
    Ok(Holds)
}

pub(super) fn resizing(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let bytes = pattern(10_000, 8);
    put(&*file, &bytes, 0)?;
    done("shrinking", file.set_size(4_000))?;
    holds(&*file, &bytes[..4000])?;
    done("growing", file.set_size(12_345))?;
    holds(&*file, &[&bytes[..4000], &[0; 8345]].concat())?;
    done("emptying", file.set_size(0))?;
    holds(&*file, &[])?;
    put(&*file, &bytes[..10], 20)?;
    holds(&*file, &[&[0; 20], &bytes[..10]].concat())?;
    Ok(Holds)
}

pub(super) fn preallocating(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let bytes = pattern(9000, 10);
    put(&*file, &bytes, 0)?;
    for size in [0, 100, 9000] {
        done("reserving room", file.preallocate(size))?;
        holds(&*file, &bytes).map_err(|why| format!("after reserving {size} bytes: {why}"))?;
    }
    done("reserving room", file.preallocate(20_000))?;
    holds(&*file, &[bytes, vec![0; 11_000]].concat())?;
    Ok(Holds)
}

pub(super) fn current(subject: &dyn Subject, name: &str) -> Found {
    let (file, other) = (create(subject, name)?, create(subject, name)?);
    let size = |file: &dyn Driver| done("asking for the size", file.size());
    for end in [1, 5000, 70_000] {
        put(&*file, &[1], end - 1)?;
        let own = size(&*file)?;
        ensure!(own == end, "the size is {own} after a write that ends at {end}");
        done("a sync", file.sync())?;
        other.renew();
        let seen = size(&*other)?;
        ensure!(seen == end, "another open of the file sees size {seen}, not {end}");
    }
    done("shrinking", file.set_size(10))?;
    done("a sync", file.sync())?;
    other.renew();
    let seen = size(&*other)?;
    ensure!(seen == 10, "another open of the file sees size {seen} after it shrank to 10");
    Ok(Holds)
}
