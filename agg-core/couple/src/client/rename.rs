//! Renaming between coupled names and names on disk: the bytes are copied, then the name changes.

use super::{Client, Open, c_name};
use crate::fd::owned;
use aggio_base::os;
use std::fs::File;
use std::io::{self, copy};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The file `from` on disk becomes a generation of `to`.
pub(super) fn into_memory(client: &Client, from: &Path, to: &Path) -> io::Result<()> {
    let mut source: File = owned(os::open(&c_name(from.as_os_str())?, libc::O_CLOEXEC, 0)?).into();
    let facts = source.metadata()?;
    if facts.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    let how = Open { write: true, create: true, truncate: true, ..Open::new(to) };
    let opened = client.open(&Open { mode: facts.permissions().mode() & 0o777, ..how })?;
    let mut target: File = opened.fd.into();
    let copied = copy(&mut source, &mut target).map(|_| ());
    if copied.is_err() {
        // Nobody is to read a part: a file that is removed while it is written is given up.
        client.unlink(to)?;
    }
    drop(target);
    client.close(opened.handle, 0).and(copied)?;
    os::unlink(&c_name(from.as_os_str())?)
}

/// The generation that the program finds under `from` becomes the file `to` on disk.
pub(super) fn onto_disk(client: &Client, from: &Path, to: &Path) -> io::Result<()> {
    let opened = client.open(&Open { read: true, blocking: false, ..Open::new(from) });
    let opened = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN) => io::Error::from_raw_os_error(libc::ENOENT),
        _ => error,
    })?;
    let mut source: File = opened.fd.into();
    let facts = os::fstat(std::os::fd::AsRawFd::as_raw_fd(&source))?;
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".aggio-{:x}-{:x}", std::process::id(), opened.handle));
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let result = os::open(&c_name(&name)?, flags, facts.st_mode & 0o777).and_then(|fd| {
        let mut target: File = owned(fd).into();
        let copied = copy(&mut source, &mut target).map(|_| ());
        drop(target);
        copied.and_then(|()| std::fs::rename(&name, to)).inspect_err(|_| {
            let _ = std::fs::remove_file(&name);
        })
    });
    drop(source);
    client.close(opened.handle, u64::MAX)?;
    result?;
    match client.unlink(from) {
        // The only reader was this one.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}
