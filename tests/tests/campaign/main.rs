//! Commands that write are killed at their system calls, and raced against each other on one name.
//!
//! Whatever happens, a name holds the old content, the new content, or nothing; `aggio recover` removes what is left
//! beside it; and the command then does its work as if nothing had happened. `AGGIO_TEST_FACTOR` above 1
//! (`make check-long`) kills at every call and runs a thousand races.

mod kills;
mod mutants;
mod races;
#[path = "../killed/sample.rs"]
#[allow(dead_code)]
mod sample;
mod scene;
mod second_user;
