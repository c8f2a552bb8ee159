//! Access lists of POSIX. The kernel checks them; the list that a directory passes on to new files
//! bounds their permission bits.

use crate::held;
use rustix::io::Errno;
use std::io::Result;
use std::os::fd::{AsRawFd, OwnedFd};

/// The attribute with the list of a file.
pub(crate) const OF_FILE: &[u8] = b"system.posix_acl_access";
/// The attribute with the list that a directory passes on.
pub(crate) const PASSED_ON: &[u8] = b"system.posix_acl_default";

/// The kind of an entry.
mod tag {
    pub(super) const OWNER: u16 = 0x01;
    pub(super) const GROUP: u16 = 0x04;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHERS: u16 = 0x20;
}

/// Bytes before the entries, and of an entry.
const HEAD: usize = 4;
const ENTRY: usize = 8;

/// The longest list that the system allows.
const MOST: usize = 1 << 16;

/// The permission bits that new files in `directory` can have because of the list that it passes
/// on; `None` if it passes on none.
pub(crate) fn passed_on(directory: &OwnedFd) -> Result<Option<u32>> {
    let mut value = vec![0; MOST];
    match rustix::fs::getxattr(held::path(directory), PASSED_ON, value.as_mut_slice()) {
        Ok(size) => Ok(Some(bits(value.get(..size).unwrap_or_default()))),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether an open file has a list.
pub(crate) fn is_on(file: &impl AsRawFd) -> Result<bool> {
    match rustix::fs::getxattr(held::path(file), OF_FILE, <&mut [u8]>::default()) {
        Ok(_) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The permission bits of a list: those of the group are the mask, if there is one.
fn bits(list: &[u8]) -> u32 {
    let entries = list.get(HEAD..).unwrap_or_default().chunks_exact(ENTRY);
    let numbers = entries.filter_map(|entry| match entry {
        [t0, t1, p0, p1, ..] => {
            Some((u16::from_le_bytes([*t0, *t1]), u32::from(u16::from_le_bytes([*p0, *p1]) & 7)))
        }
        _ => None,
    });
    let (mut owner, mut group, mut mask, mut others) = (0, 0, None, 0);
    for (tag, rights) in numbers {
        match tag {
            tag::OWNER => owner = rights,
            tag::GROUP => group = rights,
            tag::MASK => mask = Some(rights),
            tag::OTHERS => others = rights,
            _ => {}
        }
    }
    owner << 6 | mask.unwrap_or(group) << 3 | others
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let entry = |(tag, rights): &(u16, u16)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
        };
        [2_u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    #[test]
    fn the_mask_of_a_list_bounds_what_its_group_has() {
        assert_eq!(bits(&list(&[(1, 7), (4, 5), (0x20, 1)])), 0o751);
        assert_eq!(bits(&list(&[(1, 6), (2, 7), (4, 7), (8, 7), (0x10, 4), (0x20, 0)])), 0o640);
        assert_eq!((bits(&[]), bits(&[2, 0, 0, 0, 1])), (0, 0));
    }
}
