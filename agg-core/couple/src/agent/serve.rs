//! Serves each request of a program.

use super::caller::{Caller, lost, told};
use super::deferred::After;
use super::lifecycle::Lifecycle;
use super::listing::list;
use super::owner::Owner;
use super::spill::refused;
use super::waits::{Access, Since, Waiting};
use crate::hosted::ALL;
use crate::peers::{Action, Message};
use crate::protocol::{Before, Reply, Request};
use crate::records::News;
use crate::registry::{Answer, Area, Ask, Handle, Process, Registry};
use aggio_base::Extent;
use aggio_link::Peer;

/// Bytes that a program waits for because it will read them next, at most.
const AHEAD: u64 = 4 << 20;

impl Owner {
    /// Serves a request of a process of any node, for which `link` stands.
    pub(super) fn serve(&mut self, link: u64, process: Process, request: Request) {
        let cut = match &request {
            Request::Empty(path) => Some(path.clone()),
            _ => None,
        };
        let reply = self.refused_spool(&request);
        let reply = reply.or_else(|| self.reply_to(link, process, request));
        let Some(reply) = reply else { return self.settle() };
        let reply = match (self.life.carry_out(0), reply) {
            (Some(number), Reply::Done) => Reply::Failed(number, String::new()),
            (_, reply) => reply,
        };
        let is_held = cut.is_some_and(|path| self.life.holds_reply(&path, link, &reply));
        self.settle();
        if !is_held {
            self.reply(link, reply);
        }
    }

    /// The answer to a request, unless that is given later, or was.
    fn reply_to(&mut self, link: u64, process: Process, request: Request) -> Option<Reply> {
        let (registry, areas) = (&mut self.life.own.registry, &self.life.own.memory.areas);
        let mut caller = Caller { process, registry, areas };
        Some(match request {
            Request::Open { ask, read, append, blocking, parts, mode } => {
                let access = Access { read, write: ask.write, append };
                let (since, path) = (Since::now(), ask.path.clone());
                let waiting = Waiting { link, process, access, since, mode, parts, path };
                let ask = Ask { tells: parts, ..ask };
                self.open(waiting, ask, blocking);
                return None;
            }
            Request::Adopt(device, inode, how, key) => {
                self.life.adopt(link, process, (device, inode), how, key)?
            }
            Request::Close(handle, moved) => {
                let (reply, written) = caller.close(handle, moved);
                let trouble = written.and_then(|path| self.life.storage.trouble(&path));
                trouble.unwrap_or(reply)
            }
            Request::Check(handle, moved) => caller.check(handle, moved),
            Request::Sync(handle) => self.sync(link, process, handle)?,
            Request::Announce(handle, before) => {
                self.gather_records(link, process, handle, before)?
            }
            Request::Records(handle, told) => self.records(link, process, handle, told)?,
            Request::Reach(handle, _) => self.reach(process, handle),
            Request::Withdraw(handle) => {
                self.life.own.registry.withdraw(process, handle);
                Reply::Done
            }
            Request::Spoil(handle) => caller.tell(handle, Registry::spoil),
            Request::ChildLost(handle) => caller.tell(handle, Registry::lose_child),
            Request::Wrote(handle, _) => caller.tell(handle, Registry::wrote),
            Request::Fetch(handle, extents, ahead) => {
                self.life.fetch_here(link, handle, extents, ahead)?
            }
            // The bytes that others see are those of this node.
            Request::Renew(handle) => caller.check(handle, 0),
            Request::Resize(handle, size) => self.life.resize(link, process, handle, size)?,
            Request::Empty(path) => caller.empty(&path),
            Request::Unlink(path, options) => caller.unlink(&path, options),
            Request::Rename(from, to, options) => {
                let result = self.life.own.registry.rename(process, &from, &to, options);
                // In no record is worse than in two.
                let others = self.life.own.registry.files.names.touched();
                self.life.own.registry.files.names.touch(&to);
                self.life.save();
                others.iter().for_each(|path| self.life.own.registry.files.names.touch(path));
                told(result)
            }
            Request::Stat(path, options) => caller.stat(&path, options),
            Request::List(dir, after, view) => {
                list(&self.life.own.registry, process, &dir, &after, view)
            }
            Request::Goodbye => {
                let Lifecycle { clients, own, .. } = &mut self.life;
                clients.end_in_order(process, true, &mut own.registry);
                Reply::Done
            }
            _ => Reply::Failed(libc::EPROTO, "the request comes out of turn".into()),
        })
    }

    /// The answer to a request about a file whose generations are to survive, if the directory
    /// that has them cannot be used.
    fn refused_spool(&mut self, request: &Request) -> Option<Reply> {
        let (path, options) = match request {
            Request::Open { ask, .. } => (&ask.path, &ask.options),
            Request::Stat(path, options)
            | Request::Unlink(path, options)
            | Request::Rename(path, _, options) => (path, options),
            _ => return None,
        };
        let found = self.life.find_survivors(options);
        if found.as_ref().is_ok_and(|found| *found) {
            self.settle();
        }
        self.life.own.registry.files.names.touch(path);
        found.err().map(|error| refused(&error))
    }

    fn open(&mut self, waiting: Waiting, ask: Ask, blocking: bool) {
        if ask.write {
            let trouble = self.life.storage.trouble(&ask.path);
            if let Some(reply) = trouble.or_else(|| {
                self.life.folders.check(&ask.options).err().map(|error| refused(&error))
            }) {
                return self.reply(waiting.link, reply);
            }
            self.life.own.memory.measure_for(&ask.path, &mut self.life.own.registry);
        }
        match self.life.own.registry.open(waiting.process, &ask) {
            Answer::Wait if blocking => {
                self.let_wait(waiting.link);
                self.waits.add(waiting, ask, &mut self.life.own.registry);
                self.settle();
                let cycle = self.waits.cycle(&self.life.own.registry);
                cycle.into_iter().for_each(|(link, text)| self.reply(link, Reply::Waits(text)));
            }
            answer => self.answer(&waiting, answer),
        }
    }

    /// `None` if the answer comes later.
    fn sync(&mut self, link: u64, process: Process, handle: u64) -> Option<Reply> {
        if let Some(open) = self.life.own.registry.opens.get(&handle).copied() {
            let is_first = self.life.own.registry.files.is_shown_at_sync(open.area)
                && !self.life.own.registry.files.generations.is_shown(open.area);
            let what = match self.steps.has_announced(open.area, process) {
                true => Some(After::Announced(link, process, handle, Before::All)),
                false => is_first.then_some(After::Synced(link, process, handle)),
            };
            if open.write
                && let Some(what) = what
                && self.gathers(open.area, link, process, what)
            {
                return None;
            }
        }
        Some(self.synced(process, handle))
    }

    /// A process has written the number of records of an open file; other nodes may
    /// have written parts. `None` if the answer comes later.
    fn gather_records(
        &mut self,
        link: u64,
        process: Process,
        handle: Handle,
        before: Before,
    ) -> Option<Reply> {
        let open = self.life.own.registry.opens.get(&handle).copied();
        let what = After::Announced(link, process, handle, before);
        if open.is_some_and(|open| self.life.own.registry.files.generations.is_step(open.area))
            && self.gathers(open?.area, link, process, what)
        {
            return None;
        }
        let (registry, areas) = (&mut self.life.own.registry, &self.life.own.memory.areas);
        Some(self.steps.announced((process, handle), before, registry, areas))
    }

    /// The records that a reader may have, now or when there are more than it knows. `None` if the
    /// answer comes later.
    fn records(&mut self, link: u64, process: Process, handle: Handle, told: u64) -> Option<Reply> {
        self.count_records(handle);
        let reply = self.steps.records(process, handle, told, &mut self.life.own.registry);
        if reply.is_none() {
            self.let_wait(link);
            self.steps.wait(link, process, handle, told);
        }
        reply
    }

    /// The records whose bytes a reader may have.
    fn reach(&mut self, process: Process, handle: Handle) -> Reply {
        self.count_records(handle);
        self.steps.reach(process, handle, &mut self.life.own.registry)
    }

    /// Finds out how many records of an open file are there.
    fn count_records(&mut self, handle: Handle) {
        if let Some(area) = self.life.own.registry.opens.get(&handle).map(|open| open.area) {
            self.steps.count(area, &mut self.life.own.registry, &self.life.own.memory.areas);
        }
    }

    /// A process has synchronised an open file.
    pub(super) fn synced(&mut self, process: Process, handle: u64) -> Reply {
        let Some(open) = self.life.own.registry.opens.get(&handle) else {
            return lost(&mut self.life.own.registry, process, handle);
        };
        let (area, write) = (open.area, open.write);
        if self.life.own.registry.files.is_shown_at_sync(area) {
            self.life.own.registry.publish(process, handle);
            self.life.tell_readers(area);
        }
        if write && self.steps.has_announced(area, process) {
            let (registry, areas) = (&mut self.life.own.registry, &self.life.own.memory.areas);
            self.steps.announce(area, process, Before::All, registry, areas);
        }
        Reply::Done
    }

    /// Makes the other nodes that write a generation send their bytes; `after` follows, which looks
    /// at the bytes or shows them to readers. The node of `process` is not asked. False if there
    /// are no others.
    fn gathers(&mut self, area: Area, link: u64, process: Process, after: After) -> bool {
        let Some(hosted) = self.life.own.hosted.get(area) else { return false };
        let news = match after {
            After::Announced(..) => self.steps.news(area),
            _ => News::ALL,
        };
        let node = self.life.own.registry.processes.node(process);
        let others: Vec<Peer> =
            hosted.writers.peers().into_iter().filter(|peer| peer.0 != node).collect();
        self.life.tell_writers(area, &others, &Message::Gather(area, news.head, news.from));
        !others.is_empty() && self.life.hold(area, link, after).is_ok()
    }
}

impl Lifecycle {
    /// `None` if the answer comes later.
    fn adopt(
        &mut self,
        link: u64,
        process: Process,
        (device, inode): (u64, u64),
        how: [bool; 2],
        key: u64,
    ) -> Option<Reply> {
        let area = self.own.memory.areas.find(device, inode);
        let Some(opening) = area.and_then(|area| self.own.registry.adopt(process, area, how, key))
        else {
            return Some(Reply::Failed(libc::ENOENT, String::new()));
        };
        let reply = Reply::Opened(opening.handle, opening.generation);
        let [_, tells] = how;
        if tells {
            return Some(reply);
        }
        match self.pulls_first(opening.area, &[ALL], After::Reply(link, reply)) {
            Err(After::Reply(_, reply)) => Some(reply),
            _ => {
                self.actions.push(Action::Wait(link));
                None
            }
        }
    }

    /// Lets bytes that a program of this node reads be here, and some behind them. `None` if the
    /// answer comes later.
    fn fetch_here(
        &mut self,
        link: u64,
        handle: Handle,
        mut extents: Vec<Extent>,
        ahead: u64,
    ) -> Option<Reply> {
        let area = self.own.registry.opens.get(&handle).map(|open| open.area);
        let is_elsewhere = |area: &Area| self.own.hosted.is_elsewhere(*area);
        let Some(area) = area.filter(is_elsewhere) else { return Some(Reply::Whole) };
        let end = extents.last().map_or(0, |last| last.end());
        extents.extend((ahead > 0).then_some(Extent::new(end, ahead.min(AHEAD))));
        if self.pulls_first(area, &extents, After::Reply(link, Reply::Done)).is_err() {
            return Some(Reply::Done);
        }
        self.actions.push(Action::Wait(link));
        None
    }

    /// Lets the answer to a request about a file by name wait for acknowledgements.
    fn holds_reply(&mut self, path: &[u8], link: u64, reply: &Reply) -> bool {
        let is_it = |area: &Area| {
            self.own.registry.files.generations.get(area).is_some_and(|one| one.path == *path)
        };
        let Some(area) = self.own.hosted.awaiting().find(is_it) else { return false };
        self.hold(area, link, After::Reply(link, reply.clone())).is_ok()
    }

    /// A program has changed the size of an open file. `None` if the answer comes later.
    fn resize(&mut self, link: u64, process: Process, handle: u64, size: u64) -> Option<Reply> {
        let open = self.own.registry.opens.get(&handle).copied();
        let Some(open) = open.filter(|open| open.write && open.process == process) else {
            return Some(lost(&mut self.own.registry, process, handle));
        };
        self.own.hosted.get_mut(open.area).into_iter().for_each(|hosted| hosted.cut(size));
        let hosted = self.own.hosted.get(open.area).filter(|hosted| hosted.shared);
        let Some(mut writers) = hosted.map(|one| one.writers.peers()) else {
            return Some(Reply::Done);
        };
        let node = self.own.registry.processes.node(process);
        writers.retain(|peer| peer.0 != node);
        if node != 0
            && let Err(error) = self.own.memory.areas.resize(open.area, size)
        {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            return Some(Reply::Failed(number, error.to_string()));
        }
        self.cut_copies(open.area, size, &writers);
        let after = After::Reply(link, Reply::Done);
        self.hold(open.area, link, after).is_err().then_some(Reply::Done)
    }
}
