//! The FUSE operations: done at once in the backing directory, answered when they are due.

use crate::attributes::{self, Change};
use crate::client;
use crate::cost::{Model, Prices, Transfer};
use crate::counts::{Counts, Kind};
use crate::delay::Delay;
use crate::handles::{Handles, Open};
use crate::inodes::Inodes;
use fuser::*;
use std::ffi::OsStr;
use std::io::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The name and the inode of the file with the numbers of requests.
const REQUESTS: &str = ".requests";
pub(crate) const REQUESTS_INODE: INodeNo = INodeNo(u64::MAX);

/// Everything is changed through this kernel, which may therefore remember it.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The largest request that the kernel makes.
const MOST_BYTES: u32 = 1 << 20;

/// A backing directory with prices.
pub(crate) struct SlowFs {
    pub(crate) inodes: Inodes,
    pub(crate) handles: Handles,
    counts: Counts,
    model: Mutex<Model>,
    delay: Delay,
}

impl SlowFs {
    pub(crate) fn new(backing: &Path, prices: Prices) -> Result<Self> {
        Ok(SlowFs {
            inodes: Inodes::new(backing)?,
            handles: Handles::default(),
            counts: Counts::default(),
            model: Mutex::new(Model::new(prices)),
            delay: Delay::new(),
        })
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        // The model is whole between any two of its calls.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request without data and answers it after the latency.
    fn answer(&self, kind: Kind, answer: impl FnOnce() + Send + 'static) {
        self.counts.add(kind, 1);
        let latency = self.model().latency();
        self.delay.at(Instant::now() + latency, answer);
    }

    /// Counts a transfer and says when its answer is due.
    fn price(&self, request: &Request, inode: INodeNo, bytes: Range<u64>, kind: Kind) -> Instant {
        let is_write = matches!(kind, Kind::Write);
        let moved = bytes.end - bytes.start;
        let client = client::of_thread(request.pid());
        let transfer = Transfer { client, inode: inode.0, bytes, is_write };
        let price = self.model().transfer(Instant::now(), &transfer);
        self.counts.add(kind, 1);
        self.counts.add(if is_write { Kind::BytesWritten } else { Kind::BytesRead }, moved);
        self.counts.add(Kind::LockMoves, price.lock_moves);
        price.due
    }
}

/// Direct I/O, from several clients into one file at once.
fn how_opened() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

/// Sends a reply of the kind `entry`, `attr` or `ok`, or the error.
macro_rules! send {
    ($reply:ident, $result:ident, $value:pat => $answer:expr) => {
        move || match $result {
            Ok($value) => $answer,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

impl Filesystem for SlowFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> Result<()> {
        config.set_max_write(MOST_BYTES).map_err(|_| Error::from_raw_os_error(libc::EINVAL))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == REQUESTS {
            let found = attributes::virtual_file(REQUESTS_INODE);
            return reply.entry(&REMEMBERED, &found, Generation(0));
        }
        let result = self.entry(parent, name);
        let send = send!(reply, result, found => reply.entry(&REMEMBERED, &found, Generation(0)));
        self.answer(Kind::Lookup, send);
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        if self.inodes.forget(inode, lookups) {
            self.model().forget(inode.0);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let result = self.attributes(inode);
        let send = send!(reply, result, found => reply.attr(&REMEMBERED, &found));
        if inode == REQUESTS_INODE { send() } else { self.answer(Kind::Attributes, send) }
    }

    fn setattr(
        &self,
        _: &Request,
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
        let result = self.change(inode, handle, &change);
        let send = send!(reply, result, found => reply.attr(&REMEMBERED, &found));
        self.answer(Kind::Change, send);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let result = self.make_directory(parent, name, mode & !umask);
        let send = send!(reply, result, found => reply.entry(&REMEMBERED, &found, Generation(0)));
        self.answer(Kind::Change, send);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.remove(parent, name, false);
        self.answer(Kind::Change, send!(reply, result, () => reply.ok()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.remove(parent, name, true);
        self.answer(Kind::Change, send!(reply, result, () => reply.ok()));
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
        let result = self.move_file((parent, name), (new_parent, new_name), flags);
        self.answer(Kind::Change, send!(reply, result, () => reply.ok()));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let result = self.make_file(parent, name, mode & !umask, flags);
        let send = send!(reply, result, (found, handle) => {
            reply.created(&REMEMBERED, &found, Generation(0), handle, how_opened());
        });
        self.answer(Kind::Create, send);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if inode == REQUESTS_INODE {
            let text = Open::Text(self.counts.text().into_bytes());
            return reply.opened(self.handles.insert(text), FopenFlags::FOPEN_DIRECT_IO);
        }
        let result = self.open_file(inode, flags.0);
        self.answer(Kind::Open, send!(reply, result, handle => reply.opened(handle, how_opened())));
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let result = self.handles.get(handle).and_then(|open| open.read(offset, size as usize));
        let moved = result.as_ref().map_or(0, Vec::len) as u64;
        let send = send!(reply, result, data => reply.data(&data));
        if inode == REQUESTS_INODE {
            return send();
        }
        let due = self.price(request, inode, offset..offset + moved, Kind::Read);
        self.delay.at(due, send);
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let result = self.write_data(handle, offset, data);
        let due = self.price(request, inode, offset..offset + data.len() as u64, Kind::Write);
        self.delay.at(due, send!(reply, result, count => reply.written(count)));
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
        self.handles.remove(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data: bool, reply: ReplyEmpty) {
        let result = self.handles.get(handle).and_then(|open| {
            let file = open.file()?;
            if data { file.sync_data() } else { file.sync_all() }
        });
        self.answer(Kind::Sync, send!(reply, result, () => reply.ok()));
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let result = self.list(inode, offset, &mut reply);
        self.answer(Kind::List, send!(reply, result, () => reply.ok()));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let result = self
            .inodes
            .get(INodeNo::ROOT)
            .and_then(|root| nix::sys::statvfs::statvfs(&root.path()).map_err(Error::from));
        let send = send!(reply, result, space => reply.statfs(
            space.blocks(),
            space.blocks_free(),
            space.blocks_available(),
            space.files(),
            space.files_free(),
            u32::try_from(space.block_size()).unwrap_or(4096),
            255,
            u32::try_from(space.fragment_size()).unwrap_or(4096),
        ));
        self.answer(Kind::Attributes, send);
    }
}
