//! The FUSE operations: each calls the function that does the work, and answers. Nothing else of
//! this crate answers the kernel.

use crate::change::Change;
use crate::making::NewNode;
use crate::open_file::OpenFile;
use crate::request::{Caller, Place};
use crate::tree::ROOT;
use crate::view::View;
use fuser::*;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::Result;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The largest request that the kernel makes by default.
const MOST_BYTES: u32 = 1 << 20;
/// Requests of the kernel's own, such as reading ahead, that may be under way.
const MOST_IN_BACKGROUND: u16 = 64;

thread_local! {
    /// Where data meet on their way to the kernel; each thread serves one request at a time.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The file system as the kernel sees it.
pub(crate) struct Adapter(pub(crate) View);

/// Whether the backing directory lies on a file system that lies on another one itself.
fn is_stacked(view: &View) -> bool {
    const STACKED: [i64; 3] = [0x794c_7630, 0x6573_5546, 0xf15f];
    let known = view.names.tree.get(ROOT).ok();
    let kind = known.and_then(|known| rustix::fs::fstatfs(&*known.fd).ok());
    kind.is_none_or(|kind| STACKED.contains(&kind.f_type))
}

fn refused() -> std::io::Error {
    rustix::io::Errno::INVAL.into()
}

fn caller(request: &Request) -> Caller {
    maker(request, 0)
}

fn maker(request: &Request, umask: u32) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), umask }
}

/// Sends an answer or the error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $answer:expr) => {
        match $result {
            Ok($value) => $answer,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

impl Adapter {
    fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.0.files.handles.get(handle)
    }

    fn register(&self, config: &mut KernelConfig) {
        let useful = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // Without it the mask of a list counts as the rights of the group.
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_DONT_MASK,
        ];
        for flag in useful {
            // A kernel without it does without.
            let _ = config.add_capabilities(flag);
        }
        let depth = if is_stacked(&self.0) { 2 } else { 1 };
        let can_pass = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(depth).is_ok();
        if !can_pass || !rustix::process::geteuid().is_root() {
            self.0.files.passthrough.give_up();
        }
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> Result<()> {
        config.set_max_write(MOST_BYTES).map_err(|_| refused())?;
        config.set_max_background(MOST_IN_BACKGROUND).map_err(|_| refused())?;
        config.set_congestion_threshold(MOST_IN_BACKGROUND / 4 * 3).map_err(|_| refused())?;
        if let Err(most) = config.set_max_readahead(4 << 20) {
            config.set_max_readahead(most).map_err(|_| refused())?;
        }
        self.register(config);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.files.end_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.0.entry(Place { parent: parent.0, name }),
            found => reply.entry(&found.ttl, &found.attributes, Generation(0)));
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.0.names.tree.forget(inode.0, lookups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.0.attributes(inode.0, handle),
            found => reply.attr(&found.ttl, &found.attributes));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, accessed, modified };
        answer!(reply, self.0.change(inode.0, handle, &change, caller(request)),
            found => reply.attr(&found.ttl, &found.attributes));
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        answer!(reply, self.0.read_symlink(inode.0), target => reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let place = Place { parent: parent.0, name };
        answer!(reply, self.0.make_node(place, NewNode { mode, device }, maker(request, umask)),
            found => reply.entry(&found.ttl, &found.attributes, Generation(0)));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let place = Place { parent: parent.0, name };
        answer!(reply, self.0.make_directory(place, mode, maker(request, umask)),
            found => reply.entry(&found.ttl, &found.attributes, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = Place { parent: parent.0, name };
        answer!(reply, self.0.names.remove(place, false), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = Place { parent: parent.0, name };
        answer!(reply, self.0.names.remove(place, true), () => reply.ok());
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let place = Place { parent: parent.0, name };
        answer!(reply, self.0.make_symlink(place, target, caller(request)),
            found => reply.entry(&found.ttl, &found.attributes, Generation(0)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let from = Place { parent: parent.0, name };
        let to = Place { parent: new_parent.0, name: new_name };
        answer!(reply, self.0.names.rename(from, to, flags), () => reply.ok());
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.0.link(inode.0, Place { parent: parent.0, name }),
            found => reply.entry(&found.ttl, &found.attributes, Generation(0)));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let place = Place { parent: parent.0, name };
        let maker = maker(request, umask);
        let made = self.0.create(place, mode, flags, maker, |file| reply.open_backing(file));
        answer!(reply, made, (found, opened) => match &opened.backing {
            Some(backing) => reply.created_passthrough(
                &found.ttl, &found.attributes, Generation(0), opened.handle, opened.flags, backing,
            ),
            None => {
                let (ttl, attributes) = (&found.ttl, &found.attributes);
                reply.created(ttl, attributes, Generation(0), opened.handle, opened.flags);
            }
        });
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.0.open(inode.0, flags.0, |file| reply.open_backing(file));
        answer!(reply, opened, opened => match &opened.backing {
            Some(backing) => reply.opened_passthrough(opened.handle, opened.flags, backing),
            None => reply.opened(opened.handle, opened.flags),
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let room = buffer.get_mut(..size).unwrap_or_default();
            answer!(reply, self.file(handle).and_then(|file| file.read(room, offset)),
                count => reply.data(room.get(..count).unwrap_or_default()));
        });
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages of a mapping have their place, however the file was opened.
        let append = flags.0 & libc_append() != 0 && !how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let result = self.file(handle).and_then(|file| {
            if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                file.drop_set_ids(caller(request))?;
            }
            file.write(offset, data, append)
        });
        // A request has no more bytes than a number of 32 bits can tell.
        answer!(reply, result, () => reply.written(data.len() as u32));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Data were passed on when they came.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.files.close(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data: bool, reply: ReplyEmpty) {
        answer!(reply, self.file(handle).and_then(|file| file.sync(data)), () => reply.ok());
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.0.open_directory(inode.0),
            handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        answer!(reply, self.0.list(handle, offset, &mut reply), () => reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        answer!(reply, self.0.list_with_attributes(handle, offset, &mut reply), () => reply.ok());
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.files.close(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.0.sync_directory(inode.0), () => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let root = self.0.names.tree.get(ROOT);
        let space = root.and_then(|root| Ok(rustix::fs::fstatvfs(&*root.fd)?));
        answer!(reply, space, space => reply.statfs(
            space.f_blocks,
            space.f_bfree,
            space.f_bavail,
            space.f_files,
            space.f_ffree,
            u32::try_from(space.f_bsize).unwrap_or(4096),
            u32::try_from(space.f_namemax).unwrap_or(255),
            u32::try_from(space.f_frsize).unwrap_or(4096),
        ));
    }

    fn setxattr(
        &self,
        _: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.0.set_value(inode.0, name, value, flags), () => reply.ok());
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer!(reply, self.0.value(inode.0, name), value => sized(reply, size, &value));
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        answer!(reply, self.0.attribute_names(inode.0), names => sized(reply, size, &names));
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.0.remove_value(inode.0, name), () => reply.ok());
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let result = self.file(handle).and_then(|file| {
            file.drop_set_ids(caller(request))?;
            file.allocate(offset, length, mode)
        });
        answer!(reply, result, () => reply.ok());
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let passed = &self.0.files.passthrough;
        let place = self.file(handle).and_then(|file| file.seek(offset, whence, passed));
        answer!(reply, place, place => reply.offset(place));
    }
}

/// `O_APPEND`.
fn libc_append() -> i32 {
    rustix::fs::OFlags::APPEND.bits().cast_signed()
}

/// A program first asks for the size, then for the bytes.
fn sized(reply: ReplyXattr, room: u32, value: &[u8]) {
    match u32::try_from(value.len()) {
        Ok(size) if room == 0 => reply.size(size),
        Ok(size) if size <= room => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}
