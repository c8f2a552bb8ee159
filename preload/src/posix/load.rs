//! Work when the library is loaded and unloaded, and around `fork`.

use super::{environment, symbols};
use crate::{config, pnetcdf, rescue, unused};
use agg_core::settings::sets::SetRule;
use aggio_posix::{Host, coupled, open, process, staged, state};
use std::ffi::CStr;

/// When the library is loaded: looks whether there are rules, and whether this is an MPI program.
extern "C" fn loaded() {
    aggio_posix::install(Host { config: config::get, at_exit: unused::tell_at_exit });
    symbols::resolve();
    be_strict();
    if !is_privileged() {
        pnetcdf::at_load();
    }
    let rules = is_set(c"AGGIO_POSIX");
    let has_containers = is_set(c"AGGIO_BLOB") || shows_sets();
    let has_coupled = is_set(c"AGGIO_COUPLE");
    let has_stages = is_set(c"AGGIO_STAGE") || is_set(c"AGGIO_DEFER");
    let is_any = rules || has_containers || has_coupled || has_stages;
    if is_any && !config::is_plainly_off() && !is_privileged() {
        listen_for_fork();
        state::start(has_containers, has_coupled);
        if has_containers {
            environment::remember();
            open::attach_containers();
        }
        if has_coupled {
            coupled::attach();
        }
        if has_stages {
            staged::attach();
        }
    }
}

/// Has the C library call us around every `fork`.
fn listen_for_fork() {
    let (before, parent, child) = (process::before_fork, process::after_fork, process::in_child);
    // SAFETY: the functions live as long as the process.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// Ends a process with invalid settings, if the user wants that.
fn be_strict() {
    if is_set(c"AGGIO_STRICT") && !config::is_plainly_off() && !is_privileged() {
        config::get();
    }
}

/// When the library is unloaded at the end of the process.
extern "C" fn unloaded() {
    if state::active() {
        coupled::write_streams();
        process::at_exit();
    }
    rescue::report();
}

fn is_set(name: &CStr) -> bool {
    // SAFETY: the name is a C string; the value is a C string if there is one.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        !value.is_null() && *value != 0
    }
}

/// Whether the user asks for sets. Without a request, only processes that see containers see sets.
fn shows_sets() -> bool {
    is_set(c"AGGIO_SETS")
        && agg_core::settings::process_variable("AGGIO_SETS")
            .is_some_and(|text| SetRule::shows_any(&text))
}

/// Whether the process has rights that its user has not.
fn is_privileged() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static LOADED: extern "C" fn() = loaded;
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static UNLOADED: extern "C" fn() = unloaded;
