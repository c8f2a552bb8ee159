//! Names whose owners have ended, and the processes that do not know that yet.

use crate::registry::{Path, Process};
use std::collections::{BTreeMap, BTreeSet};

/// The names that a process may have used, and the error text.
#[derive(Debug)]
struct Loss {
    names: BTreeSet<Path>,
    text: String,
}

/// Losses that the next open of a name is to report.
#[derive(Debug, Default)]
pub(crate) struct Losses(BTreeMap<Process, Loss>);

impl Losses {
    /// The owner of these names has ended, while the process had no request for it.
    pub(crate) fn note(&mut self, process: Process, names: &BTreeSet<Path>, text: &str) {
        let loss = Loss { names: names.clone(), text: text.to_owned() };
        self.0.insert(process, loss);
    }

    /// A process opens a file to read it. Returns the error, once, if the owner of the name has
    /// ended.
    pub(crate) fn take(&mut self, process: Process, name: &[u8]) -> Option<String> {
        let loss = self.0.get(&process).filter(|loss| loss.names.contains(name));
        loss.is_some().then(|| self.0.remove(&process).map(|loss| loss.text)).flatten()
    }

    /// A process has ended, or knows of the loss.
    pub(crate) fn forget(&mut self, process: Process) {
        self.0.remove(&process);
    }
}

/// The text of an error about lost bytes.
pub(crate) fn gone(host: &str) -> String {
    format!("node {host} has lost what its programs wrote of the generation: its agent has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_reported_once_by_the_open_of_a_name_that_was_lost() {
        let (mut losses, names) = (Losses::default(), BTreeSet::from([b"/d/f".to_vec()]));
        for process in [1, 2] {
            losses.note(process, &names, "the agent of node1 has ended");
        }
        assert_eq!(losses.take(1, b"/d/other"), None);
        assert_eq!(losses.take(1, b"/d/f").as_deref(), Some("the agent of node1 has ended"));
        assert_eq!(losses.take(1, b"/d/f"), None);
        losses.forget(2);
        assert_eq!(losses.take(2, b"/d/f"), None);
    }
}
