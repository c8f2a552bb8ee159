//! The kernel's counters of a network device.

use std::ops::Sub;

/// Bytes and packets that passed a network device, headers of all layers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that arrived.
    pub bytes_in: u64,
    /// Packets that arrived; the kernel may have joined several into one.
    pub packets_in: u64,
    /// Bytes that were sent.
    pub bytes_out: u64,
    /// Packets that were sent, before they were cut for the wire.
    pub packets_out: u64,
}

impl Traffic {
    /// The counters of `device` in the text of `/proc/net/dev`; zeros if it is not there.
    pub fn of_device(text: &str, device: &str) -> Self {
        let named = |line: &str| {
            let (name, numbers) = line.split_once(':')?;
            (name.trim() == device).then(|| numbers.to_owned())
        };
        let numbers = text.lines().find_map(named).unwrap_or_default();
        let numbers: Vec<u64> =
            numbers.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let at = |column: usize| numbers.get(column).copied().unwrap_or(0);
        Traffic { bytes_in: at(0), packets_in: at(1), bytes_out: at(8), packets_out: at(9) }
    }
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        Traffic {
            bytes_in: self.bytes_in - before.bytes_in,
            packets_in: self.packets_in - before.packets_in,
            bytes_out: self.bytes_out - before.bytes_out,
            packets_out: self.packets_out - before.packets_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_kernel_are_read() {
        let text = "Inter-| Receive | Transmit\n lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n\
                    eth0: 10 20 0 0 0 0 0 0 30 40 0 0 0 0 0 0\n";
        let seen = Traffic::of_device(text, "eth0");
        let expected = Traffic { bytes_in: 10, packets_in: 20, bytes_out: 30, packets_out: 40 };
        assert_eq!(seen, expected);
        assert_eq!(Traffic::of_device(text, "eth1"), Traffic::default());
    }
}
