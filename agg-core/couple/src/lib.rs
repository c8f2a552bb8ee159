//! Files that programs exchange in memory: one process of the user, the agent, knows their names
//! and generations; programs get descriptors of them from it.

pub mod client;

pub use client::{Client, Open, Opened, Stat};
