//! The state of the process and of its threads, which belongs to this library and is used by the crate
//! `aggio-posix`.

use crate::{config, unused};
use aggio_posix::{Host, Process, Tables, Thread};

#[unsafe(export_name = "aggio_posix_process")]
static PROCESS: Process = Process::new(Host { config: config::get, at_exit: unused::tell_at_exit });

#[unsafe(export_name = "aggio_posix_tables")]
static TABLES: Tables = Tables::new();

thread_local! {
    static THREAD: Thread = const { Thread::new() };
}

#[unsafe(export_name = "aggio_posix_thread")]
fn thread() -> *const Thread {
    THREAD.with(std::ptr::from_ref)
}

// Hidden: the linker resolves them, so that they cost what any static of the library does, and nobody
// else's symbols can take their place.
std::arch::global_asm!(
    ".hidden aggio_posix_process",
    ".hidden aggio_posix_tables",
    ".hidden aggio_posix_thread"
);
