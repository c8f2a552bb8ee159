//! Small parts of a file travel together in one message.

use super::BODY;
use super::differences::Differences;
use aggio_link::Body;
use std::collections::VecDeque;

/// Parts of so many bytes or more travel alone, without being copied.
const LARGE: u64 = 64 << 10;

/// The body of one message.
#[derive(Debug)]
pub(crate) enum Batch {
    /// Bytes from this offset on.
    Part(u64, Body),
    /// Several parts with their places.
    Parts(Vec<u8>),
}

/// Parts that are to be sent: in order and apart.
#[derive(Debug)]
pub(crate) struct Parts(VecDeque<(u64, Body)>);

impl Parts {
    /// All of these parts.
    pub(crate) fn new(parts: Vec<(u64, Body)>) -> Self {
        Self(parts.into())
    }

    /// Whether the next message is a copy of small parts.
    pub(crate) fn are_copied_next(&self) -> bool {
        self.0.front().is_some_and(|(_, body)| is_small(body))
    }

    /// Takes the parts of the next message.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        if !self.are_copied_next() {
            return self.0.pop_front().map(|(offset, body)| Batch::Part(offset, body));
        }
        let mut small = Differences::default();
        while self.are_copied_next() && small.len() <= BODY - 2 * LARGE {
            let Some((offset, body)) = self.0.pop_front() else { break };
            small.add(offset, body.bytes());
        }
        Some(Batch::Parts(small.into_body()))
    }
}

fn is_small(body: &Body) -> bool {
    (body.bytes().len() as u64) < LARGE
}

#[cfg(test)]
mod tests {
    use super::super::differences;
    use super::*;
    use proptest::prelude::*;

    fn batches(parts: Vec<(u64, Body)>) -> Vec<Batch> {
        let mut parts = Parts::new(parts);
        std::iter::from_fn(|| parts.next()).collect()
    }

    fn bytes(offset: u64, len: u64) -> Vec<u8> {
        (offset..offset + len).map(|at| (at % 251) as u8).collect()
    }

    proptest! {
        // A case has megabytes.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn all_parts_travel_in_few_messages(
            parts in prop::collection::vec((0..9_u64, 1..3 * LARGE), 1..60),
        ) {
            let mut end = 0;
            let parts: Vec<(u64, u64)> = parts.into_iter().map(|(gap, len)| {
                let offset = end + gap;
                end = offset + len;
                (offset, len)
            }).collect();
            let body = |(offset, len): &(u64, u64)| (*offset, Body::Bytes(bytes(*offset, *len)));
            let mut found = Vec::new();
            let mut small = 0;
            for batch in batches(parts.iter().map(body).collect()) {
                match batch {
                    Batch::Part(offset, body) => {
                        found.push((offset, body.bytes().to_vec()));
                        small = 0;
                    }
                    Batch::Parts(body) => {
                        small += 1;
                        prop_assert!(body.len() as u64 <= BODY && small == 1);
                        let parts = differences::parts(&body).unwrap();
                        found.extend(parts.into_iter().map(|(at, part)| (at, part.to_vec())));
                    }
                }
            }
            let expected: Vec<(u64, Vec<u8>)> =
                parts.iter().map(|(offset, len)| (*offset, bytes(*offset, *len))).collect();
            prop_assert!(found == expected);
        }
    }

    #[test]
    fn a_message_has_no_more_than_the_link_takes() {
        let parts = (0..100).map(|part| (part * LARGE, Body::Bytes(vec![1; LARGE as usize - 1])));
        let all = batches(parts.collect());
        let lens = all.iter().map(|batch| match batch {
            Batch::Part(_, body) => body.bytes().len(),
            Batch::Parts(body) => body.len(),
        });
        assert!(all.len() == 2 && lens.max().unwrap() as u64 <= BODY, "{}", all.len());
    }
}
