//! Memory of stages in other processes of the user, which the kernel lets this one open.

use super::claim::Address;
use super::control::{Control, Identity};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// What the kernel calls memory of a stage.
const LINK: &str = "/memfd:aggio-stage (deleted)";

/// Opens memory of a stage once more that a process has open; `NotFound` if that is another thing,
/// or if this process may not look: anybody can have a name that leads to any process.
pub(super) fn reopen(process: u32, descriptor: i32) -> io::Result<File> {
    let name = format!("/proc/{process}/fd/{descriptor}");
    if !std::fs::read_link(&name).is_ok_and(|link| link.as_os_str() == LINK) {
        return Err(io::ErrorKind::NotFound.into());
    }
    File::options().read(true).write(true).open(name)
}

/// The stages of the file that processes of the user have, found by looking through all of them:
/// those of other network namespaces have no names here.
pub(super) fn stages(user: u32, identity: &Identity) -> Vec<Address> {
    let of_user = |process: &u32| {
        std::fs::metadata(format!("/proc/{process}")).is_ok_and(|facts| facts.uid() == user)
    };
    let processes = numbers_in::<u32>("/proc").into_iter().filter(of_user);
    processes.flat_map(|process| stages_of(process, identity)).collect()
}

/// The stages of the file that one process has.
fn stages_of(process: u32, identity: &Identity) -> Vec<Address> {
    let folder = format!("/proc/{process}/fd");
    let opened = numbers_in::<i32>(&folder).into_iter();
    let memory: Vec<(i32, File, u64)> = opened
        .filter_map(|descriptor| {
            let file = reopen(process, descriptor).ok()?;
            let number = file.metadata().ok()?.ino();
            Some((descriptor, file, number))
        })
        .collect();
    let place = |wanted: u64| {
        let found = memory.iter().find(|(_, _, number)| *number == wanted);
        found.map(|(descriptor, ..)| *descriptor)
    };
    // A head is open twice.
    let heads = memory.iter().filter(|(head, file, number)| {
        place(*number) == Some(*head)
            && Control::open(file).is_ok_and(|control| control.identity == *identity)
    });
    let addresses = heads.filter_map(|(head, file, _)| {
        let [places, bytes] = Control::parts(file)?;
        Some(Address { process, descriptors: [*head, place(places)?, place(bytes)?] })
    });
    addresses.collect()
}

/// The names in a directory that are numbers.
fn numbers_in<N: std::str::FromStr>(directory: &str) -> Vec<N> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
