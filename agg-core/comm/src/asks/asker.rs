//! The part of a rank that asks.

use super::message::{Answer, Message, Question};
use super::thread::LIMITS;
use aggio_link::tcp::Tcp;
use aggio_link::{Event, Frame, Framed, Link, Nowhere, Peer, Token};
use std::collections::BTreeMap;
use std::io;

/// The connection of a rank with the hub.
pub(super) struct Asker {
    link: Framed<Tcp>,
    hub: Peer,
    last: u64,
    answers: BTreeMap<u64, Answer>,
    /// The hub cannot be reached, or any more.
    is_lost: bool,
}

impl Asker {
    pub(super) fn connect(address: &str, token: Token) -> io::Result<Self> {
        let mut link = Framed::new(Tcp::caller()?, token, LIMITS);
        let hub = link.connect(address)?;
        Ok(Self { link, hub, last: 0, answers: BTreeMap::new(), is_lost: false })
    }

    /// Asks; the number of the question.
    pub(super) fn ask(&mut self, question: Question) -> io::Result<u64> {
        self.last += 1;
        let head = Message::Ask(self.last, question).to_bytes().to_vec();
        self.link.send(self.hub, Frame { head, ..Frame::default() })?;
        Ok(self.last)
    }

    /// The answer to a question, once, when it is there.
    pub(super) fn answer(&mut self, number: u64) -> io::Result<Option<Answer>> {
        let mut events = Vec::new();
        while self.link.progress(&mut Nowhere, &mut events)? {}
        for event in events {
            match event {
                Event::Message { head, .. } => {
                    if let Some(Message::Answer(number, answer)) = Message::from_bytes(&head) {
                        self.answers.insert(number, answer);
                    }
                }
                Event::Closed { .. } => self.is_lost = true,
                Event::Opened { .. } | Event::Refused { .. } | Event::Drained(_) => {}
            }
        }
        let answer = self.answers.remove(&number);
        Ok(answer.or(self.is_lost.then_some(Answer::Failed)))
    }
}
