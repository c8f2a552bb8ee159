//! Copies that come, are used and go.

use super::*;
use crate::peers::{Action, Source, Template, Where};
use aggio_base::Extent;

const FOUR_BYTES: Away = Away {
    handle: 0,
    generation: 1,
    area: 10,
    size: 4,
    mode: 0o600,
    shared: false,
    early: false,
    keeps: false,
};

/// The memory that are left of a copy to which `change` was done, after another generation of
/// its name came.
fn left_after(change: impl FnOnce(&mut Replicas, Key)) -> Vec<u64> {
    let mut replicas = Replicas::new(0).unwrap();
    let (first, second) = ((Peer(1), 10), (Peer(1), 11));
    let path = b"/d/f".to_vec();
    replicas.make(first, &path, &FOUR_BYTES, None).unwrap();
    change(&mut replicas, first);
    replicas.make(second, &path, &FOUR_BYTES, None).unwrap();
    replicas.all.into_keys().map(|key| key.1).collect()
}

#[test]
fn a_copy_that_nobody_uses_makes_room_for_the_next_of_its_name() {
    assert_eq!(left_after(|_, _| {}), [11]);
    let closed = |replicas: &mut Replicas, key: Key| {
        replicas.keep(Held { theirs: 5, key, process: 7, writes: false });
        replicas.close(key);
    };
    assert_eq!(left_after(closed), [11]);
}

#[test]
fn a_copy_stays_until_its_owner_knows_what_was_written() {
    let written =
        |replicas: &mut Replicas, key| replicas.get_mut(key).unwrap().writing.dirty = true;
    assert_eq!(left_after(written), [10, 11]);
}

#[test]
fn a_copy_stays_while_an_open_waits_for_its_bytes() {
    let awaited =
        |replicas: &mut Replicas, key| replicas.get_mut(key).unwrap().waits.waiting.push(3);
    assert_eq!(left_after(awaited), [10, 11]);
}

#[test]
fn an_open_of_an_early_copy_waits_until_the_owner_has_named_the_nodes_of_its_bytes() {
    let (owner, node) = (Peer(1), Peer(2));
    let (key, place) = ((owner, 11), Extent::new(0, 4));
    let template = Template { path: b"/d/f".to_vec(), size: 4, mode: 0o600, area: 10 };
    let words = |peer: Peer| (peer == node).then(|| "node2 00ff".to_owned());
    let node = Source { words: "node2 00ff".into(), area: 11, report: 1, announced: true };
    let found = |report| Where {
        nodes: vec![Source { report, ..node.clone() }],
        parts: vec![(place, Some(0))],
        ..Where::default()
    };
    for (report, is_right) in [(1, true), (2, false)] {
        let mut replicas = Replicas::new(0).unwrap();
        replicas.begin_early(key, &template, None).unwrap();
        let copy = replicas.get_mut(key).unwrap();
        assert!(copy.incoming.pushed.begin(Peer(2), 1, &[place]));
        assert_eq!(replicas.confirm(key, 4, None, words).unwrap(), [place]);
        let asked = replicas.wait_for_map(key, 7, vec![place]);
        assert!(matches!(asked, Some(Action::Request(of)) if of == key), "{asked:?}");
        assert!(replicas.wait_for_map(key, 8, vec![place]).is_none(), "the owner was asked");
        replicas.give_up_early((owner, 12), &series(&template.path));
        assert_eq!(replicas.unconfirmed(key), [7, 8]);
        assert_eq!(replicas.confirm(key, 4, Some(&found(report)), words).unwrap(), []);
        assert_eq!(replicas.get(key).is_some_and(|copy| !copy.early), is_right);
        assert_eq!(replicas.unconfirmed(key), []);
    }
}
