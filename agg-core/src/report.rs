//! What happened to one file: requests in, requests out, bytes, seconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident;)*) => {
        /// Counts of one open file on this rank; every field may be added to from any thread.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])+ pub $field: AtomicU64,)* }

        /// The values of [`Counters`] at one moment, or their sum over ranks.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals { $($(#[doc = $doc])+ pub $field: u64,)* }

        impl Counters {
            /// The values now.
            pub fn totals(&self) -> Totals {
                Totals { $($field: self.$field.load(Relaxed),)* }
            }
        }

        impl Totals {
            /// Number of bytes of the wire form.
            pub const WIRE_BYTES: usize = 8 * [$(stringify!($field)),*].len();

            /// Adds another rank's values.
            pub fn add(&mut self, other: &Totals) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Every value with its name, in declaration order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field)),*]
            }

            /// The bytes that carry the values to another rank.
            pub fn to_bytes(&self) -> Vec<u8> {
                self.named().iter().flat_map(|(_, value)| value.to_le_bytes()).collect()
            }

            /// The values in `bytes`; `None` if these are not [`Totals::WIRE_BYTES`] many.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes));
                let mut next = || words.next()?.ok();
                let right_size = bytes.len() == Self::WIRE_BYTES;
                right_size.then_some(())?;
                Some(Self { $($field: next()?,)* })
            }
        }
    };
}

counters! {
    /// Data calls of the application.
    calls;
    /// Of these, collective ones.
    collective_calls;
    /// Contiguous file pieces that the calls asked for.
    pieces_in;
    /// Bytes read for the application.
    bytes_read;
    /// Bytes written for the application.
    bytes_written;
    /// System calls that read.
    reads_out;
    /// System calls that wrote.
    writes_out;
    /// Bytes that system calls read.
    bytes_read_out;
    /// Bytes that system calls wrote.
    bytes_written_out;
    /// Other system calls on the file: sync, truncate, lock, ...
    other_out;
    /// Messages sent to other ranks.
    messages;
    /// Bytes sent to other ranks.
    message_bytes;
    /// Nanoseconds inside data calls.
    nanoseconds;
    /// Nanoseconds inside system calls on the file.
    nanoseconds_out;
    /// Calls that failed.
    errors;
}

impl Counters {
    /// Adds `n` to one of the counters.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
}
