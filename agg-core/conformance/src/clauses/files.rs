//! Opening, closing, deleting: which files there are.

use super::{Found, create, done, ensure, holds, how, pattern, put};
use crate::Subject;
use crate::report::Verdict::{Holds, NotOffered};
use agg_core::ErrorClass;
use agg_core::driver::{Closing, Driver, OpenHow};
use agg_core::report::Counters;

/// The error must be of this class, with this number of the system.
fn fails<T>(
    what: &str,
    result: agg_core::Result<T>,
    class: ErrorClass,
    errno: i32,
) -> Result<(), String> {
    let Err(error) = result else { return Err(format!("{what} succeeds")) };
    let (found, number) = (error.class(), error.errno());
    ensure!(found == class, "{what} gives class {found:?}, not {class:?}: {error}");
    ensure!(number == errno, "{what} gives errno {number}, not {errno}: {error}");
    Ok(())
}

pub(super) fn missing(subject: &dyn Subject, name: &str) -> Found {
    let existing = OpenHow { create: false, ..how(name) };
    let open = || subject.open(&existing);
    fails("opening a missing file", open(), ErrorClass::NoSuchFile, libc::ENOENT)?;
    fails("opening it again", open(), ErrorClass::NoSuchFile, libc::ENOENT)?;
    done("closing", create(subject, name)?.close(Closing::Complete))?;
    done("opening the file that was created", open())?;
    Ok(Holds)
}

pub(super) fn creating_again(subject: &dyn Subject, name: &str) -> Found {
    let bytes = pattern(5000, 1);
    let first = create(subject, name)?;
    put(&*first, &bytes, 0)?;
    done("closing", first.close(Closing::Complete))?;
    holds(&*create(subject, name)?, &bytes)?;
    Ok(Holds)
}

pub(super) fn exclusive(subject: &dyn Subject, name: &str) -> Found {
    let exclusive = OpenHow { exclusive: true, ..how(name) };
    let first = done("an exclusive open of a missing file", subject.open(&exclusive))?;
    put(&*first, b"bytes", 0)?;
    done("closing", first.close(Closing::Complete))?;
    let again = subject.open(&exclusive);
    fails("an exclusive open of a file that exists", again, ErrorClass::FileExists, libc::EEXIST)?;
    holds(&*create(subject, name)?, b"bytes")?;
    Ok(Holds)
}

pub(super) fn deleting(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    put(&*file, b"bytes", 0)?;
    done("closing", file.close(Closing::Complete))?;
    done("deleting", subject.delete(name))?;
    let existing = OpenHow { create: false, ..how(name) };
    let open = subject.open(&existing);
    fails("opening a deleted file", open, ErrorClass::NoSuchFile, libc::ENOENT)?;
    let again = subject.delete(name);
    fails("deleting a missing file", again, ErrorClass::NoSuchFile, libc::ENOENT)?;
    holds(&*create(subject, name)?, b"")?;
    Ok(Holds)
}

pub(super) fn closing(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    put(&*file, b"bytes", 0)?;
    done("closing", file.close(Closing::Complete))?;
    let counters = Counters::default();
    let wrote = file.write_contig(b"later", 0, &counters);
    ensure!(wrote.result.is_err() && wrote.bytes == 0, "a closed file can be written");
    let read = file.read_contig(&mut [0; 5], 0, &counters);
    ensure!(read.result.is_err() && read.bytes == 0, "a closed file can be read");
    ensure!(file.set_size(1).is_err(), "a closed file can be resized");
    holds(&*create(subject, name)?, b"bytes")?;
    Ok(Holds)
}

pub(super) fn facts(subject: &dyn Subject, name: &str) -> Found {
    let file = create(subject, name)?;
    let facts = file.facts();
    ensure!(facts.block_size >= 1, "the block size is 0");
    ensure!(!facts.file_system.is_empty(), "the file system has no name");
    ensure!(!file.name().is_empty(), "the driver has no name");
    Ok(Holds)
}

pub(super) fn identity(subject: &dyn Subject, name: &str) -> Found {
    let identity = |file: &dyn Driver| file.identity();
    let (first, second) = (create(subject, name)?, create(subject, name)?);
    let other_name = format!("{name}-other");
    let other = create(subject, &other_name);
    let result = (|| {
        let other = other?;
        let Some(known) = identity(&*first) else { return Ok(NotOffered) };
        ensure!(identity(&*second) == Some(known), "two opens of a file have two identities");
        ensure!(identity(&*other) != Some(known), "two files have one identity");
        Ok(Holds)
    })();
    let _ = subject.delete(&other_name);
    result
}
