//! The lock of processes that have a container open, which may become a set of files once none has.

use crate::directory::ORDER;
use crate::file::container::Container;
use crate::order::Sequencer;
use crate::output::is_same;
use aggio_base::Result;

/// While it exists, the container does not become a set of files.
#[derive(Debug)]
pub struct Presence {
    /// Holds the lock; `None` where there is nothing to lock.
    _order: Option<Sequencer>,
}

impl Container {
    /// Registers that the container is open. Waits for a process that is making a set of it;
    /// returns `None` if it has become one.
    ///
    /// # Errors
    ///
    /// If it cannot be locked.
    pub fn stay(&self) -> Result<Option<Presence>> {
        let dir = &self.shared.dir;
        let order = match dir.part(ORDER, false) {
            Ok(file) => {
                let order = Sequencer::of(file, dir.path_of(ORDER));
                order.stay()?;
                Some(order)
            }
            Err(error) if error.errno() == libc::ENOENT => None,
            Err(error) => return Err(error),
        };
        Ok(self.has_its_name().then_some(Presence { _order: order }))
    }

    /// Whether its path leads to it still.
    fn has_its_name(&self) -> bool {
        let own = self.shared.dir.file().metadata();
        let now = self.path().symlink_metadata();
        now.is_ok_and(|now| own.is_ok_and(|own| is_same(&own, &now)))
    }
}
