//! Properties of the file system under a file, as the system reports them.

use super::descriptor::Descriptor;
pub(super) use aggio_base::file_systems::{LUSTRE, magic, may_be_stale, name_of};
use aggio_base::os;
use std::os::fd::RawFd;
use std::sync::OnceLock;

/// Facts about a file system that plans and `MPI_File_get_info` use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The unit in which the file system stores and locks, in bytes; at least 1.
    pub block_size: u64,
    /// Stripe size in bytes, 0 if the file is not striped.
    pub striping_unit: u64,
    /// Number of storage targets the file is striped over, 0 if unknown.
    pub striping_factor: u32,
    /// Each rank that writes appends to a log of its own: plans leave writes to their ranks.
    pub has_logs: bool,
    /// Small writes are staged, where each process of the node sees them.
    pub is_staged: bool,
    /// Each node has memory of its own, merged when the file is synchronised or closed.
    pub is_by_node: bool,
    /// Name shown to users, for example `tmpfs` or `ext4`.
    pub file_system: String,
}

/// File systems of Linux that let one buffered write at a time into a file, while the others wait
/// in the kernel for the lock of its inode.
const ONE_WRITER: [&str; 6] = ["tmpfs", "ramfs", "ext4", "xfs", "btrfs", "f2fs"];

impl Facts {
    /// Of a file system where every byte is a unit and nothing is striped.
    pub fn of_bytes(file_system: &str) -> Self {
        let file_system = file_system.to_owned();
        Self {
            block_size: 1,
            striping_unit: 0,
            striping_factor: 0,
            has_logs: false,
            is_staged: false,
            is_by_node: false,
            file_system,
        }
    }

    /// Whether requests to write through the page cache wait for each other.
    pub fn has_one_writer(&self) -> bool {
        ONE_WRITER.contains(&&*self.file_system)
    }
}

/// The type of the file system of a file, for which the system is asked once.
#[derive(Debug, Default)]
pub(super) struct Magic(OnceLock<Option<u32>>);

impl Magic {
    /// The type, if the system reports it.
    pub(super) fn of(&self, descriptor: &Descriptor) -> Option<u32> {
        *self.0.get_or_init(|| descriptor.get().ok().and_then(magic))
    }

    /// Asks the system for the facts.
    pub(super) fn look(&self, descriptor: &Descriptor, block_size: u64) -> Facts {
        let fd = descriptor.get().unwrap_or(-1);
        of_descriptor(fd, self.of(descriptor).unwrap_or(0), block_size)
    }
}

/// Queries the system; a property that is not available keeps its neutral value. `magic` is the
/// type of the file system, 0 if it is not known, and `block_size` the file's.
pub(super) fn of_descriptor(fd: RawFd, magic: u32, block_size: u64) -> Facts {
    let (unit, factor) = if magic == LUSTRE { lustre_layout(fd) } else { (0, 0) };
    Facts {
        block_size: block_size.max(1),
        striping_unit: unit,
        striping_factor: factor,
        has_logs: false,
        is_staged: false,
        is_by_node: false,
        file_system: name_of(magic),
    }
}

fn lustre_layout(fd: RawFd) -> (u64, u32) {
    let mut buffer = vec![0u8; 65536];
    match os::fgetxattr(fd, c"lustre.lov", &mut buffer) {
        Ok(n) => stripes(&buffer[..n.min(65536)]).unwrap_or((0, 0)),
        Err(_) => (0, 0),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Stripe size and count from a `lustre.lov` attribute: a plain layout, or the last component in
/// use of a composite one. `None` for anything else.
pub(super) fn stripes(layout: &[u8]) -> Option<(u64, u32)> {
    const PLAIN: [u32; 2] = [0x0BD1_0BD0, 0x0BD3_0BD0];
    const COMPOSITE: u32 = 0x0BD6_0BD0;
    const IN_USE: u32 = 0x10;
    let magic = u32_at(layout, 0)?;
    if PLAIN.contains(&magic) {
        let count = u16_at(layout, 28)?;
        let count = if count == u16::MAX { 0 } else { u32::from(count) };
        return Some((u64::from(u32_at(layout, 24)?), count));
    }
    if magic != COMPOSITE {
        return None;
    }
    let mut found = None;
    for entry in 0..usize::from(u16_at(layout, 14)?) {
        let at = 32 + 48 * entry;
        let flags = u32_at(layout, at + 4)?;
        let start = u32_at(layout, at + 24)? as usize;
        let component = layout.get(start..)?;
        if (found.is_none() || flags & IN_USE != 0) && PLAIN.contains(&u32_at(component, 0)?) {
            found = stripes(component);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(unit: u32, count: u16) -> Vec<u8> {
        let mut layout = vec![0u8; 48];
        layout[..4].copy_from_slice(&0x0BD1_0BD0u32.to_le_bytes());
        layout[24..28].copy_from_slice(&unit.to_le_bytes());
        layout[28..30].copy_from_slice(&count.to_le_bytes());
        layout
    }

    #[test]
    fn a_plain_lustre_layout_tells_its_stripes() {
        assert_eq!(stripes(&plain(1 << 20, 8)), Some((1 << 20, 8)));
    }

    #[test]
    fn a_composite_layout_tells_the_stripes_of_its_last_component_in_use() {
        let mut layout = vec![0u8; 32 + 3 * 48];
        layout[..4].copy_from_slice(&0x0BD6_0BD0u32.to_le_bytes());
        layout[14..16].copy_from_slice(&3u16.to_le_bytes());
        for (entry, (unit, count, flags)) in
            [(65536, 1, 0x10u32), (1 << 20, 4, 0x10), (1 << 22, 16, 0)].into_iter().enumerate()
        {
            let at = 32 + 48 * entry;
            let start = layout.len() as u32;
            layout[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
            layout[at + 24..at + 28].copy_from_slice(&start.to_le_bytes());
            layout.extend(plain(unit, count));
        }
        assert_eq!(stripes(&layout), Some((1 << 20, 4)));
    }

    #[test]
    fn a_damaged_layout_is_no_layout() {
        let layout = plain(1 << 20, 8);
        for n in 0..30 {
            assert_eq!(stripes(&layout[..n]), None);
        }
        let mut nested = vec![0u8; 32 + 48];
        nested[..4].copy_from_slice(&0x0BD6_0BD0u32.to_le_bytes());
        nested[14..16].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(stripes(&nested), None);
    }
}
