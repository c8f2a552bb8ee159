//! Counters and the report of one file: requests in, requests out, bytes, seconds.

mod decided;
mod json;
mod reason;

pub use decided::{Decided, Tally};
pub use json::{object, quoted};
pub use reason::{Note, Reason, Way};

use crate::log;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident;)*) => {
        /// Counts of one open file on this rank; every field may be added to from any thread.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $field: AtomicU64,)*
            timed: AtomicBool,
            /// The decisions taken, with their reasons.
            pub decided: Decided,
        }

        /// The values of [`Counters`] at one moment, or their sum over ranks.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $field: u64,)*
            /// The decisions taken, with their reasons.
            pub decided: Tally,
        }

        impl Counters {
            /// The values now.
            pub fn totals(&self) -> Totals {
                Totals { $($field: self.$field.load(Relaxed),)* decided: self.decided.tally() }
            }
        }

        impl Totals {
            /// Number of bytes of the wire form.
            pub const WIRE_BYTES: usize = 8 * ([$(stringify!($field)),*].len() + decided::SLOTS);

            /// Adds another rank's values.
            pub fn add(&mut self, other: &Totals) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
                self.decided.add(&other.decided);
            }

            /// The name and description of every value, in declaration order.
            pub const FIELDS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($doc),+))),*];

            /// Every value with its name, in declaration order; without the decisions.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field)),*]
            }

            /// The bytes that carry the values to another rank.
            pub fn to_bytes(&self) -> Vec<u8> {
                let named = self.named().into_iter().map(|(_, value)| value);
                named.chain(self.decided.0).flat_map(u64::to_le_bytes).collect()
            }

            /// The values in `bytes`; `None` if these are not [`Totals::WIRE_BYTES`] many.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let words = bytes.chunks_exact(8);
                let mut words = words.map(|word| word.try_into().map(u64::from_le_bytes));
                let mut next = || words.next()?.ok();
                let right_size = bytes.len() == Self::WIRE_BYTES;
                right_size.then_some(())?;
                let mut new = Self { $($field: next()?,)* decided: Tally::default() };
                for slot in &mut new.decided.0 {
                    *slot = next()?;
                }
                Some(new)
            }
        }
    };
}

// The JSON report and docs/reports.md follow from the rows; `Summary::line` names the counters that
// the report for people has.
counters! {
    /// Data calls.
    calls;
    /// Collective ones among these.
    collective_calls;
    /// Writes that were delayed.
    deferred;
    /// Times that a rank wrote delayed data.
    flushes;
    /// Contiguous pieces of the file in these calls.
    pieces_in;
    /// Bytes read for the application.
    bytes_read;
    /// Bytes written for the application.
    bytes_written;
    /// System calls that read.
    reads_out;
    /// System calls that wrote.
    writes_out;
    /// Small reads served from bytes read before.
    remembered;
    /// Bytes that system calls read.
    bytes_read_out;
    /// Bytes that system calls wrote.
    bytes_written_out;
    /// Requests to change the size of the file, to reserve storage, and to synchronise it.
    other_out;
    /// Pieces of zeros that were not written: storage was reserved, or they are a hole.
    reserved;
    /// Bytes in these pieces.
    bytes_reserved;
    /// File views set without waiting for other ranks.
    views_alone;
    /// Collective calls of a rank for several chunks of HDF5.
    calls_linked;
    /// Collective calls of a rank for one chunk of HDF5.
    calls_of_a_chunk;
    /// Chunks that a rank moved by itself while others went through aggregators.
    chunks_alone;
    /// Chunks of a rank that went through aggregators.
    chunks_exchanged;
    /// Opens of coupled files, and reads that asked another node for bytes.
    coupled_waits;
    /// Nanoseconds of these waits.
    coupled_nanoseconds;
    /// Bytes, in pieces of 1 MiB, that these reads asked for.
    coupled_bytes;
    /// Messages sent to other ranks.
    messages;
    /// Bytes sent to other ranks.
    message_bytes;
    /// Bytes among these that describe requests and positions of data, in calls through
    /// aggregators.
    metadata_bytes;
    /// Collective calls through aggregators that were planned.
    plans;
    /// Those that used an earlier plan again.
    plans_reused;
    /// Nanoseconds in data calls, if [timed](Counters::is_timed).
    nanoseconds;
    /// Nanoseconds in system calls on the file, if [timed](Counters::is_timed).
    nanoseconds_out;
    /// Calls that failed.
    errors;
    /// Collective calls that went through aggregators.
    two_phase;
    /// Other collective calls.
    collective_alone;
    /// Independent accesses with requests that included the gaps.
    sieved;
    /// Other independent accesses with gaps.
    listed;
}

impl Counters {
    /// Adds `n` to one of the counters.
    #[inline]
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    /// Lets times be taken from now on.
    #[inline]
    pub fn take_times(&self) {
        self.timed.store(true, Relaxed);
    }

    /// Whether times are taken: asking the clock twice costs as much as a tenth of a small
    /// transfer.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed.load(Relaxed)
    }

    /// The time now, if times are taken.
    #[inline]
    pub fn now(&self) -> Option<Instant> {
        self.is_timed().then(Instant::now)
    }

    /// Adds the nanoseconds since `start` to one of the counters, if times are taken.
    #[inline]
    pub fn add_since(counter: &AtomicU64, start: Option<Instant>) {
        if let Some(start) = start {
            Self::add(counter, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
}

/// The ranks of the counts in a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All ranks closed the file together.
    All,
    /// This rank had it open still when MPI or the process ended; the other ranks are unknown.
    Rank(usize),
}

/// The form of the report about a file when it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// Nothing.
    #[default]
    Off,
    /// A line for people.
    Line,
    /// A line of JSON.
    Json,
}

/// The version of the object that `AGGIO_REPORT=json` writes.
pub const VERSION: u32 = 2;

/// The report about a file when it is closed, on one rank for all.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The file's name.
    pub path: &'a str,
    /// The driver that served it.
    pub driver: &'a str,
    /// Number of ranks that opened it.
    pub ranks: usize,
    /// The ranks of these counts.
    pub of: Of,
    /// Sums over these ranks.
    pub totals: Totals,
    /// The form that a container got when it was closed.
    pub sealed: Option<&'a str>,
}

impl Summary<'_> {
    /// A line for people.
    pub fn line(&self) -> String {
        let t = &self.totals;
        let requests_out = t.reads_out.saturating_add(t.writes_out);
        let who = match self.of {
            Of::All => format!("sums of {} ranks", self.ranks),
            Of::Rank(rank) => format!("rank {rank} of {} alone, open still at the end", self.ranks),
        };
        let mut line = format!(
            "report: {}: driver {}; {who}: in {} calls ({} collective), {} pieces, read {}, \
             written {}; out {requests_out} requests, read {}, written {}",
            self.path,
            self.driver,
            t.calls,
            t.collective_calls,
            t.pieces_in,
            Bytes(t.bytes_read),
            Bytes(t.bytes_written),
            Bytes(t.bytes_read_out),
            Bytes(t.bytes_written_out),
        );
        for (words, count) in [
            ("two-phase", t.two_phase),
            ("collective but alone", t.collective_alone),
            ("sieved", t.sieved),
            ("by lists", t.listed),
            ("messages", t.messages),
            ("bytes of metadata", t.metadata_bytes),
            ("plans", t.plans),
            ("plans reused", t.plans_reused),
            ("zeros reserved instead of written", t.bytes_reserved),
            ("failed", t.errors),
        ] {
            if count > 0 {
                line.push_str(&format!("; {words} {count}"));
            }
        }
        for (words, count) in t.decided.decisions() {
            line.push_str(&format!("; {words} ({count})"));
        }
        for (words, count) in t.decided.notes() {
            line.push_str(&format!("; note: {words} ({count})"));
        }
        if t.coupled_waits > 0 {
            let (seconds, bytes) = (t.coupled_nanoseconds as f64 / 1e9, Bytes(t.coupled_bytes));
            let waits = t.coupled_waits;
            line.push_str(&format!(
                "; waited {waits} times for a coupled file, {seconds:.3} s in all, and asked \
                 another node for {bytes}"
            ));
        }
        let [calls, storage] = self.means();
        line.push_str(&format!(
            "; mean of ranks: {calls:.3} s in calls, {storage:.3} s in storage"
        ));
        if let Some(words) = self.sealed {
            line.push_str(&format!("; {words}"));
        }
        line
    }

    /// A JSON object on one line, which docs/reports.md describes; the names of sums are those of
    /// [`Totals`].
    pub fn json(&self) -> String {
        let sums = self.totals.named().into_iter();
        let (decisions, notes) = (self.totals.decided.decisions(), self.totals.decided.notes());
        let [calls, storage] = self.means();
        let mut json = format!(
            "{{\"aggio_report\":{VERSION},\"interface\":\"mpi\",\"file\":{},\"driver\":{},\
             \"ranks\":{}",
            quoted(self.path),
            quoted(self.driver),
            self.ranks
        );
        if let Of::Rank(rank) = self.of {
            json.push_str(&format!(",\"open_at_end\":true,\"rank\":{rank}"));
        }
        if let Some(words) = self.sealed {
            json.push_str(&format!(",\"sealed\":{}", quoted(words)));
        }
        json.push_str(&format!(
            ",\"sum\":{},\"mean\":{{\"seconds_in_calls\":{calls:.9},\
             \"seconds_in_storage\":{storage:.9}}},\
             \"decisions\":{},\"notes\":{}}}",
            object(sums.collect()),
            object(decisions),
            object(notes)
        ));
        json
    }

    /// Writes the report in the form of `wish`, if any.
    pub fn tell(&self, wish: Report) {
        match wish {
            Report::Off => {}
            Report::Line => log::report(format_args!("{}", self.line())),
            Report::Json => log::object(&self.json()),
        }
    }

    /// Seconds of a rank inside data calls, and of these inside system calls on the file.
    fn means(&self) -> [f64; 2] {
        let ranks = if self.of == Of::All { self.ranks.max(1) } else { 1 };
        let nanoseconds = [self.totals.nanoseconds, self.totals.nanoseconds_out];
        nanoseconds.map(|sum| sum as f64 / 1e9 / ranks as f64)
    }
}

/// A number of bytes in the unit that people read best.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = "B";
        for larger in UNITS {
            if value < 1024.0 {
                break;
            }
            (value, unit) = (value / 1024.0, larger);
        }
        if unit == "B" { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {unit}") }
    }
}

#[cfg(test)]
mod tests;
