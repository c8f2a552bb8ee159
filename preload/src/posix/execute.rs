//! Other programs in this process, or in a child, where these may be containers.

use super::environment::passed_on;
use super::symbols::next;
use aggio_posix::containers::Instead;
use aggio_posix::errno;
use libc::{c_char, c_int, c_void};

/// Executes the program found for a container; returns only if that fails. With `shell`, a shell
/// executes files of formats that the kernel does not support.
///
/// # Safety
/// `arguments` and `environment` are as `execve` takes them.
pub unsafe fn run(
    found: Result<Instead, c_int>,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    shell: bool,
) -> c_int {
    let instead = match found {
        Ok(instead) => instead,
        Err(error) => return errno::fail(error) as c_int,
    };
    // SAFETY: the caller's promise; the lists live as long as the calls.
    unsafe {
        let (list, environment) = (instead.arguments(arguments), passed_on(environment));
        next::execve(instead.path(), list.as_ptr() as *mut c_void, environment.as_ptr());
        if shell && errno::get() == libc::ENOEXEC {
            let list = instead.by_shell(arguments);
            next::execve(c"/bin/sh".as_ptr(), list.as_ptr() as *mut c_void, environment.as_ptr());
        }
    }
    let _errno = errno::Keep::new();
    drop(instead);
    -1
}

/// `posix_spawn` of the program found for a container; the error number, or 0.
///
/// # Safety
/// As the C library demands.
pub unsafe fn spawn(
    found: Result<Instead, c_int>,
    pid: *mut c_void,
    actions: *mut c_void,
    attributes: *mut c_void,
    arguments: *mut c_void,
    environment: *mut c_void,
) -> c_int {
    match found {
        Err(error) => error,
        // SAFETY: the caller's promise; the lists live as long as the call, which waits until the
        // child needs them no more.
        Ok(instead) => unsafe {
            let list = instead.arguments(arguments as *const *const c_char);
            let list = list.as_ptr() as *mut c_void;
            let environment = passed_on(environment as *const _);
            next::posix_spawn(pid, instead.path(), actions, attributes, list, environment.as_ptr())
        },
    }
}
