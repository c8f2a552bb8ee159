//! Stages in memory: how processes find them, and how they end.

use super::*;
use crate::stage::claim::{Address, Claim, claims};
use crate::stage::processes::stages;

/// Addresses of the stage of the file.
fn holders(bench: &Bench) -> usize {
    let target = File::open(bench.path()).unwrap();
    // SAFETY: asks for a number.
    let user = unsafe { libc::geteuid() };
    claims(user, &Identity::of(&target).unwrap()).unwrap().len()
}

#[test]
fn who_uses_a_stage_in_memory_is_found_until_it_closes() {
    let bench = Bench::in_memory();
    let files: Vec<_> = (0..3).map(|_| bench.open(Some(TERMS))).collect();
    assert_eq!((holders(&bench), bench.stages().len()), (3, 0));
    // The one that made it goes first.
    write(&*files[2], b"late", 4);
    files[0].close(Closing::Complete).unwrap();
    write(&*files[2], b"soon", 0);
    let next = bench.open(Some(Staging { first: false, ..TERMS }));
    assert_eq!((read(&*next, 0, 9), holders(&bench)), (b"soonlate".to_vec(), 3));
    for file in [&files[1], &files[2], &next] {
        file.close(Closing::Complete).unwrap();
    }
    assert_eq!((holders(&bench), bench.on_disk()), (0, b"soonlate".to_vec()));
}

#[test]
fn bytes_of_a_killed_process_are_there_as_long_as_another_one_has_the_file_open() {
    let bench = Bench::in_memory();
    let (one, other) = (bench.open(Some(TERMS)), bench.open(Some(TERMS)));
    write(&*one, b"staged", 0);
    kill(one);
    assert_eq!((read(&*other, 0, 9), bench.on_disk()), (b"staged".to_vec(), vec![]));
    kill(other);
    assert!(!bench.has_stage());
    let next = bench.open(Some(TERMS));
    assert_eq!(read(&*next, 0, 9), b"");
    next.close(Closing::Complete).unwrap();
}

#[test]
fn what_is_to_wait_for_the_next_program_is_in_the_file_if_nothing_survives() {
    let bench = Bench::in_memory();
    let file = bench.open(Some(Staging { drain: Drain::Later, ..TERMS }));
    write(&*file, b"first", 0);
    file.close(Closing::Complete).unwrap();
    assert_eq!((bench.on_disk(), bench.has_stage()), (b"first".to_vec(), false));
}

#[test]
fn the_limit_counts_the_memory_that_is_taken() {
    let bench = Bench::in_memory();
    let file = bench.open(Some(Staging { in_memory: 64 << 10, ..TERMS }));
    // A byte of each page: each takes a page.
    for page in 0..100 {
        write(&*file, b"x", page * 4096);
    }
    assert!(bench.on_disk().len() > 16 * 4096, "{}", bench.on_disk().len());
    file.close(Closing::Complete).unwrap();
    assert_eq!(bench.on_disk().iter().filter(|byte| **byte == b'x').count(), 100);
}

#[test]
fn a_system_call_finds_what_is_staged_in_the_file() {
    let bench = Bench::in_memory();
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    show(&bench.home(), File::open(bench.path()).unwrap(), true).unwrap();
    assert_eq!(bench.on_disk(), b"staged");
    write(&*file, b"straight", 0);
    assert_eq!(bench.on_disk(), b"straight");
    file.close(Closing::Complete).unwrap();
    assert!(!bench.has_stage());
}

#[test]
fn an_error_of_draining_says_that_closing_loses_the_bytes() {
    let bench = Bench::in_memory();
    let target = File::create(bench.path()).unwrap();
    let stage = Stage::join(&bench.home(), target, Path::new("x"), true).unwrap().unwrap();
    let error = stage.kept(&Error::new(ErrorClass::NoSpace, "no room"));
    assert_eq!(error.class(), ErrorClass::NoSpace);
    assert!(error.to_string().contains("closing loses it"), "{error}");
    stage.leave();
}

#[test]
fn zeros_behind_the_end_make_the_file_itself_longer_unless_bytes_wait_there() {
    for bench in Bench::both() {
        let (file, counters) = (bench.open(Some(TERMS)), Counters::default());
        assert!(file.extend_with_zeros(Extent::new(0, 10_000), &counters));
        assert_eq!(bench.on_disk(), [0; 10_000]);
        write(&*file, b"x", 20_000);
        assert!(!file.extend_with_zeros(Extent::new(10_000, 5_000), &counters));
        file.close(Closing::Complete).unwrap();
        assert_eq!((bench.on_disk().len(), bench.on_disk()[20_000]), (20_001, b'x'));
    }
}

/// Set in a process with limits that the test changes.
const VARIABLE: &str = "AGGIO_TEST_FEW_DESCRIPTORS";

#[test]
fn who_cannot_open_the_stage_that_others_have_hears_of_it_and_reads_no_old_bytes() {
    let name = "who_cannot_open_the_stage_that_others_have_hears_of_it_and_reads_no_old_bytes";
    if std::env::var_os(VARIABLE).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let name = format!("stage::tests::memory::{name}");
        again.args(["--exact", &name, "--nocapture"]).env(VARIABLE, "1");
        assert!(crate::tests::start(&mut again).wait().unwrap().success());
        return;
    }
    let bench = Bench::in_memory();
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    let join = || {
        let target = File::open(bench.path()).unwrap();
        allow_descriptors(Some(1));
        let joined = Stage::join(&bench.home(), target, Path::new("x"), false);
        allow_descriptors(None);
        joined.map(|stage| stage.is_some())
    };
    let target = File::open(bench.path()).unwrap();
    let identity = Identity::of(&target).unwrap();
    allow_descriptors(Some(0));
    // SAFETY: asks for a number.
    let looked = stages(unsafe { libc::geteuid() }, &identity);
    allow_descriptors(None);
    assert_eq!(looked.unwrap_err().raw_os_error(), Some(libc::EMFILE));
    let error = join().unwrap_err();
    assert_eq!((error.class(), error.errno()), (ErrorClass::Access, libc::EMFILE));
    file.close(Closing::Complete).unwrap();
    assert_eq!((join(), bench.on_disk()), (Ok(false), b"staged".to_vec()));
}

/// Lets this process open so many descriptors more, or as many as ever.
fn allow_descriptors(more: Option<u64>) {
    use std::os::fd::AsRawFd;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call stores into the record.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let next = || File::open("/dev/null").unwrap().as_raw_fd() as u64;
    limit.rlim_cur = more.map_or(limit.rlim_max, |more| next() + more);
    // SAFETY: the call only reads the record.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
}

#[test]
fn names_that_lead_to_no_stage_keep_nobody_from_the_file() {
    let bench = Bench::in_memory();
    let target = File::create(bench.path()).unwrap();
    let identity = Identity::of(&target).unwrap();
    // SAFETY: asks for a number.
    let user = unsafe { libc::geteuid() };
    let own = std::process::id();
    let _claims = [(1, [0, 1, 2]), (own, [0, 1, 2]), (own, [900, 901, 902]), (4_194_304, [3; 3])]
        .map(|(process, descriptors)| {
            Claim::new(user, &identity, Address { process, descriptors }).unwrap()
        });
    let joined = Stage::join(&bench.home(), target, Path::new("x"), false);
    assert!(joined.unwrap().is_none());
    let file = bench.open(Some(TERMS));
    write(&*file, b"staged", 0);
    let other = bench.open(Some(Staging { first: false, ..TERMS }));
    assert_eq!((read(&*other, 0, 9), bench.on_disk()), (b"staged".to_vec(), vec![]));
    [file, other].iter().for_each(|file| file.close(Closing::Complete).unwrap());
}

#[test]
fn a_stage_is_found_by_looking_through_the_processes_of_the_user() {
    let (bench, other) = (Bench::in_memory(), Bench::in_memory());
    let found = |bench: &Bench| {
        let identity = Identity::of(&File::open(bench.path()).unwrap()).unwrap();
        // SAFETY: asks for a number.
        let user = unsafe { libc::geteuid() };
        assert_eq!(stages(user + 1, &identity).unwrap(), [], "those of other users");
        // A head is open twice.
        let parts = |all: Vec<Address>| -> Vec<_> {
            all.iter().map(|one| (one.process, one.descriptors[1], one.descriptors[2])).collect()
        };
        (parts(stages(user, &identity).unwrap()), parts(claims(user, &identity).unwrap()))
    };
    let files = [bench.open(Some(TERMS)), other.open(Some(TERMS))];
    for bench in [&bench, &other] {
        let (found, named) = found(bench);
        assert!(!named.is_empty() && found == named, "{found:?} {named:?}");
    }
    files.iter().for_each(|file| file.close(Closing::Complete).unwrap());
    assert_eq!(found(&bench), (vec![], vec![]));
}
