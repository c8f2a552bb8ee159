//! Configuration by users: hints, environment variables and rules, read from every source.

pub mod hints;
pub mod rules;
pub mod settings;
