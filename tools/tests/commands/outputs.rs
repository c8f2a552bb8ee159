//! Files that commands make: their owner and rights, the files that they replace, and the remains
//! if a command fails or is killed. Some need a second user, so root runs them.

mod ends;
mod place;
mod replaced;
mod rights;
