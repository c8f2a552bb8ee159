//! The part of rank 0: it forwards each question to the nodes that it concerns, and their combined
//! answer to the rank that asked.

use super::message::{Answer, Message, Question};
use aggio_link::{Event, Peer};
use std::collections::{BTreeMap, BTreeSet};

/// The connections of the nodes, and the open questions.
#[derive(Debug)]
pub(super) struct Hub {
    nodes: Vec<Option<Peer>>,
    open: BTreeMap<u64, Open>,
    last: u64,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Open {
    from: Peer,
    /// Its number at the rank that asks.
    number: u64,
    left: BTreeSet<Peer>,
    answer: Answer,
}

/// Messages to send.
pub(super) type Mail = Vec<(Peer, Message)>;

impl Hub {
    /// A hub for this number of nodes, none of them connected yet.
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes: vec![None; nodes], open: BTreeMap::new(), last: 0 }
    }

    /// Handles `event`; returns the messages to send.
    pub(super) fn take(&mut self, event: Event) -> Mail {
        match event {
            Event::Message { peer, head, .. } => match Message::from_bytes(&head) {
                Some(message) => self.hear(peer, message),
                None => Mail::new(),
            },
            Event::Closed { peer, .. } => self.lose(peer),
            Event::Opened { .. } | Event::Refused { .. } | Event::Drained(_) => Mail::new(),
        }
    }

    fn hear(&mut self, peer: Peer, message: Message) -> Mail {
        match message {
            Message::Node(node) => match self.nodes.get_mut(node as usize) {
                Some(place @ None) => {
                    *place = Some(peer);
                    vec![(peer, Message::Answer(0, Answer::Nothing))]
                }
                _ => vec![(peer, Message::Answer(0, Answer::Failed))],
            },
            Message::Ask(number, question) => self.pass_on(peer, number, question),
            Message::Answer(number, answer) => self.note(number, peer, answer),
        }
    }

    fn pass_on(&mut self, from: Peer, number: u64, question: Question) -> Mail {
        let concerned = match question {
            Question::IsAlone(_) => &self.nodes[..1],
            Question::StoreFirst(_) | Question::StoreAll(_) => &self.nodes,
        };
        let Some(left) = concerned.iter().copied().collect::<Option<BTreeSet<Peer>>>() else {
            return vec![(from, Message::Answer(number, Answer::Failed))];
        };
        self.last += 1;
        let mail = left.iter().map(|node| (*node, Message::Ask(self.last, question))).collect();
        self.open.insert(self.last, Open { from, number, left, answer: Answer::default() });
        mail
    }

    /// Handles an answer of a node; the last answer completes the reply to the rank that asked.
    fn note(&mut self, number: u64, node: Peer, answer: Answer) -> Mail {
        let Some(open) = self.open.get_mut(&number) else { return Mail::new() };
        if !open.left.remove(&node) {
            return Mail::new();
        }
        open.answer = open.answer.max(answer);
        if !open.left.is_empty() {
            return Mail::new();
        }
        let mail = vec![(open.from, Message::Answer(open.number, open.answer))];
        self.open.remove(&number);
        mail
    }

    /// Handles the end of a connection to a node, or to a rank that asks.
    fn lose(&mut self, peer: Peer) -> Mail {
        self.open.retain(|_, open| open.from != peer);
        for node in self.nodes.iter_mut().filter(|node| **node == Some(peer)) {
            *node = None;
        }
        let numbers: Vec<u64> = self.open.keys().copied().collect();
        numbers.into_iter().flat_map(|number| self.note(number, peer, Answer::Failed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_link::Received;
    use std::io;

    fn says(hub: &mut Hub, peer: u64, message: Message) -> Mail {
        let head = message.to_bytes().to_vec();
        hub.take(Event::Message { peer: Peer(peer), head, body: Received::None })
    }

    /// A hub of three nodes; the peer number of each is its number plus 10.
    fn hub() -> Hub {
        let mut hub = Hub::new(3);
        for node in 0..3 {
            let welcome = vec![(Peer(10 + node), Message::Answer(0, Answer::Nothing))];
            assert_eq!(says(&mut hub, 10 + node, Message::Node(node as u32)), welcome);
        }
        hub
    }

    #[test]
    fn a_question_goes_to_all_nodes_and_the_weightiest_answer_comes_back() {
        let (mut hub, question) = (hub(), Question::StoreFirst(4));
        let asked = says(&mut hub, 7, Message::Ask(33, question));
        let wanted: Mail = (10..13).map(|node| (Peer(node), Message::Ask(1, question))).collect();
        assert_eq!(asked, wanted);
        assert_eq!(says(&mut hub, 11, Message::Answer(1, Answer::Something)), []);
        assert_eq!(says(&mut hub, 11, Message::Answer(1, Answer::Failed)), [], "it has answered");
        assert_eq!(says(&mut hub, 10, Message::Answer(1, Answer::Nothing)), []);
        let last = says(&mut hub, 12, Message::Answer(1, Answer::Nothing));
        assert_eq!(last, [(Peer(7), Message::Answer(33, Answer::Something))]);
        assert_eq!(says(&mut hub, 12, Message::Answer(1, Answer::Nothing)), [], "it is over");
    }

    #[test]
    fn what_the_first_rank_wrote_alone_only_its_node_is_asked_for() {
        let (mut hub, question) = (hub(), Question::IsAlone(aggio_base::Extent::new(0, 4)));
        let asked = says(&mut hub, 7, Message::Ask(1, question));
        assert_eq!(asked, [(Peer(10), Message::Ask(1, question))]);
    }

    #[test]
    fn a_node_that_is_gone_or_has_not_come_fails_and_nobody_waits_for_it() {
        let mut hub = hub();
        let gone = |peer| Event::Closed { peer: Peer(peer), why: io::Error::other("gone") };
        says(&mut hub, 7, Message::Ask(1, Question::StoreAll(0)));
        says(&mut hub, 8, Message::Ask(1, Question::StoreAll(0)));
        for node in [10, 12] {
            assert_eq!(says(&mut hub, node, Message::Answer(1, Answer::Nothing)), []);
        }
        assert_eq!(hub.take(gone(8)), [], "its question is forgotten");
        assert_eq!(hub.take(gone(11)), [(Peer(7), Message::Answer(1, Answer::Failed))]);
        let again = says(&mut hub, 7, Message::Ask(2, Question::StoreAll(0)));
        assert_eq!(again, [(Peer(7), Message::Answer(2, Answer::Failed))]);
        assert!(hub.open.is_empty());
    }

    #[test]
    fn a_node_is_answered_for_once_and_only_if_it_is_one() {
        let mut hub = hub();
        for node in [1, 3] {
            let refused = vec![(Peer(9), Message::Answer(0, Answer::Failed))];
            assert_eq!(says(&mut hub, 9, Message::Node(node)), refused);
        }
    }
}
