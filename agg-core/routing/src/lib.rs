//! Routes of a coupled file's bytes from writers to readers: pure functions, without I/O.
//!
//! Extents are compressed into [runs](Run). The file is cut into blocks that are dealt to
//! [matchers](Matcher) ([`Shards`]), so that none of them holds everything: a matcher receives the
//! written and the wanted runs of its blocks, and answers with the agents that have the bytes. The
//! result is a list of [routes](Route), which is [remembered](Replay) while the extents of both
//! sides stay as they are: then no requests are necessary.

mod digest;
mod forecast;
mod matcher;
mod replay;
mod run;
mod shards;
#[cfg(test)]
mod tests;

pub use digest::Digest;
pub use forecast::{Forecast, forecast};
pub use matcher::{Found, Full, Matcher, Order};
pub use replay::{Decision, Replay, Route};
pub use run::{Run, compress, pieces};
pub use shards::Shards;
