//! Serves each request of a program.

use super::Agent;
use super::caller::{Caller, lost, told};
use super::clients::Hello;
use super::deferred::After;
use super::forward::Way;
use super::listing::list;
use super::spill::refused;
use super::step::Gathering;
use super::waits::{Access, Since, Waiting};
use crate::hosted::ALL;
use crate::protocol::{Before, Reply, Request};
use crate::registry::{Answer, Area, Ask, Handle, Process, Registry};
use aggio_base::Extent;
use std::io;

/// Bytes that a program waits for because it will read them next, at most.
const AHEAD: u64 = 4 << 20;

impl Agent {
    pub(super) fn serve(&mut self, link: u64, request: Request) {
        match request {
            Request::Hello { job, ranks, rank, command, spools } => {
                // A program that opens a file there gets the error if that cannot be.
                spools.into_iter().for_each(|spool| _ = self.find_in(&spool.into()));
                let hello = Hello { job, ranks, rank, command };
                let reply = self.greet(link, &hello).map_or_else(|error| invisible(&error), done);
                self.reply(link, &reply, None);
            }
            Request::Status(from) => {
                self.own.memory.note_peak();
                let fresh = (from == 0).then(|| self.status().to_string().into_bytes());
                let reply = self.links.part(link, from, fresh);
                self.reply(link, &reply.unwrap_or_else(Reply::unknown), None);
            }
            Request::Cancel => self.cancel(link),
            Request::Drop(path) => {
                let count = self.own.registry.files.drop_all(&path);
                self.settle();
                self.reply(link, &Reply::Text(count.to_string().into_bytes(), 0), None);
            }
            Request::Quit => {
                let reply = self.end_if_idle();
                self.reply(link, &reply, None);
            }
            request => match self.links.asks(link) {
                Some(process) => self.serve_again(link, process, request),
                None => {
                    let error = io::Error::other("it comes out of turn");
                    self.refuse(link, &error);
                }
            },
        }
    }

    /// Serves a program, here or on the node that owns the name that it asks about.
    pub(super) fn serve_again(&mut self, link: u64, process: Process, request: Request) {
        self.catch_up(&request);
        if !self.links.has(link) {
            // It has ended by now.
            return;
        }
        if let Way::Here(request) = self.forward(link, process, request) {
            self.serve_here(link, process, request);
        }
    }

    pub(super) fn serve_here(&mut self, link: u64, process: Process, request: Request) {
        let cut = match &request {
            Request::Empty(path) => Some(path.clone()),
            _ => None,
        };
        let reply = match self.refused_spool(&request) {
            Some(refused) => refused,
            None => match self.serve_known(link, process, request) {
                Some(reply) => reply,
                None => return,
            },
        };
        let reply = match (self.carry_out(0), reply) {
            (Some(number), Reply::Done) => Reply::Failed(number, String::new()),
            (_, reply) => reply,
        };
        if cut.is_some_and(|path| self.holds_reply(&path, link, &reply)) {
            return self.settle();
        }
        self.settle();
        self.reply(link, &reply, None);
    }

    /// The answer to a request, unless that is given later, or was.
    fn serve_known(&mut self, link: u64, process: Process, request: Request) -> Option<Reply> {
        let (registry, areas) = (&mut self.own.registry, &self.own.memory.areas);
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
                self.adopt(link, process, (device, inode), how, key)?
            }
            Request::Close(handle, moved) => {
                let (reply, written) = caller.close(handle, moved);
                let trouble = written.and_then(|path| self.storage.trouble(&path));
                trouble.unwrap_or(reply)
            }
            Request::Check(handle, moved) => caller.check(handle, moved),
            Request::Sync(handle) => self.sync(link, process, handle)?,
            Request::Announce(handle, before) => {
                self.gather_records(link, process, handle, before)?
            }
            Request::Records(handle, told) => self.records(link, process, handle, told)?,
            Request::Withdraw(handle) => {
                self.own.registry.withdraw(process, handle);
                Reply::Done
            }
            Request::Spoil(handle) => caller.tell(handle, Registry::spoil),
            Request::ChildLost(handle) => caller.tell(handle, Registry::lose_child),
            Request::Wrote(handle, _) => caller.tell(handle, Registry::wrote),
            Request::Fetch(handle, extents, ahead) => {
                self.fetch_here(link, handle, extents, ahead)?
            }
            // The bytes that others see are those of this node.
            Request::Renew(handle) => caller.check(handle, 0),
            Request::Resize(handle, size) => self.resize(link, process, handle, size)?,
            Request::Empty(path) => caller.empty(&path),
            Request::Unlink(path, options) => caller.unlink(&path, options),
            Request::Rename(from, to, options) => {
                let result = self.own.registry.rename(process, &from, &to, options);
                // In no record is worse than in two.
                let others = self.own.registry.files.names.touched();
                self.own.registry.files.names.touch(&to);
                self.save();
                others.iter().for_each(|path| self.own.registry.files.names.touch(path));
                told(result)
            }
            Request::Stat(path, options) => caller.stat(&path, options),
            Request::List(dir, after, view) => {
                list(&self.own.registry, process, &dir, &after, view)
            }
            Request::Goodbye => {
                self.take_leave(process);
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
        let error = self.find_survivors(options).err();
        self.own.registry.files.names.touch(path);
        error.map(|error| refused(&error))
    }

    fn open(&mut self, waiting: Waiting, ask: Ask, blocking: bool) {
        if ask.write {
            let trouble = self.storage.trouble(&ask.path);
            if let Some(reply) = trouble
                .or_else(|| self.folders.check(&ask.options).err().map(|error| refused(&error)))
            {
                self.reply(waiting.link, &reply, None);
                return;
            }
            self.own.memory.measure_for(&ask.path, &mut self.own.registry);
        }
        match self.own.registry.open(waiting.process, &ask) {
            Answer::Wait if blocking => {
                self.links.let_wait(waiting.link);
                self.waits.add(waiting, ask, &mut self.own.registry);
                self.settle();
                let cycle = self.waits.cycle(&self.own.registry);
                cycle
                    .into_iter()
                    .for_each(|(link, text)| _ = self.reply(link, &Reply::Waits(text), None));
            }
            answer => self.answer(&waiting, answer),
        }
    }

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
        self.links.let_wait(link);
        match self.pulls_first(opening.area, &[ALL], After::Reply(link, reply)) {
            Err(After::Reply(_, reply)) => Some(reply),
            _ => None,
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
        self.links.let_wait(link);
        let end = extents.last().map_or(0, |last| last.end());
        extents.extend((ahead > 0).then_some(Extent::new(end, ahead.min(AHEAD))));
        let is_here = self.pulls_first(area, &extents, After::Reply(link, Reply::Done)).is_err();
        is_here.then_some(Reply::Done)
    }

    /// `None` if the answer comes later.
    fn sync(&mut self, link: u64, process: Process, handle: u64) -> Option<Reply> {
        if let Some(open) = self.own.registry.opens.get(&handle).copied() {
            let is_first = self.own.registry.files.is_shown_at_sync(open.area)
                && !self.own.registry.files.generations.is_shown(open.area);
            let what = match self.steps.has_announced(open.area, process) {
                true => Some(Gathering::Announce(process, handle, Before::All)),
                false => is_first.then_some(Gathering::Sync(process, handle)),
            };
            if what.is_some_and(|what| open.write && self.gathers(open.area, link, what)) {
                self.settle();
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
        let open = self.own.registry.opens.get(&handle).copied();
        let what = Gathering::Announce(process, handle, before);
        if open.is_some_and(|open| self.own.registry.files.generations.is_step(open.area))
            && self.gathers(open?.area, link, what)
        {
            self.settle();
            return None;
        }
        let (registry, areas) = (&mut self.own.registry, &self.own.memory.areas);
        Some(self.steps.announced((process, handle), before, registry, areas))
    }

    /// The records that a reader may have, now or when there are more than it knows. `None` if the
    /// answer comes later.
    fn records(&mut self, link: u64, process: Process, handle: Handle, told: u64) -> Option<Reply> {
        if let Some(area) = self.own.registry.opens.get(&handle).map(|open| open.area) {
            self.steps.count(area, &mut self.own.registry, &self.own.memory.areas);
        }
        let reply = self.steps.records(process, handle, told, &mut self.own.registry);
        if reply.is_none() {
            self.links.let_wait(link);
            self.steps.wait(link, process, handle, told);
            self.settle();
        }
        reply
    }

    /// A process has synchronised an open file.
    pub(super) fn synced(&mut self, process: Process, handle: u64) -> Reply {
        let Some(open) = self.own.registry.opens.get(&handle) else {
            return lost(&mut self.own.registry, process, handle);
        };
        let (area, write) = (open.area, open.write);
        if self.own.registry.files.is_shown_at_sync(area) {
            self.own.registry.publish(process, handle);
            self.tell_readers(area);
        }
        if write && self.steps.has_announced(area, process) {
            let (registry, areas) = (&mut self.own.registry, &self.own.memory.areas);
            self.steps.announce(area, process, Before::All, registry, areas);
        }
        Reply::Done
    }
}

fn done((): ()) -> Reply {
    Reply::Done
}

fn invisible(error: &io::Error) -> Reply {
    let text = format!("the agent does not see this process, as from another container: {error}");
    Reply::Failed(error.raw_os_error().unwrap_or(libc::ESRCH), text)
}
