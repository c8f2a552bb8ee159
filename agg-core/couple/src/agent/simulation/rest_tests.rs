//! Nothing is left after programs have ended.

use super::open_file::{How, OpenFile};
use super::plan::scratch;
use super::program::Program;
use super::world::World;
use crate::protocol::Request;
use crate::tests::apart;
use std::cell::Cell;
use std::rc::Rc;

/// An open of the file.
fn how(write: bool) -> How {
    let [create, truncate] = [write; 2];
    let (path, blocking) = (b"/d/f".to_vec(), true);
    How { path, read: !write, write, create, truncate, blocking, ..How::default() }
}

async fn write(program: &Program) {
    let mut open = OpenFile::open(program, &how(true)).await.unwrap();
    open.put(0, b"bytes");
    open.close(program).await.unwrap();
}

#[test]
fn a_copy_goes_with_its_generation_also_if_its_readers_have_ended_before() {
    let path = "agent::simulation::rest_tests::\
        a_copy_goes_with_its_generation_also_if_its_readers_have_ended_before";
    apart::alone(path, run_readers_that_end_early);
}

fn run_readers_that_end_early() {
    apart::begin();
    let scratch = scratch();
    let mut world = World::new(1, 2, &scratch.path().join("place"));
    let is_read = Rc::new(Cell::new(false));
    let was_read = is_read.clone();
    world.enter(0, ("w", 1, "writer".into()), |program| async move {
        write(&program).await;
        program.until(|| is_read.get()).await;
        program.calm().await;
        write(&program).await;
        program.order(Request::Goodbye).await.unwrap();
    });
    world.enter(1, ("r", 1, "reader".into()), |program| async move {
        let mut open = OpenFile::open(&program, &how(false)).await.unwrap();
        assert_eq!(open.read(&program, 0, 9).await.unwrap(), b"bytes");
        open.close(&program).await.unwrap();
        program.order(Request::Goodbye).await.unwrap();
        was_read.set(true);
    });
    world.run();
    let copies =
        |node: usize| world.agents[node].peers.as_ref().unwrap().replication.replicas.areas.bytes();
    assert_eq!([copies(0), copies(1)], [0, 0]);
    world.check_rest();
}
