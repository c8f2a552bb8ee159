//! Meeting and agreeing in shared memory.

use super::{Map, Node};
use crate::task::{BoxFuture, block_on, join_all, take_sleep};
use crate::transport::threads::testing::run;
use crate::transport::{Nodes, Transport};
use aggio_base::error::{Error, ErrorClass};
use std::time::Duration;

#[test]
fn every_rank_hears_what_all_bring_time_after_time() {
    for size in [1, 2, 5, 8] {
        let right = run(size, move |transport| {
            Box::pin(async move {
                let node = transport.node().expect("threads share memory");
                for id in 0..300u64 {
                    let mine = [transport.rank() as u8, id as u8];
                    let met = node.meet(id, &mine).await.expect("all live");
                    let wanted: Vec<u8> = (0..size as u8).flat_map(|r| [r, id as u8]).collect();
                    assert_eq!(met.parts, wanted);
                    let operation = node.claim(met).await.expect("all live");
                    assert_eq!(operation.agree(Ok(())).await, Ok(()));
                }
                true
            })
        });
        assert_eq!(right, vec![true; size]);
    }
}

/// Takes part in an operation that moves no data.
async fn attend(node: &Node, id: u64) {
    let met = node.meet(id, &[7]).await.expect("all live");
    let operation = node.claim(met).await.expect("all live");
    operation.agree(Ok(())).await.expect("nobody fails");
}

#[test]
fn many_operations_may_be_begun_in_different_orders() {
    run(3, |transport| {
        Box::pin(async move {
            let node = transport.node().expect("threads share memory");
            let together = |ids: Vec<u64>| -> BoxFuture<'_, Vec<()>> {
                Box::pin(join_all(
                    ids.into_iter()
                        .map(|id| Box::pin(attend(node, id)) as BoxFuture<'_, ()>)
                        .collect(),
                ))
            };
            for first in (0..4).map(|round| round << 40) {
                match transport.rank() {
                    0 => drop(together((first..first + 200).collect()).await),
                    1 => drop(together((first..first + 200).rev().collect()).await),
                    _ => {
                        for id in (first..first + 200).rev() {
                            attend(node, id).await;
                        }
                    }
                }
            }
        })
    });
}

#[test]
fn more_operations_than_a_roll_has_room_for_wait_for_their_turn() {
    run(2, |transport| {
        Box::pin(async move {
            let node = transport.node().expect("threads share memory");
            let all = (0..900).map(|id| Box::pin(attend(node, id)) as BoxFuture<'_, ()>).collect();
            join_all(all).await;
        })
    });
}

#[test]
fn the_error_of_the_lowest_rank_that_failed_reaches_all_also_a_long_one() {
    let results = run(4, |transport| {
        Box::pin(async move {
            let node = transport.node().expect("memory");
            let met = node.meet(7, &[]).await.expect("all live");
            let operation = node.claim(met).await.expect("all live");
            let local = match transport.rank() {
                0 | 3 => Ok(()),
                rank => Err(Error::new(ErrorClass::NoSpace, format!("{rank}{}", "é".repeat(4000)))
                    .with_path("/a/file")),
            };
            operation.agree(local).await
        })
    });
    for result in &results {
        let error = result.as_ref().expect_err("two ranks failed");
        assert_eq!((error.class(), error.rank()), (ErrorClass::NoSpace, Some(1)));
        assert!(error.to_string().contains("/a/file"), "{error}");
    }
}

#[test]
fn who_waits_for_a_process_that_has_ended_gets_an_error() {
    let nodes = Nodes::by_name([0, 1, 2, 3, 4, 5, 6, 7, 8, 4].map(Some));
    let node = Node::create(Map::new(&nodes, 4)).expect("memory");
    let other = Node::open(node.address(), Map::new(&nodes, 9)).expect("memory");
    other.pretend_to_have_ended();
    let result = block_on(node.meet(0, &[1]), |_| {
        take_sleep().expect("a word to wait for").wait(Duration::from_millis(100));
    });
    let error = result.expect_err("nobody else is there");
    assert_eq!((error.class(), error.rank()), (ErrorClass::Other, Some(9)));
}

/// This number of ranks on one node.
fn one_node(ranks: usize) -> Nodes {
    Nodes::by_name(vec![Some(()); ranks])
}

#[test]
fn memory_of_another_size_is_not_mistaken_for_this_nodes() {
    let node = Node::create(Map::new(&one_node(2), 0)).expect("memory");
    let other = Node::open(node.address(), Map::new(&one_node(3), 1));
    assert_eq!(other.map_err(|error| error.class()).err(), Some(ErrorClass::Intern));
}
