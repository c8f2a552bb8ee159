//! Actions that follow from messages of other nodes and from requests of programs.
//!
//! The agent carries them out in their order, each with all that follows from it.

use super::{Asked, Holder, Key, Message};
use crate::protocol::{Reply, Request};
use crate::registry::{Area, Process, Series};
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::OwnedFd;

/// One action.
#[derive(Debug)]
pub(crate) enum Action {
    /// A node gets a message. If its connection has ended, the agent learns that soon.
    Say(Peer, Message, Body),
    /// The owner of a replica gets messages about written bytes. If that fails, all that the owner
    /// has is lost, and the actions behind this one are void.
    Send(Key, Vec<(Message, Body)>),
    /// A node gets requests for bytes, by their tag. If that fails, the bytes do not come.
    Take(u64, Peer, Vec<(Message, Body)>),
    /// A program gets its answer.
    Reply(u64, Reply),
    /// A program is answered later.
    Wait(u64),
    /// A request of a program goes to the owner.
    Ask(Peer, Asked),
    /// The same after the bytes that were written to a replica.
    PushAndAsk(Key, Asked),
    /// The owner of a replica gets all written bytes if nobody on this node can write any more.
    Look(Key),
    /// A process of another node, by its number there, is served.
    AskFor { peer: Peer, process: u64, ticket: u64, request: Request },
    /// A node that writes a generation gets a message that it acknowledges.
    Order(Area, Peer, Message),
    /// A node moves bytes that it keeps to a directory.
    Spill(Holder, String),
    /// Bytes that this node keeps for another one have moved, or the number of the error.
    MovedKept(Key, Result<Vec<(u64, OwnedFd)>, i32>),
    /// The next bytes of a generation of this node are requested.
    Pull(Area),
    /// Nobody needs the bytes with these tags any more.
    Forget(Vec<u64>),
    /// A generation of this node is complete.
    Complete(Area),
    /// A generation of this node was given up.
    Freed(Area),
    /// The open with this ticket gets a descriptor of the replica.
    HandOver(u64),
    /// A program gets its handle, and the descriptor if there is one.
    Open(Opened),
    /// The request with this ticket gets this answer.
    Fail(u64, Reply),
    /// The same for an open that the owner has counted.
    Withdraw(u64, Reply),
    /// The request of a program is routed.
    Route(Asked),
    /// The open with this ticket is made anew.
    OpenAgain(u64),
    /// A replica goes on with the messages to its owner.
    Work(Key),
    /// A replica requests its next bytes, or hands out all of them.
    Fetch(Key),
    /// A replica requests the bytes that it wants and that have a known node.
    Request(Key),
    /// A whole replica is written by other nodes from now on, if that waits for its bytes.
    Share(Key),
    /// The owner has all bytes that were written until so many opens.
    Stored(Key, u64),
    /// The subscribers of a series get the bytes that this node has written.
    Push(Key, Series),
    /// Bytes of a generation of this node have come, by their tag, from this offset on; whether all
    /// of the tag are here.
    Own(Area, u64, u64, Vec<u8>, bool),
    /// Bytes with this tag that were to come from a node do not come, and the text of the error.
    Lost(u64, Peer, String),
    /// Bytes of a generation of this node do not come.
    FailPull(Area, String),
    /// A node has sent a message that cannot be handled.
    Refuse(Peer, io::Error),
    /// The connection with the owner of a replica is useless.
    Broken(Key, io::Error),
}

/// An open that has succeeded.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) link: u64,
    pub(crate) process: Process,
    pub(crate) handle: u64,
    pub(crate) generation: u64,
    /// The descriptor for the program, unless it has one.
    pub(crate) file: Option<OwnedFd>,
}

impl Action {
    /// The owner of a file gets a request of a program.
    pub(crate) fn ask(peer: Peer, link: u64, process: Process, request: Request) -> Self {
        Self::Ask(peer, Asked { link, process, request })
    }
}

/// The agents of other nodes, as far as replicas need them.
pub(crate) trait Agents {
    /// The words of the agent of this node.
    fn own(&self) -> String;
    /// The words of an agent that this one has connected to.
    fn words(&self, peer: Peer) -> Option<String>;
    /// The agent that these words name, if this one has connected to it.
    fn known(&self, words: &str) -> Option<Peer>;
    /// The connection with the agent that these words name; `None` if it has ended.
    ///
    /// # Errors
    /// They name no agent; it cannot be reached.
    fn reach(&mut self, words: &str) -> io::Result<Option<Peer>>;
    /// The host of an agent, for messages.
    fn host(&self, peer: Peer) -> String;
}
