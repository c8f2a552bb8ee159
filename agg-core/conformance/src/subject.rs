//! The interface between the suite and a driver.

use agg_core::Result;
use agg_core::driver::{Driver, OpenHow};

/// A driver that is checked: how its files are opened and deleted.
pub trait Subject: Sync {
    /// Opens the file that `how.path`, a name without a directory, stands for.
    ///
    /// # Errors
    /// Those that the driver reports.
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>>;

    /// Deletes the file `name`.
    ///
    /// # Errors
    /// Those that the driver reports.
    fn delete(&self, name: &str) -> Result<()>;

    /// Opens a new file `name` on storage with room for `room` bytes of data; `None` if no such
    /// storage is available; then behaviour on full storage is not checked.
    fn full(&self, name: &str, room: u64) -> Option<Result<Box<dyn Driver>>> {
        let _ = (name, room);
        None
    }

    /// The length in bytes that a file may have although little of it is written. It must be 100
    /// KB at least.
    fn longest(&self) -> u64 {
        1 << 40
    }
}
