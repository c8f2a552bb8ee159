//! Copies that come, are used and go.

use super::*;

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
