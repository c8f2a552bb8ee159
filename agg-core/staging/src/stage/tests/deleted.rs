//! Files that are deleted while bytes of them are staged.

use super::*;

/// Leaves a file with bytes that wait for the next program.
fn left_for_later(bench: &Bench) {
    let file = bench.open(Some(Staging { drain: Drain::Later, ..TERMS }));
    write(&*file, b"bytes", 0);
    file.close(Closing::Complete).unwrap();
    assert_eq!(bench.stages().len(), 1);
}

#[test]
fn a_file_that_is_deleted_takes_its_stage_with_it() {
    let bench = Bench::new();
    left_for_later(&bench);
    bench.drivers.delete(&bench.path(), 0).unwrap();
    assert!(bench.stages().is_empty());
}

#[test]
fn a_file_that_has_another_name_keeps_its_stage() {
    let bench = Bench::new();
    left_for_later(&bench);
    std::fs::hard_link(bench.path(), bench.dir.path().join("other")).unwrap();
    bench.drivers.delete(&bench.path(), 0).unwrap();
    assert_eq!(bench.stages().len(), 1);
}

#[test]
fn a_file_that_is_open_keeps_its_stage_until_it_is_closed() {
    let bench = Bench::new();
    left_for_later(&bench);
    let file = bench.open(Some(Staging { drain: Drain::Later, ..TERMS }));
    bench.drivers.delete(&bench.path(), 0).unwrap();
    assert_eq!(read(&*file, 0, 9), b"bytes");
    file.close(Closing::Complete).unwrap();
    assert!(bench.stages().is_empty());
}

#[test]
fn a_file_is_deleted_whatever_somebody_has_done_to_its_stage() {
    let bench = Bench::new();
    left_for_later(&bench);
    let stage = &bench.stages()[0];
    std::fs::set_permissions(stage, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    bench.drivers.delete(&bench.path(), 0).unwrap();
    assert!(!std::fs::exists(bench.path()).unwrap());
    assert_eq!(bench.stages().len(), 1, "what others may enter is not touched");
}
