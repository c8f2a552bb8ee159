//! The node that a process is on: one answer for the ranks of a job, staged bytes and coupled
//! files.
//!
//! Two processes are on one node if they run under one boot of one kernel, see the same processes
//! under the same numbers, and their host has one name. A name alone does not tell nodes apart: two
//! hosts may have the same. Neither does the kernel: containers, and hosts that are simulated by
//! namespaces, have names and networks of their own.

use std::ffi::CStr;

/// Files with a number that is unique to the machine; the first readable one is used.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// The name of this host; empty if the system does not report it.
pub fn name() -> Vec<u8> {
    let mut buffer = [0u8; 256];
    // SAFETY: the call writes at most the bytes of the buffer but the last, which stays zero.
    let result = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    match CStr::from_bytes_until_nul(&buffer) {
        Ok(name) if result == 0 => name.to_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// The identifier of the kernel's boot, as the kernel writes it; empty if not available.
pub fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The same as two numbers; zeros where the kernel does not say.
pub fn boot_number() -> [u64; 2] {
    let digits: String = boot().chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(0);
    [(number >> 64) as u64, number as u64]
}

/// Properties that are equal for all processes of one node and differ between nodes: boot, PID
/// namespace and host name, at most 320 bytes. `None` if the system does not report them.
pub fn node() -> Option<Vec<u8>> {
    let (boot, namespace) = (boot(), std::fs::read_link("/proc/self/ns/pid").ok()?);
    let parts = [boot.as_bytes(), namespace.as_os_str().as_encoded_bytes(), &name()];
    // No part has a zero byte.
    (!boot.is_empty()).then(|| parts.join(&0))
}

/// A number made of this machine's name and of the number that distinguishes machines of one name,
/// if it has one. It is the same after a restart of the machine.
pub fn machine() -> u64 {
    let machine = MACHINE.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    machine_of(&name(), machine.trim_ascii())
}

fn machine_of(name: &[u8], machine: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    // No name has a zero byte.
    [name, machine].join(&0).iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_node_has_its_boot_its_pid_namespace_and_its_name() {
        let identity = node().expect("a system that tells it");
        let parts: Vec<&[u8]> = identity.split(|byte| *byte == 0).collect();
        assert_eq!(parts[0], boot().as_bytes());
        assert!(parts[1].starts_with(b"pid:["), "{parts:?}");
        assert_eq!(parts[2], name());
    }

    #[test]
    fn machines_of_one_name_have_numbers_of_their_own() {
        assert_eq!(machine(), machine());
        assert_ne!(machine_of(b"node", b"1"), machine_of(b"node", b"2"));
        assert_ne!(machine_of(b"node", b""), machine_of(b"nod", b"e"));
    }
}
