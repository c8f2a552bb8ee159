//! The file `order`: the counter that orders the frames of all writers, and the locks of processes.

pub(crate) mod hold;
mod sequencer;

pub use hold::Hold;
pub(crate) use hold::Need;
pub(crate) use sequencer::{Sequencer, Taken, Word};
