//! The messages between the ranks and the threads that answer them.

use aggio_base::Extent;

/// Bytes of a message.
pub(super) const BYTES: usize = 32;

/// A question of a rank to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// To every node: store the buffered writes of its ranks, except bytes that must be stored
    /// last, once they have done this number of collective writes.
    StoreFirst(u32),
    /// To every node: store the bytes that must be stored last, too.
    StoreAll(u32),
    /// To the first rank's node: does that rank have buffered independent writes in this extent?
    IsAlone(Extent),
}

/// An answer of nodes; of several answers, the greatest is the combined one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// No buffered writes, or no longer any.
    #[default]
    Nothing,
    /// Some buffered writes.
    Something,
    /// They cannot be stored, or a node cannot be reached.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The sender answers for this node.
    Node(u32),
    /// The number comes back with the answer.
    Ask(u64, Question),
    Answer(u64, Answer),
}

impl Message {
    /// Kind, a word, the number, two more words; little endian.
    pub(super) fn to_bytes(self) -> [u8; BYTES] {
        let (kind, word, number, from, to) = match self {
            Self::Node(node) => (0, node, 0, 0, 0),
            Self::Ask(number, Question::StoreFirst(done)) => (1, done, number, 0, 0),
            Self::Ask(number, Question::StoreAll(done)) => (2, done, number, 0, 0),
            Self::Ask(number, Question::IsAlone(at)) => (3, 0, number, at.offset, at.end()),
            Self::Answer(number, answer) => (4, answer as u32, number, 0, 0),
        };
        let mut bytes = [0; BYTES];
        let fields = [&u32::to_le_bytes(kind)[..], &word.to_le_bytes(), &number.to_le_bytes()];
        let fields = [fields.concat(), from.to_le_bytes().to_vec(), to.to_le_bytes().to_vec()];
        bytes.copy_from_slice(&fields.concat());
        bytes
    }

    /// Returns `None` for bytes that are not a message.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let [head, number, from, to] = [0, 1, 2, 3].map(|n| u64::from_le_bytes(words[n]));
        let (kind, word) = (head as u32, (head >> 32) as u32);
        let message = match kind {
            0 => Self::Node(word),
            1 => Self::Ask(number, Question::StoreFirst(word)),
            2 => Self::Ask(number, Question::StoreAll(word)),
            3 => Self::Ask(number, Question::IsAlone(Extent::between(from, to))),
            4 => {
                let all = [Answer::Nothing, Answer::Something, Answer::Failed];
                Self::Answer(number, *all.get(word as usize)?)
            }
            _ => return None,
        };
        // One message has one spelling.
        (message.to_bytes() == *bytes).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_way_and_nothing_else_is_one() {
        let all = [
            Message::Node(7),
            Message::Ask(1 << 40, Question::StoreFirst(u32::MAX)),
            Message::Ask(2, Question::StoreAll(3)),
            Message::Ask(u64::MAX, Question::IsAlone(Extent::between(5, 1 << 60))),
            Message::Answer(9, Answer::Nothing),
            Message::Answer(9, Answer::Failed),
        ];
        for message in all {
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Some(message));
            assert_eq!(Message::from_bytes(&bytes[..31]), None);
            for at in 0..BYTES {
                let mut other = bytes;
                other[at] ^= 0x80;
                assert_ne!(Message::from_bytes(&other), Some(message), "{message:?}, byte {at}");
            }
        }
    }
}
