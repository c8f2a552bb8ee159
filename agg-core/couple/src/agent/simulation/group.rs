//! The processes that write files together: they agree on each generation, and meet between them.

use super::chance::Chance;
use super::model::{Expected, File, Model};
use super::program::Program;
use crate::registry::Options;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A file that a group writes.
pub(super) struct Target {
    pub(super) path: Vec<u8>,
    pub(super) options: Options,
    pub(super) file: Rc<File>,
    /// Bytes at most.
    pub(super) most: usize,
}

/// How a generation is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It begins without bytes.
    New,
    /// It begins with the bytes of the one before.
    Copy,
    /// It is written under another name, and renamed.
    Renamed,
}

/// The making of one generation.
pub(super) struct Making {
    pub(super) target: Rc<Target>,
    pub(super) way: Way,
    /// The name under which it is written, and the generations of that.
    pub(super) path: Vec<u8>,
    pub(super) file: Rc<File>,
    pub(super) creator: usize,
    pub(super) members: Vec<bool>,
    /// The generation, once it has begun, and its number.
    pub(super) generation: RefCell<Option<(Rc<Expected>, u64)>>,
    /// Members that have yet to open it for the last time.
    pub(super) to_open: Cell<usize>,
    /// Steps of each member.
    pub(super) steps: usize,
    /// The member that renames it, and one that reads it when it is complete.
    pub(super) renamer: usize,
    pub(super) looker: Option<usize>,
}

/// Processes of one program, or of several ones, that write.
pub(super) struct Group {
    pub(super) targets: Vec<Rc<Target>>,
    pub(super) makings: usize,
    pub(super) members: usize,
    /// Each is a program of its own.
    are_alone: bool,
    arrived: Cell<usize>,
    making: RefCell<Option<Rc<Making>>>,
    pub(super) model: Rc<Model>,
}

impl Group {
    pub(super) fn new(
        targets: Vec<Rc<Target>>,
        (makings, members, are_alone): (usize, usize, bool),
        model: Rc<Model>,
    ) -> Rc<Self> {
        let (arrived, making) = (Cell::new(0), RefCell::new(None));
        Rc::new(Self { targets, makings, members, are_alone, arrived, making, model })
    }

    /// Waits until all members have come here.
    pub(super) async fn meet(&self, program: &Program) {
        program.does("meets the others");
        let goal = (self.arrived.get() / self.members + 1) * self.members;
        self.arrived.set(self.arrived.get() + 1);
        program.until(|| self.arrived.get() >= goal).await;
    }

    /// The generation that all members make next, which the first one of them decides.
    pub(super) async fn next(&self, program: &Program, who: usize, number: usize) -> Rc<Making> {
        if who == 0 {
            let making = self.decide(program.chance(), number);
            self.making.replace(Some(Rc::new(making)));
        }
        self.meet(program).await;
        self.making.borrow().clone().unwrap()
    }

    fn decide(&self, chance: &Chance, number: usize) -> Making {
        let target = self.targets[number % self.targets.len()].clone();
        let way = chance.one(&[Way::New, Way::New, Way::Copy, Way::Copy, Way::Renamed]);
        let mut path = target.path.clone();
        if way == Way::Renamed {
            path.extend(b".new");
        }
        let file = self.model.file(&path);
        let creator = chance.of(0..self.members);
        let some = chance.once_in(3);
        let members: Vec<bool> =
            (0..self.members).map(|who| who == creator || !(some && chance.once_in(2))).collect();
        let to_open = Cell::new(members.iter().filter(|member| **member).count() - 1);
        let generation = RefCell::new(None);
        let steps = chance.of(0..8);
        let renamer = if self.are_alone { creator } else { chance.of(0..self.members) };
        let looker = chance.once_in(3).then(|| chance.of(0..self.members));
        // Another program than those that wrote it is a reader.
        let is_own = |who: &usize| match way {
            Way::Renamed => *who == renamer,
            _ => members[*who],
        };
        let looker = looker.filter(|who| !self.are_alone || is_own(who));
        Making {
            target,
            way,
            path,
            file,
            creator,
            members,
            generation,
            to_open,
            steps,
            renamer,
            looker,
        }
    }
}
