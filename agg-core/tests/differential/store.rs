//! What a program's file is kept in.

use crate::program::Program;
use agg_core::blob::{self, Container, Create};
use std::path::Path;

/// An ordinary file, or a blob container, which is to be one to the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Ordinary,
    Container,
}

impl Store {
    /// The program without what this kind cannot be asked for: faults are those of a driver of ordinary
    /// files.
    pub(crate) fn suit(self, program: Program) -> Program {
        match self {
            Store::Ordinary => program,
            Store::Container => Program { faults: None, ..program },
        }
    }

    /// Makes the file, with `content`.
    pub(crate) fn write(self, path: &Path, content: &[u8]) -> Result<(), String> {
        match self {
            Store::Ordinary => std::fs::write(path, content).map_err(|error| error.to_string()),
            Store::Container => fill(path, content).map_err(|error| error.to_string()),
        }
    }

    /// All bytes of the file.
    pub(crate) fn read(self, path: &Path) -> Result<Vec<u8>, String> {
        match self {
            Store::Ordinary => std::fs::read(path).map_err(|error| error.to_string()),
            Store::Container => bytes(path).map_err(|error| error.to_string()),
        }
    }

    /// Removes the file, as far as it is there.
    pub(crate) fn remove(self, path: &Path) {
        match self {
            Store::Ordinary => drop(std::fs::remove_file(path)),
            Store::Container => drop(blob::remove(path)),
        }
    }
}

fn fill(path: &Path, content: &[u8]) -> agg_core::Result<()> {
    let container =
        Container::create(path, &Create { mode: 0o600, exclusive: true, data_crc: true })?;
    let writer = container.writer()?;
    writer.write_at(content, 0)?;
    writer.close()
}

fn bytes(path: &Path) -> agg_core::Result<Vec<u8>> {
    let reader = Container::open(path)?.reader()?;
    let mut bytes = vec![0; reader.size() as usize];
    let read = reader.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}
