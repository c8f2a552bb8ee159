//! A node that writes records of a netCDF file, its owner, and a node that reads what was
//! announced: random histories, in which every record that a reader is told of must be right.

use super::*;
use crate::areas::read_all;
use crate::hosted::Writers;
use crate::netcdf_header::tests::header;
use crate::peers::twin;
use crate::records;
use aggio_link::Peer;
use proptest::prelude::*;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const KEY: Key = (Peer(1), 7);
const BEGIN: u64 = 4096;

/// Shorts of each of two variables: a part of a page, a few pages, more than one piece.
const SHORTS: [u64; 4] = [600, 2048, 6000, 300_000];

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The writer writes a variable of the record that is so many behind the last whole one, if
    /// records are pages; zeros if it is to.
    Write { ahead: u64, variable: u64, zeros: bool },
    /// It announces the records up to the last one that it has begun, or without that one if it has
    /// not written all of it.
    Announce,
    /// It synchronises the file.
    Sync,
    /// The reader asks how many records there are.
    Read,
    /// The reader opens the file again, or has heard of news.
    Renew,
}

fn act() -> impl Strategy<Value = Act> {
    let write = (0..3_u64, 0..2_u64, any::<bool>());
    prop_oneof![
        8 => write.prop_map(|(ahead, variable, zeros)| Act::Write { ahead, variable, zeros }),
        4 => Just(Act::Announce),
        1 => Just(Act::Sync),
        3 => Just(Act::Read),
        1 => Just(Act::Renew),
    ]
}

pub(super) fn file() -> OwnedFd {
    // SAFETY: the descriptor is new and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(os::memory_file(c"test").unwrap()) }
}

pub(super) fn contents(file: &OwnedFd, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    read_all(file.as_raw_fd(), &mut bytes, offset).unwrap();
    bytes
}

fn asked() -> Asked {
    Asked { link: 0, process: 0, request: Request::Records(1, 0) }
}

struct Scene {
    shorts: u64,
    writer: (Shared, OwnedFd),
    owner: (Writers, OwnedFd),
    reader: (Shared, OwnedFd),
    /// Which variables of each record were written.
    written: Vec<[bool; 2]>,
    announced: u64,
    /// How many of those were whole when that was.
    sent: u64,
    /// Pieces that were fetched, whether they were news or not.
    fetched: u64,
}

impl Scene {
    fn new(shorts: u64) -> Self {
        let (mut hosted, owner) = (Writers::default(), file());
        hosted.lend(KEY.0, owner.try_clone().unwrap());
        let side = || (Shared::early(), file());
        let (written, announced, sent, fetched) = (Vec::new(), 0, 0, 0);
        let (writer, owner, reader) = (side(), (hosted, owner), side());
        Scene { shorts, writer, owner, reader, written, announced, sent, fetched }
    }

    /// Bytes of a variable; its records follow each other without gaps.
    fn slot(&self) -> u64 {
        2 * self.shorts
    }

    fn place(&self, record: u64, variable: u64) -> u64 {
        BEGIN + self.slot() * (2 * record + variable)
    }

    fn whole(&self) -> u64 {
        self.written.iter().take_while(|both| **both == [true, true]).count() as u64
    }

    fn write(&mut self, ahead: u64, variable: u64, zeros: bool) {
        let is_paged = self.slot().is_multiple_of(os::page_size() as u64);
        let ahead = if is_paged { ahead } else { 0 };
        let record = self.whole() + ahead;
        self.written.resize(self.written.len().max(record as usize + 1), [false; 2]);
        // Announced records are not written again.
        if std::mem::replace(&mut self.written[record as usize][variable as usize], true) {
            return;
        }
        let value = if zeros { 0 } else { 1 + (record + variable) as u8 % 200 };
        let bytes = vec![value; self.slot() as usize];
        os::pwrite(self.writer.1.as_raw_fd(), &bytes, self.place(record, variable)).unwrap();
    }

    /// Sends the owner the bytes that it is to have.
    fn push(&mut self, part: Part) {
        let (shared, copy) = &mut self.writer;
        shared.push_part(Then::Ask(asked()), part);
        loop {
            match shared.step(KEY, copy.as_raw_fd(), true).unwrap() {
                Step::Say(all) => {
                    for (message, body) in all {
                        match (message, body) {
                            (Message::Size(_, size, cut), _) => {
                                self.owner.0.set_size(KEY.0, size, cut).unwrap();
                            }
                            (Message::Memory(_, offset, len), _) => {
                                self.owner.0.allocate(KEY.0, Extent::new(offset, len)).unwrap();
                            }
                            (Message::Differ(_), Body::Bytes(body)) => {
                                self.owner.0.differ(KEY.0, &body).unwrap();
                            }
                            (other, _) => panic!("{other:?}"),
                        }
                    }
                }
                Step::Sent(_) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    fn announce(&mut self) {
        let all = self.written.len() as u64;
        let is_whole = self.written.last().is_none_or(|both| *both == [true, true]);
        let before = if is_whole { Before::All } else { Before::Others };
        let bytes = header(1, all, &[self.shorts; 2], BEGIN);
        os::pwrite(self.writer.1.as_raw_fd(), &bytes, 0).unwrap();
        self.push(Part::Records(before));
        self.announced = self.announced.max(if is_whole { all } else { all.saturating_sub(1) });
        self.sent = self.whole().min(self.announced);
    }

    /// The answers of the owner to a reader, as from the agent.
    fn records(&self) -> Option<u64> {
        let fd = self.owner.1.as_raw_fd();
        let header = records::header(fd).unwrap()?;
        Some(records::there(fd, &header, 0, self.announced).unwrap())
    }

    fn renew(&mut self, wants: Wants) {
        let ((shared, copy), owner) = (&mut self.reader, self.owner.1.as_raw_fd());
        shared.renew(wants);
        let open = || copy.try_clone();
        loop {
            match shared.step(KEY, copy.as_raw_fd(), true).unwrap() {
                Step::Say(all) => {
                    for (message, _) in all {
                        match message {
                            Message::Look(_) => {
                                let size = os::fstat(owner).unwrap().st_size as u64;
                                shared.looked(size).unwrap();
                            }
                            Message::Renew(_, offset, len, mark) => {
                                let bytes = contents(&self.owner.1, offset, len);
                                let news = (twin::mark(&bytes) != mark).then_some(&bytes[..]);
                                shared.renewed((offset, news), &[], open).unwrap();
                                self.fetched += 1;
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
                Step::Renewed(_) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    fn read(&mut self) {
        let Some(there) = self.records() else { return };
        assert!(there >= self.sent, "{there} of {}", self.sent);
        self.renew(Wants::Answer(asked(), Reply::Records(Some((there, 4)))));
        self.reader.0.has_records(&Reply::Records(Some((there, 4))));
        let len = there * 2 * self.slot();
        let (mine, theirs) =
            (contents(&self.reader.1, BEGIN, len), contents(&self.writer.1, BEGIN, len));
        assert!(mine == theirs, "one of {there} records is wrong");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_record_that_a_reader_on_another_node_is_told_of_is_right(
        shorts in prop::sample::select(&SHORTS[..]),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let mut scene = Scene::new(shorts);
        for act in acts {
            match act {
                Act::Write { ahead, variable, zeros } => scene.write(ahead, variable, zeros),
                Act::Announce => scene.announce(),
                Act::Sync => scene.push(Part::All),
                Act::Read => scene.read(),
                Act::Renew => scene.renew(Wants::All),
            }
        }
        scene.announce();
        scene.read();
        scene.push(Part::All);
        scene.renew(Wants::All);
        let size = os::fstat(scene.writer.1.as_raw_fd()).unwrap().st_size as u64;
        let (mine, theirs) =
            (contents(&scene.reader.1, 0, size), contents(&scene.writer.1, 0, size));
        prop_assert!(mine == theirs, "the files differ when all was sent");
    }
}

#[test]
fn a_new_record_of_a_long_file_is_had_without_a_look_at_those_before() {
    let mut scene = Scene::new(300_000);
    for _ in 0..20 {
        scene.write(0, 0, false);
        scene.write(0, 1, false);
        scene.announce();
        scene.read();
    }
    // Of 24 MB: the first answer is of all, each later one of the header and two or three pieces.
    assert!(scene.fetched < 20 * 5, "{} pieces were fetched", scene.fetched);
}
