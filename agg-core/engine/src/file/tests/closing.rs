//! Files that are complete only when the rank that offers them to others closes them at last.

use super::*;
use aggio_comm::transport::threads::testing::run_on;
use aggio_store::driver::fault::arrange;

/// The result of a close on a rank: class, number and rank of an error.
type Told = std::result::Result<(), (ErrorClass, i32, Option<usize>)>;

/// The results of closing a file on ranks of these hosts, after each has written to it; closes fail
/// as `faults` say.
fn closed(hosts: &str, faults: &str) -> Vec<Told> {
    let scratch = Scratch::new();
    let plan = format!("fs=completing;{faults}");
    let _plan = arrange(&scratch.name(), &plan).expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let hosts = hosts.split(' ').map(String::from).collect();
    // One rank of a host opens the file, and offers it to the others.
    let hints = hints(&[("aggio_tune", "deferred_open=enable")]);
    let request = OpenRequest::new(name, CREATE, hints);
    run_on(ThreadTransport::group_on(hosts), move |transport| {
        let request = request.clone();
        Box::pin(async move {
            let number = transport.rank();
            let rank = Rank { number, file: engine().open(transport, request).await.unwrap() };
            let place = Position::Explicit(number as i64);
            assert_eq!(moved(rank.write_all(place, b"x")), 1);
            let closed = rank.file.clone().close().await;
            let again = rank.file.clone().close().await;
            assert_eq!(class(again), ErrorClass::File, "it is closed whatever the result");
            closed.map_err(|error| (error.class(), error.errno(), error.rank()))
        })
    })
}

#[test]
fn the_error_of_the_last_close_is_told_to_every_rank() {
    let errors = [
        ("ESTALE", libc::ESTALE, ErrorClass::Io),
        ("EIO", libc::EIO, ErrorClass::Io),
        ("ENOSPC", libc::ENOSPC, ErrorClass::NoSpace),
        ("EDQUOT", libc::EDQUOT, ErrorClass::Quota),
    ];
    for hosts in ["a a", "a a a a", "a a b b"] {
        let size = hosts.split(' ').count();
        for (name, errno, class) in errors {
            // The first close of rank 0 still offers the file to others.
            let all = closed(hosts, &format!("op=close,rank=0,nth=2,errno={name}"));
            assert_eq!(all, vec![Err((class, errno, Some(0))); size], "{hosts}: {name}");
        }
    }
}

#[test]
fn the_error_of_the_last_close_on_another_node_is_told_to_every_rank() {
    let all = closed("a a b b", "op=close,rank=2,nth=2,errno=ENOSPC");
    assert_eq!(all, vec![Err((ErrorClass::NoSpace, libc::ENOSPC, Some(2))); 4]);
}

#[test]
fn an_error_of_a_close_before_the_last_one_is_told_and_nobody_waits_for_a_second_agreement() {
    let all = closed("a a a", "op=close,rank=0,nth=1,errno=EDQUOT;op=close,nth=2,errno=EIO");
    assert_eq!(all, vec![Err((ErrorClass::Quota, libc::EDQUOT, Some(0))); 3]);
}

#[test]
fn a_last_close_that_succeeds_is_a_success_of_every_rank() {
    assert_eq!(closed("a a b b", ""), [Ok(()); 4]);
}
