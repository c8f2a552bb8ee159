//! The state of the process and of its threads, which belongs to this library and is used by the
//! crate `aggio-posix`.

use crate::{config, unused};
use aggio_posix::containers::Areas;
use aggio_posix::coupled::Coupled;
use aggio_posix::{Descriptors, Files, Host, OwnSpool, Process, Thread};

#[unsafe(export_name = "aggio_posix_process")]
static PROCESS: Process = Process::new(Host { config: config::get, at_exit: unused::tell_at_exit });

#[unsafe(export_name = "aggio_posix_descriptors")]
static DESCRIPTORS: Descriptors = Descriptors::new();

#[unsafe(export_name = "aggio_posix_files")]
static FILES: Files = Files::new();

#[unsafe(export_name = "aggio_posix_spool")]
static SPOOL: OwnSpool = OwnSpool::new();

#[unsafe(export_name = "aggio_posix_coupled")]
static COUPLED: Coupled = Coupled::new();

#[unsafe(export_name = "aggio_posix_areas")]
static AREAS: Areas = Areas::new();

thread_local! {
    static THREAD: Thread = const { Thread::new() };
}

#[unsafe(export_name = "aggio_posix_thread")]
fn thread() -> *const Thread {
    THREAD.with(std::ptr::from_ref)
}

// Hidden: nobody else sees them, and nobody else's symbols can take their place.
std::arch::global_asm!(
    ".hidden aggio_posix_process",
    ".hidden aggio_posix_descriptors",
    ".hidden aggio_posix_files",
    ".hidden aggio_posix_spool",
    ".hidden aggio_posix_coupled",
    ".hidden aggio_posix_areas",
    ".hidden aggio_posix_thread"
);
