//! The life of the generations of this node: their memory is made, they become complete, are
//! stored, move and are given up. What other nodes and programs are to be told is left as actions.

use super::background::Background;
use super::clients::Clients;
use super::deferred::{After, Ended};
use super::disk::Storage;
use super::generations::Generations;
use super::spill::Folders;
use super::survive::Survivors;
use crate::hosted::Pulled;
use crate::peers::{Action, Message};
use crate::place::Place;
use crate::registry::{Area, Directory, Effect, Handle, Options};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

/// The generations of this node, and all that works on them.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) own: Generations,
    pub(super) clients: Clients,
    pub(super) survivors: Survivors,
    pub(super) background: Background,
    pub(super) folders: Folders,
    pub(super) storage: Storage,
    /// Files that are looked at again soon, and how often they were.
    pub(super) closing: BTreeMap<Area, u32>,
    /// Opens for writing by programs that have no descriptor yet.
    promised: BTreeSet<(Area, Handle)>,
    /// Work for the agent, in its order.
    pub(super) actions: Vec<Action>,
    /// What has waited for bytes of other nodes, or for a thread, and waits no more.
    pub(super) ended: VecDeque<Ended>,
    /// The directory in which programs find the agent.
    place: Place,
}

impl Lifecycle {
    /// No generations; numbers are counted from `number` on.
    ///
    /// # Errors
    /// The system has no memory files, or no descriptors.
    pub(super) fn new(place: Place, number: u64) -> io::Result<Self> {
        Ok(Self {
            own: Generations::new(number)?,
            clients: Clients::default(),
            survivors: Survivors::default(),
            background: Background::new()?,
            folders: Folders::default(),
            storage: Storage::default(),
            closing: BTreeMap::new(),
            promised: BTreeSet::new(),
            actions: Vec::new(),
            ended: VecDeque::new(),
            place,
        })
    }

    /// Another node gets a message.
    pub(super) fn say(&mut self, peer: Peer, message: Message) {
        self.actions.push(Action::Say(peer, message, Body::None));
    }

    /// Carries out effects on memory; the number of the first error, if any.
    pub(super) fn carry_out(&mut self, mode: u32) -> Option<i32> {
        let mut failed = None;
        loop {
            let effects = self.own.registry.effects();
            if effects.is_empty() {
                return failed;
            }
            for effect in effects {
                if let Err(error) = self.carry_out_one(effect, mode) {
                    failed.get_or_insert(error.raw_os_error().unwrap_or(libc::EIO));
                }
            }
        }
    }

    fn carry_out_one(&mut self, effect: Effect, mode: u32) -> io::Result<()> {
        match effect {
            Effect::Make(area, Some(source)) => return self.make_copy(area, mode, source),
            Effect::Make(area, None) => return self.make(area, (mode, None)),
            Effect::Empty(area) => return self.empty(area),
            Effect::Look(area) => return self.look_at(area),
            Effect::Store(area, path) => self.store(area, path),
            Effect::Move(area, directory) => self.move_out(area, &directory),
            Effect::Remove(path) => self.storage.remove(path),
            Effect::Dropped(path, number) => {
                let path = String::from_utf8_lossy(&path);
                let text = "was given up unread: the budget is used up";
                log!(Level::Warn, "agent: {path}: generation {number} {text}");
            }
            Effect::Free(area) => {
                self.survivors.give_up(area);
                self.own.memory.free(area, &self.own.registry);
                self.free_hosted(area);
                self.ended.push_back(Ended::Freed(area));
            }
        }
        Ok(())
    }

    /// Makes the memory of a generation: its mode, and the one of which it is a copy.
    pub(super) fn make(&mut self, area: Area, how: (u32, Option<Area>)) -> io::Result<()> {
        self.own.memory.make(area, how, &self.own.registry, &mut self.survivors)
    }

    /// Cuts the memory of a generation to no bytes, on the node where it is written.
    fn empty(&mut self, area: Area) -> io::Result<()> {
        self.own.hosted.get_mut(area).into_iter().for_each(|hosted| hosted.cut(0));
        if self.background.cut(area) {
            return Ok(());
        }
        self.ended.push_back(Ended::Emptied(area));
        let hosted = self.own.hosted.get(area);
        let (writers, shared) =
            hosted.map_or_else(Default::default, |one| (one.writers.peers(), one.shared));
        self.cut_copies(area, 0, &writers);
        // A node that writes it alone sends all of it.
        if writers.is_empty() || shared { self.own.memory.areas.empty(area) } else { Ok(()) }
    }

    /// A generation is given up: nodes free its bytes, and what waits for it fails.
    fn free_hosted(&mut self, area: Area) {
        let (holders, pull) = self.own.hosted.free(area);
        for holder in holders {
            self.say(holder.peer, Message::Released(holder.area));
        }
        self.actions.push(Action::Freed(area));
        if let Some(mut pull) = pull {
            pull.fail("the generation was given up".into());
            self.finish_pull(area, pull.end());
        }
    }

    /// Writes the changed records of files with generations that survive.
    pub(super) fn save(&mut self) {
        self.survivors.save(&mut self.own.registry, &self.own.memory.areas, &self.clients);
    }

    /// Takes over the files that an earlier agent has left under a rule. Whether there was
    /// anything to look at.
    ///
    /// # Errors
    /// Its directory cannot be used.
    pub(super) fn find_survivors(&mut self, options: &Options) -> io::Result<bool> {
        let directory = options.spill.as_ref().filter(|_| options.survives);
        directory.map_or(Ok(false), |directory| self.find_in(directory))
    }

    /// The same for all that is in a directory.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn find_in(&mut self, directory: &Directory) -> io::Result<bool> {
        let (registry, areas) = (&mut self.own.registry, &mut self.own.memory.areas);
        self.survivors.find(directory, &self.place, registry, areas, &mut self.clients)
    }

    /// A program is about to get a descriptor by which it can write to a generation.
    pub(super) fn promise(&mut self, area: Area, handle: Handle) {
        self.promised.insert((area, handle));
    }

    /// It has it, or gets none.
    pub(super) fn end_promise(&mut self, area: Area, handle: Handle) {
        self.promised.remove(&(area, handle));
    }

    /// Whether a program is about to get a descriptor by which it can write to a generation.
    pub(super) fn is_promised(&self, area: Area) -> bool {
        self.promised.range((area, 0)..).next().is_some_and(|(one, _)| *one == area)
    }

    /// Tells nodes that write a generation something that they acknowledge.
    pub(super) fn tell_writers(&mut self, area: Area, writers: &[Peer], message: &Message) {
        for peer in writers {
            self.own.hosted.host(area).expect(*peer);
            self.actions.push(Action::Order(area, *peer, message.clone()));
        }
    }

    /// Lets the copies of these nodes have so many bytes.
    pub(super) fn cut_copies(&mut self, area: Area, size: u64, writers: &[Peer]) {
        if let Some(hosted) = self.own.hosted.get_mut(area) {
            writers.iter().for_each(|peer| hosted.writers.cut(*peer, size));
        }
        self.tell_writers(area, writers, &Message::Cut(area, size));
    }

    /// Lets nodes that write a generation alone know that they do so no more.
    pub(super) fn share_with_all(&mut self, area: Area) {
        if !self.own.registry.files.generations.is_shared(area) {
            return;
        }
        let hosted = self.own.hosted.host(area);
        if !std::mem::replace(&mut hosted.shared, true) {
            let writers = hosted.writers.peers();
            self.tell_writers(area, &writers, &Message::Share(area));
        }
    }

    /// Lets an action wait for acknowledgements; gives it back if none are awaited.
    pub(super) fn hold(&mut self, area: Area, link: u64, after: After) -> Result<(), After> {
        self.own.hosted.hold(area, after)?;
        self.actions.push(Action::Wait(link));
        Ok(())
    }

    /// Lets other nodes know that a file which their programs read has other bytes.
    pub(super) fn tell_readers(&mut self, area: Area) {
        for node in self.own.registry.opens.readers_away(area) {
            self.say(Peer(node), Message::News(area));
        }
    }

    /// Lets a generation be complete if its bytes have come and no process of another node has it
    /// open for writing.
    pub(super) fn release(&mut self, area: Area) {
        if self.own.release(area) {
            self.look(area);
        }
    }

    /// Lets bytes of `extents` come that other nodes have; then `after` is done. If there are none,
    /// it is given back.
    pub(super) fn pulls_first(
        &mut self,
        area: Area,
        extents: &[aggio_base::Extent],
        after: After,
    ) -> Result<(), After> {
        match self.own.hosted.get_mut(area) {
            Some(hosted) => hosted.pull(extents, after)?,
            None => return Err(after),
        }
        self.actions.push(Action::Pull(area));
        Ok(())
    }

    /// Goes on after all that could be requested was: ends what is over.
    pub(super) fn end_pull(&mut self, area: Area) {
        let hosted = self.own.hosted.get_mut(area);
        if let Some(pulled) = hosted.and_then(crate::hosted::Hosted::end_pull) {
            self.finish_pull(area, pulled);
        }
    }

    /// Bytes of a generation have come, or do not come.
    fn finish_pull(&mut self, area: Area, pulled: Pulled<After>) {
        let Pulled { tags, mut after, failed } = pulled;
        if !tags.is_empty() {
            self.actions.push(Action::Forget(tags));
        }
        // Writers that wait get their descriptors before the agent looks whether anybody can write.
        after.sort_by_key(|after| matches!(after, After::Look(_)));
        self.ended.extend(after.into_iter().map(|after| match &failed {
            None => Ended::Ready(after),
            Some(text) => Ended::Failed(area, after, text.clone()),
        }));
    }

    /// Bytes that were requested do not arrive.
    pub(super) fn fail_pull(&mut self, area: Area, text: String) {
        let hosted = self.own.hosted.get_mut(area);
        if let Some(pull) = hosted.and_then(|one| one.pull.as_mut()) {
            pull.fail(text);
        }
        self.actions.push(Action::Pull(area));
    }
}
