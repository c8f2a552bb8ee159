//! The options of a rule in messages.

use super::codec::{Field, Reader, Writer, bad, fields, variants};
use crate::registry::{Directory, Options};
use aggio_config::settings::couple::{Full, Persist, Pick, WriterDeath};
use std::io;

variants!(Pick { 0 Next, 1 Latest, });
variants!(WriterDeath { 0 Error, 1 Wait, 2 File, });
variants!(Persist { 0 No, 1 Yes, 2 After, });
variants!(Full { 0 Wait, 1 Drop, });
fields!(Options {
    pick,
    keep,
    death,
    at_sync,
    at_step,
    records_now,
    persist,
    budget,
    full,
    spill,
    survives,
});

/// The name of a directory is absolute.
impl Field for Directory {
    fn write(&self, out: &mut Writer) {
        out.text(self);
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        let path = from.text()?;
        if path.starts_with('/') {
            Ok(path.into())
        } else {
            Err(bad("a directory has no absolute name"))
        }
    }
}
