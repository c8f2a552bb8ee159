//! Memory files with huge pages: those of a file system in memory that belongs to the agent alone
//! and has no place in the tree of names.
//!
//! What `memfd_create` makes has small pages unless the administrator wants it otherwise; a new
//! small page costs more than copying what it holds. A file system of its own says itself which
//! pages it wants, and needs no privilege: a child in a user namespace mounts it and gives it away.

use crate::fd::{checked, owned};
use crate::place::user;
use crate::protocol::pair;
use crate::spares::Spare;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::os;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null;

/// How files are named for the moment in which they have a name; what was open shows it later.
const NAME: &CStr = c"aggio-coupled";

/// No limits: those of the rules hold. Nobody else sees it, so that its mode is the user's alone.
const OPTIONS: [(&CStr, &CStr); 4] =
    [(c"huge", c"always"), (c"size", c"0"), (c"nr_inodes", c"0"), (c"mode", c"700")];

const FSOPEN_CLOEXEC: u32 = 1;
const FSCONFIG_SET_STRING: u32 = 1;
const FSCONFIG_CMD_CREATE: u32 = 6;
const FSMOUNT_CLOEXEC: u32 = 1;
/// No programs, devices and other users.
const ATTRIBUTES: u32 = 2 | 4 | 8;

/// The file system.
#[derive(Debug)]
pub(crate) struct Huge {
    root: OwnedFd,
    /// Bytes of a huge page.
    pub(crate) page: u64,
}

impl Huge {
    /// Mounts it.
    ///
    /// # Errors
    /// The system has no huge pages for files, or lets nobody mount file systems.
    pub(crate) fn new() -> io::Result<Self> {
        let size = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")?;
        let page = size.trim().parse().map_err(io::Error::other)?;
        let root = mount().or_else(|_| mount_in_child())?;
        let made = Self { root, page };
        made.file()?;
        Ok(made)
    }

    /// A nameless file, open for reading: a description that could write would count as a writer,
    /// which that of `memfd_create` does not.
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        let flags = libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let root = self.root.as_raw_fd();
        // SAFETY: the name is a terminated string.
        let fd = checked(unsafe { libc::openat(root, NAME.as_ptr(), flags, 0o600) })?;
        // SAFETY: as above.
        status(unsafe { libc::unlinkat(root, NAME.as_ptr(), 0) }.into())?;
        Ok(fd)
    }
}

/// Makes the file system; uses system calls only.
fn mount() -> io::Result<OwnedFd> {
    // SAFETY: the name is a terminated string.
    let made = unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), FSOPEN_CLOEXEC) };
    let context = checked(made)?;
    let configure = |command: u32, key: *const c_char, value: *const c_char| {
        let context = context.as_raw_fd();
        // SAFETY: key and value are terminated strings, or null where the command takes none.
        status(unsafe { libc::syscall(libc::SYS_fsconfig, context, command, key, value, 0) })
    };
    for (key, value) in OPTIONS {
        configure(FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr())?;
    }
    configure(FSCONFIG_CMD_CREATE, null(), null())?;
    let context = context.as_raw_fd();
    // SAFETY: numbers only.
    checked(unsafe { libc::syscall(libc::SYS_fsmount, context, FSMOUNT_CLOEXEC, ATTRIBUTES) })
}

fn status(result: i64) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets a child make it that is root in a user namespace of its own.
fn mount_in_child() -> io::Result<OwnedFd> {
    // SAFETY: only numbers.
    let group = unsafe { libc::getegid() };
    let map = |id: u32| CString::new(format!("{id} {id} 1"));
    let maps = [
        (c"/proc/self/setgroups", c"deny".to_owned()),
        (c"/proc/self/uid_map", map(user())?),
        (c"/proc/self/gid_map", map(group)?),
    ];
    let (ours, theirs) = pair()?;
    // SAFETY: the child calls the kernel only, and ends without running anything else.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let made = enter(&maps).and_then(|()| mount());
            let sent = made.and_then(|root| theirs.send(b"M", Some(root.as_raw_fd()), true));
            // SAFETY: as above.
            unsafe { libc::_exit(sent.is_err().into()) }
        }
        child => {
            drop(theirs);
            let received = ours.receive(true);
            // SAFETY: the child is ours, and nobody is interested in how it ended.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            let root = received?.and_then(|(_, root)| root);
            root.ok_or_else(|| io::ErrorKind::PermissionDenied.into())
        }
    }
}

/// Enters namespaces in which this process may mount, as the user that it is.
fn enter(maps: &[(&CStr, CString)]) -> io::Result<()> {
    // SAFETY: only numbers; the process has one thread.
    status(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())?;
    for (name, text) in maps {
        let file = owned(os::open(name, libc::O_WRONLY | libc::O_CLOEXEC, 0)?);
        let (fd, bytes) = (file.as_raw_fd(), text.as_bytes());
        // These files take one write, at no offset.
        // SAFETY: the kernel reads the bytes of the slice.
        status(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } as i64)?;
    }
    Ok(())
}

/// Smaller files do without huge pages.
const LARGE: u64 = 1 << 20;

/// Whether there are files with huge pages.
#[derive(Debug, Default)]
pub(crate) enum Pages {
    /// Nobody has needed any yet.
    #[default]
    Unknown,
    Huge(Huge),
    Small,
}

impl Pages {
    /// Where files of so many bytes have huge pages.
    pub(crate) fn huge(&mut self, bytes: u64) -> Option<&Huge> {
        if bytes < LARGE {
            return None;
        }
        if matches!(self, Pages::Unknown) {
            *self = Huge::new().map_or_else(
                |error| {
                    log!(Level::Debug, "agent: there are no files with huge pages: {error}");
                    Pages::Small
                },
                Pages::Huge,
            );
        }
        match self {
            Pages::Huge(huge) if bytes >= 2 * huge.page => Some(huge),
            _ => None,
        }
    }

    /// A file for so many bytes, if those have huge pages.
    pub(crate) fn file(&mut self, bytes: u64) -> Option<Spare> {
        let huge = self.huge(bytes)?;
        Some(Spare { slack: huge.page, ..Spare::from(huge.file().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_base::Extent;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    fn writable(file: &OwnedFd) -> File {
        let fd = os::reopen(file.as_raw_fd(), libc::O_RDWR).unwrap();
        owned(fd).into()
    }

    fn has_huge_pages(file: &File, page: u64) -> bool {
        file.write_all_at(b"x", 0).unwrap();
        file.metadata().unwrap().blocks() * 512 == page
    }

    /// Where the system allows it, which is not everywhere.
    fn made(how: fn() -> io::Result<OwnedFd>) -> Option<Huge> {
        let page = Huge::new().inspect_err(|error| println!("no huge pages: {error}")).ok()?.page;
        let root = how().inspect_err(|error| println!("not made: {error}")).ok()?;
        Some(Huge { root, page })
    }

    #[test]
    fn files_have_huge_pages_and_no_names_whoever_mounts_them() {
        for how in [mount as fn() -> io::Result<OwnedFd>, mount_in_child] {
            let Some(huge) = made(how) else { continue };
            let files = [(); 2].map(|()| writable(&huge.file().unwrap()));
            assert!(files.iter().all(|file| has_huge_pages(file, huge.page)));
            let root = format!("/proc/self/fd/{}", huge.root.as_raw_fd());
            assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
            let link = format!("/proc/self/fd/{}", files[0].as_raw_fd());
            let link = std::fs::read_link(link).unwrap();
            assert_eq!(link.to_str(), Some("/aggio-coupled (deleted)"));
            // What a file has is given back to the byte, and outlives the file system.
            drop(huge.root);
            os::punch(files[0].as_raw_fd(), Extent::new(4096, huge.page)).unwrap();
            assert_eq!(files[0].metadata().unwrap().blocks() * 512, 4096);
        }
    }
}
