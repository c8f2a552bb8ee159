//! The kinds of storage for a program's file.

use crate::program::{Mistake, Program, Step};
use agg_core::blob::{self, Container, Create};
use agg_core::stage::{Home, recover};
use std::path::{Path, PathBuf};

/// An ordinary file, one with deferred or staged writes, or a blob container, which must look like
/// a file to the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Ordinary,
    /// Writes are deferred until any rank requests a flush.
    Deferred,
    /// Writes are staged in a directory of their own.
    Staged,
    /// Writes are staged in memory.
    InMemory,
    Container,
}

impl Store {
    /// The program without operations that this kind does not support: faults are those of a driver
    /// of ordinary files.
    pub(crate) fn suit(self, program: Program) -> Program {
        match self {
            Store::Ordinary => program,
            Store::Deferred => deferred(program),
            Store::Staged | Store::InMemory => staged(program),
            Store::Container => Program { faults: None, ..without_own(program) },
        }
    }

    /// Makes the file, with `content`.
    pub(crate) fn write(self, path: &Path, content: &[u8]) -> Result<(), String> {
        match self {
            Store::Ordinary | Store::Deferred | Store::InMemory => {
                std::fs::write(path, content).map_err(|error| error.to_string())
            }
            Store::Staged => std::fs::create_dir(stages(path))
                .and_then(|()| std::fs::write(path, content))
                .map_err(|error| error.to_string()),
            Store::Container => fill(path, content).map_err(|error| error.to_string()),
        }
    }

    /// Where its writes are staged.
    pub(crate) fn home(self, path: &Path) -> Option<Home> {
        match self {
            Store::Staged => Some(Home::new(&stages(path))),
            Store::InMemory => Some(Home::in_memory().expect("/dev/shm")),
            _ => None,
        }
    }

    /// All bytes of the file after `program`.
    pub(crate) fn read(self, path: &Path, program: &Program) -> Result<Vec<u8>, String> {
        match self {
            Store::Staged => {
                let waits = program.hint("aggio_defer_drain") == Some("later");
                store_staged(&stages(path), waits)?;
                std::fs::read(path).map_err(|error| error.to_string())
            }
            Store::Ordinary | Store::Deferred | Store::InMemory => {
                std::fs::read(path).map_err(|error| error.to_string())
            }
            Store::Container => bytes(path).map_err(|error| error.to_string()),
        }
    }

    /// Removes the file, as far as it is there.
    pub(crate) fn remove(self, path: &Path) {
        match self {
            Store::Ordinary | Store::Deferred | Store::InMemory => {
                drop(std::fs::remove_file(path));
            }
            Store::Staged => {
                drop(std::fs::remove_file(path));
                drop(std::fs::remove_dir_all(stages(path)));
            }
            Store::Container => drop(blob::remove(path)),
        }
    }
}

/// The same program with deferred writes, which must make no difference; but a rank with a wrong
/// view is alone with its error.
fn deferred(mut program: Program) -> Program {
    let room = 1 + program.initial % 300;
    program.hints.push(("aggio_defer".into(), "enable".into()));
    program.hints.push(("aggio_tune".into(), format!("defer_always=true defer_buffer={room}")));
    // Nor do ranks that make different calls find that out.
    let wrong =
        |step: &Step| matches!(step, Step::Wrong(_, Mistake::View | Mistake::Kind | Mistake::Call));
    program.steps.retain(|step| !wrong(step));
    without_own(program)
}

/// The same program with writes that are staged by the ranks of one node. Some of them find little
/// room.
fn staged(mut program: Program) -> Program {
    let drain = ["close", "idle", "later"][program.initial as usize % 3];
    program.hints.push(("aggio_defer".into(), "enable".into()));
    program.hints.push(("aggio_defer_drain".into(), drain.into()));
    let mut tuned = String::from("defer_always=true");
    if program.initial % 5 == 1 {
        let room = 1 + program.initial % 300;
        tuned.push_str(&format!(" defer_buffer={room} defer_spill=0"));
    }
    program.hints.push(("aggio_tune".into(), tuned));
    Program { hosts: 1, faults: None, ..program }
}

/// Stores the staged bytes in `stages`. Fails if there are any, unless the program `waits`, or if
/// any are left afterwards.
fn store_staged(stages: &Path, waits: bool) -> Result<(), String> {
    let left = || std::fs::read_dir(stages).map_or(0, Iterator::count);
    if !waits && left() > 0 {
        return Err("a stage is left".into());
    }
    let done = recover(&Home::new(stages), false).map_err(|error| error.to_string())?;
    match done.into_iter().find_map(|one| one.error) {
        Some(error) => Err(error.to_string()),
        None if left() > 0 => Err("a stage is left after all was stored".into()),
        None => Ok(()),
    }
}

fn stages(path: &Path) -> PathBuf {
    path.with_extension("stages")
}

/// The program without handles of single ranks, and without looks by system calls.
fn without_own(mut program: Program) -> Program {
    program.steps.retain(|step| !matches!(step, Step::Own(_) | Step::Look(..)));
    program
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
