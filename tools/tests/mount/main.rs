//! Containers and sets below a mount point, to programs that know nothing of them.

mod caches;
mod changes;
mod ends;
mod hostile;
#[path = "../mounted/mod.rs"]
mod mounted;
mod nameless;
mod operations;
mod rights;
mod sets;
mod view;
