//! Programs that people use every day (`programs/works/*.sh`) do and say the same in every mode:
//! alone, with the library loaded, on managed files, on containers, and on containers that are
//! shown by a mount.

use aggio_tests::works::{Left, MODES, Mode, run, works};
use aggio_tests::{library, skip};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs all works in all modes, several at a time.
fn all(names: &[String]) -> HashMap<(String, Mode), Option<Left>> {
    let jobs: Vec<(String, Mode)> =
        names.iter().flat_map(|name| MODES.iter().map(move |mode| (name.clone(), *mode))).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
    let workers = std::thread::available_parallelism().map_or(2, |number| number.get()).min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((name, mode)) = jobs.get(next.fetch_add(1, Relaxed)) {
                    let left = run(name, *mode);
                    done.lock().unwrap().insert((name.clone(), *mode), left);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[test]
fn every_program_does_the_same_in_every_mode() {
    if library().is_none() {
        return;
    }
    let names = works();
    let done = all(&names);
    let mut reports = Vec::new();
    for name in &names {
        let Some(native) = done[&(name.clone(), Mode::Native)].as_ref() else { continue };
        assert!(!native.files.is_empty() || !native.printed.is_empty(), "{name} does nothing");
        assert!(!native.complained.contains("Traceback"), "{name}: {}", native.complained);
        for mode in MODES {
            match done.get(&(name.clone(), *mode)) {
                Some(Some(left)) => {
                    let difference = native.difference(left);
                    reports.extend(difference.map(|what| format!("{name}, {mode:?}: {what}")));
                }
                Some(None) => skip(&format!("{name}, {mode:?} cannot be run")),
                None => {}
            }
        }
    }
    assert!(reports.is_empty(), "{}\n{} differences", reports.join("\n"), reports.len());
}
