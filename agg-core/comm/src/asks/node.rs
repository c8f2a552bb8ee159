//! The part of a node: a thread of its first rank makes the ranks of the node store their buffered
//! writes.

use super::hub::Mail;
use super::message::{Answer, Message, Question};
use super::thread::{LIMITS, Stop, Thread, serve};
use crate::node::Pulse;
use crate::transport::{Holders, Transport};
use crate::workers::Workers;
use aggio_link::tcp::Tcp;
use aggio_link::{Event, Frame, Framed, Link, Token};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long a node tries to reach the hub.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the thread sleeps between two looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// Starts the thread, and waits until it is registered with the hub.
///
/// # Errors
/// The system's; `TimedOut` if the hub does not answer, `ConnectionRefused` if it refuses this
/// node.
pub(super) fn start(
    transport: &Arc<dyn Transport>,
    holders: &Holders,
    address: &str,
    token: &Token,
    workers: &Workers,
) -> io::Result<Thread> {
    let node = Node { transport: transport.clone(), holders: holders.clone() };
    let (address, token) = (address.to_owned(), token.clone());
    let (sender, known) = mpsc::channel();
    let thread = Thread::start(workers, move |bell, stop| {
        if let Err(error) = node.answer(&address, token, (bell, stop), &sender) {
            drop(sender.send(Err(error)));
        }
    })?;
    let known = known.recv_timeout(PATIENCE);
    known.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(|()| thread)
}

struct Node {
    transport: Arc<dyn Transport>,
    holders: Holders,
}

impl Node {
    /// Answers the questions of the hub; sends to `known` once it is registered there.
    fn answer(
        &self,
        address: &str,
        token: Token,
        (bell, stop): (&UnixStream, &Stop),
        known: &mpsc::Sender<io::Result<()>>,
    ) -> io::Result<()> {
        let mut link = Framed::new(Tcp::caller()?, token, LIMITS);
        let hub = link.connect(address)?;
        let number = self.transport.nodes().of(self.transport.rank());
        let head = Message::Node(number).to_bytes().to_vec();
        link.send(hub, Frame { head, ..Frame::default() })?;
        serve(&mut link, bell, stop, |event| match event {
            Event::Message { head, .. } => match Message::from_bytes(&head) {
                Some(Message::Ask(number, question)) => {
                    let answer = self.do_as_asked(question, stop);
                    vec![(hub, Message::Answer(number, answer))]
                }
                Some(Message::Answer(_, answer)) => {
                    let is_wanted = answer == Answer::Nothing;
                    let refused = || io::ErrorKind::ConnectionRefused.into();
                    drop(known.send(is_wanted.then_some(()).ok_or_else(refused)));
                    Mail::new()
                }
                _ => Mail::new(),
            },
            Event::Closed { why, .. } => {
                drop(known.send(Err(why)));
                Mail::new()
            }
            Event::Opened { .. } | Event::Refused { .. } | Event::Drained(_) => Mail::new(),
        })
    }

    fn do_as_asked(&self, question: Question, stop: &Stop) -> Answer {
        match question {
            Question::StoreFirst(done) => self.wait(done, false, stop),
            Question::StoreAll(done) => self.wait(done, true, stop),
            Question::IsAlone(at) => match self.holders.alone().intersect(at).is_empty() {
                true => Answer::Nothing,
                false => Answer::Something,
            },
        }
    }

    /// Waits until the ranks of this node have done `done` collective writes and have stored their
    /// buffered writes, `all` of them or all except bytes that must be stored last.
    fn wait(&self, done: u32, all: bool, stop: &Stop) -> Answer {
        let holders = &self.holders;
        let _ask = holders.ask(all);
        let mut pulse = Pulse::default();
        loop {
            let seen = holders.changes();
            let has_failed = holders.have_failed() && holders.can_store_no_more();
            if has_failed || stop.is_set() {
                return Answer::Failed;
            }
            if !holders.are_behind(done) {
                if holders.count() == 0 {
                    return Answer::Nothing;
                }
                if !all && holders.hold_the_last_only() {
                    return Answer::Something;
                }
            }
            if self.transport.node().is_some_and(|node| pulse.look(node).is_err()) {
                return Answer::Failed;
            }
            holders.sleep(seen, NAP);
        }
    }
}
