//! The cost of a request to a file system: a fixed time, and a time for each byte.

/// The cost of requests in one direction, rounded down to quarters of a power of two, so that
/// ranks exchange it in two bytes and a small change changes no plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    latency: u8,
    mib: u8,
}

/// Names of file systems that serve requests by calls into this computer's kernel alone.
const LOCAL: &[&str] =
    &["tmpfs", "ramfs", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "exfat", "msdos"];

/// A fixed time from which requests are slow, in nanoseconds: so much can be copied meanwhile that
/// the number of requests counts, and not how evenly they are shared out.
pub const SLOW: u64 = 100_000;

impl Costs {
    /// A request takes `latency` nanoseconds, and each MiB in it `mib` nanoseconds more.
    #[inline]
    pub fn new(latency: u64, mib: u64) -> Self {
        Self { latency: code(latency), mib: code(mib) }
    }

    /// The costs before any measurement: entering the kernel and copying on a local file system,
    /// else a round trip and the speed of a network.
    #[inline]
    pub fn assumed(file_system: &str) -> Self {
        if is_local(file_system) {
            Self::new(1 << 10, 256 << 10)
        } else {
            Self::new(1 << 18, 1 << 20)
        }
    }

    /// The fixed time of a request in nanoseconds; at least 1.
    #[inline]
    pub fn latency(self) -> u64 {
        value(self.latency)
    }

    /// The time that each MiB of a request adds, in nanoseconds; at least 1.
    #[inline]
    pub fn mib(self) -> u64 {
        value(self.mib)
    }

    /// Whether requests take long.
    #[inline]
    pub fn is_slow(self) -> bool {
        self.latency() >= SLOW
    }

    /// How many bytes could be moved in the fixed time of a request.
    #[inline]
    pub fn request_in_bytes(self) -> u64 {
        u64::try_from((u128::from(self.latency()) << 20) / u128::from(self.mib()))
            .unwrap_or(u64::MAX)
    }

    /// The higher cost of each kind.
    #[inline]
    pub fn max(self, other: Self) -> Self {
        Self { latency: self.latency.max(other.latency), mib: self.mib.max(other.mib) }
    }

    /// The bytes that carry the figures to another rank.
    #[inline]
    pub fn to_bytes(self) -> [u8; 2] {
        [self.latency, self.mib]
    }

    /// The figures that [`Costs::to_bytes`] turned into `bytes`.
    #[inline]
    pub fn from_bytes([latency, mib]: [u8; 2]) -> Self {
        Self { latency, mib }
    }
}

/// Whether requests to file systems of this name stay on this computer.
#[inline]
pub fn is_local(file_system: &str) -> bool {
    LOCAL.contains(&file_system)
}

/// The exponent of 2, and the two binary digits behind the first one.
fn code(value: u64) -> u8 {
    let value = value.max(1);
    let exponent = value.ilog2();
    let digits = if exponent >= 2 { value >> (exponent - 2) } else { value << (2 - exponent) };
    (4 * exponent) as u8 | (digits & 3) as u8
}

fn value(code: u8) -> u64 {
    let (exponent, digits) = (code / 4, u64::from(4 + code % 4));
    if exponent >= 2 { digits << (exponent - 2) } else { digits >> (2 - exponent) }
}

/// Bytes of a request to a file that drains adjacent staged bytes.
pub const STAGED_REQUEST: u64 = 4 << 20;
/// Nanoseconds for a MiB that is staged: it is copied twice more, once into new memory.
const STAGED_MIB: u64 = 1_000_000;
/// Nanoseconds for a piece that is staged.
const STAGED_PIECE: u64 = 2_000;

/// Nanoseconds to stage `bytes` in this number of `pieces`.
fn staging(bytes: u64, pieces: u64) -> u128 {
    let copies = (u128::from(bytes) * u128::from(STAGED_MIB)) >> 20;
    copies + u128::from(pieces) * u128::from(STAGED_PIECE)
}

/// Whether `bytes` in this number of `pieces` take less time if they are staged, and drained
/// together with adjacent bytes, than if each piece is a request to the file at `costs`.
pub fn is_worth_staging(costs: Costs, bytes: u64, pieces: u64) -> bool {
    let latency = u128::from(costs.latency());
    let drained = u128::from(bytes) * latency / u128::from(STAGED_REQUEST);
    2 * staging(bytes, pieces) + drained <= latency * u128::from(pieces)
}

/// Whether each rank of a collective call should stage its part of `bytes` in `pieces`: that takes
/// less time than ranks wait for each other in an exchange, and together they make one request at
/// least. Otherwise an exchange joins the pieces, and its requests may be staged.
pub fn are_parts_worth_staging(costs: Costs, bytes: u64, pieces: u64) -> bool {
    costs.is_slow() && staging(bytes, pieces) <= u128::from(SLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_keeps_three_quarters_and_the_order(a in any::<u64>(), b in any::<u64>()) {
            let (short, long) = (a >> (b % 64), a);
            let rounded = Costs::new(short, long);
            prop_assert!(rounded.latency() <= short.max(1) && rounded.mib() <= long.max(1));
            prop_assert!(rounded.latency() >= short / 4 * 3);
            prop_assert!(rounded.latency <= rounded.mib);
            prop_assert_eq!(Costs::from_bytes(rounded.to_bytes()), rounded);
        }
    }

    #[test]
    fn a_request_costs_more_bytes_behind_a_network() {
        assert_eq!(Costs::assumed("ext4").request_in_bytes(), 4 << 10);
        assert_eq!(Costs::assumed("nfs").request_in_bytes(), 256 << 10);
        assert_eq!(Costs::assumed("0x123"), Costs::assumed("lustre"));
        assert!(Costs::assumed("nfs").is_slow() && !Costs::assumed("ext4").is_slow());
        let both = Costs::new(5, 1 << 30).max(Costs::new(1 << 20, 7));
        assert_eq!((both.latency(), both.mib()), (1 << 20, 1 << 30));
    }

    #[test]
    fn pieces_are_staged_where_a_request_for_each_costs_more() {
        let slow = Costs::new(1_048_576, 1 << 21);
        assert!(is_worth_staging(slow, 8, 1) && is_worth_staging(slow, 256 << 10, 1));
        assert!(is_worth_staging(slow, 16 << 20, 64), "many of a quarter of a MiB");
        assert!(!is_worth_staging(slow, 512 << 10, 1), "draining it takes time, too");
        assert!(!is_worth_staging(slow, 4 << 20, 1) && !is_worth_staging(slow, u64::MAX, 1));
        let quick = Costs::new(2_000, 1 << 18);
        assert!(!is_worth_staging(quick, 8, 1) && !is_worth_staging(quick, 8 << 10, 1 << 10));
    }

    #[test]
    fn parts_of_ranks_are_staged_where_that_takes_less_than_an_exchange() {
        let slow = Costs::new(1_048_576, 1 << 21);
        assert!(are_parts_worth_staging(slow, 100 << 10, 1));
        assert!(are_parts_worth_staging(slow, 1 << 10, 49));
        assert!(!are_parts_worth_staging(slow, 104 << 10, 1));
        assert!(!are_parts_worth_staging(slow, 1 << 10, 51), "an exchange joins them");
        assert!(!are_parts_worth_staging(Costs::new(50_000, 1 << 18), 8, 1));
    }
}
