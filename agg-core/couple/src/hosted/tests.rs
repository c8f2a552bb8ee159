//! The maps of generations to the nodes that have their bytes.

use super::*;

type Hosting = super::Hosting<()>;

fn node(name: &str) -> Instance {
    Instance::of_words(&format!("{name} 00ff")).unwrap()
}

fn series() -> Series {
    b"step.0".to_vec()
}

fn holder(peer: u64, area: Area) -> Holder {
    Holder { peer: Peer(peer), area }
}

#[test]
fn the_node_that_wrote_last_has_the_bytes() {
    let mut hosting = Hosting::default();
    hosting.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
    hosting.note((7, 1), Peer(2), &node("b"), &[Extent::new(40, 20)]);
    hosting.host(7).located.is_here(Extent::new(50, 5));
    let found = hosting.host(7).located.within(Extent::new(30, 40));
    let one = (Extent::new(30, 10), holder(1, 7));
    let two = (Extent::new(40, 10), holder(2, 7));
    let three = (Extent::new(55, 5), holder(2, 7));
    let four = (Extent::new(60, 10), holder(1, 7));
    assert_eq!(found, [one, two, three, four]);
    let [own, others] = hosting.host(7).split(Extent::new(45, 12), Peer(2));
    assert_eq!((own, others), (vec![Extent::new(45, 5), Extent::new(55, 2)], vec![]));
    assert_eq!(
        (hosting.host(7).located.largest_share(), hosting.host(9).located.largest_share()),
        (80, 0)
    );
    assert_eq!(hosting.host(7).located.holders(), [holder(1, 7), holder(2, 7)].into());
    hosting.inherit(8, 7);
    assert_eq!(hosting.host(8).split(Extent::new(45, 5), Peer(2))[1], [Extent::new(45, 5)]);
    hosting.free(8);
    hosting.host(7).cut(45);
    assert_eq!(
        hosting.host(7).located.within(ALL).last(),
        Some(&(Extent::new(40, 5), holder(2, 7)))
    );
    assert_eq!(hosting.of(Peer(2)), [7]);
    hosting.host(7).cut(0);
    assert!(!hosting.is_elsewhere(7) && hosting.of(Peer(2)).is_empty());
}

#[test]
fn a_reader_is_told_who_has_each_byte() {
    let mut hosting = Hosting::default();
    let range = [Extent::new(5, 100)];
    let (own, _) = hosting.find((7, &series()), &range, 10);
    assert_eq!((own.nodes.len(), own.parts), (0, vec![(range[0], None)]));
    hosting.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 10), Extent::new(90, 5)]);
    hosting.note((7, 1), Peer(2), &node("b"), &[Extent::new(20, 10)]);
    let (found, is_all) = hosting.find((7, &series()), &range, 6);
    let lens: Vec<_> = found.parts.iter().map(|(part, node)| (part.len, *node)).collect();
    let (a, b) = (Some(0), Some(1));
    assert_eq!(lens, [(5, a), (10, None), (10, b), (60, None), (5, a), (10, None)]);
    assert_eq!(found.nodes[1].words, node("b").words());
    assert!(is_all && !hosting.find((7, &series()), &range, 5).1, "there are more parts");
    let two = [Extent::new(0, 5), Extent::new(21, 3)];
    let (found, _) = hosting.find((7, &series()), &two, 10);
    assert_eq!(found.parts, [(two[0], a), (two[1], b)]);
    assert!(!found.announced && !found.nodes[0].announced);
    hosting.host(7).located.announced_here(series());
    hosting.host(7).end(Peer(1), 0, series()).unwrap();
    hosting.host(7).end(Peer(2), 0, b"of another name".to_vec()).unwrap();
    let (found, _) = hosting.find((7, &series()), &two, 10);
    let announced: Vec<bool> = found.nodes.iter().map(|node| node.announced).collect();
    assert!(found.announced && announced == [true, false]);
    let body = found.encode();
    assert_eq!(Where::decode(&body).unwrap(), found);
    let mut hostile = body.clone();
    *hostile.last_mut().unwrap() = 3;
    Where::decode(&hostile).unwrap_err();
    assert!((1..body.len()).any(|len| Where::decode(&body[..len]).is_err()));
}

#[test]
fn bytes_are_kept_until_no_generation_has_them() {
    let mut hosting = Hosting::default();
    hosting.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
    hosting.inherit(8, 7);
    hosting.note((8, 1), Peer(2), &node("b"), &[Extent::new(0, 10)]);
    assert_eq!(hosting.host(8).located.within(Extent::new(0, 11)).len(), 2);
    assert_eq!(hosting.free(7).0, []);
    assert_eq!(hosting.free(8).0, [holder(1, 7), holder(2, 8)]);
    hosting.inherit(9, 8);
    assert!(!hosting.is_elsewhere(9));
}

#[test]
fn bytes_that_were_overwritten_are_kept_for_the_generation_before_only() {
    let mut hosting = Hosting::default();
    hosting.note((7, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
    hosting.inherit(8, 7);
    hosting.note((8, 1), Peer(1), &node("a"), &[Extent::new(0, 100)]);
    assert_eq!(hosting.complete(8), [], "the one before has them");
    assert_eq!(hosting.free(7).0, [holder(1, 7)]);
    hosting.inherit(9, 8);
    assert_eq!(hosting.free(8).0, [], "the next one begins with them");
    hosting.host(9).cut(0);
    assert_eq!(hosting.complete(9), [holder(1, 8)]);
    assert_eq!(hosting.complete(9), []);
}
