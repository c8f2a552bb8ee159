//! The oracle: the bytes of each generation, and which of them a process must see.
//!
//! Writers number their writes. A synchronisation or a close publishes the writes of its process.
//! An open or a synchronisation of another process makes the published writes visible to it. A byte
//! is certain for a process if the last write to it is visible to that process.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Nobody: a byte that all processes see.
const NOBODY: usize = usize::MAX;

/// The last write to a byte: the process, and the number of the write.
#[derive(Clone, Copy)]
struct Write {
    who: usize,
    number: u32,
}

/// The bytes of a generation, and the writes that its writers see of each other.
pub(super) struct Bytes {
    pub(super) all: Vec<u8>,
    last: Vec<Write>,
    number: u32,
    /// The last write of each process, the last one that others may see, and for each process the
    /// last ones of others that it sees.
    newest: Vec<u32>,
    published: Vec<u32>,
    seen: Vec<Vec<u32>>,
    /// All contents since the first synchronisation, if readers may have them.
    pub(super) states: Vec<Vec<u8>>,
    /// Sizes to which the file was cut.
    pub(super) cuts: Vec<u64>,
    /// The size that a process is just setting.
    cutting: Option<usize>,
}

impl Bytes {
    /// The bytes at the beginning, which so many processes may change.
    pub(super) fn new(all: Vec<u8>, writers: usize) -> Self {
        let last = vec![Write { who: NOBODY, number: 0 }; all.len()];
        let [newest, published] = [(); 2].map(|()| vec![0; writers]);
        let (seen, states) = (vec![vec![0; writers]; writers], Vec::new());
        let (cuts, cutting) = (Vec::new(), None);
        Self { all, last, number: 0, newest, published, seen, states, cuts, cutting }
    }

    /// Whether a process must see a byte as it is, and may change it.
    fn is_certain(&self, who: usize, at: usize) -> bool {
        let Some(last) = self.last.get(at) else { return true };
        last.who == NOBODY || last.who == who || last.number <= self.seen[who][last.who]
    }

    /// Whether a process sees all that others have written.
    pub(super) fn are_all_certain(&self, who: usize) -> bool {
        let is_seen = |other: usize| self.newest[other] <= self.seen[who][other];
        (0..self.newest.len()).all(|other| other == who || is_seen(other))
    }

    /// The parts of a range that a process may change.
    pub(super) fn free(&self, who: usize, range: Range<usize>) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for at in range.filter(|at| self.is_certain(who, *at)) {
            match found.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => found.push(at..at + 1),
            }
        }
        found
    }

    /// A process has written bytes.
    pub(super) fn write(&mut self, who: usize, at: usize, bytes: &[u8]) {
        self.number += 1;
        self.newest[who] = self.number;
        let end = at + bytes.len();
        if end > self.all.len() {
            self.grow(end);
        }
        self.all[at..end].copy_from_slice(bytes);
        self.last[at..end].fill(Write { who, number: self.number });
        self.remember();
    }

    fn grow(&mut self, size: usize) {
        self.all.resize(size, 0);
        self.last.resize(size, Write { who: NOBODY, number: 0 });
    }

    /// A process sets the size. Until all nodes have it, readers find zeros behind the new end, or
    /// the bytes of before.
    pub(super) fn begin_cut(&mut self, size: usize) {
        self.cutting = Some(size);
        self.remember_cut();
    }

    fn remember_cut(&mut self) {
        if let (Some(size), Some(state)) = (self.cutting, self.states.last()) {
            let cut = state[..size.min(state.len())].to_vec();
            self.states.push(cut);
        }
    }

    /// The file has another size, on all nodes.
    pub(super) fn cut(&mut self, size: usize) {
        self.cutting = None;
        self.grow(size);
        self.cuts.push(size as u64);
        self.remember();
    }

    /// The number of the last write of a process.
    pub(super) fn newest(&self, who: usize) -> u32 {
        self.newest[who]
    }

    /// Others may see the writes of a process up to this one.
    pub(super) fn publish(&mut self, who: usize, number: u32) {
        self.published[who] = self.published[who].max(number);
    }

    /// The last published write of each process.
    pub(super) fn published(&self) -> Vec<u32> {
        self.published.clone()
    }

    /// A process has looked.
    pub(super) fn see(&mut self, who: usize, published: &[u32]) {
        for (seen, number) in self.seen[who].iter_mut().zip(published) {
            *seen = (*seen).max(*number);
        }
    }

    /// Readers may have the bytes from now on, although the file is written.
    pub(super) fn show(&mut self) {
        if self.states.is_empty() {
            self.states.push(self.all.clone());
            self.remember_cut();
        }
    }

    fn remember(&mut self) {
        if !self.states.is_empty() {
            self.states.push(self.all.clone());
        }
    }

    /// The first byte of those found at an offset that a process must see otherwise.
    pub(super) fn differs(&self, who: usize, at: usize, found: &[u8]) -> Option<usize> {
        let wrong = |(at, byte): (usize, &u8)| {
            self.is_certain(who, at) && self.all.get(at).is_some_and(|wanted| wanted != byte)
        };
        (at..).zip(found).find(|pair| wrong(*pair)).map(|(at, _)| at)
    }

    /// How bytes that were found differ from all bytes, if they do.
    pub(super) fn is_not(&self, found: &[u8]) -> Option<String> {
        let wrong = self.all.iter().zip(found).position(|(wanted, found)| wanted != found);
        let (wanted, len) = (self.all.len(), found.len());
        (self.all != found).then(|| format!("{len} bytes of {wanted}, different from {wrong:?} on"))
    }

    /// The first byte of those found at an offset that has never been so since readers may have
    /// the file.
    pub(super) fn never_was(&self, at: usize, found: &[u8]) -> Option<usize> {
        let was = |state: &Vec<u8>, (at, byte): (usize, &u8)| state.get(at).unwrap_or(&0) == byte;
        let ever = |pair| self.states.iter().rev().any(|state| was(state, pair));
        (at..).zip(found).find(|pair| !ever(*pair)).map(|(at, _)| at)
    }
}

/// One generation.
pub(super) struct Expected {
    pub(super) bytes: RefCell<Bytes>,
    /// The bytes of the generation as a copy of which it began.
    pub(super) source: Option<Vec<u8>>,
    /// Opens for writing that were not closed.
    pub(super) open: Cell<usize>,
    /// It was closed by all: nobody opens it for writing again.
    pub(super) is_done: Cell<bool>,
    /// Calls that are going on, and whether one changes the size: then there is no other one.
    calls: Cell<usize>,
    resizes: Cell<bool>,
    /// A reader is done with it.
    pub(super) is_read: Cell<bool>,
}

impl Expected {
    pub(super) fn new(source: Option<Vec<u8>>, writers: usize) -> Rc<Self> {
        let bytes = Bytes::new(source.clone().unwrap_or_default(), writers);
        Rc::new(Self {
            bytes: RefCell::new(bytes),
            source,
            open: Cell::new(0),
            is_done: Cell::new(false),
            calls: Cell::new(0),
            resizes: Cell::new(false),
            is_read: Cell::new(false),
        })
    }

    /// Begins a call if that is possible now.
    pub(super) fn begins(&self, resizes: bool) -> bool {
        let may = !self.resizes.get() && (!resizes || self.calls.get() == 0);
        if may {
            self.calls.set(self.calls.get() + 1);
            self.resizes.set(resizes);
        }
        may
    }

    /// Whether no call is going on.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.get() == 0
    }

    /// Ends a call.
    pub(super) fn ends(&self) {
        self.calls.set(self.calls.get() - 1);
        self.resizes.set(false);
    }

    /// Whether all writers have closed it, and no reader was done with it.
    fn is_left(&self) -> bool {
        self.is_done.get() && self.is_idle() && !self.is_read.get()
    }

    /// Whether readers may have it.
    pub(super) fn is_readable(&self) -> bool {
        self.is_done.get() || !self.bytes.borrow().states.is_empty()
    }
}

/// The generations of one name, by their numbers from 1 on.
#[derive(Default)]
pub(super) struct File {
    pub(super) generations: RefCell<Vec<Rc<Expected>>>,
    /// Readers with their first open under way.
    pub(super) coming: Cell<usize>,
}

impl File {
    pub(super) fn get(&self, number: u64) -> Option<Rc<Expected>> {
        self.generations.borrow().get(usize::try_from(number).ok()?.checked_sub(1)?).cloned()
    }

    /// Adds the next generation. Returns its number.
    pub(super) fn add(&self, generation: Rc<Expected>) -> u64 {
        let mut all = self.generations.borrow_mut();
        all.push(generation);
        all.len() as u64
    }

    /// The newest generation.
    pub(super) fn newest(&self) -> Option<Rc<Expected>> {
        self.generations.borrow().last().cloned()
    }

    /// The newest one that all writers have closed, if no reader was done with that; 0 for none.
    pub(super) fn newest_left(&self) -> u64 {
        let all = self.generations.borrow();
        all.iter().rposition(|one| one.is_left()).map_or(0, |index| index as u64 + 1)
    }

    /// Whether writers have closed, or are closing, one after this number.
    pub(super) fn is_closed_after(&self, number: u64) -> bool {
        self.generations.borrow().iter().skip(number as usize).any(|one| one.is_done.get())
    }

    /// Whether readers were done with the generation of this number.
    pub(super) fn was_read(&self, number: u64) -> bool {
        self.get(number).is_some_and(|one| one.is_read.get())
    }
}

/// All files.
#[derive(Default)]
pub(super) struct Model {
    files: RefCell<BTreeMap<Vec<u8>, Rc<File>>>,
}

impl Model {
    pub(super) fn file(&self, path: &[u8]) -> Rc<File> {
        self.files.borrow_mut().entry(path.to_vec()).or_default().clone()
    }
}
