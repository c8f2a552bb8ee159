//! A copy that programs of this node and of others write: what it has to say to its owner and to
//! hear from there, one thing after the other.

use super::twin::{PIECE, Twin};
use super::{Key, Message};
use crate::protocol::{Before, Reply, Request};
use crate::records::{Common, News};
use crate::registry::Process;
use aggio_base::overlay::Overlay;
use aggio_base::{Extent, os};
use aggio_link::Body;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::RawFd;

mod renewal;

use renewal::Renewal;

/// Pieces that are asked for at a time.
const WINDOW: usize = 8;

/// A request of a program.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The connection of the program.
    pub(crate) link: u64,
    pub(crate) process: Process,
    pub(crate) request: Request,
}

/// The task that follows when the owner was sent the written bytes.
#[derive(Debug)]
pub(crate) enum Then {
    Ask(Asked),
    /// It is told that it has all up to now, and gets differences from now on.
    Shared,
    /// It is told that these bytes stay here; whether programs go on with the file, and may see
    /// what others write to them.
    Keep(Vec<Extent>, bool),
    /// It is told that it has all, if nobody has opened the copy for writing since so many did.
    Stored(u64),
}

/// A task that follows when the bytes of the owner have come.
#[derive(Debug)]
pub(crate) enum Wants {
    /// The open of this ticket.
    Open(u64),
    /// A program that has the copy open; the request asks whether the owner still has it.
    Again(Asked),
    /// A program that waits for this answer of the owner about records.
    Answer(Asked, Reply),
    /// The program of this connection, which reads or writes pieces of the copy.
    Pieces(u64),
    /// Programs that look at the file now and then.
    All,
}

/// Which bytes a task is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    /// The header of a netCDF file, and the records that are not known to be there.
    Records(Before),
    /// Those that the owner says.
    These(News),
    /// None: written bytes stay here.
    None,
}

#[derive(Debug)]
enum Task {
    Push(Vec<Then>, Part),
    Renew(Vec<Wants>, Part),
    /// A program needs these pieces, by number, which were not fetched yet.
    Fetch(BTreeSet<u64>, u64),
    /// A program looks at the file again: others may have newer bytes of all pieces.
    Refresh(Asked),
    /// A program writes that does not say which bytes: all are compared from now on.
    Settle,
    /// The copy was cut, or became longer, by a program that tells it.
    Resize(u64, Asked),
}

#[derive(Debug)]
enum Work {
    /// `behind` is what is said behind the bytes: a new size, which readers are not to find before
    /// them, and what has memory below it.
    Push {
        rest: Vec<u64>,
        size: u64,
        behind: Vec<Message>,
        then: Vec<Then>,
        reported: Overlay<()>,
    },
    Renew(Renewal),
}

/// The next step.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing, until something happens.
    Nothing,
    Say(Vec<(Message, Body)>),
    Sent(Vec<Then>),
    Renewed(Vec<Wants>),
    Ask(Asked),
}

/// The state of one copy.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    twin: Twin,
    /// The pieces that were fetched of the owner's bytes at the open; `None` for all.
    fetched: Option<BTreeSet<u64>>,
    common: Common,
    /// Extents that are here by a report to the owner, and are not in the twin.
    kept: Overlay<()>,
    /// Extents that programs have reported, and that are to be sent in any case.
    reported: Overlay<()>,
    tasks: VecDeque<Task>,
    now: Option<Work>,
    /// The owner's file is complete, and all its bytes are here.
    is_whole: bool,
    /// The copy is to get the size of the owner's file when the bytes of a renewal have come.
    grows: bool,
}

impl Shared {
    /// Of a generation that readers may have before it is complete.
    pub(crate) fn early() -> Self {
        Self { twin: Twin::that_tells_memory(), ..Self::default() }
    }

    /// Lets programs have the copy before the bytes that its owner has: they fetch pieces of them
    /// before they touch these. `size` is that of the owner's file. False if the copy has bytes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin_empty(&mut self, size: u64) -> io::Result<bool> {
        let is_new = self.twin.size() == 0 && !self.twin.is_early() && self.is_idle();
        if is_new && self.fetched.is_none() {
            self.fetched = Some(BTreeSet::new());
            self.twin.set_size(size)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether pieces may be missing that the owner has.
    pub(crate) fn is_in_part(&self) -> bool {
        self.fetched.is_some()
    }

    /// The pieces with bytes of these extents that the owner has and were not fetched.
    pub(crate) fn missing(&self, extents: &[Extent]) -> BTreeSet<u64> {
        let Some(fetched) = &self.fetched else { return BTreeSet::new() };
        let size = self.twin.size();
        let inside = extents.iter().filter(|extent| extent.len > 0 && extent.offset < size);
        let pieces = inside.flat_map(|one| one.offset / PIECE..=(one.end().min(size) - 1) / PIECE);
        pieces.filter(|piece| !fetched.contains(piece)).collect()
    }

    /// Fetches pieces for the program of a connection.
    pub(crate) fn fetch(&mut self, pieces: BTreeSet<u64>, link: u64) {
        self.tasks.push_back(Task::Fetch(pieces, link));
    }

    /// Reported extents are sent next time, in any case.
    pub(crate) fn report(&mut self, extents: &[Extent]) {
        extents.iter().for_each(|extent| self.reported.join(*extent, ()));
    }

    /// The owner gets bytes that have stayed here until now. Later writes are compared with them.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn has_sent(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.kept.take(Extent::new(offset, bytes.len() as u64));
        self.twin.has(offset, bytes)
    }

    /// Not all programs say any more which bytes they write.
    pub(crate) fn settle(&mut self) {
        if !self.kept.is_empty() || !self.is_idle() {
            self.tasks.push_back(Task::Settle);
        }
    }

    /// Lets pieces be fetched again when programs touch them, which the request asks for.
    pub(crate) fn refresh(&mut self, asked: Asked) {
        self.tasks.push_back(Task::Refresh(asked));
    }

    /// Tells the owner the size of the copy without bytes of it, then does that.
    pub(crate) fn push_size(&mut self, then: Then) {
        self.push_part(then, Part::None);
    }

    /// Sends the owner the bytes that were written before this call, then does that.
    pub(crate) fn push(&mut self, then: Then) {
        self.push_part(then, Part::All);
    }

    /// The same of a netCDF file with a number of records that was written after `before`: its
    /// header and its new records.
    pub(crate) fn push_records(&mut self, before: Before, then: Then) {
        self.push_part(then, Part::Records(before));
    }

    /// The same of bytes that may be news, as the owner says.
    pub(crate) fn push_news(&mut self, news: News, then: Then) {
        self.push_part(then, Part::These(news));
    }

    fn push_part(&mut self, then: Then, part: Part) {
        match self.tasks.back_mut() {
            Some(Task::Push(all, of)) if *of == part => all.push(then),
            _ => self.tasks.push_back(Task::Push(vec![then], part)),
        }
    }

    /// Fetches the bytes of the owner after this call.
    pub(crate) fn renew(&mut self, wants: Wants) {
        let part = match &wants {
            Wants::Answer(_, Reply::Records(Some(_))) => Part::Records(Before::All),
            _ => Part::All,
        };
        match self.tasks.back_mut() {
            Some(Task::Renew(all, of)) if *of == part => all.push(wants),
            _ => self.tasks.push_back(Task::Renew(vec![wants], part)),
        }
    }

    /// The bytes are here that belong to an answer of the owner about records.
    pub(crate) fn has_records(&mut self, answer: &Reply) {
        match answer {
            Reply::Records(Some((records, _))) => self.common.has(*records),
            Reply::Whole => self.is_whole = true,
            _ => {}
        }
    }

    /// The end of the bytes that readers have, and that do not change any more.
    pub(crate) fn end(&self) -> u64 {
        if self.is_whole { u64::MAX } else { self.common.end() }
    }

    /// A program has changed the size of the copy.
    pub(crate) fn resize(&mut self, size: u64, asked: Asked) {
        self.tasks.push_back(Task::Resize(size, asked));
    }

    /// Whether the owner is about to get all that was written by so many opens.
    pub(crate) fn stores(&self, opens: u64) -> bool {
        let now = match &self.now {
            Some(Work::Push { then, .. }) => Some(then),
            _ => None,
        };
        let later = self.tasks.iter().filter_map(|task| match task {
            Task::Push(then, _) => Some(then),
            _ => None,
        });
        let is_it = |then: &Then| matches!(then, Then::Stored(count) if *count == opens);
        now.into_iter().chain(later).flatten().any(is_it)
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.now.is_none()
    }

    /// How many bytes the owner's file had when that was last known.
    pub(crate) fn size(&self) -> u64 {
        self.twin.size()
    }

    /// The owner has changed the size of its file and this copy.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn cut(&mut self, size: u64) -> io::Result<()> {
        self.kept.take(Extent::between(size, u64::MAX));
        self.reported.take(Extent::between(size, u64::MAX));
        self.twin.set_size(size)
    }

    /// The next step with the copy that `fd` can read.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn step(&mut self, key: Key, fd: RawFd, has_room: bool) -> io::Result<Step> {
        match self.now.take() {
            None => self.begin(key, fd),
            Some(Work::Push { mut rest, size, mut behind, then, reported }) => {
                let Some(piece) = rest.pop_if(|_| has_room) else {
                    if !rest.is_empty() {
                        self.now = Some(Work::Push { rest, size, behind, then, reported });
                        return Ok(Step::Nothing);
                    }
                    if behind.is_empty() {
                        return Ok(Step::Sent(then));
                    }
                    let said = behind.drain(..).map(|message| (message, Body::None)).collect();
                    self.now = Some(Work::Push { rest, size, behind, then, reported });
                    return Ok(Step::Say(said));
                };
                let taken = self.twin.take(fd, piece, size, &reported)?;
                let memory = |extent: Extent| Message::Memory(key.1, extent.offset, extent.len);
                behind.extend(taken.memory.into_iter().map(memory));
                self.now = Some(Work::Push { rest, size, behind, then, reported });
                let differ = |body| (Message::Differ(key.1), Body::Bytes(body));
                Ok(Step::Say(taken.bodies.into_iter().map(differ).collect()))
            }
            Some(Work::Renew(mut renewal)) => {
                let wanted = self.ask(key, &mut renewal)?;
                if renewal.is_over() {
                    self.has_fetched(&renewal);
                    return Ok(Step::Renewed(renewal.wants));
                }
                self.now = Some(Work::Renew(renewal));
                Ok(if wanted.is_empty() { Step::Nothing } else { Step::Say(wanted) })
            }
        }
    }

    fn begin(&mut self, key: Key, fd: RawFd) -> io::Result<Step> {
        match self.tasks.pop_front() {
            None => Ok(Step::Nothing),
            Some(Task::Push(then, part)) => self.begin_push(key, fd, then, part),
            Some(Task::Renew(wants, part)) => {
                let news = match part {
                    Part::All => News::ALL,
                    Part::Records(_) => self.common.news(fd)?.0,
                    Part::These(news) => news,
                    Part::None => News::ALL,
                };
                Ok(self.begin_renewal(key, news, None, wants))
            }
            Some(Task::Fetch(pieces, link)) => {
                let wants = vec![Wants::Pieces(link)];
                Ok(self.begin_renewal(key, News::ALL, Some(pieces), wants))
            }
            Some(Task::Settle) => {
                for (extent, ()) in std::mem::take(&mut self.kept).into_ranges() {
                    self.twin.put(fd, extent)?;
                }
                self.begin(key, fd)
            }
            Some(Task::Refresh(asked)) => {
                self.fetched = Some(BTreeSet::new());
                let wants = vec![Wants::Again(asked)];
                Ok(self.begin_renewal(key, News::ALL, Some(BTreeSet::new()), wants))
            }
            Some(Task::Resize(size, asked)) => {
                // What is written there later is not what was kept.
                self.kept.take(Extent::between(size, u64::MAX));
                self.twin.set_size(size)?;
                Ok(Step::Ask(asked))
            }
        }
    }

    fn begin_push(&mut self, key: Key, fd: RawFd, then: Vec<Then>, part: Part) -> io::Result<Step> {
        let size = os::fstat(fd)?.st_size.unsigned_abs();
        let before = self.twin.size();
        // Bytes that were cut off are not to be compared.
        self.twin.set_size(size)?;
        let news = match part {
            Part::All => News::ALL,
            Part::Records(before) => self.common.news_of_writer(fd, before)?,
            Part::These(news) => news,
            Part::None => News { head: 0, from: u64::MAX },
        };
        for kept in &then {
            self.has_told(fd, kept)?;
        }
        let mut reported = Overlay::default();
        let pieces = match part {
            Part::None => BTreeSet::new(),
            _ => {
                reported = std::mem::take(&mut self.reported);
                let mut pieces = self.twin.pieces(fd, size)?;
                let told = reported.within(Extent::new(0, size));
                pieces.extend(told.flat_map(|(part, ())| pieces_of(part)));
                pieces
            }
        };
        let may_be = |piece: &u64| news.may_be(piece * PIECE, PIECE);
        let rest = pieces.into_iter().rev().filter(may_be).collect();
        let mut told = (size != before).then_some(Message::Size(key.1, size, size < before));
        let longer = told.take_if(|_| self.twin.is_early() && size > before);
        let behind = longer.into_iter().collect();
        self.now = Some(Work::Push { rest, size, behind, then, reported });
        Ok(Step::Say(told.into_iter().map(|told| (told, Body::None)).collect()))
    }

    /// The owner gets a report of bytes that stay here: later bytes of others are newer.
    fn has_told(&mut self, fd: RawFd, then: &Then) -> io::Result<()> {
        let Then::Keep(extents, goes_on) = then else { return Ok(()) };
        for extent in extents {
            match goes_on {
                true => {
                    self.kept.take(*extent);
                    self.twin.put(fd, *extent)?;
                }
                false => self.kept.join(*extent, ()),
            }
        }
        Ok(())
    }

    /// All that waits, of a copy that is of no use any more.
    pub(crate) fn abandon(&mut self) -> (Vec<Then>, Vec<Wants>) {
        let (mut then, mut wants) = (Vec::new(), Vec::new());
        match self.now.take() {
            Some(Work::Push { then: own, .. }) => then.extend(own),
            Some(Work::Renew(renewal)) => wants.extend(renewal.wants),
            None => {}
        }
        for task in self.tasks.drain(..) {
            match task {
                Task::Push(own, _) => then.extend(own),
                Task::Renew(own, _) => wants.extend(own),
                Task::Fetch(_, link) => wants.push(Wants::Pieces(link)),
                Task::Settle => {}
                Task::Refresh(asked) => wants.push(Wants::Again(asked)),
                Task::Resize(_, asked) => then.push(Then::Ask(asked)),
            }
        }
        (then, wants)
    }
}

/// The numbers of the pieces with bytes of an extent, which is not empty.
fn pieces_of(extent: Extent) -> std::ops::RangeInclusive<u64> {
    extent.offset / PIECE..=(extent.end() - 1) / PIECE
}

#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod tests;
