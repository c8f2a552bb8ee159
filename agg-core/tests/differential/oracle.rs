//! The expected results of a program, computed by one thread, byte by byte.

use crate::program::{
    DataStep, Direction, Mode, Op, Own, Place, Program, Step, ViewRecipe, Whence,
};
use crate::types::Flat;

/// The expected results of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) bytes: u64,
    /// The buffer afterwards; `None` where conflicting writes leave the byte open.
    pub(crate) buffer: Vec<Option<u8>>,
}

/// The expected results of a step, one item a rank.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Nothing,
    /// For each rank, its operations; and whether the ranks must take turns.
    Data(Vec<Vec<Expected>>, bool),
    /// Whether each seek must succeed.
    Seek(Vec<bool>),
    Asked {
        size: u64,
        positions: Vec<i64>,
        shared: i64,
        offsets: Vec<Option<i64>>,
    },
    /// The bytes of a read, where they are certain; `None` for a write.
    Own(Option<Vec<Option<u8>>>),
    /// All bytes of the file, where they are certain.
    File(Vec<Option<u8>>),
}

/// A flattened view.
struct View {
    displacement: i64,
    etype: u64,
    flat: Flat,
    within: Vec<(u32, u32)>,
    bytes: Vec<i64>,
    external: bool,
}

impl View {
    fn new(recipe: &ViewRecipe) -> Self {
        let flat = recipe.filetype.flat();
        Self {
            displacement: recipe.displacement as i64,
            etype: recipe.etype.flat().size(),
            within: flat.within(1),
            bytes: flat.bytes(1),
            flat,
            external: recipe.external,
        }
    }

    /// The file byte of data byte `position`, and its place in its element.
    fn at(&self, position: u64) -> (usize, (u32, u32)) {
        let size = self.flat.size();
        let (copy, rest) = ((position / size) as i64, (position % size) as usize);
        let byte = self.displacement + copy * self.flat.extent() + self.bytes[rest];
        (byte as usize, self.within[rest])
    }

    /// Where a byte of memory goes: big-endian elements in external32.
    fn file_byte(&self, position: u64) -> usize {
        let (byte, (within, len)) = self.at(position);
        if self.external { byte - within as usize + (len - 1 - within) as usize } else { byte }
    }

    fn etypes_before(&self, end: u64) -> u64 {
        (0u64..).find(|etype| self.at(etype * self.etype).0 as u64 >= end).unwrap_or(0)
    }
}

pub(crate) struct Oracle {
    pub(crate) file: Vec<u8>,
    /// Bytes that conflicting writes left open.
    pub(crate) open: Vec<bool>,
    views: Vec<View>,
    individual: Vec<i64>,
    shared: i64,
    atomic: bool,
    /// Whether aggregators write all that is written collectively, and so keep rank order.
    aggregated: bool,
}

/// The byte that the pattern of an operation holds at byte `index` of its buffer.
pub(crate) fn pattern(salt: u8, index: usize) -> u8 {
    salt.wrapping_mul(31)
        .wrapping_add((index as u8).wrapping_mul(7))
        .wrapping_add((index >> 8) as u8)
}

/// The byte that ranks write in a call that fails because of another rank.
pub(crate) const FILL: u8 = 0xEE;

/// The byte that fills a buffer before a read.
pub(crate) const BEFORE: u8 = 0xA5;

impl Op {
    /// Bytes before the address that is passed, and the buffer's length.
    pub(crate) fn room(&self) -> (usize, usize) {
        let bytes = self.memory.flat().bytes(self.count);
        let low = bytes.iter().copied().min().unwrap_or(0).min(0);
        let high = bytes.iter().copied().max().unwrap_or(0);
        ((-low) as usize + 8, (high - low) as usize + 17)
    }
}

impl Oracle {
    pub(crate) fn new(program: &Program) -> Self {
        let file: Vec<u8> = (0..program.initial as usize).map(|i| pattern(99, i)).collect();
        Self {
            open: vec![false; file.len()],
            file,
            views: (0..program.ranks).map(|_| View::new(&ViewRecipe::bytes())).collect(),
            individual: vec![0; program.ranks],
            shared: 0,
            atomic: false,
            aggregated: program.hint("romio_cb_write") == Some("enable"),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) -> Told {
        match step {
            Step::SetView(recipes) => {
                self.set_views(recipes);
                Told::Nothing
            }
            Step::Reopen => {
                self.set_views(&vec![ViewRecipe::bytes(); self.views.len()]);
                self.atomic = false;
                Told::Nothing
            }
            Step::Own(own) => self.own(own),
            Step::Look(..) => Told::File(self.certain(0, self.file.len())),
            Step::Data(data) => self.data(data),
            Step::Seek(seeks) => Told::Seek(
                seeks.iter().enumerate().map(|(rank, seek)| self.seek(rank, *seek)).collect(),
            ),
            Step::SeekShared(offset, whence) => {
                let target = self.target(0, self.shared, (*offset, *whence));
                self.shared = target.unwrap_or(self.shared);
                Told::Seek(vec![target.is_some(); self.views.len()])
            }
            Step::SetSize(size) => {
                self.resize(*size as usize);
                Told::Nothing
            }
            Step::Preallocate(size) => {
                self.resize(self.file.len().max(*size as usize));
                Told::Nothing
            }
            Step::SetAtomicity(atomic) => {
                self.atomic = *atomic;
                Told::Nothing
            }
            Step::Wrong(who, mistake) => {
                if mistake.accesses() {
                    self.fill(*who);
                }
                Told::Nothing
            }
            Step::Sync => Told::Nothing,
            Step::Ask(offset) => self.ask(*offset),
        }
    }

    /// The ranks other than `who` write etype 1 of their views, see `Mistake::accesses`.
    fn fill(&mut self, who: usize) {
        let others = (0..self.views.len()).filter(|rank| *rank != who);
        let etype = |rank: usize| {
            let view = &self.views[rank];
            (view.etype..2 * view.etype).map(|position| view.at(position).0).collect::<Vec<_>>()
        };
        for byte in others.flat_map(etype).collect::<Vec<_>>() {
            if self.file.len() <= byte {
                self.resize(byte + 1);
            }
            (self.file[byte], self.open[byte]) = (FILL, false);
        }
    }

    fn set_views(&mut self, recipes: &[ViewRecipe]) {
        self.views = recipes.iter().map(View::new).collect();
        self.individual.fill(0);
        self.shared = 0;
    }

    fn own(&mut self, own: &Own) -> Told {
        let (start, end) = (own.offset as usize, (own.offset + own.len) as usize);
        if own.direction == Direction::Read {
            return Told::Own(Some(self.certain(start, end)));
        }
        self.resize(self.file.len().max(end));
        for (index, byte) in (start..end).enumerate() {
            (self.file[byte], self.open[byte]) = (pattern(own.salt, index), false);
        }
        Told::Own(None)
    }

    /// The bytes of a part of the file, as far as there are any.
    fn certain(&self, start: usize, end: usize) -> Vec<Option<u8>> {
        let bytes = start..end.min(self.file.len()).max(start);
        bytes.map(|byte| (!self.open[byte]).then_some(self.file[byte])).collect()
    }

    fn resize(&mut self, size: usize) {
        self.file.resize(size, 0);
        self.open.resize(size, false);
    }

    fn ask(&self, offset: i64) -> Told {
        let byte =
            |view: &View| (offset >= 0).then(|| view.at(offset as u64 * view.etype).0 as i64);
        Told::Asked {
            size: self.file.len() as u64,
            positions: self.individual.clone(),
            shared: self.shared,
            offsets: self.views.iter().map(byte).collect(),
        }
    }

    fn seek(&mut self, rank: usize, seek: (i64, Whence)) -> bool {
        let target = self.target(rank, self.individual[rank], seek);
        self.individual[rank] = target.unwrap_or(self.individual[rank]);
        target.is_some()
    }

    fn target(&self, rank: usize, current: i64, (offset, whence): (i64, Whence)) -> Option<i64> {
        let base = match whence {
            Whence::Start => 0,
            Whence::Current => current,
            Whence::End => self.views[rank].etypes_before(self.file.len() as u64) as i64,
        };
        Some(base + offset).filter(|target| *target >= 0)
    }

    fn data(&mut self, step: &DataStep) -> Told {
        let placed = self.place(step);
        let writes = step.writes();
        let turns = step.uses(Place::Shared)
            || (step.is_independent() && conflict(&placed))
            || (step.is_mixed() && self.extends(step, &placed));
        let mut told = vec![Vec::new(); step.ops.len()];
        let rounds = step.ops.iter().map(Vec::len).max().unwrap_or(0);
        if turns {
            for (rank, told) in told.iter_mut().enumerate() {
                for round in 0..step.ops[rank].len() {
                    told.push(self.carry_out(step, &placed, rank, round));
                }
            }
            return Told::Data(told, true);
        }
        for round in 0..rounds {
            for (rank, told) in told.iter_mut().enumerate() {
                if round < step.ops[rank].len() {
                    told.push(self.carry_out(step, &placed, rank, round));
                }
            }
            let ordered = step.places[round].is_collective() && self.atomic && self.aggregated;
            if writes && !ordered && step.mode != Mode::Nonblocking {
                let writers = placed.iter().enumerate().filter(|(rank, _)| step.is_writer(*rank));
                let all: Vec<_> =
                    writers.filter_map(|(_, one)| one.get(round)).map(|one| &one[..]).collect();
                self.leave_open(&all);
            }
        }
        if writes && step.mode == Mode::Nonblocking {
            let writers = placed.iter().enumerate().filter(|(rank, _)| step.is_writer(*rank));
            let all: Vec<_> = writers.flat_map(|(_, one)| one).map(|bytes| &bytes[..]).collect();
            self.leave_open(&all);
        }
        Told::Data(told, false)
    }

    /// Whether a write makes the file longer, so that reads of other ranks depend on the order.
    fn extends(&self, step: &DataStep, placed: &[Vec<Vec<usize>>]) -> bool {
        let writers = (0..placed.len()).filter(|rank| step.is_writer(*rank));
        writers.flat_map(|rank| placed[rank].iter().flatten()).any(|byte| *byte >= self.file.len())
    }

    /// The file bytes of every operation; moves the file pointers.
    fn place(&mut self, step: &DataStep) -> Vec<Vec<Vec<usize>>> {
        let mut placed: Vec<Vec<Vec<usize>>> =
            step.ops.iter().map(|ops| vec![Vec::new(); ops.len()]).collect();
        let rounds = step.ops.iter().map(Vec::len).max().unwrap_or(0);
        let mut order: Vec<(usize, usize)> = match step.uses(Place::Ordered) {
            true => {
                (0..rounds).flat_map(|round| (0..step.ops.len()).map(move |r| (r, round))).collect()
            }
            false => {
                (0..step.ops.len()).flat_map(|r| (0..rounds).map(move |round| (r, round))).collect()
            }
        };
        order.retain(|(rank, round)| *round < step.ops[*rank].len());
        for (rank, round) in order {
            let op = &step.ops[rank][round];
            let view = &self.views[rank];
            let len = op.memory.flat().size() * op.count;
            let etypes = (len / view.etype) as i64;
            let first = match step.places[round] {
                Place::Explicit | Place::ExplicitAll => op.offset,
                Place::Individual | Place::IndividualAll => {
                    self.individual[rank] += etypes;
                    self.individual[rank] - etypes
                }
                Place::Shared | Place::Ordered => {
                    self.shared += etypes;
                    self.shared - etypes
                }
            };
            let start = first as u64 * view.etype;
            placed[rank][round] = (start..start + len).map(|p| view.file_byte(p)).collect();
        }
        placed
    }

    fn carry_out(
        &mut self,
        step: &DataStep,
        placed: &[Vec<Vec<usize>>],
        rank: usize,
        round: usize,
    ) -> Expected {
        let (op, bytes) = (&step.ops[rank][round], &placed[rank][round]);
        let (base, len) = op.room();
        let places = op.memory.flat().bytes(op.count);
        let place = |i: usize| (base as i64 + places[i]) as usize;
        if step.is_writer(rank) {
            if let Some(end) = bytes.iter().max() {
                self.resize(self.file.len().max(end + 1));
            }
            for (i, byte) in bytes.iter().enumerate() {
                self.file[*byte] = pattern(op.salt, place(i));
                self.open[*byte] = false;
            }
            let buffer = (0..len).map(|i| Some(pattern(op.salt, i))).collect();
            return Expected { bytes: bytes.len() as u64, buffer };
        }
        let mut buffer = vec![Some(BEFORE); len];
        let view = &self.views[rank];
        let mut moved = 0;
        // Elements that the end of the file cuts are no data in external32.
        let whole = view.within.first().map_or(1, |(_, len)| *len as usize);
        let step_by = if view.external { whole } else { 1 };
        for (chunk_index, chunk) in bytes.chunks(step_by).enumerate() {
            if chunk.iter().any(|byte| *byte >= self.file.len()) {
                break;
            }
            for (i, byte) in chunk.iter().enumerate() {
                let open = self.open[*byte];
                buffer[place(chunk_index * step_by + i)] = (!open).then_some(self.file[*byte]);
            }
            moved += chunk.len() as u64;
        }
        Expected { bytes: moved, buffer }
    }

    /// Bytes that more than one of these writes touches may come from any of them.
    fn leave_open(&mut self, writes: &[&[usize]]) {
        let mut seen = vec![false; self.file.len()];
        for write in writes {
            for byte in *write {
                if std::mem::replace(&mut seen[*byte], true) {
                    self.open[*byte] = true;
                }
            }
        }
    }
}

/// Whether operations of different ranks, or of one rank, touch the same bytes.
fn conflict(placed: &[Vec<Vec<usize>>]) -> bool {
    let mut all: Vec<usize> = placed.iter().flatten().flatten().copied().collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    all.len() != count
}
