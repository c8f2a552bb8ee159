//! What the system tells about the file system under a file.

use super::{Facts, os};
use std::os::fd::RawFd;

const LUSTRE: u32 = 0x0BD0_0BD0;

/// File-system names by the magic number that `fstatfs` reports.
const NAMES: &[(u32, &str)] = &[
    (0x0102_1994, "tmpfs"),
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x2FC1_2FC1, "zfs"),
    (0x6969, "nfs"),
    (LUSTRE, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x00C3_6400, "ceph"),
    (0x2003_0528, "orangefs"),
    (0xAAD7_AAEA, "panfs"),
    (0x6573_5546, "fuse"),
    (0x794C_7630, "overlay"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x517B, "smb"),
    (0x0102_1997, "9p"),
    (0x8584_58F6, "ramfs"),
    (0xF2F5_2010, "f2fs"),
    (0x9FA0, "proc"),
    (0x4D44, "msdos"),
    (0x2011_BAB0, "exfat"),
    (0x6E73, "virtiofs"),
];

/// The name users know a file-system type by; the number itself if we know none.
pub(super) fn name_of(magic: u32) -> String {
    match NAMES.iter().find(|(known, _)| *known == magic) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("0x{magic:x}"),
    }
}

/// Asks the system; what it refuses to tell keeps its neutral value.
pub(super) fn of_descriptor(fd: RawFd) -> Facts {
    let magic = os::fstatfs(fd).map(|facts| facts.f_type as u32).unwrap_or(0);
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
fn stripes(layout: &[u8]) -> Option<(u64, u32)> {
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
}
