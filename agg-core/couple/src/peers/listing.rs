//! Names of files that several nodes own, for one listing of a directory.

use crate::protocol::Reply;
use std::collections::BTreeSet;

/// Bytes of names in one answer, at most.
const NAMES: usize = 16 << 10;

type Name = Vec<u8>;

/// A listing for which other nodes are asked.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// How many have not answered.
    left: usize,
    names: BTreeSet<Name>,
    /// Names behind this one may be missing.
    until: Option<Name>,
    error: Option<Reply>,
}

impl Listing {
    /// One that so many nodes have to answer, with the names of files of this one.
    pub(crate) fn new(nodes: usize, own: Reply) -> Self {
        let mut listing = Self { left: nodes, ..Self::default() };
        listing.add(own);
        listing
    }

    /// A node has answered; whether it was the last.
    pub(crate) fn hear(&mut self, reply: Reply) -> bool {
        self.add(reply);
        self.left -= 1;
        self.left == 0
    }

    fn add(&mut self, reply: Reply) {
        match reply {
            Reply::Names(names, more) => {
                if more && let Some(last) = names.last() {
                    let until = self.until.take().filter(|until| until < last);
                    self.until = Some(until.unwrap_or_else(|| last.clone()));
                }
                self.names.extend(names);
            }
            other => self.error = Some(other),
        }
    }

    /// The answer for the program.
    pub(crate) fn reply(self) -> Reply {
        let until = self.until;
        let is_known = |name: &Name| until.as_ref().is_none_or(|until| name <= until);
        let names = self.names.into_iter().filter(is_known);
        self.error.unwrap_or_else(|| page(names, until.is_some()))
    }
}

/// As many of these names, which are in order, as one answer has room for; `more` of them are to
/// come anyway.
pub(crate) fn page(all: impl Iterator<Item = Name>, mut more: bool) -> Reply {
    let (mut names, mut bytes) = (Vec::new(), 0);
    for name in all {
        bytes += name.len() + 8;
        if bytes > NAMES && !names.is_empty() {
            more = true;
            break;
        }
        names.push(name);
    }
    Reply::Names(names, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(numbers: &[u16]) -> impl Iterator<Item = Name> {
        numbers.iter().map(|number| format!("{number:05}{}", "x".repeat(200)).into_bytes())
    }

    proptest! {
        #[test]
        fn page_after_page_every_name_of_every_node_comes_once_and_in_order(
            nodes in prop::collection::vec(prop::collection::btree_set(any::<u16>(), 0..200), 1..4),
        ) {
            let (mut found, mut after): (Vec<Name>, Name) = Default::default();
            loop {
                let mut listing = Listing::default();
                for node in &nodes {
                    let all: Vec<u16> = node.iter().copied().collect();
                    listing.add(page(names(&all).filter(|name| *name > after), false));
                }
                let Reply::Names(some, more) = listing.reply() else { panic!("no names") };
                found.extend(some);
                if !more {
                    break;
                }
                prop_assert!(found.last() > Some(&after), "no progress");
                after = found.last().cloned().unwrap_or_default();
            }
            let all: BTreeSet<u16> = nodes.into_iter().flatten().collect();
            let all: Vec<u16> = all.into_iter().collect();
            prop_assert_eq!(found, names(&all).collect::<Vec<_>>());
        }
    }
}
