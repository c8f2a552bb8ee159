//! Why a question of a program has no answer.

use aggio_base::log;
use aggio_base::log::Level;
use std::io;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The agent ended, and with it the contents of its memory. Its last effects are unknown.
    Gone(io::Error),
    /// It had ended before it was asked.
    Unheard(io::Error),
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Other(error) => error,
            Failure::Gone(error) | Failure::Unheard(error) => {
                log!(Level::Error, "the agent of coupled files has ended: {error}");
                Self::from_raw_os_error(libc::EIO)
            }
        }
    }
}
