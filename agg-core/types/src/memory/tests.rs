//! Gather and scatter against the typemap.

use super::*;
use crate::datatype::Basic;
use crate::datatype::typemap::{Recipe, recipes};
use proptest::prelude::*;

const COPIES: u64 = 3;

/// A buffer that holds copies of a datatype, and where each data byte lies in it.
struct Buffer {
    bytes: Vec<u8>,
    places: Vec<usize>,
    base: i64,
    datatype: Datatype,
}

impl Buffer {
    fn new(recipe: &Recipe) -> Self {
        let displacements = recipe.typemap().bytes(COPIES);
        let base = -displacements.iter().copied().min().unwrap_or(0);
        let len = displacements.iter().copied().max().map_or(0, |last| last + base + 1);
        Self {
            bytes: (0..len).map(|n| (n % 251) as u8).collect(),
            places: displacements.iter().map(|at| (at + base) as usize).collect(),
            base,
            datatype: recipe.datatype(),
        }
    }

    fn memory(&mut self) -> Memory {
        let base = self.bytes.as_mut_ptr().wrapping_offset(self.base as isize);
        // SAFETY: `bytes` holds everything from the lowest to the highest displacement.
        unsafe { Memory::new(base, self.datatype.clone(), COPIES) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn zeros_are_found_out_and_nothing_else(recipe in recipes(), other in any::<usize>()) {
        let mut buffer = Buffer::new(&recipe);
        buffer.bytes.fill(9);
        for at in buffer.places.clone() {
            buffer.bytes[at] = 0;
        }
        prop_assert!(buffer.memory().is_zero());
        if let Some(at) = buffer.places.get(other % buffer.places.len().max(1)).copied() {
            buffer.bytes[at] = 1;
            prop_assert!(!buffer.memory().is_zero());
        }
    }

    #[test]
    fn a_run_of_memory_has_the_bytes_that_gathering_finds(
        recipe in recipes(), position in 0u64..40, len in 0u64..20,
    ) {
        let mut buffer = Buffer::new(&recipe);
        let memory = buffer.memory();
        let places = &buffer.places;
        let end = position.saturating_add(len).min(places.len() as u64) as usize;
        let wanted = &places[(position as usize).min(end)..end];
        let is_run = wanted.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let there = position < places.len() as u64 && position + len <= places.len() as u64;
        if let Some(run) = memory.run_at(position, len) {
            prop_assert!(there && is_run);
            let mut bytes = vec![0; len as usize];
            memory.gather(position, &mut bytes);
            prop_assert_eq!(run.as_slice(), Some(&bytes[..]));
        } else {
            prop_assert!(!there || !is_run);
        }
    }

    #[test]
    fn gathered_bytes_are_those_of_the_typemap(recipe in recipes(), step in 1usize..30) {
        let mut buffer = Buffer::new(&recipe);
        let memory = buffer.memory();
        let expected: Vec<u8> = buffer.places.iter().map(|at| buffer.bytes[*at]).collect();
        prop_assert_eq!(memory.len(), expected.len() as u64);
        let mut cursor = memory.cursor(0);
        let mut all = Vec::new();
        loop {
            let mut part = vec![0; step];
            let n = cursor.gather(&mut part);
            all.extend_from_slice(&part[..n]);
            if n < step {
                break;
            }
        }
        prop_assert_eq!(&all, &expected);
        for position in (0..=expected.len()).step_by(step) {
            let mut part = vec![0; step];
            let n = memory.gather(position as u64, &mut part);
            prop_assert_eq!(&part[..n], &expected[position..expected.len().min(position + step)]);
        }
    }

    #[test]
    fn scattered_bytes_arrive_where_the_typemap_says(
        recipe in recipes(), skip in 0usize..20, step in 1usize..30,
    ) {
        let mut buffer = Buffer::new(&recipe);
        let memory = buffer.memory();
        let total = buffer.places.len();
        let numbers = 0..total.saturating_sub(skip);
        let source: Vec<u8> = numbers.map(|n| (n % 7 + 100) as u8).collect();
        let mut expected = buffer.bytes.clone();
        for (byte, at) in source.iter().zip(&buffer.places[skip.min(total)..]) {
            expected[*at] = *byte;
        }
        let mut cursor = memory.cursor(skip as u64);
        for part in source.chunks(step) {
            prop_assert_eq!(cursor.scatter(part), part.len());
        }
        prop_assert_eq!(&buffer.bytes, &expected);
    }

    #[test]
    fn a_slice_is_given_exactly_for_single_runs(recipe in recipes()) {
        let mut buffer = Buffer::new(&recipe);
        let mut memory = buffer.memory();
        let single = crate::datatype::typemap::runs(&recipe.typemap().bytes(COPIES)).len() <= 1;
        prop_assert_eq!(memory.as_slice().is_some(), single);
        if let Some(slice) = memory.as_mut_slice() {
            let expected: Vec<u8> = buffer.places.iter().map(|at| buffer.bytes[*at]).collect();
            prop_assert_eq!(&slice[..], &expected[..]);
        }
    }
}

#[test]
fn an_absolute_address_works_from_the_null_pointer() {
    let mut value = *b"absolute";
    let at = value.as_mut_ptr() as i64;
    let datatype = Datatype::hindexed(&[(8, at)], &Datatype::bytes(1)).unwrap();
    // SAFETY: the only displacement is the address of `value`.
    let memory = unsafe { Memory::new(std::ptr::null_mut(), datatype, 1) };
    assert_eq!(memory.as_slice(), Some(&b"absolute"[..]));
}

#[test]
fn no_data_is_an_empty_slice() {
    let none = Datatype::contiguous(0, &Datatype::basic(Basic::signed(4))).unwrap();
    // SAFETY: there is no data byte.
    let memory = unsafe { Memory::new(std::ptr::null_mut(), none, 5) };
    assert!(memory.is_empty());
    assert_eq!(memory.as_slice(), Some(&[][..]));
    assert_eq!(memory.gather(0, &mut [0; 4]), 0);
    assert_eq!(memory.cursor(0).run(), None);
}

#[test]
fn negative_strides_walk_backwards() {
    let mut bytes = *b"abcdef";
    let datatype = Datatype::hvector(3, 1, -2, &Datatype::bytes(1)).unwrap();
    // SAFETY: displacements 0, -2 and -4 from the fifth byte on lie in `bytes`.
    let memory = unsafe { Memory::new(bytes.as_mut_ptr().wrapping_add(4), datatype, 1) };
    let mut found = [0; 3];
    assert_eq!(memory.gather(0, &mut found), 3);
    assert_eq!(&found, b"eca");
}

#[test]
fn one_byte_in_many_is_seen_and_bytes_that_are_named_again_and_again_are_looked_at() {
    for at in [0, 1, 70_000, 99_991, 99_999] {
        let mut bytes = vec![0; 100_000];
        bytes[at] = 1;
        let again = Datatype::hvector(1000, 100_000, 0, &Datatype::bytes(1)).expect("a type");
        // SAFETY: all copies are the same bytes, which live longer.
        let memory = unsafe { Memory::new(bytes.as_mut_ptr(), again.clone(), 1) };
        assert!(!memory.is_zero(), "{at}");
        bytes[at] = 0;
        // SAFETY: as above.
        assert!(unsafe { Memory::new(bytes.as_mut_ptr(), again, 1) }.is_zero());
    }
    assert!(Memory::nothing().is_zero());
}
