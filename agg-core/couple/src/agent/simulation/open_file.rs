//! An open coupled file of a program. Its methods send the requests of the hooks of the C library,
//! or of the driver of MPI-IO.

use super::program::Program;
use crate::peers::{AWAY, UNIT};
use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Options};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

/// How a program opens a file.
#[derive(Clone, Default)]
pub(super) struct How {
    pub(super) path: Vec<u8>,
    pub(super) options: Options,
    /// It uses MPI-IO, which names the bytes that it writes.
    pub(super) mpi: bool,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) create: bool,
    pub(super) truncate: bool,
    pub(super) append: bool,
    pub(super) blocking: bool,
}

/// An open file.
pub(super) struct OpenFile {
    pub(super) file: File,
    handle: u64,
    pub(super) generation: u64,
    mpi: bool,
    /// All bytes are here.
    whole: bool,
    /// Units that are known to be here.
    known: BTreeSet<u64>,
    /// The end of the bytes of a file with records that are here.
    there: u64,
    had_bytes: bool,
    wrote: bool,
    /// Extents that were written and not told, if the agent needs them.
    written: Option<Overlay<()>>,
    /// Bytes that were read.
    pub(super) moved: u64,
}

impl OpenFile {
    /// Opens a file.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn open(program: &Program, how: &How) -> Result<Self, i32> {
        let How { path, options, mpi, read, write, create, truncate, append, blocking } =
            how.clone();
        let ask = Ask { path, write, create, truncate, options, ..Ask::default() };
        let parts = mpi || !write;
        let request = Request::Open { ask, read, append, blocking, parts, mode: 0o600 };
        let (handle, generation, fd) = match program.call(request).await {
            (Reply::Opened(handle, generation), Some(fd)) => (handle, generation, fd),
            (Reply::Failed(number, _), _) => return Err(number),
            other => panic!("{}: {other:?}", program.name),
        };
        let file = File::from(fd);
        let had_bytes = file.metadata().unwrap().len() > 0;
        let written = (mpi && write && handle >= AWAY).then(Overlay::default);
        let known = BTreeSet::new();
        let (whole, wrote, moved) = (!parts, false, 0);
        let there = if handle < AWAY { u64::MAX } else { 0 };
        let mut open = Self {
            file,
            handle,
            generation,
            mpi,
            whole,
            known,
            there,
            had_bytes,
            wrote,
            written,
            moved,
        };
        if parts && !mpi {
            open.fetch(program, Vec::new()).await?;
        }
        Ok(open)
    }

    async fn fetch(&mut self, program: &Program, extents: Vec<Extent>) -> Result<(), i32> {
        let ahead = program.chance().one(&[0, 0, 100_000]);
        match program.call(Request::Fetch(self.handle, extents, ahead)).await.0 {
            Reply::Whole => self.whole = true,
            Reply::Done => {}
            Reply::Failed(number, _) => return Err(number),
            other => panic!("{}: {other:?}", program.name),
        }
        Ok(())
    }

    /// Waits until bytes are here that are read, or written in part.
    async fn wait_for(&mut self, program: &Program, at: u64, len: u64) -> Result<(), i32> {
        if self.whole || len == 0 {
            return Ok(());
        }
        let units = at / UNIT..(at + len).div_ceil(UNIT);
        let missing = units.filter(|unit| !self.known.contains(unit));
        let extents: Vec<Extent> = match self.mpi {
            true => missing.map(|unit| Extent::new(unit * UNIT, UNIT)).collect(),
            false => vec![Extent::new(at, len)],
        };
        if extents.is_empty() {
            return Ok(());
        }
        self.fetch(program, extents.clone()).await?;
        self.known.extend(extents.iter().filter(|_| self.mpi).map(|one| one.offset / UNIT));
        Ok(())
    }

    /// Reads bytes; fewer than wanted at the end of the file.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn read(
        &mut self,
        program: &Program,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, i32> {
        self.wait_for(program, at, len).await?;
        let mut bytes = vec![0; len as usize];
        let read = self.file.read_at(&mut bytes, at).unwrap();
        bytes.truncate(read);
        self.moved += read as u64;
        Ok(bytes)
    }

    /// Makes sure that bytes may be written; then they are written at once by [`put`](Self::put).
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn before_write(
        &mut self,
        program: &Program,
        at: u64,
        len: u64,
    ) -> Result<(), i32> {
        self.wrote = true;
        if self.mpi { self.wait_for(program, at, len).await } else { Ok(()) }
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        if let Some(written) = &mut self.written {
            written.join(Extent::new(at, bytes.len() as u64), ());
        }
        self.file.write_all_at(bytes, at).unwrap();
    }

    /// Writes bytes at the end of a file that was opened to append.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.file.write_all(bytes).unwrap();
    }

    pub(super) fn size(&self) -> u64 {
        self.file.metadata().unwrap().len()
    }

    /// Sets the size on all nodes.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn resize(&mut self, program: &Program, size: u64) -> Result<(), i32> {
        self.wrote = true;
        self.file.set_len(size).unwrap();
        self.was_resized(size);
        program.order(Request::Resize(self.handle, size)).await
    }

    /// A rank of the same program has set the size.
    pub(super) fn was_resized(&mut self, size: u64) {
        if let Some(written) = &mut self.written {
            written.take(Extent::between(size, u64::MAX));
        }
    }

    async fn tell_writes(&mut self, program: &Program) -> Result<(), i32> {
        let extents: Vec<Extent> = match &mut self.written {
            None if self.mpi && self.had_bytes && self.wrote => Vec::new(),
            Some(written) if !written.is_empty() || self.wrote => {
                std::mem::take(written).into_ranges().map(|(extent, ())| extent).collect()
            }
            _ => return Ok(()),
        };
        program.order(Request::Wrote(self.handle, extents)).await
    }

    /// Makes the written bytes visible to others.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn sync(&mut self, program: &Program) -> Result<(), i32> {
        self.tell_writes(program).await?;
        program.order(Request::Sync(self.handle)).await
    }

    /// Makes the bytes that others have synchronised visible to this process.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn renew(&mut self, program: &Program) -> Result<(), i32> {
        if self.mpi {
            (self.whole, self.known) = (false, BTreeSet::new());
        }
        program.order(Request::Renew(self.handle)).await
    }

    /// Lets the bytes before `end` of a file with records be here.
    pub(super) async fn reach(&mut self, program: &Program, end: u64) {
        if self.there < end {
            self.there = match self.ask(program, |handle| Request::Reach(handle, end)).await {
                Reply::Until(there) => there,
                Reply::Whole => u64::MAX,
                other => panic!("{}: {other:?}", program.name),
            };
        }
    }

    /// Asks the agent about this open.
    pub(super) async fn ask(
        &self,
        program: &Program,
        request: impl FnOnce(u64) -> Request,
    ) -> Reply {
        program.call(request(self.handle)).await.0
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The number of the error.
    pub(super) async fn close(mut self, program: &Program) -> Result<(), i32> {
        let told = self.tell_writes(program).await;
        let Self { file, handle, moved, .. } = self;
        drop(file);
        told.and(program.order(Request::Close(handle, moved)).await)
    }
}
