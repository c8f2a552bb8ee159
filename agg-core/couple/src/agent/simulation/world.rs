//! Agents of several nodes and programs on them, in one thread; a random number chooses the next.

use super::super::clients::ClientProcess;
use super::network::{InMemory, Network};
use super::program::{Program, Shared};
use crate::agent::{Agent, status};
use crate::peers::Nodes;
use crate::place::Place;
use crate::protocol::pair;
use crate::registry::{Process, Who};
use aggio_config::settings::couple::CoupleLink;
use aggio_link::{Framed, Limits, Token};
use std::cell::RefCell;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// Turns without anything new after which it is found out whether all have come to a stop.
const PATIENCE: u32 = 30;

/// Turns after which programs count as endless.
const MOST: u32 = 1_000_000;

/// Milliseconds in which threads of agents may do something before a program counts as stuck.
const THREADS: u32 = 400;

/// A process, until the agent knows that it has ended.
struct Task {
    node: usize,
    process: Process,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

pub(super) struct World {
    pub(super) agents: Vec<Agent>,
    pub(super) shared: Rc<Shared>,
    network: Rc<RefCell<Network>>,
    tasks: Vec<Task>,
}

impl World {
    /// `nodes` nodes with agents that find each other in a directory.
    pub(super) fn new(seed: u64, nodes: usize, directory: &Path) -> Self {
        let network = Network::new(seed);
        let agent = |node: usize| {
            let path = directory.to_str().unwrap();
            let place = || Place::open(path).map(|place| place.on_host(&format!("host{node}")));
            let link = |place: &Place| {
                let token = Token::of(place.path())?;
                let wire = InMemory { network: network.clone(), node };
                let link = Box::new(Framed::new(wire, token, Limits::default()));
                Nodes::with(place, CoupleLink::Tcp, link)
            };
            Agent::at(place, link).unwrap().unwrap()
        };
        let agents = (0..nodes).map(agent).collect();
        Self { agents, shared: Shared::new(seed), network, tasks: Vec::new() }
    }

    /// A process on a node, which is one of `ranks` of a program.
    pub(super) fn enter<F: Future<Output = ()> + 'static>(
        &mut self,
        node: usize,
        (job, ranks, name): (&str, u32, String),
        run: impl FnOnce(Program) -> F,
    ) {
        let agent = &mut self.agents[node];
        let life = &mut agent.owner.life;
        let process = life.own.registry.numbers.next();
        let job = life.clients.jobs.of(&format!("job {job}"));
        let who = Who { job, ranks, family: job, label: name.clone() };
        life.own.registry.join(process, who);
        let own = std::process::id().cast_signed();
        life.clients.add(process, ClientProcess::of(own).unwrap().0);
        let peers = agent.peers.as_mut().unwrap();
        let host = peers.nodes.directory.host();
        let remote = life.clients.remote(process, host, &life.own.registry).unwrap();
        peers.requests.know(process, remote);
        let (packets, end) = pair().unwrap();
        agent.links.add(life.own.registry.numbers.next(), packets, Some(process));
        let program = Program { name, shared: self.shared.clone(), end };
        self.tasks.push(Task { node, process, future: Some(Box::pin(run(program))) });
    }

    /// The number of events so far.
    fn events(&self) -> u64 {
        let said = self.agents.iter().map(|agent| agent.peers.as_ref().unwrap().nodes.said);
        said.sum::<u64>() + self.network.borrow().arrived + self.shared.steps.get()
    }

    fn turn(&mut self, node: usize, wait: Duration) {
        let agent = &mut self.agents[node];
        agent.turn(Some(wait)).unwrap();
        let mut known = self.shared.complete.borrow_mut();
        let registry = &agent.owner.life.own.registry;
        for (path, name) in registry.files.names.iter() {
            let is_complete = |area| registry.files.generations[area].is_complete();
            let numbers = name.generations.iter().filter(|(_, area)| is_complete(*area));
            known.insert(path.clone(), numbers.map(|(number, _)| *number).collect());
        }
    }

    /// Lets a process do its next step; one that has done all ends.
    fn step(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        match &mut task.future {
            Some(future) => {
                let mut context = Context::from_waker(Waker::noop());
                if future.as_mut().poll(&mut context).is_ready() {
                    task.future = None;
                    self.shared.count_step();
                }
            }
            None => {
                let Task { node, process, .. } = self.tasks.swap_remove(index);
                self.agents[node].lose(process);
                self.shared.count_step();
            }
        }
    }

    /// Runs all programs to their end.
    ///
    /// # Panics
    /// If programs wait for each other or for an answer that does not come.
    pub(super) fn run(&mut self) {
        let (mut idle, mut before) = (0, 0);
        for _ in 0..MOST {
            if self.tasks.is_empty() {
                return self.settle();
            }
            if self.shared.chance.once_in(2) {
                let node = self.shared.chance.of(0..self.agents.len());
                self.turn(node, Duration::ZERO);
            } else {
                let index = self.shared.chance.of(0..self.tasks.len());
                self.step(index);
            }
            let now = self.events();
            idle = if now == before { idle + 1 } else { 0 };
            before = now;
            if idle > PATIENCE && !self.is_going_on() {
                self.come_to_rest();
                idle = 0;
            }
        }
        self.fail("programs do not end");
    }

    /// Lets all go on once; false if nothing happens.
    fn is_going_on(&mut self) -> bool {
        let before = self.events();
        self.network.borrow_mut().is_fast = true;
        for _ in 0..3 {
            (0..self.agents.len()).for_each(|node| self.turn(node, Duration::ZERO));
            (0..self.tasks.len()).rev().for_each(|index| self.step(index));
        }
        self.network.borrow_mut().is_fast = false;
        self.events() != before
    }

    /// Nothing happens any more: tells programs that wait for that, or lets threads go on.
    fn come_to_rest(&mut self) {
        if self.shared.awaits_calm.get() > 0 {
            return self.shared.calms.set(self.shared.calms.get() + 1);
        }
        for _ in 0..THREADS {
            self.turn(0, Duration::from_millis(1));
            if self.is_going_on() {
                return;
            }
        }
        self.fail("nothing happens any more");
    }

    fn fail(&self, why: &str) -> ! {
        let doing = self.shared.doing.borrow();
        let doing = doing.iter().map(|(name, what)| format!("\n{name}: {what}"));
        let status = |agent: &Agent| {
            let status = status::status(&agent.owner, agent.peers.as_ref(), &agent.lifetime);
            format!("\n{status}")
        };
        let agents = self.agents.iter().map(status);
        panic!("{why}:{}", doing.chain(agents).collect::<String>());
    }

    /// Runs agents until they are idle.
    pub(super) fn settle(&mut self) {
        let is_storing = |agent: &Agent| agent.owner.life.storage.is_busy();
        while self.is_going_on() || self.agents.iter().any(is_storing) {
            if self.agents.iter().any(is_storing) {
                self.turn(0, Duration::from_millis(1));
            }
        }
    }

    /// Checks that nothing is left but generations that no reader was done with, and nothing at all
    /// when these are dropped.
    ///
    /// # Panics
    /// If there is more.
    pub(super) fn check_rest(&mut self) {
        for agent in &mut self.agents {
            let paths: Vec<Vec<u8>> =
                agent.owner.life.own.registry.files.names.keys().cloned().collect();
            for path in paths {
                agent.owner.life.own.registry.files.drop_all(&path);
            }
            agent.settle();
        }
        self.settle();
        for (node, agent) in self.agents.iter().enumerate() {
            let all = &agent.peers.as_ref().unwrap().replication;
            assert!(all.keeps.is_empty(), "node {node}: {:?}", all.keeps);
            let life = &agent.owner.life;
            let (registry, peers) = (&life.own.registry, agent.peers.as_ref().unwrap());
            assert!(registry.is_empty(), "node {node} has {:?}", registry.files.generations);
            assert!(registry.opens.is_empty() && registry.waits.all.is_empty(), "node {node}");
            assert_eq!(life.own.memory.areas.bytes(), 0, "memory of node {node}");
            assert_eq!(peers.replication.replicas.areas.bytes(), 0, "copies of node {node}");
            assert_eq!(peers.replication.keeps.memory(), 0, "kept bytes of node {node}");
            assert!(peers.are_idle() && agent.links.is_empty(), "node {node}: {peers:?}");
        }
    }
}
