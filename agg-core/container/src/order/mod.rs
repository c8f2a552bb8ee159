//! The file `order`: the counter that orders the frames of all writers, and the locks of processes.

pub(crate) mod hold;
pub(crate) mod sequencer;
