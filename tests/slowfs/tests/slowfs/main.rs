//! The slow file system, really mounted, and what programs do on it.

mod mount;
mod mounted;
mod renames;
mod requests;
mod spooled;
mod staged;
