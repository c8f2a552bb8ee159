//! The remains of processes that are killed in the middle of an operation.

use super::{Bench, TERMS, kill, read, write};
use crate::stage::home::Place;
use crate::stage::places::{self, Places};
use aggio_base::Extent;
use aggio_store::driver::Closing;

/// Places of the only stage there is.
fn places_of(bench: &Bench) -> Places {
    let place = Place::Directory(bench.stages().remove(0));
    let files = bench.home().open(&place).unwrap().unwrap();
    Places::open(files.places).unwrap()
}

#[test]
fn who_is_killed_after_it_has_stored_a_domain_leaves_nothing_to_be_stored() {
    for next in ["close", "recover"] {
        let bench = Bench::new();
        std::fs::write(bench.path(), b"stored").unwrap();
        let file = bench.open(Some(TERMS));
        write(&*file, b"stored", 0);
        places_of(&bench).clear_in_part(0);
        kill(file);
        match next {
            "close" => bench.open(Some(TERMS)).close(Closing::Complete).unwrap(),
            _ => {
                let done = bench.recover(false);
                assert_eq!((&done[0].error, done[0].bytes), (&None, 0));
            }
        }
        assert_eq!((bench.on_disk(), bench.stages().len()), (b"stored".to_vec(), 0), "{next}");
    }
}

#[test]
fn what_was_stored_by_a_killed_process_does_not_come_back_after_the_file_was_cut() {
    let bench = Bench::new();
    std::fs::write(bench.path(), b"stored").unwrap();
    let file = bench.open(Some(TERMS));
    write(&*file, b"stored", 0);
    places_of(&bench).clear_in_part(0);
    kill(file);
    let next = bench.open(Some(TERMS));
    next.set_size(0).unwrap();
    write(&*next, b"new", 10);
    let wanted = b"\0\0\0\0\0\0\0\0\0\0new";
    assert_eq!(read(&*next, 0, 20), wanted);
    next.close(Closing::Complete).unwrap();
    assert_eq!(bench.on_disk(), wanted);
}

#[test]
fn a_write_that_never_began_to_be_staged_hides_no_other_one() {
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"first", 10);
    places_of(&bench).add_in_part(Extent::new(3 * places::DOMAIN, 100));
    assert_eq!((file.size(), read(&*file, 10, 20)), (Ok(15), b"first".to_vec()));
    file.close(Closing::Complete).unwrap();
    assert_eq!((bench.on_disk().len(), bench.stages().len()), (15, 0));
}

/// The remains of a process that was killed while it made a stage.
fn unfinished(bench: &Bench, name: &str) -> std::path::PathBuf {
    let stage = &bench.stages()[0];
    let user = stage.file_name().unwrap().to_str().unwrap().split('-').nth(2).unwrap().to_owned();
    let path = stage.with_file_name(format!("aggio-stage-{user}-new-{name}"));
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("places"), "").unwrap();
    path
}

#[test]
fn what_is_left_of_a_stage_that_was_being_made_goes_at_once_unless_somebody_holds_it() {
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"x", 0);
    let [left, held] = ["left", "held"].map(|name| unfinished(&bench, name));
    let maker = std::fs::File::open(&held).unwrap();
    maker.lock().unwrap();
    let done = bench.recover(false);
    assert_eq!(done.iter().map(|one| (&one.stage, one.bytes)).collect::<Vec<_>>(), [(&left, 0)]);
    assert!(held.exists() && !left.exists());
    drop(maker);
    file.close(Closing::Complete).unwrap();
    // The process that makes the next stage clears up.
    let next = bench.open(Some(TERMS));
    write(&*next, b"y", 0);
    assert!(!held.exists());
    next.close(Closing::Complete).unwrap();
    assert_eq!(bench.stages().len(), 0);
}
