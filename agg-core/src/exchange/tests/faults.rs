//! Failing ranks.
