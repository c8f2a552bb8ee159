//! Counts of the events of a file, for reports.

use super::reason::Reason;

/// The number of events of a file, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of a container.
    pub reads: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Writes to a container.
    pub writes: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Writes that were kept back.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Requests by which they reached the kernel.
    pub drains: u64,
    /// Reads that were served from bytes read ahead.
    pub read: u64,
    /// Requests that read ahead.
    pub fills: u64,
    /// Accesses and files left to the kernel, by reason.
    pub reasons: [u64; Reason::COUNT],
    /// Bytes that were lost, and told.
    pub lost: u64,
}

impl Counts {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            reads: 0,
            bytes_read: 0,
            writes: 0,
            bytes_written: 0,
            kept: 0,
            kept_bytes: 0,
            drains: 0,
            read: 0,
            fills: 0,
            reasons: [0; Reason::COUNT],
            lost: 0,
        }
    }
}
