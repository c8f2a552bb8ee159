//! Random operations of several openers beside a model.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, u64),
    Read(usize, u64, u64),
    Sync(usize),
    Resize(usize, u64),
    Kill(usize),
    Reopen(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (at, len) = (0..12_000u64, 1..6_000u64);
    prop_oneof![
        6 => (0..3usize, at.clone(), len.clone()).prop_map(|(f, at, n)| Step::Write(f, at, n)),
        4 => (0..3usize, at.clone(), len).prop_map(|(f, at, n)| Step::Read(f, at, n)),
        1 => (0..3usize).prop_map(Step::Sync),
        1 => (0..3usize, at).prop_map(|(f, size)| Step::Resize(f, size)),
        1 => (0..3usize).prop_map(Step::Kill),
        1 => (0..3usize).prop_map(Step::Reopen),
    ]
}

proptest! {
    #[test]
    fn openers_with_and_without_costs_see_one_file(
        steps in prop::collection::vec(step(), 1..60),
        limit in prop_oneof![Just(1u64 << 30), 1..20_000u64],
        in_memory: bool,
    ) {
        let bench = if in_memory { Bench::in_memory() } else { Bench::new() };
        // The second one stages nothing by itself: its writes go straight where they may.
        let terms =
            |number: usize| Staging { always: number != 1, limit, in_memory: limit, ..TERMS };
        let open = |number: usize| bench.open(Some(terms(number)));
        let mut files: Vec<Option<Box<dyn Driver>>> = (0..3).map(|n| Some(open(n))).collect();
        let mut model: Vec<u8> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let value = number as u8 + 1;
            match step {
                Step::Write(file, at, len) => {
                    let Some(file) = &files[file] else { continue };
                    write(&**file, &vec![value; len as usize], at);
                    let end = (at + len) as usize;
                    model.resize(model.len().max(end), 0);
                    model[at as usize..end].fill(value);
                }
                Step::Read(file, at, len) => {
                    let Some(file) = &files[file] else { continue };
                    let end = model.len().min((at + len) as usize);
                    let wanted = model.get(at as usize..end).unwrap_or_default();
                    prop_assert_eq!(read(&**file, at, len as usize), wanted);
                    prop_assert_eq!(file.size(), Ok(model.len() as u64));
                }
                Step::Sync(file) => {
                    let Some(file) = &files[file] else { continue };
                    file.sync().unwrap();
                    prop_assert_eq!(&bench.on_disk(), &model);
                }
                Step::Resize(file, size) => {
                    let Some(file) = &files[file] else { continue };
                    file.set_size(size).unwrap();
                    model.resize(size as usize, 0);
                }
                // One stays, and sees the bytes that the others have left.
                Step::Kill(0) | Step::Reopen(0) => {}
                Step::Kill(file) => drop(files[file].take()),
                Step::Reopen(file) => {
                    if let Some(old) = files[file].take() {
                        old.close(Closing::Complete).unwrap();
                    }
                    files[file] = Some(open(file));
                }
            }
        }
        for file in files.into_iter().flatten() {
            file.close(Closing::Complete).unwrap();
        }
        prop_assert_eq!(bench.on_disk(), model);
        prop_assert!(!bench.has_stage());
    }
}
