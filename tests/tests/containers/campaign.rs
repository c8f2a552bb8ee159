//! Commands that write are killed at their system calls, and raced against each other on one name.
//!
//! At any time, a name holds the old content, the new content, or nothing; `aggio recover` removes
//! the remains beside it; and the command then does its work as if nothing had happened.
//! `AGGIO_TEST_FACTOR` above 1 (`make check-long`) kills every command a thousand times at all its
//! calls, and runs a thousand races. `--nocapture` shows a line with the number of trials for each.

mod kills;
mod races;
mod scene;
mod second_user;
