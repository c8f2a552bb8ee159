//! Requests of programs and the answers to them, without other processes.

use super::*;
use crate::protocol::pair;
use crate::registry::{Ask, Who};

const FILE: &[u8] = b"/d/f";

/// An agent, and programs that have one connection each, of the same number.
struct Scene {
    agent: Agent,
    ends: BTreeMap<u64, Packets>,
    _scratch: tempfile::TempDir,
}

impl Scene {
    fn with(processes: &[Process]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("place");
        let mut agent = Agent::new(place.to_str().unwrap()).unwrap().unwrap();
        let mut ends = BTreeMap::new();
        for process in processes.iter().copied() {
            let label = format!("p{process}");
            agent.registry.join(process, Who { job: process, ranks: 1, family: process, label });
            let (packets, end) = pair().unwrap();
            agent.links.insert(process, Link { packets, process: Some(process), waits: false });
            ends.insert(process, end);
        }
        agent.last = 1000;
        Self { agent, ends, _scratch: scratch }
    }

    /// What a program is answered, and the descriptor that comes with it.
    fn call(&mut self, process: Process, request: Request) -> (Reply, Option<OwnedFd>) {
        self.agent.serve(process, request);
        let (message, fd) = self.ends[&process].receive(false).unwrap().unwrap();
        (Reply::decode(&message).unwrap(), fd)
    }

    fn open(&mut self, process: Process, write: bool) -> (u64, OwnedFd) {
        let path = FILE.to_vec();
        let ask = Ask { path, write, create: write, truncate: write, ..Ask::default() };
        let request =
            Request::Open { ask, read: !write, append: false, blocking: false, mode: 0o600 };
        match self.call(process, request) {
            (Reply::Opened(handle, _), Some(fd)) => (handle, fd),
            other => panic!("{other:?}"),
        }
    }
}

fn number(reply: &Reply) -> i32 {
    match reply {
        Reply::Failed(number, _) => *number,
        _ => 0,
    }
}

#[test]
fn writers_of_a_generation_that_died_are_told_by_every_request_until_they_close_it() {
    let mut scene = Scene::with(&[1, 2]);
    let ((_, one), (handle, other)) = (scene.open(1, true), scene.open(2, true));
    assert_eq!(scene.call(2, Request::Check(handle)).0, Reply::Done);
    drop((one, other));
    scene.agent.registry.end(1, false);
    scene.agent.settle();
    for request in [Request::Check(handle), Request::Sync(handle), Request::Close(handle, 0)] {
        let (reply, _) = scene.call(2, request.clone());
        let wanted = "/d/f: p1 died before generation 1 was complete".to_owned();
        assert_eq!(reply, Reply::Failed(libc::EIO, wanted), "{request:?}");
    }
    let (reply, _) = scene.call(2, Request::Close(handle, 0));
    assert_eq!(number(&reply), libc::ESTALE, "it is forgotten");
}

#[test]
fn an_open_file_of_an_earlier_agent_is_unknown() {
    let mut scene = Scene::with(&[1]);
    for handle in [77, crate::peers::AWAY | 77] {
        for request in [Request::Check(handle), Request::Sync(handle), Request::Close(handle, 0)] {
            let (reply, _) = scene.call(1, request.clone());
            assert_eq!(number(&reply), libc::ESTALE, "{request:?}");
        }
    }
}
