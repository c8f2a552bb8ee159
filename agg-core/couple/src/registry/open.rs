//! Opens: a new generation, the one that is being written, or the reader's next one.

use super::{
    Answer, Area, Ask, Caller, Choice, Effect, Handle, Name, Open, Opening, Place, Process,
    Registry, State,
};
use aggio_config::settings::couple::WriterDeath;

impl Registry {
    /// Opens a file for a process, or says that it has to wait.
    pub(crate) fn open(&mut self, process: Process, ask: &Ask) -> Answer {
        if let Some(opening) = self.asked_before(process, ask.key) {
            return Answer::Opened(opening);
        }
        let caller = self.processes.caller(process);
        match ask {
            Ask { write: true, .. } => self.open_to_write(&caller, ask),
            // No writer and no reader waits for an open of people, and readers still find its
            // generation.
            Ask { view: true, .. } => match self.files.view(&caller, &ask.path) {
                Some((area, options)) => {
                    let ask = Ask { options: options.clone(), ..ask.clone() };
                    Answer::Opened(self.opened(&caller, area, &ask, false))
                }
                None => Answer::Fail(libc::ENOENT),
            },
            _ => self.open_to_read(&caller, ask),
        }
    }

    /// The open that a process has asked for by `key` before.
    fn asked_before(&self, process: Process, key: u64) -> Option<Opening> {
        let (handle, area) = self.opens.asked_before(process, key)?;
        let generation = self.files.generations.get(&area)?.number;
        Some(Opening { handle, area, generation })
    }

    fn open_to_read(&mut self, caller: &Caller, ask: &Ask) -> Answer {
        let choice = self.files.choose(caller, &ask.path, &ask.options);
        match choice {
            // Closed on other nodes, its bytes may not be here yet.
            Choice::Own(area) if self.files.generations[&area].is_on_its_way() => Answer::Wait,
            Choice::Own(area) => Answer::Opened(self.opened(caller, area, ask, false)),
            Choice::Next(area) => Answer::Opened(self.read_on(caller, area, ask)),
            Choice::Wait => {
                self.files.names.announce(caller, ask);
                Answer::Wait
            }
            Choice::Dropped => Answer::Fail(libc::ESTALE),
            Choice::OwnLost(area) => self.tell_own_loss(caller, area),
            Choice::Lost(number) | Choice::Dead(number) => {
                let name = self.files.names.announce(caller, ask);
                name.pass(caller, number);
                let dead = name.dead.as_ref().map(|dead| dead.area);
                self.pass(caller, &ask.path, number);
                if matches!(choice, Choice::Lost(_)) {
                    return Answer::Fail(libc::ESTALE);
                }
                if let Some(area) = dead {
                    self.files.names.has_told_of_death(caller.process, area);
                }
                match ask.options.death {
                    WriterDeath::File => Answer::OnDisk,
                    _ => Answer::Fail(libc::EIO),
                }
            }
        }
    }

    fn open_to_write(&mut self, caller: &Caller, ask: &Ask) -> Answer {
        let names = &mut self.files.names;
        names.retract_unanswered(caller.job, &ask.path, ask.key);
        if names.refuses(caller, &ask.path, ask.truncate) {
            // Without it the generation that its program has begun anew will not be complete.
            let newest = self.files.newest(&ask.path);
            let newest = newest.filter(|(_, one)| !one.is_complete() && one.is_by(caller.job));
            if let Some(area) = newest.map(|(area, _)| area) {
                self.lose(area, Some(self.processes.name(caller.process)), None);
            }
            return Answer::Fail(libc::ESTALE);
        }
        let name = self.files.names.get(&ask.path);
        let emptied = name.is_some_and(|name| name.emptied);
        let there = self.files.named(&ask.path);
        if ask.exclusive && ask.create && (there.is_some() || emptied) {
            return Answer::Fail(libc::EEXIST);
        }
        let begins = ask.truncate || ask.exclusive || emptied;
        let sequence = self.files.sequence(&ask.path).filter(|_| !begins);
        if let Some(area) = sequence.and_then(|one| one.own_loss(caller)) {
            return self.tell_own_loss(caller, area);
        }
        match there.map(|(area, one)| (area, one.state, one.is_on_its_way())) {
            // A generation on its way to this node is as good as complete for a writer.
            Some((_, State::Writing, true)) if !ask.truncate => Answer::Wait,
            Some((_, State::Writing, true)) => self.begin(caller, ask, None),
            Some((area, State::Writing, false)) => {
                if ask.truncate {
                    self.files.effects.push(Effect::Empty(area));
                }
                Answer::Opened(self.opened(caller, area, ask, false))
            }
            Some((area, State::Complete, _)) => {
                self.begin(caller, ask, (!ask.truncate && !emptied).then_some(area))
            }
            // Its bytes were to be kept.
            None if !begins && name.is_some_and(Name::is_dropped) => Answer::Fail(libc::ESTALE),
            None if ask.create || emptied => self.begin(caller, ask, None),
            None => Answer::Fail(libc::ENOENT),
        }
    }

    /// A process learns that the generation that it had written and closed is lost: it would take
    /// the one before for that.
    fn tell_own_loss(&mut self, caller: &Caller, area: Area) -> Answer {
        self.files.names.has_told_of_death(caller.process, area);
        Answer::Fail(libc::EIO)
    }

    /// Begins a generation, if there is room for it.
    fn begin(&mut self, caller: &Caller, ask: &Ask, copy_of: Option<Area>) -> Answer {
        let place = self.files.make_room(ask, copy_of);
        let is_other_there = || {
            let (busy, failed) = self.files.generations.storing();
            busy + failed > 0 || self.waits.may_others_read(caller.job, &self.processes)
        };
        match place {
            Place::Enough => {}
            Place::Full(error) if !is_other_there() => return Answer::Fail(error),
            Place::Full(_) | Place::Later => return Answer::Wait,
        }
        let (area, maker) = (self.numbers.next(), self.processes.name(caller.process));
        self.files.begin(area, caller, maker, ask, copy_of);
        let opening = self.opened(caller, area, ask, false);
        self.give_up(&ask.path);
        Answer::Opened(opening)
    }

    /// Notes an open of `area`.
    fn opened(&mut self, caller: &Caller, area: Area, ask: &Ask, reads_on: bool) -> Opening {
        let (handle, Caller { process, job, node, .. }) = (self.numbers.next(), *caller);
        let (write, tells, key) = (ask.write, ask.tells, ask.key);
        // Processes that open it together are told the same, although it may become complete
        // between the first and the last of them.
        let generation = self.files.generations.get(&area);
        let has_more =
            generation.is_some_and(|one| one.early.records.is_some() && !one.is_complete());
        let is_part = reads_on && (has_more || self.opens.has_part(job, area));
        let generation = generation.map_or(0, |one| one.number);
        self.add_open(
            handle,
            Open { process, job, node, area, write, tells, reads_on, is_part, key },
        );
        self.files.names.opened(job, ask);
        Opening { handle, area, generation }
    }

    /// An open has a generation.
    pub(crate) fn add_open(&mut self, handle: Handle, open: Open) {
        if let Some(generation) = self.files.generations.get_mut(&open.area) {
            generation.open(handle, &open);
        }
        self.opens.add(handle, open);
    }

    /// A process holds a descriptor of `area` that another one opened. Whether it may write, and
    /// tells the bytes that it wrote, and its key are those of [`Ask`].
    pub(crate) fn adopt(
        &mut self,
        process: Process,
        area: Area,
        [write, tells]: [bool; 2],
        key: u64,
    ) -> Option<Opening> {
        if let Some(opening) = self.asked_before(process, key) {
            return Some(opening);
        }
        let caller = self.processes.caller(process);
        let generation = self.files.generations.get(&area)?;
        let (path, is_own) = (generation.path.clone(), generation.is_by(caller.job));
        let name = self.files.names.get(&path);
        let options = name.map(|name| name.options.clone()).unwrap_or_default();
        let writer = name.and_then(|name| name.writer);
        let ask = Ask { path, write, tells, key, options, ..Ask::default() };
        let opening = match write || is_own {
            true => self.opened(&caller, area, &ask, false),
            false => self.read_on(&caller, area, &ask),
        };
        // The next one is made by a program that opens it, not by a child with its descriptor.
        if let (Some(name), Some(_)) = (self.files.names.get_mut(&ask.path), writer) {
            name.writer = writer;
        }
        Some(opening)
    }

    /// Opens the generation that a reader is to read.
    fn read_on(&mut self, caller: &Caller, area: Area, ask: &Ask) -> Opening {
        let opening = self.opened(caller, area, ask, true);
        self.files.names.announce(caller, ask).read_on(caller, opening.generation);
        self.pass(caller, &ask.path, opening.generation);
        opening
    }

    /// Generations older than `number` were asked for, or passed over.
    fn pass(&mut self, caller: &Caller, path: &[u8], number: u64) {
        self.files.mark_read(path, 0..number, Some(caller.job));
        self.give_up(path);
    }
}
