//! Nodes as threads, with messages over real sockets.

use super::*;
use crate::transport::threads::testing::run_on;
use crate::transport::{NodeTable, ThreadTransport};
use aggio_base::Extent;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ranks on these hosts, each with the counters of its node, which ranks of a host share.
fn connected<T: Send + 'static>(
    hosts: &[&str],
    body: impl Fn(usize, &Holders, &NodeAsks) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let group = ThreadTransport::group_on(hosts.iter().map(|host| (*host).to_owned()).collect());
    let tables: Vec<Arc<NodeTable>> =
        hosts.iter().map(|_| Arc::new(NodeTable::create().expect("memfd"))).collect();
    let body = Arc::new(body);
    run_on(group, move |transport| {
        let rank = transport.rank();
        let table = tables[transport.nodes().first_beside(rank)].clone();
        let ranks = transport.nodes().beside(rank).count();
        let (transport, body): (Arc<dyn Transport>, _) = (transport, body.clone());
        Box::pin(async move {
            let holders = Holders::new(table, 1, ranks);
            let workers = Workers::default();
            let asks = NodeAsks::connect(&transport, [0, 1], Some(&holders), &workers, true).await;
            let asks = asks.expect("nodes reach each other").expect("it was tried");
            let value = body(rank, &holders, &asks);
            group::barrier(&*transport, 2).await.expect("threads talk");
            value
        })
    })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Sleeps until `is_so`.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_asks_waits_until_ranks_of_all_nodes_have_stored_what_they_hold() {
    connected(&["a", "b", "b", "c"], |rank, holders, asks| {
        if rank == 2 {
            until(|| holders.count() == 1);
            assert_eq!(asks.ask_until(Question::StoreAll(0), soon()), Answer::Nothing);
            assert_eq!(holders.count(), 0);
        } else {
            let hold = holders.hold();
            until(|| holders.are_asked_for_all());
            drop(hold);
        }
    });
}

#[test]
fn a_node_whose_ranks_are_still_in_a_write_is_waited_for() {
    let late = Arc::new(AtomicBool::new(true));
    connected(&["a", "b", "b"], move |rank, holders, asks| match rank {
        0 => {
            holders.note_done();
            assert_eq!(asks.ask_until(Question::StoreFirst(1), soon()), Answer::Nothing);
            assert!(!late.load(Ordering::SeqCst), "rank 2 was not waited for");
        }
        1 => holders.note_done(),
        _ => {
            until(|| holders.are_asked());
            late.store(false, Ordering::SeqCst);
            holders.note_done();
        }
    });
}

#[test]
fn what_comes_last_is_told_and_stored_only_when_it_is_asked_for() {
    connected(&["a", "b", "c"], |rank, holders, asks| match rank {
        1 => {
            let mut hold = holders.hold();
            hold.set_last(true);
            until(|| holders.are_asked_for_all());
        }
        2 => {
            while asks.ask_until(Question::StoreFirst(0), soon()) != Answer::Something {}
            assert_eq!(asks.ask_until(Question::StoreAll(0), soon()), Answer::Nothing);
        }
        _ => {}
    });
}

#[test]
fn what_the_first_rank_holds_alone_is_told_to_other_nodes() {
    let told = Arc::new(Barrier::new(2));
    connected(&["a", "b"], move |rank, holders, asks| {
        if rank == 0 {
            holders.set_alone(Extent::new(8, 4));
        }
        told.wait();
        let alone = |start| asks.ask_until(Question::IsAlone(Extent::new(start, 4)), soon());
        assert_eq!([4, 11, 12].map(alone), [Answer::Nothing, Answer::Something, Answer::Nothing]);
    });
}

#[test]
fn what_a_node_cannot_store_and_a_node_that_is_gone_fail() {
    let (failed, gone) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    connected(&["a", "b", "c"], move |rank, holders, asks| {
        let mut hold = (rank == 2).then(|| holders.hold());
        hold.iter_mut().for_each(|hold| hold.set_failed(true));
        failed.wait();
        assert_eq!(asks.ask_until(Question::StoreAll(0), soon()), Answer::Failed);
        gone.wait();
        drop(hold);
        if rank == 1 {
            asks.stop();
        }
        gone.wait();
        if rank == 0 {
            until(|| asks.ask_until(Question::StoreAll(0), soon()) == Answer::Failed);
        }
    });
}

#[test]
fn strangers_are_not_heard_and_disturb_nobody() {
    connected(&["a", "b"], |rank, _, asks| {
        if rank == 1 {
            let call = || TcpStream::connect(&asks.address).expect("the hub listens");
            let _silent = call();
            let mut stranger = call();
            stranger.write_all(&[b'x'; 4096]).expect("bytes go");
            let ended = stranger.read_to_end(&mut Vec::new());
            assert!(ended.is_ok() || ended.is_err(), "the connection ends");
            let other = Token::fresh().expect("random bytes");
            let mut other = Asker::connect(&asks.address, other).expect("it begins");
            let number = other.ask(Question::StoreAll(0)).expect("it waits");
            until(|| other.answer(number).expect("a link") == Some(Answer::Failed));
            assert_eq!(asks.ask_until(Question::StoreAll(0), soon()), Answer::Nothing);
        }
    });
}

#[test]
fn a_node_that_nobody_answers_gives_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let transport: Arc<dyn Transport> = ThreadTransport::group(1).remove(0);
    let holders = Holders::new(Arc::new(NodeTable::create().expect("memfd")), 1, 1);
    let token = Token::fresh().expect("random bytes");
    let start = |address| node::start(&transport, &holders, address, &token, &Workers::default());
    assert!(start(&address).is_err());
    drop(silent);
    assert!(start(&address).is_err(), "nobody listens");
    assert!(start("nowhere").is_err(), "no address");
}

#[test]
fn nodes_that_do_not_reach_each_other_or_do_not_try_say_so_on_all_ranks() {
    let group = ThreadTransport::group_on(["a", "b"].map(str::to_owned).to_vec());
    let found = run_on(group, |transport| {
        let transport: Arc<dyn Transport> = transport;
        Box::pin(async move {
            let workers = Workers::default();
            let table = Arc::new(NodeTable::create().expect("memfd"));
            let holders = (transport.rank() == 0).then(|| Holders::new(table, 1, 1));
            let connect = |tags, tried| {
                NodeAsks::connect(&transport, tags, holders.as_ref(), &workers, tried)
            };
            let untried = connect([0, 1], false).await.map(|asks| asks.is_some());
            let error = connect([2, 3], true).await.map(|asks| asks.is_some());
            (untried, error.map_err(|error| (error.class(), error.to_string())))
        })
    });
    for (untried, error) in found {
        assert_eq!(untried, Ok(false));
        let (class, text) = error.expect_err("rank 1 has no counters");
        assert!(class == ErrorClass::Other && text.contains("rank 1"), "{text}");
    }
}
