//! Messages as they are encoded, and any other bytes that may come.

use super::*;
use crate::peers::differences::{Differences, extents, parts, places};
use crate::peers::{Source, Where};
use crate::seeds;
use aggio_base::Extent;
use proptest::prelude::*;

fn all() -> Vec<Message> {
    let who = RemoteProcess {
        job: "job 7".into(),
        family: "job 7".into(),
        ranks: 4,
        label: "model (rank 3)".into(),
    };
    let (mode, shared, early, keeps) = (0o644, true, false, true);
    let (owner, series) = (|| String::from("node2 00ff"), || b"/d/f".to_vec());
    let away = Away { handle: 1, generation: 2, area: 3, size: 4, mode, shared, early, keeps };
    vec![
        Message::Join(9, who),
        Message::Ask { process: 1, ticket: 2, request: b"request".to_vec() },
        Message::Adopt { process: 1, ticket: 2, area: 3, write: true, tells: false },
        Message::Left(1, false),
        Message::Locate(1),
        Message::Stored(1, 2, series()),
        Message::Answer(1, b"reply".to_vec()),
        Message::Opened(1, away),
        Message::Data(1, 2, 3),
        Message::Free(1),
        Message::Cut(1, 2),
        Message::Share(1),
        Message::Looked(1, 2),
        Message::Same(1, 2),
        Message::Size(1, 2, true),
        Message::Differ(1),
        Message::Look(1),
        Message::Renew(1, 2, 3, [4, 5]),
        Message::Acknowledged(1, true),
        Message::News(1),
        Message::Memory(1, 2, 3),
        Message::Gather(1, 2, 3),
        Message::Caller("node2 00ff".into()),
        Message::Moved(1),
        Message::Keeps(1, 2),
        Message::Where(1),
        Message::Take { tag: 1, owner: "node2 00ff".into(), area: 2 },
        Message::Part { tag: 1, pushed: true, offset: 2 },
        Message::Parts { tag: 1, pushed: true },
        Message::NotKept(1),
        Message::Released(1),
        Message::Spill(1, "/d".into()),
        Message::Spilled(1, 28),
        Message::Subscribe { owner: owner(), series: series(), number: 1, credit: 2 },
        Message::Subscribed { owner: owner(), series: series(), number: 1, credit: 2, after: 3 },
        Message::Push { owner: owner(), series: series(), number: 1, area: 2, report: 3, tag: 4 },
    ]
}

#[test]
fn messages_arrive_as_they_were_and_cut_ones_do_not() {
    for message in all() {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes).unwrap(), message);
        for len in 0..bytes.len() {
            Message::decode(&bytes[..len]).unwrap_err();
        }
        Message::decode(&[&bytes[..], b"x"].concat()).unwrap_err();
    }
}

#[test]
fn seeds_of_the_fuzzer_are_messages_of_today() {
    let examples = || {
        let mut differences = Differences::default();
        differences.add(3, b"abc");
        differences.add(9, b"x");
        let messages = all().into_iter().map(|message| message.encode());
        let extent = Extent::new(3, 4);
        let (before, behind) = (Extent::new(0, 3), Extent::new(9, 5));
        let parts = vec![(before, None), (extent, Some(0)), (behind, None)];
        let words = "node2 00ff".into();
        let source = Source { words, area: 7, report: 1, announced: true };
        let found = Where { announced: false, nodes: vec![source], parts }.encode();
        assert!(Where::decode(&found).is_ok());
        messages.chain([differences.into_body(), places(&[extent]), found]).collect()
    };
    let is_read = |bytes: &[u8]| Message::decode(bytes).is_ok() || is_body(bytes);
    seeds::are_read("messages", examples, is_read);
}

/// Whether bytes are the body of some message; reading them ends in any case.
fn is_body(bytes: &[u8]) -> bool {
    let found = Where::decode(bytes);
    let read = [parts(bytes).is_ok(), extents(bytes).is_ok(), found.is_ok()];
    read.contains(&true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_is_a_message_or_an_error(
        which in 0..36_usize,
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = all()[which].encode();
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        for bytes in [bytes, noise] {
            is_body(&bytes);
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()).unwrap(), message);
            }
        }
    }
}
