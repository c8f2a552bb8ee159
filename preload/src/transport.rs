//! The MPI library as the engine's transport.

use agg_core::transport::Transport;
use agg_core::{Error, ErrorClass, Result};
use std::sync::Arc;

/// The transport of a file that the ranks of `comm` open together; collective over `comm` unless
/// it has one rank only.
///
/// # Errors
/// `Comm` if MPI refuses the communicator.
pub fn for_communicator(_comm: usize) -> Result<Arc<dyn Transport>> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}
