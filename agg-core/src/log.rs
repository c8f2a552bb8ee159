//! Messages to users: one line each, to standard error or a file, never to standard output.

/// How important a message is; a lower one is more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is written.
    Off,
    /// Something failed.
    Error,
    /// Something was ignored or is worse than it could be.
    Warn,
    /// What happens to each file.
    Info,
    /// What happens in each call.
    Debug,
    /// Everything.
    Trace,
}
