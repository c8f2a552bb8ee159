//! Memory of stages in other processes of the user, which the kernel lets this one open.

use super::claim::Address;
use super::control::{Control, Identity};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The kernel's name for memory of a stage.
const LINK: &str = "/memfd:aggio-stage (deleted)";

/// Opens memory of a stage once more that a process has open; `NotFound` if that is another thing,
/// or if this process may not look: anybody can have a name that leads to any process.
pub(super) fn reopen(process: u32, descriptor: i32) -> io::Result<File> {
    let name = format!("/proc/{process}/fd/{descriptor}");
    if !is_of_stage(&name) {
        return Err(io::ErrorKind::NotFound.into());
    }
    File::options().read(true).write(true).open(name)
}

/// Whether a descriptor leads to memory of a stage.
fn is_of_stage(name: &str) -> bool {
    std::fs::read_link(name).is_ok_and(|link| link.as_os_str() == LINK)
}

/// The stages of the file that processes of the user have, found by looking through all of them:
/// those of other network namespaces have no names here.
///
/// # Errors
/// The error of the system call, if this process cannot look: a stage may be there.
pub(super) fn stages(user: u32, identity: &Identity) -> io::Result<Vec<Address>> {
    let mut found = Vec::new();
    for process in numbers_in::<u32>("/proc")? {
        let facts = std::fs::metadata(format!("/proc/{process}"));
        if facts.is_ok_and(|facts| facts.uid() == user) {
            let of_process = stages_of(process, identity);
            found.extend(unless_gone(of_process)?.unwrap_or_default());
        }
    }
    Ok(found)
}

/// The stages of the file that one process has.
fn stages_of(process: u32, identity: &Identity) -> io::Result<Vec<Address>> {
    let folder = format!("/proc/{process}/fd");
    // Descriptors, and the numbers of the memory that they lead to.
    let mut memory: Vec<(i32, u64)> = Vec::new();
    for descriptor in numbers_in::<i32>(&folder)? {
        let name = format!("{folder}/{descriptor}");
        if is_of_stage(&name)
            && let Some(facts) = unless_gone(std::fs::metadata(&name))?
        {
            memory.push((descriptor, facts.ino()));
        }
    }
    let place = |wanted: u64| {
        let found = memory.iter().find(|(_, number)| *number == wanted);
        found.map(|(descriptor, _)| *descriptor)
    };
    let mut found = Vec::new();
    // A head is open twice.
    for (descriptor, _) in memory.iter().filter(|(one, number)| place(*number) == Some(*one)) {
        let Some(file) = unless_gone(reopen(process, *descriptor))? else { continue };
        if Control::open(&file).is_ok_and(|control| control.identity == *identity)
            && let Some([Some(places), Some(bytes)]) =
                Control::parts(&file).map(|all| all.map(place))
        {
            found.push(Address { process, descriptors: [*descriptor, places, bytes] });
        }
    }
    Ok(found)
}

/// The result of a call about another process; `None` if that process or its descriptor is gone, or
/// this one may not see it.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.raw_os_error() {
            None | Some(libc::ENOENT | libc::ESRCH | libc::EACCES | libc::EPERM) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The names in a directory that are numbers.
fn numbers_in<N: std::str::FromStr>(directory: &str) -> io::Result<Vec<N>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()));
    }
    Ok(numbers)
}
