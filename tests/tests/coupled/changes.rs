//! Programs without MPI change and rename coupled files that other hosts own.

use aggio_tests::hosts::{CoupledHosts as Place, Plan, end};
use aggio_tests::installed;
use std::path::Path;
use std::process::Child;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Starts a Python script on a host; `{}` in it is the directory of the coupled files.
fn start(place: &Place, host: u32, script: &str) -> Child {
    let mut command = place.cluster.launch().command(&format!("node{host}"));
    let script = script.replace("{}", &place.files.path().display().to_string());
    command.args(["/usr/bin/python3", "-c"]).arg(format!("import os\n{script}"));
    let mpi = &installed()[0];
    place.prepare(command, mpi).spawn().expect("it starts")
}

#[track_caller]
fn runs(place: &Place, host: u32, script: &str) -> String {
    place.succeeds(script, start(place, host, script))
}

const READ: &str = "print(open('{}/a.dat').read())";

/// Starts a program that waits for a file and prints it. Its host becomes the owner of the name.
fn wait_for_file(place: &Place, host: u32) -> Child {
    let reader = start(place, host, READ);
    place.wait_for_more_than(0);
    reader
}

fn place(hosts: u32) -> Option<Place> {
    if installed().is_empty() {
        return None;
    }
    Place::new(Plan::new(hosts, 1), Path::new(AGENT))
}

const WRITE: &str = "open('{}/new.dat', 'w').write('text' * 1000)\n";
const RENAME: &str = "os.rename('{}/new.dat', '{}/a.dat')";

#[test]
fn a_name_for_which_a_reader_on_another_host_waits_is_given_to_a_complete_file() {
    let Some(place) = place(2) else { return };
    let reader = wait_for_file(&place, 2);
    runs(&place, 1, &format!("{WRITE}{RENAME}"));
    assert_eq!(place.succeeds("the reader", reader), "text".repeat(1000) + "\n");
    place.leaves_nothing();
}

#[test]
fn a_program_renames_what_another_host_wrote() {
    // The new name has no owner, or belongs to the renaming host, or to a third host.
    for waits in [None, Some(2), Some(3)] {
        let Some(place) = place(3) else { return };
        let reader = waits.map(|host| wait_for_file(&place, host));
        runs(&place, 1, WRITE);
        runs(&place, 2, RENAME);
        let reader = reader.unwrap_or_else(|| start(&place, 3, READ));
        assert_eq!(place.succeeds("the reader", reader), "text".repeat(1000) + "\n", "{waits:?}");
        place.leaves_nothing();
    }
}

#[test]
fn a_name_under_which_another_host_wrote_is_refused() {
    let Some(place) = place(3) else { return };
    runs(&place, 2, "open('{}/a.dat', 'w').write('old')");
    runs(&place, 1, WRITE);
    for host in [1, 2, 3] {
        let (succeeded, text) = end(start(&place, host, RENAME));
        assert!(!succeeded && text.contains("cross-device"), "host {host}: {text}");
    }
    let old = READ.replace("a.dat", "new.dat");
    let found = [runs(&place, 3, READ), runs(&place, 3, &old)];
    assert_eq!(found, ["old\n".into(), "text".repeat(1000) + "\n"]);
    place.leaves_nothing();
}

#[test]
fn a_file_that_nobody_wrote_has_no_other_name() {
    let Some(place) = place(2) else { return };
    let reader = wait_for_file(&place, 2);
    for host in [1, 2] {
        let (succeeded, text) = end(start(&place, host, RENAME));
        assert!(!succeeded && text.contains("No such file"), "host {host}: {text}");
    }
    runs(&place, 1, "open('{}/a.dat', 'w').write('new')");
    assert_eq!(place.succeeds("the reader", reader), "new\n");
    place.leaves_nothing();
}

#[test]
fn what_is_appended_on_another_host_is_part_of_the_next_generation() {
    let Some(place) = place(2) else { return };
    for (round, ending) in (0..20).map(|round| (round, ["sync", "dat"][round % 2])) {
        let file = format!("'{{}}/{round}.{ending}'");
        runs(&place, 1, &format!("open({file}, 'w').write('x' * 3000000)"));
        runs(&place, 2, &format!("open({file}, 'a').write('end')"));
        let read = format!("print(len(open({file}).read()), len(open({file}).read()))");
        assert_eq!(runs(&place, 1, &read), "3000000 3000003\n", "{file}");
    }
    place.leaves_nothing();
}
