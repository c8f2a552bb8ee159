//! Copies that begin empty: the pieces that are fetched, and the bytes of the owner at the end.

use super::tests::{contents, file};
use super::*;
use crate::peers::{differences, twin};
use aggio_link::Peer;
use proptest::prelude::*;
use std::os::fd::{AsRawFd, OwnedFd};

const KEY: Key = (Peer(1), 7);

/// The owner's file: three pieces and a half.
const SIZE: u64 = 3 * PIECE + PIECE / 2;

/// A copy, its owner's file, and how many pieces have come.
struct Scene {
    shared: Shared,
    copy: OwnedFd,
    owner: OwnedFd,
    came: u64,
}

impl Scene {
    fn new() -> Self {
        let (owner, copy) = (file(), file());
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8 + 1).collect();
        twin::apply(owner.as_raw_fd(), &[(0, &bytes)], u64::MAX).unwrap();
        let mut shared = Shared::default();
        assert!(shared.begin_empty(SIZE).unwrap());
        twin::grow(copy.as_raw_fd(), SIZE).unwrap();
        Scene { shared, copy, owner, came: 0 }
    }

    /// Works until nothing is left to be done, as an agent and the owner do.
    fn work(&mut self) {
        loop {
            let step = self.shared.step(KEY, self.copy.as_raw_fd(), true).unwrap();
            let said = match step {
                Step::Nothing => return,
                Step::Say(said) => said,
                _ => continue,
            };
            for (message, body) in said {
                match (message, body) {
                    (Message::Look(_), _) => _ = self.shared.looked(self.owner_size()).unwrap(),
                    (Message::Renew(_, offset, len, mark), _) => self.renew(offset, len, mark),
                    (Message::Differ(_), Body::Bytes(body)) => {
                        let parts = differences::parts(&body).unwrap();
                        twin::apply(self.owner.as_raw_fd(), &parts, u64::MAX).unwrap();
                    }
                    (Message::Size(..), _) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn owner_size(&self) -> u64 {
        os::fstat(self.owner.as_raw_fd()).unwrap().st_size.unsigned_abs()
    }

    fn renew(&mut self, offset: u64, len: u64, mark: [u64; 2]) {
        let bytes = contents(&self.owner, offset, len);
        let news = (twin::mark(&bytes) != mark).then_some(&bytes[..]);
        self.came += u64::from(news.is_some());
        let copy = &self.copy;
        self.shared.renewed((offset, news), &[], || Ok(copy.try_clone().unwrap())).unwrap();
    }

    fn fetch(&mut self, extent: Extent) {
        let missing = self.shared.missing(&[extent]);
        if !missing.is_empty() {
            self.shared.fetch(missing, 1);
            self.work();
        }
        assert!(self.shared.missing(&[extent]).is_empty());
    }

    fn push(&mut self) {
        let asked = Asked { link: 0, process: 0, request: Request::Sync(1) };
        self.shared.push(Then::Ask(asked));
        self.work();
    }
}

#[test]
fn a_piece_is_fetched_once_and_only_if_the_owner_has_it() {
    let mut scene = Scene::new();
    assert!(!scene.shared.begin_empty(SIZE).unwrap(), "somebody uses it already");
    scene.fetch(Extent::new(PIECE - 1, 2));
    scene.fetch(Extent::new(0, 2 * PIECE));
    assert_eq!(scene.came, 2);
    scene.fetch(Extent::new(SIZE, 100));
    scene.fetch(Extent::new(5 * PIECE, PIECE));
    assert_eq!(scene.came, 2, "there is nothing behind the end");
    assert_eq!(contents(&scene.copy, 0, 2 * PIECE), contents(&scene.owner, 0, 2 * PIECE));
}

#[test]
fn nothing_is_fetched_of_what_the_program_has_cut_off() {
    let mut scene = Scene::new();
    let asked = Asked { link: 0, process: 0, request: Request::Resize(1, 0) };
    scene.shared.resize(0, asked);
    scene.work();
    scene.fetch(Extent::new(0, SIZE));
    assert_eq!(scene.came, 0);
}

#[test]
fn what_is_written_over_cut_bytes_that_were_kept_is_no_older_than_the_owners() {
    let mut scene = Scene::new();
    scene.fetch(Extent::new(0, SIZE));
    scene.shared.push_size(Then::Keep(vec![Extent::new(0, 10)], false));
    let asked = Asked { link: 0, process: 0, request: Request::Resize(1, 0) };
    scene.shared.resize(0, asked);
    scene.work();
    for file in [&scene.copy, &scene.owner] {
        for size in [0, SIZE] {
            os::ftruncate(file.as_raw_fd(), size).unwrap();
        }
    }
    twin::apply(scene.copy.as_raw_fd(), &[(0, b"new")], SIZE).unwrap();
    twin::apply(scene.owner.as_raw_fd(), &[(20, b"others'")], SIZE).unwrap();
    scene.shared.renew(Wants::All);
    scene.work();
    assert_eq!(contents(&scene.copy, 0, 3), b"new");
    assert_eq!(contents(&scene.copy, 20, 7), b"others'");
}

#[test]
fn all_that_was_not_fetched_comes_when_a_program_wants_all() {
    let mut scene = Scene::new();
    scene.fetch(Extent::new(0, 1));
    scene.shared.renew(Wants::All);
    scene.work();
    assert!(!scene.shared.is_in_part());
    assert_eq!(scene.came, 4);
    assert_eq!(contents(&scene.copy, 0, SIZE), contents(&scene.owner, 0, SIZE));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn the_owner_gets_what_was_written_and_keeps_the_rest(
        writes in prop::collection::vec(
            (0..SIZE + PIECE, 1..200_000_u64, prop_oneof![Just(0_u8), any::<u8>()], 0..4_u8),
            1..12,
        ),
    ) {
        let mut scene = Scene::new();
        let mut model = contents(&scene.owner, 0, SIZE);
        for (offset, len, value, then) in writes {
            let extent = Extent::new(offset, len);
            scene.fetch(extent);
            twin::apply(scene.copy.as_raw_fd(), &[(offset, &vec![value; len as usize])], u64::MAX)
                .unwrap();
            model.resize(model.len().max(extent.end() as usize), 0);
            model[offset as usize..extent.end() as usize].fill(value);
            if then == 0 {
                scene.push();
            }
        }
        scene.push();
        twin::grow(scene.owner.as_raw_fd(), model.len() as u64).unwrap();
        let found = contents(&scene.owner, 0, model.len() as u64);
        let wrong = found.iter().zip(&model).position(|(found, wanted)| found != wanted);
        prop_assert_eq!(wrong, None);
    }
}
