//! Random programs: the operations of every rank, step by step, all fixed in advance.

use crate::choices::Choices;
use crate::types::{Flat, Recipe, choose};

pub(crate) use agg_core::file::{Direction, Whence};

/// Largest file that a program makes on purpose.
const FILE_MAX: u64 = 4096;

/// A program for a number of ranks on one file.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) ranks: usize,
    pub(crate) hosts: usize,
    /// Bytes that the file holds at the start.
    pub(crate) initial: u64,
    pub(crate) hints: Vec<(String, String)>,
    /// Faults that any system may show: short and interrupted transfers.
    pub(crate) faults: Option<String>,
    pub(crate) steps: Vec<Step>,
}

/// One step of all ranks; a vector has one item a rank.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    SetView(Vec<ViewRecipe>),
    Data(DataStep),
    Seek(Vec<(i64, Whence)>),
    SeekShared(i64, Whence),
    SetSize(u64),
    Preallocate(u64),
    SetAtomicity(bool),
    Sync,
    /// Sizes, positions and byte offsets are asked for and compared.
    Ask(i64),
    /// All ranks close the file and open it again.
    Reopen,
    /// One rank reads or writes alone through a handle of its own.
    Own(Own),
    /// One rank looks at the whole file by system calls, and goes on looking or not.
    Look(usize, bool),
    /// One rank has wrong arguments: all must get an error, and nothing may change but bytes that
    /// ranks write of their own (see [`Mistake::accesses`]).
    Wrong(usize, Mistake),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    Offset,
    Memory,
    Size,
    View,
    Atomicity,
    /// One rank reads where the others write.
    Kind,
    /// One rank flushes where the others write.
    Call,
}

impl Mistake {
    /// Whether the other ranks write: some may have done so before they receive the error. Then
    /// they write the same again, rightly.
    pub(crate) fn accesses(self) -> bool {
        matches!(self, Self::Offset | Self::Memory | Self::Kind | Self::Call)
    }
}

/// An operation of a rank through a handle of its own.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) rank: usize,
    pub(crate) direction: Direction,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// First byte of the pattern that is written.
    pub(crate) salt: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct ViewRecipe {
    pub(crate) displacement: u64,
    pub(crate) etype: Recipe,
    pub(crate) filetype: Recipe,
    pub(crate) external: bool,
}

/// Reads or writes of all ranks, or of some alone.
#[derive(Clone, Debug)]
pub(crate) struct DataStep {
    pub(crate) direction: Direction,
    /// Ranks that do the opposite alone meanwhile.
    pub(crate) against: Vec<bool>,
    /// Where each round of operations goes; of one kind unless nonblocking.
    pub(crate) places: Vec<Place>,
    pub(crate) mode: Mode,
    /// The operations of each rank, in order; equally long lists if collective.
    pub(crate) ops: Vec<Vec<Op>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Explicit,
    Individual,
    Shared,
    ExplicitAll,
    IndividualAll,
    Ordered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Blocking,
    /// All operations of the step are in progress together.
    Nonblocking,
    Split,
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    /// Explicit offset, in etypes.
    pub(crate) offset: i64,
    pub(crate) memory: Recipe,
    pub(crate) count: u64,
    /// First byte of the pattern that is written.
    pub(crate) salt: u8,
}

impl Place {
    pub(crate) fn is_collective(self) -> bool {
        matches!(self, Place::ExplicitAll | Place::IndividualAll | Place::Ordered)
    }
}

impl Program {
    pub(crate) fn hint(&self, name: &str) -> Option<&str> {
        self.hints.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

impl DataStep {
    /// Whether each rank works for itself.
    pub(crate) fn is_independent(&self) -> bool {
        !self.places.iter().any(|place| place.is_collective())
    }

    pub(crate) fn direction_of(&self, rank: usize) -> Direction {
        match (self.direction, self.against[rank]) {
            (Direction::Write, false) | (Direction::Read, true) => Direction::Write,
            (Direction::Read, false) | (Direction::Write, true) => Direction::Read,
        }
    }

    pub(crate) fn is_writer(&self, rank: usize) -> bool {
        self.direction_of(rank) == Direction::Write
    }

    /// Whether a rank writes.
    pub(crate) fn writes(&self) -> bool {
        (0..self.ops.len()).any(|rank| self.is_writer(rank))
    }

    /// Whether ranks write while others read.
    pub(crate) fn is_mixed(&self) -> bool {
        self.against.contains(&true) && self.against.contains(&false)
    }

    pub(crate) fn uses(&self, place: Place) -> bool {
        self.places.contains(&place)
    }
}

impl ViewRecipe {
    pub(crate) fn bytes() -> Self {
        let byte = Recipe::Basic(1);
        Self { displacement: 0, etype: byte.clone(), filetype: byte, external: false }
    }
}

/// The program that these numbers stand for: the first list its frame, each other one a step.
pub(crate) fn decode(frame: &[u16], steps: &[Vec<u16>]) -> Program {
    let mut c = Choices::new(frame);
    let ranks = c.between(1, 8) as usize;
    let hosts = c.between(1, 3) as usize;
    let initial = c.below(3) * c.below(FILE_MAX / 2);
    let hints = hints(&mut c);
    let faults = faults(&mut c);
    let mut views = vec![ViewRecipe::bytes(); ranks];
    let steps = steps.iter().map(|numbers| step(&mut Choices::new(numbers), &mut views)).collect();
    Program { ranks, hosts, initial, hints, faults, steps }
}

fn hints(c: &mut Choices) -> Vec<(String, String)> {
    let mut hints = Vec::new();
    let mut put = |key: &str, value: String| hints.push((key.to_owned(), value));
    put("cb_buffer_size", c.one_of(&[64, 1, 7, 512, 4096, 1 << 20]).to_string());
    let switches = ["enable", "automatic", "disable"];
    put("romio_cb_write", c.one_of(&switches).to_owned());
    put("romio_cb_read", c.one_of(&switches).to_owned());
    put("cb_nodes", c.below(5).to_string());
    put("cb_config_list", c.one_of(&["*:*", "*:1", "*:2"]).to_owned());
    put("striping_unit", c.one_of(&[0, 16, 64, 4096]).to_string());
    put("romio_ds_read", c.one_of(&switches).to_owned());
    put("ind_rd_buffer_size", c.one_of(&[64, 4096]).to_string());
    put("romio_min_fdomain_size", c.one_of(&[0, 32]).to_string());
    hints
}

fn faults(c: &mut Choices) -> Option<String> {
    let plans = [
        None,
        Some("op=read,every=2,short=7;op=write,every=2,short=5"),
        Some("op=read,every=3,errno=EINTR;op=write,every=2,errno=EINTR"),
    ];
    c.one_of(&plans).map(str::to_owned)
}

fn step(c: &mut Choices, views: &mut [ViewRecipe]) -> Step {
    let ranks = views.len();
    match c.below(24) {
        0..=10 => Step::Data(data(c, views)),
        11..=13 => {
            set_view(c, views);
            Step::SetView(views.to_vec())
        }
        14 => Step::Seek((0..ranks).map(|_| seek(c)).collect()),
        15 => {
            let (offset, whence) = seek(c);
            Step::SeekShared(offset, whence)
        }
        16 => match c.below(4) {
            0 => Step::SetSize(c.below(FILE_MAX)),
            1 => Step::Preallocate(c.below(FILE_MAX)),
            2 => Step::Sync,
            _ => Step::SetSize(0),
        },
        17 => Step::SetAtomicity(c.below(2) == 0),
        18 => Step::Ask(c.below(64) as i64 - 2),
        19 => {
            views.fill(ViewRecipe::bytes());
            Step::Reopen
        }
        20 | 21 => Step::Own(Own {
            rank: c.below(ranks as u64) as usize,
            direction: c.one_of(&[Direction::Write, Direction::Read]),
            offset: c.below(FILE_MAX / 2),
            len: c.between(1, 200),
            salt: c.below(256) as u8,
        }),
        22 => Step::Look(c.below(ranks as u64) as usize, c.once_in(4)),
        _ => {
            let mistakes = [
                Mistake::Offset,
                Mistake::Memory,
                Mistake::Size,
                Mistake::View,
                Mistake::Atomicity,
                Mistake::Kind,
                Mistake::Call,
            ];
            Step::Wrong(c.below(ranks as u64) as usize, c.one_of(&mistakes))
        }
    }
}

fn seek(c: &mut Choices) -> (i64, Whence) {
    let whence = c.one_of(&[Whence::Start, Whence::Current, Whence::End]);
    let offset = c.below(40) as i64 - if whence == Whence::Start { 1 } else { 12 };
    (offset, whence)
}

fn set_view(c: &mut Choices, views: &mut [ViewRecipe]) {
    let external = c.once_in(8);
    let etype = match c.below(5) {
        _ if external => Recipe::Basic(c.one_of(&[4, 8, 2])),
        0 => Recipe::Basic(1),
        1 => Recipe::Basic(4),
        2 => Recipe::Basic(8),
        _ => {
            let unit = Recipe::Basic(c.one_of(&[1, 2, 4]));
            choose(c, unit, true, 1)
        }
    };
    let same = c.below(3) == 0;
    let common = choose(c, etype.clone(), true, 3);
    for view in views {
        let displacement = c.below(100);
        let filetype = if same { common.clone() } else { choose(c, etype.clone(), true, 2) };
        *view = ViewRecipe { displacement, etype: etype.clone(), filetype, external };
    }
}

fn data(c: &mut Choices, views: &[ViewRecipe]) -> DataStep {
    let direction = c.one_of(&[Direction::Write, Direction::Read]);
    let place = c.one_of(&[
        Place::ExplicitAll,
        Place::IndividualAll,
        Place::Ordered,
        Place::Explicit,
        Place::Individual,
        Place::Shared,
    ]);
    let mode = match c.below(4) {
        0 | 1 => Mode::Blocking,
        2 if place.is_collective() => Mode::Split,
        // MPI has no nonblocking ordered operation; two of them would take turns at will.
        _ if place == Place::Ordered => Mode::Split,
        _ => Mode::Nonblocking,
    };
    let rounds = c.between(1, 3);
    let mut places = vec![place; rounds as usize];
    if mode == Mode::Nonblocking && place != Place::Shared && c.once_in(2) {
        let mixed = [Place::ExplicitAll, Place::IndividualAll, Place::Explicit, Place::Individual];
        places.fill_with(|| c.one_of(&mixed));
    }
    let mut ops: Vec<Vec<Op>> =
        views.iter().map(|view| (0..rounds).map(|_| op(c, view)).collect()).collect();
    let mut against = vec![false; views.len()];
    if !places.iter().any(|place| place.is_collective()) {
        if c.once_in(2) {
            ops.iter_mut().filter(|_| c.once_in(2)).for_each(Vec::clear);
        }
        if c.once_in(3) {
            against.fill_with(|| c.once_in(2));
        }
    }
    DataStep { direction, against, places, mode, ops }
}

fn op(c: &mut Choices, view: &ViewRecipe) -> Op {
    let etype = view.etype.flat().size();
    let unit = if view.external { view.etype.clone() } else { Recipe::Basic(c.one_of(&[1, 2, 4])) };
    let memory = choose(c, unit, false, 2);
    let flat: Flat = memory.flat();
    let mut count = 0;
    if !c.once_in(6) && flat.size() > 0 {
        let least = etype / gcd(etype, flat.size());
        let most = (500 / (least * flat.size()).max(1)).max(1);
        count = least * c.between(1, most);
    }
    Op { offset: c.below(60) as i64, memory, count, salt: c.below(256) as u8 }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
