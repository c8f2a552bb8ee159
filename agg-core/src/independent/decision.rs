//! When reading a gap is cheaper than another system call.
//!
//! The cost of a call is given in bytes: so many bytes could have been moved in its time. On a
//! local file system that is the work of entering the kernel; behind a network it is a round trip,
//! and the client fetches whole blocks anyway.

use crate::driver::Facts;
use crate::hints::Switch;

/// Bytes that a local file system delivers from its cache in the time of one call.
const LOCAL_CALL: u64 = 4 << 10;
/// The cost of writing a piece by a call of its own, compared with storing it into a mapping, where
/// each page that is touched costs a fault.
pub const PIECE_COST: u64 = 2 << 10;
/// The same for file systems behind a network, at least and at most.
const REMOTE_CALL: (u64, u64) = (256 << 10, 4 << 20);
/// Copying a byte out of the staging buffer costs this part of delivering it.
const COPY_SHARE: u64 = 4;

const LOCAL: &[&str] =
    &["tmpfs", "ramfs", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "exfat", "msdos"];

/// The cost of one read call in bytes; 0 means never to read gaps, `u64::MAX` always.
pub fn call_cost(sieving: Switch, facts: impl FnOnce() -> Facts) -> u64 {
    match sieving {
        Switch::Disable => 0,
        Switch::Enable => u64::MAX,
        Switch::Automatic => {
            let facts = facts();
            if LOCAL.contains(&facts.file_system.as_str()) {
                LOCAL_CALL
            } else {
                facts.block_size.clamp(REMOTE_CALL.0, REMOTE_CALL.1)
            }
        }
    }
}

/// Whether a piece of `len` bytes is worth a place in a common read at all.
pub fn is_small(len: u64, call_cost: u64) -> bool {
    len / COPY_SHARE <= call_cost
}

/// Whether a piece of `len` bytes behind a gap of `gap` bytes joins the read before it.
pub fn joins(gap: u64, len: u64, call_cost: u64) -> bool {
    gap.saturating_add(len / COPY_SHARE) <= call_cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(file_system: &str, block_size: u64) -> Facts {
        let file_system = file_system.into();
        Facts { block_size, striping_unit: 0, striping_factor: 0, file_system }
    }

    #[test]
    fn a_call_costs_more_behind_a_network() {
        let local = call_cost(Switch::Automatic, || facts("ext4", 4096));
        let remote = call_cost(Switch::Automatic, || facts("nfs", 1 << 20));
        assert_eq!((local, remote), (4 << 10, 1 << 20));
        assert_eq!(call_cost(Switch::Automatic, || facts("0x123", 512)), 256 << 10);
    }

    #[test]
    fn the_hint_wins_over_the_cost() {
        let unused = || -> Facts { unreachable!("the hint decides") };
        assert!(!joins(1, 1, call_cost(Switch::Disable, unused)));
        assert!(joins(1 << 40, 1 << 40, call_cost(Switch::Enable, unused)));
    }

    #[test]
    fn small_pieces_close_together_are_read_at_once_and_others_are_not() {
        assert!(joins(4000, 8, LOCAL_CALL));
        assert!(!joins(1 << 20, 8, LOCAL_CALL));
        assert!(!joins(8, 1 << 20, LOCAL_CALL));
    }
}
