//! Room for staged bytes where the system does not report that there is none, but kills processes.

use super::places::PAGE;
use aggio_base::file_systems;
use aggio_base::spare_memory::{self, Allowance};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Room on storage, which has an error for it, or in memory.
#[derive(Clone, Debug)]
pub(super) enum Room {
    Storage,
    Memory(Arc<InMemory>),
}

#[derive(Debug, Default)]
pub(super) struct InMemory {
    /// The memory of the node that this process takes.
    allowance: Allowance,
    /// Bytes that a stage without a name may take, once that was asked.
    most: OnceLock<u64>,
}

impl Room {
    pub(super) fn in_memory() -> Self {
        Self::Memory(Arc::default())
    }

    /// The room of files in a directory.
    pub(super) fn below(dir: &Path) -> Self {
        let magic = File::open(dir).ok().and_then(|dir| file_systems::magic(dir.as_raw_fd()));
        let is_memory = |magic| ["tmpfs", "ramfs"].contains(&&*file_systems::name_of(magic));
        if magic.is_some_and(is_memory) { Self::in_memory() } else { Self::Storage }
    }

    /// Whether these pieces find room, each in pages of its own.
    pub(super) fn takes(&self, pieces: &[(u64, &[u8])]) -> bool {
        let Self::Memory(memory) = self else { return true };
        let pages = |(at, data): &(u64, &[u8])| {
            let end = at.saturating_add(data.len() as u64);
            (end.div_ceil(PAGE) - at / PAGE) * PAGE
        };
        memory.allowance.take(pieces.iter().map(pages).sum())
    }
}

impl InMemory {
    /// Bytes of memory that a stage without a name may take.
    pub(super) fn most(&self) -> u64 {
        *self.most.get_or_init(|| spare_memory::limit().unwrap_or(0) / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_in_memory_have_the_room_of_memory() {
        assert!(matches!(Room::below(Path::new("/dev/shm")), Room::Memory(_)));
        assert!(matches!(Room::below(Path::new("/proc")), Room::Storage));
        assert!(matches!(Room::below(Path::new("/nowhere")), Room::Storage));
    }
}
