//! What the system tells about the file system under a file.

use super::{Facts, os};
use std::os::fd::RawFd;

pub(super) const LUSTRE: u32 = 0x0BD0_0BD0;
pub(super) const LUSTRE_NAME: &str = "lustre";

/// What a computer keeps in memory of a file that another computer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Never old: the file is of this computer alone, or servers take back what they let keep.
    Current,
    /// Old until somebody asks anew: the kernel looks now and then, or at opens, or never.
    Stale,
}

use Kept::{Current, Stale};

/// File systems by the magic number that `fstatfs` reports: the names that users know them by, and
/// what is kept of their files.
const FILE_SYSTEMS: &[(u32, &str, Kept)] = &[
    (0x0102_1994, "tmpfs", Current),
    (0xEF53, "ext4", Current),
    (0x5846_5342, "xfs", Current),
    (0x9123_683E, "btrfs", Current),
    (0x2FC1_2FC1, "zfs", Current),
    (0x6969, "nfs", Stale),
    (LUSTRE, LUSTRE_NAME, Current),
    (0x4750_4653, "gpfs", Current),
    (0x1983_0326, "beegfs", Stale),
    (0x00C3_6400, "ceph", Current),
    (0x2003_0528, "orangefs", Stale),
    (0xAAD7_AAEA, "panfs", Stale),
    (0x6573_5546, "fuse", Stale),
    (0x794C_7630, "overlay", Current),
    (0xFF53_4D42, "cifs", Stale),
    (0xFE53_4D42, "smb2", Stale),
    (0x517B, "smb", Stale),
    (0x0102_1997, "9p", Stale),
    (0x8584_58F6, "ramfs", Current),
    (0xF2F5_2010, "f2fs", Current),
    (0x9FA0, "proc", Current),
    (0x4D44, "msdos", Current),
    (0x2011_BAB0, "exfat", Current),
    (0x6E73, "virtiofs", Stale),
    (0xCA45_1A4E, "bcachefs", Current),
];

fn known(magic: u32) -> Option<&'static (u32, &'static str, Kept)> {
    FILE_SYSTEMS.iter().find(|(known, ..)| *known == magic)
}

/// The name users know a file-system type by; the number itself if we know none.
pub(super) fn name_of(magic: u32) -> String {
    match known(magic) {
        Some((_, name, _)) => (*name).to_owned(),
        None => format!("0x{magic:x}"),
    }
}

/// Whether what this computer keeps of files of this type may be old: also where nothing is known.
pub(super) fn may_be_stale(magic: u32) -> bool {
    known(magic).is_none_or(|(_, _, kept)| *kept == Stale)
}

/// The type of the file system of the file behind `fd`; `None` if the system refuses to tell.
pub(super) fn magic(fd: RawFd) -> Option<u32> {
    os::fstatfs(fd).ok().map(|facts| facts.f_type as u32)
}

/// Asks the system; what it refuses to tell keeps its neutral value. `magic` is the type of the
/// file system, 0 if it is not known.
pub(super) fn of_descriptor(fd: RawFd, magic: u32) -> Facts {
    let block_size = os::fstat(fd).map_or(1, |stat| u64::try_from(stat.st_blksize).unwrap_or(1));
    let (unit, factor) = if magic == LUSTRE { lustre_layout(fd) } else { (0, 0) };
    Facts {
        block_size: block_size.max(1),
        striping_unit: unit,
        striping_factor: factor,
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

    #[test]
    fn an_unknown_file_system_is_shown_by_its_number() {
        assert_eq!(name_of(0x0102_1994), "tmpfs");
        assert_eq!(name_of(0xABC), "0xabc");
    }

    #[test]
    fn what_is_kept_of_clients_of_servers_and_of_the_unknown_may_be_old() {
        for (magic, name, kept) in FILE_SYSTEMS {
            let of_clients = ["nfs", "fuse", "cifs", "smb2", "smb", "9p", "virtiofs"];
            assert!(!of_clients.contains(name) || *kept == Stale, "{name}");
            let local = ["tmpfs", "ext4", "xfs", "btrfs", "overlay"];
            assert!(!local.contains(name) || *kept == Current, "{name}");
            assert_eq!(may_be_stale(*magic), *kept == Stale);
        }
        assert!(may_be_stale(0xABC));
    }
}
