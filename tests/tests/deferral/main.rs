//! Writes that wait until a file is synchronised or closed.

mod deferred;
mod staged;
mod staged_kills;
mod staged_sets;
mod stale_spool;
