//! Places as every process sees them, against a list of bytes.

use super::*;
use proptest::prelude::*;

fn places() -> (Places, File) {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    Places::init(&file).unwrap();
    (Places::open(file.try_clone().unwrap()).unwrap(), file)
}

fn stage(places: &Places, extent: Extent) {
    places.prepare(extent).unwrap();
    places.add(extent).unwrap();
}

fn all(places: &Places, extent: Extent) -> Vec<Extent> {
    let mut runs = Vec::new();
    places.runs(extent, &mut |run| runs.push(run)).unwrap();
    runs
}

#[test]
fn what_is_staged_is_known_by_the_byte_and_to_every_process() {
    let (places, file) = places();
    let far = MAX - 5;
    for (offset, len) in [(3, 1), (4, 70), (4000, 200), (4 * PAGE, 2 * PAGE), (far, 5)] {
        stage(&places, Extent::new(offset, len));
    }
    let wanted = [(3, 71), (4000, 200), (4 * PAGE, 2 * PAGE), (far, 5)];
    let wanted: Vec<_> = wanted.map(|(offset, len)| Extent::new(offset, len)).to_vec();
    let other = Places::open(file).unwrap();
    for places in [&places, &other] {
        assert_eq!(all(places, Extent::new(0, MAX)), wanted);
        assert_eq!(all(places, Extent::new(10, 2)), [Extent::new(10, 2)]);
        assert_eq!(all(places, Extent::new(100, 3000)), []);
        assert_eq!((places.end(), places.held()), (MAX, 71 + 200 + 2 * PAGE + 5));
    }
}

#[test]
fn a_domain_that_was_cleared_is_empty_whatever_is_staged_there_again() {
    let (places, file) = places();
    let other = Places::open(file).unwrap();
    stage(&places, Extent::new(1, 100));
    stage(&places, Extent::new(PAGE, PAGE));
    stage(&places, Extent::new(DOMAIN, 1));
    places.clear(0).unwrap();
    assert_eq!(all(&other, Extent::new(0, MAX)), [Extent::new(DOMAIN, 1)]);
    assert_eq!((other.dirty_domains(), other.held()), (vec![1], 1));
    // One bit of a page with other bits set before.
    for (places, at) in [(&other, 50), (&places, 70)] {
        stage(places, Extent::new(at, 1));
    }
    let found = all(&places, Extent::new(0, DOMAIN));
    assert_eq!(found, [Extent::new(50, 1), Extent::new(70, 1)]);
}

#[test]
fn a_domain_changes_its_version_before_its_bytes() {
    let (places, _) = places();
    let extent = Extent::new(DOMAIN - 1, 2);
    places.prepare(extent).unwrap();
    assert_eq!([places.version(0), places.version(1), places.version(2)], [1, 1, 0]);
    assert!(!places.may_have(Extent::new(0, MAX)));
    places.add(extent).unwrap();
    assert!(places.may_have(extent) && !places.may_have(Extent::new(2 * DOMAIN, DOMAIN)));
}

proptest! {
    #[test]
    fn runs_are_those_of_a_list_of_bytes(
        steps in prop::collection::vec((0..3 * PAGE, 1..2 * PAGE, 0..20u8), 1..30),
        look in (0..4 * PAGE, 0..4 * PAGE),
    ) {
        let (places, _) = places();
        // Around the border of two domains.
        let base = DOMAIN - 2 * PAGE;
        let mut bytes = vec![false; 6 * PAGE as usize];
        for (offset, len, what) in steps {
            if what == 0 {
                places.clear(1).unwrap();
                bytes[2 * PAGE as usize..].fill(false);
                continue;
            }
            stage(&places, Extent::new(base + offset, len));
            bytes[offset as usize..(offset + len) as usize].fill(true);
        }
        let mut found = vec![false; bytes.len()];
        let look = Extent::new(look.0, look.1);
        for run in all(&places, Extent::new(base + look.offset, look.len)) {
            let start = (run.offset - base) as usize;
            prop_assert!(found[start..start + run.len as usize].iter().all(|byte| !byte));
            found[start..start + run.len as usize].fill(true);
        }
        for (at, (is, was)) in found.iter().zip(&bytes).enumerate() {
            let inside = (look.offset..look.end()).contains(&(at as u64));
            prop_assert_eq!(*is, *was && inside);
        }
    }
}
