//! The slow file system, really mounted, and programs that use it.

mod mount;
mod mounted;
mod renames;
mod requests;
mod spooled;
mod staged;
