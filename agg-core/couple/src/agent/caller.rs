//! Requests of one process that need nothing but the registry and memory.

use crate::areas::Areas;
use crate::client::Stat;
use crate::protocol::Reply;
use crate::registry::{Handle, Options, Path, Process, Registry, State};

/// A process that asks for something.
pub(super) struct Caller<'a> {
    pub(super) process: Process,
    pub(super) registry: &'a mut Registry,
    pub(super) areas: &'a Areas,
}

impl Caller<'_> {
    /// The process has moved so many bytes of an open file.
    pub(super) fn check(&mut self, handle: Handle, moved: u64) -> Reply {
        let Some(open) = self.registry.opens.get(&handle).copied() else {
            return lost(self.registry, self.process, handle);
        };
        let size = self.areas.stat(open.area, 0).map_or(u64::MAX, |stat| stat.size);
        let path = self.registry.files.generations.get(&open.area).map(|one| one.path.clone());
        self.registry.see(self.process, handle, moved, moved >= size);
        path.iter().for_each(|path| self.registry.files.names.touch(path));
        Reply::Done
    }

    /// Closes an open of the process. Returns the answer, and the file if the open could write it.
    pub(super) fn close(&mut self, handle: Handle, moved: u64) -> (Reply, Option<Path>) {
        let Some(open) = self.registry.opens.get(&handle).copied() else {
            let reply = lost(self.registry, self.process, handle);
            self.registry.close(self.process, handle, 0, false);
            return (reply, None);
        };
        let size = self.areas.stat(open.area, 0).map_or(0, |stat| stat.size);
        let path = self.registry.files.generations.get(&open.area).map(|one| one.path.clone());
        self.registry.close(self.process, handle, moved, moved >= size);
        (Reply::Done, path.filter(|_| open.write))
    }

    /// Tells the registry about an open of the process.
    pub(super) fn tell(
        &mut self,
        handle: Handle,
        what: fn(&mut Registry, Process, Handle) -> bool,
    ) -> Reply {
        match what(self.registry, self.process, handle) {
            true => Reply::Done,
            false => lost(self.registry, self.process, handle),
        }
    }

    /// Cuts a file to no bytes, by its name.
    pub(super) fn empty(&mut self, path: &[u8]) -> Reply {
        self.registry.files.names.touch(path);
        told(self.registry.empty(self.process, path))
    }

    pub(super) fn unlink(&mut self, path: &[u8], options: Options) -> Reply {
        told(self.registry.unlink(self.process, path, options))
    }

    pub(super) fn stat(&self, path: &[u8], options: Options) -> Reply {
        Reply::Stat(match self.registry.look(self.process, path, options) {
            None => None,
            // Cut to no bytes; the next open makes it.
            Some(None) => Some(Stat { mode: libc::S_IFREG | 0o600, ..Stat::default() }),
            Some(Some(area)) => {
                let generation = self.registry.files.generations.get(&area);
                let number = generation.map_or(0, |one| one.number);
                let complete = generation.filter(|one| one.state == State::Complete);
                let stat = self.areas.stat(area, number).ok();
                stat.map(|stat| Stat { area: complete.map_or(0, |_| area), ..stat })
            }
        })
    }
}

/// The answer to a request about an open that has ended.
pub(super) fn lost(registry: &mut Registry, process: Process, handle: Handle) -> Reply {
    if let Some((number, text)) = registry.opens.loss(handle) {
        return Reply::Failed(number, text.to_owned());
    }
    // An earlier agent was told, and did not come to say so.
    if registry.files.generations.has_completed(handle) {
        return Reply::Done;
    }
    registry.report_aborted(process, handle);
    Reply::unknown()
}

/// The answer to a request that was carried out, or has failed with the number of an error.
pub(super) fn told(result: Result<(), i32>) -> Reply {
    result.map_or_else(|number| Reply::Failed(number, String::new()), |()| Reply::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Answer, Ask, Who};

    #[test]
    fn what_a_process_has_open_is_told_of_until_it_closes_it() {
        let (mut registry, mut areas) = (Registry::behind(0), Areas::new().unwrap());
        registry.join(1, Who { job: 1, ranks: 1, family: 1, label: "p1".into() });
        let [write, create, truncate] = [true; 3];
        let ask = Ask { path: b"/d/f".to_vec(), write, create, truncate, ..Ask::default() };
        let Answer::Opened(opening) = registry.open(1, &ask) else { panic!() };
        areas.make(opening.area, 0o640, None).unwrap();
        let mut caller = Caller { process: 1, registry: &mut registry, areas: &areas };
        assert_eq!(caller.tell(opening.handle, Registry::wrote), Reply::Done);
        assert_eq!(caller.check(opening.handle, 0), Reply::Done);
        let Reply::Stat(Some(stat)) = caller.stat(b"/d/f", Options::default()) else { panic!() };
        assert_eq!(stat.mode & 0o777, 0o640);
        assert_eq!(caller.close(opening.handle, 0), (Reply::Done, Some(ask.path)));
        assert_eq!(caller.check(opening.handle, 0), Reply::unknown());
        assert_eq!(caller.close(opening.handle, 0), (Reply::unknown(), None));
        assert_eq!(caller.stat(b"/d/none", Options::default()), Reply::Stat(None));
    }
}
