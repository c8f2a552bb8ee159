//! The engine: drivers, formats and layouts registered by its host, and state shared by open files.

use crate::file::OpenFiles;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::workers::Workers;
use aggio_container::blob::Recaster;
use aggio_plan::format::Formats;
use aggio_store::driver::Drivers;
use std::fmt;
use std::sync::Arc;

/// An engine: drivers, formats and layouts, and threads. Several engines in one process are
/// independent; each sees the files of another as those of another process.
#[derive(Default)]
pub struct Engine {
    drivers: Arc<Drivers>,
    formats: Formats,
    recaster: Option<&'static dyn Recaster>,
    workers: Workers,
    pub(crate) open_files: Arc<OpenFiles>,
}

impl Engine {
    /// An engine with these drivers, without formats and layouts of sets.
    pub fn new(drivers: Drivers) -> Self {
        Self { drivers: Arc::new(drivers), ..Self::default() }
    }

    /// Lets it recognise these formats. All ranks need the same ones.
    #[must_use]
    pub fn with_formats(self, formats: Formats) -> Self {
        Self { formats, ..self }
    }

    /// Lets it make sets of files of containers.
    #[must_use]
    pub fn with_recaster(self, recaster: &'static dyn Recaster) -> Self {
        Self { recaster: Some(recaster), ..self }
    }

    /// Gives it these worker threads.
    #[must_use]
    pub fn with_workers(self, workers: Workers) -> Self {
        Self { workers, ..self }
    }

    /// The drivers.
    pub fn drivers(&self) -> &Arc<Drivers> {
        &self.drivers
    }

    /// The formats that it recognises.
    pub fn formats(&self) -> Formats {
        self.formats
    }

    /// The threads that carry on operations while the program computes.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Returns the [`Recaster`] that makes sets of files of containers.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the engine has none.
    pub fn recaster(&self) -> Result<&'static dyn Recaster> {
        self.recaster.ok_or_else(|| {
            let words = "no other layout than containers is known here";
            Error::new(ErrorClass::UnsupportedOperation, words).with_errno(libc::ENOTSUP)
        })
    }

    /// Deletes the file called `path` (which may have a driver prefix).
    ///
    /// # Errors
    /// `NoSuchFile`, `Access` and so on, as the system says.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.drivers
            .delete(path, 0)
            .map_err(|error| error.with_operation("MPI_File_delete").with_path(path))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("drivers", &self.drivers)
            .field("formats", &self.formats)
            .finish_non_exhaustive()
    }
}
