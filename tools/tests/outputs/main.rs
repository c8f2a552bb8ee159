//! Files that commands make: whose they are, with which rights, what they replace, and what stays
//! of them when a command fails or is killed. Some need a second user, so root runs them.

mod ends;
#[path = "../mounted/mod.rs"]
mod mounted;
mod place;
mod replaced;
mod rights;
