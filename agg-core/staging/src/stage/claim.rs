//! How processes of a user find the stages that others of them have in memory, which has no name.
//!
//! A process that uses a stage holds two things of the kernel that end with the process and leave
//! nothing:
//!
//! - a lock of a byte of the PID namespace, which is a file in `/proc`; shared. A process that
//!   looks for a stage queries that lock, which takes less than a microsecond, and mostly finds it
//!   free;
//! - a socket without a file. Its name identifies the file, and the process and descriptors that
//!   have the stage. `/proc/net/unix` lists these names to processes of the same network namespace;
//!   others look through the descriptors of all processes of the user.
//!
//! The socket answers nothing; the descriptors are opened through `/proc/PID/fd`, which the kernel
//! allows processes of one user. Other users can make such names and locks, but no such memory.

use super::control::Identity;
use aggio_base::os::{ofd_lock, ofd_would_lock};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The file that carries the locks of bytes. All processes that can see each other in `/proc` have
/// the same one, even if they share nothing else, and any user may open it.
const WATCHED: &str = "/proc/self/ns/pid";

/// How long to wait for other processes that make stages.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where the names of sockets are listed.
const LIST: &str = "/proc/net/unix";

/// Which descriptors of a process are a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) process: u32,
    /// The descriptors of the head, the places and the bytes.
    pub(super) descriptors: [i32; 3],
}

/// Lets others find a stage, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    _lock: File,
    _socket: UnixDatagram,
}

/// The right to make a stage, until it is dropped: one process at a time has it.
#[derive(Debug)]
pub(super) struct Making(#[expect(dead_code, reason = "the lock lives as long")] File);

/// The file of locks, open.
///
/// # Errors
/// The error of the system call.
pub(super) fn watch() -> io::Result<File> {
    File::open(WATCHED)
}

/// Whether a process may have a stage of the file. `watched` holds no locks.
///
/// # Errors
/// The error of the system call.
pub(super) fn is_claimed(watched: &File, user: u32, identity: &Identity) -> io::Result<bool> {
    ofd_would_lock(watched.as_raw_fd(), libc::F_WRLCK, byte_of(user, identity), 1).map(|free| !free)
}

/// The stages of the file that processes have.
///
/// # Errors
/// The error of the system call.
pub(super) fn claims(user: u32, identity: &Identity) -> io::Result<Vec<Address>> {
    let start = format!("@{}{AT}", stem(user, identity));
    let list = std::fs::read(LIST)?;
    let text = String::from_utf8_lossy(&list);
    let names = text.lines().filter_map(|line| line.rsplit_once(' ').map(|(_, name)| name));
    Ok(names.filter_map(|name| Address::parse(name.strip_prefix(&start)?)).collect())
}

impl Claim {
    /// Lets others find a stage of the file at `address`, which is this process'.
    ///
    /// # Errors
    /// The error of the system call.
    pub(super) fn new(user: u32, identity: &Identity, address: Address) -> io::Result<Self> {
        let lock = watch()?;
        let byte = byte_of(user, identity);
        ofd_lock(lock.as_raw_fd(), libc::F_OFD_SETLK, libc::F_RDLCK, byte, 1)?;
        let name = format!("{}{AT}{address}", stem(user, identity));
        Ok(Self { _lock: lock, _socket: named(&name)? })
    }
}

impl Making {
    /// Waits for the right.
    ///
    /// # Errors
    /// `WouldBlock` if other processes keep it; otherwise the error of the system call.
    pub(super) fn begin() -> io::Result<Self> {
        Self::begin_within(PATIENCE)
    }

    fn begin_within(patience: Duration) -> io::Result<Self> {
        let (lock, end) = (watch()?, Instant::now() + patience);
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self(lock)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() > end => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Separates the stem of a name and an address.
const AT: char = '@';

fn stem(user: u32, identity: &Identity) -> String {
    format!("aggio-stage-{user}-{:x}-{:x}", identity.device, identity.inode)
}

fn named(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// The byte that stands for a file of a user. Two files may have the same one.
fn byte_of(user: u32, identity: &Identity) -> i64 {
    let mut hash = u64::from(user);
    for word in [identity.device, identity.inode] {
        hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    (hash >> 2).cast_signed()
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [head, places, bytes] = self.descriptors;
        write!(f, "{}.{head}.{places}.{bytes}", self.process)
    }
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse::<u32>);
        let process = numbers.next()?.ok()?;
        let mut descriptors = [0; 3];
        for one in &mut descriptors {
            *one = i32::try_from(numbers.next()?.ok()?).ok()?;
        }
        numbers.next().is_none().then_some(Self { process, descriptors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that no other test has.
    fn identity(inode: u64) -> Identity {
        Identity::made_up(0xFFFF_FFFF_FFFF_0000, inode ^ u64::from(std::process::id()) << 32)
    }

    #[test]
    fn claims_are_found_until_they_are_dropped() {
        let (user, one, other) = (1000, identity(1), identity(2));
        let _no_children = crate::tests::without_children();
        let watched = watch().unwrap();
        assert_eq!(
            (is_claimed(&watched, user, &one).unwrap(), claims(user, &one).unwrap()),
            (false, vec![])
        );
        let addresses = [3, 30].map(|first| Address {
            process: 4_000_000,
            descriptors: [first, first + 1, 1_048_575],
        });
        let held = addresses.map(|address| Claim::new(user, &one, address).unwrap());
        let mut found = claims(user, &one).unwrap();
        found.sort_by_key(|address| address.descriptors);
        assert_eq!((found, is_claimed(&watched, user, &one).unwrap()), (addresses.to_vec(), true));
        for (user, identity) in [(1001, &one), (user, &other)] {
            assert_eq!(claims(user, identity).unwrap(), []);
            assert!(!is_claimed(&watched, user, identity).unwrap());
        }
        let [first, second] = held;
        drop(first);
        assert!(is_claimed(&watched, user, &one).unwrap());
        drop(second);
        assert_eq!(
            (is_claimed(&watched, user, &one).unwrap(), claims(user, &one).unwrap()),
            (false, vec![])
        );
    }

    #[test]
    fn one_process_at_a_time_makes_a_stage() {
        let _no_children = crate::tests::without_children();
        let first = Making::begin().unwrap();
        let second = Making::begin_within(Duration::from_millis(5));
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        Making::begin().unwrap();
    }

    #[test]
    fn names_that_are_no_addresses_are_passed_over() {
        let address = Address { process: 17, descriptors: [3, 4, 5] };
        assert_eq!(Address::parse(&address.to_string()), Some(address));
        for text in ["", "17", "17.3.4", "17.3.4.5.6", "17.3.4.-5", "17.3.4.9999999999", "x.3.4.5"]
        {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_longest_name_is_one() {
        let identity = Identity::made_up(u64::MAX, u64::MAX);
        let address = Address { process: 4_194_304, descriptors: [1_048_575; 3] };
        let _no_children = crate::tests::without_children();
        drop(Claim::new(u32::MAX, &identity, address).unwrap());
    }
}
