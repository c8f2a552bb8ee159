//! The file systems of Linux by their numbers: their names, and whether computers keep old bytes
//! of their files.

use crate::os;
use std::os::fd::RawFd;

/// The number of file systems that programs serve.
pub const FUSE: u32 = 0x6573_5546;
/// The number of Lustre.
pub const LUSTRE: u32 = 0x0BD0_0BD0;
/// The name of Lustre.
pub const LUSTRE_NAME: &str = "lustre";

/// The state of a computer's cached bytes of a file that another computer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Never old: the file is local, or servers revoke cached bytes.
    Current,
    /// Old until the server is asked: the kernel does so now and then, or at opens, or never.
    Stale,
}

use Kept::{Current, Stale};

/// File systems by the magic number that `fstatfs` reports: the usual names, and the state of
/// cached bytes.
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
    (FUSE, "fuse", Stale),
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

/// The usual name of a file-system type; the number itself if it is unknown.
pub fn name_of(magic: u32) -> String {
    match known(magic) {
        Some((_, name, _)) => (*name).to_owned(),
        None => format!("0x{magic:x}"),
    }
}

/// Whether cached bytes of files of this type may be old; true for unknown types.
pub fn may_be_stale(magic: u32) -> bool {
    known(magic).is_none_or(|(_, _, kept)| *kept == Stale)
}

/// The type of the file system of the file behind `fd`; `None` if the system does not report it.
pub fn magic(fd: RawFd) -> Option<u32> {
    os::fstatfs(fd).ok().map(|facts| facts.f_type as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

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
