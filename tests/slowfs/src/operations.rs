//! The operations in the backing directory, without their prices.

use crate::attributes::{self, Change};
use crate::filesystem::{REQUESTS_INODE, SlowFs};
use crate::handles::{Open, open_backing};
use fuser::{FileAttr, FileHandle, FileType, INodeNo, RenameFlags, ReplyDirectory};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{Error, Result};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, FileExt, PermissionsExt};

/// An entry of a directory.
type Entry = (u64, FileType, OsString);

impl SlowFs {
    pub(crate) fn entry(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let (inode, metadata) = self.inodes.look_up(parent, name)?;
        Ok(attributes::of(&metadata, inode))
    }

    pub(crate) fn attributes(&self, inode: INodeNo) -> Result<FileAttr> {
        if inode == REQUESTS_INODE {
            return Ok(attributes::virtual_file(inode));
        }
        Ok(attributes::of(&self.inodes.get(inode)?.metadata()?, inode))
    }

    pub(crate) fn change(
        &self,
        inode: INodeNo,
        handle: Option<FileHandle>,
        change: &Change,
    ) -> Result<FileAttr> {
        if let (Some(size), Some(handle)) = (change.size, handle) {
            // The right to do so was checked when the file was opened.
            self.handles.get(handle)?.file()?.set_len(size)?;
            let rest = Change { size: None, ..*change };
            rest.apply(&self.inodes.get(inode)?.path())?;
        } else {
            change.apply(&self.inodes.get(inode)?.path())?;
        }
        self.attributes(inode)
    }

    pub(crate) fn make_directory(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
    ) -> Result<FileAttr> {
        let path = self.inodes.get(parent)?.child(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
        self.entry(parent, name)
    }

    pub(crate) fn make_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(FileAttr, FileHandle)> {
        let path = self.inodes.get(parent)?.child(name);
        let kept = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;
        // Creating a file needs the right to write, even if the file is opened for reading.
        let access = if flags & libc::O_ACCMODE == libc::O_RDONLY { libc::O_RDWR } else { 0 };
        let file = open_backing(&path, flags | access | libc::O_CREAT, kept, 0o600)?;
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
        let attributes = self.entry(parent, name)?;
        Ok((attributes, self.handles.insert(Open::File(file))))
    }

    pub(crate) fn open_file(&self, inode: INodeNo, flags: i32) -> Result<FileHandle> {
        let path = self.inodes.get(inode)?.path();
        Ok(self.handles.insert(Open::File(open_backing(&path, flags, 0, 0)?)))
    }

    pub(crate) fn remove(&self, parent: INodeNo, name: &OsStr, directory: bool) -> Result<()> {
        let path = self.inodes.get(parent)?.child(name);
        if directory { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
    }

    pub(crate) fn move_file(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        if !flags.is_empty() {
            return Err(Error::from_raw_os_error(libc::EINVAL));
        }
        let (old, new) = (self.inodes.get(from.0)?, self.inodes.get(to.0)?);
        std::fs::rename(old.child(from.1), new.child(to.1))
    }

    pub(crate) fn write_data(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32> {
        self.handles.get(handle)?.file()?.write_all_at(data, offset)?;
        u32::try_from(data.len()).map_err(|_| Error::from_raw_os_error(libc::EINVAL))
    }

    /// The entries of a directory behind the first `skip` ones.
    pub(crate) fn list(&self, inode: INodeNo, skip: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let entries = std::fs::read_dir(self.inodes.get(inode)?.path())?;
        let dots =
            [(inode.0, FileType::Directory, ".".into()), (1, FileType::Directory, "..".into())];
        let rest = entries.map(|entry| -> Result<Entry> {
            let entry = entry?;
            let directory = entry.file_type()?.is_dir();
            let kind = if directory { FileType::Directory } else { FileType::RegularFile };
            Ok((entry.ino(), kind, entry.file_name()))
        });
        let all = dots.into_iter().map(Ok).chain(rest).zip(1u64..);
        for (entry, next) in all.filter(|(_, next)| *next > skip) {
            let (inode, kind, name): Entry = entry?;
            if reply.add(INodeNo(inode), next, kind, name) {
                break;
            }
        }
        Ok(())
    }
}
