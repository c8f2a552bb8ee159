//! HDF5's description of a file, as `tests/programs/hdf5_random.c` writes it.

use std::collections::BTreeMap;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) user_block: u64,
    pub(crate) objects: BTreeMap<String, Object>,
}

/// The object at a path: the first field of its line, and the others.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) fields: Vec<String>,
    pub(crate) chunks: BTreeMap<Vec<u64>, Chunk>,
    /// Stored bytes, mask, address.
    pub(crate) addresses: Vec<(u64, u32, u64)>,
    /// A checksum of all elements.
    pub(crate) values: Option<u64>,
}

/// A chunk that is in the file.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) stored: u64,
    pub(crate) mask: u32,
    /// Of its bytes in the file.
    pub(crate) sum: u64,
}

/// The numbers of `(1,2,3)`; -1, which stands for no limit, is the largest number.
pub(crate) fn list(text: &str) -> Vec<u64> {
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    let numbers = inner.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse::<i64>().expect("a number") as u64).collect()
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// FNV-1a.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// Reads all lines.
pub(crate) fn parse(text: &str) -> Truth {
    let mut truth = Truth::default();
    let mut path = String::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let last = truth.objects.get_mut(&path);
        match (fields[0], last) {
            ("user", _) => truth.user_block = number(fields[1]),
            ("chunk", Some(last)) => {
                let sum = u64::from_str_radix(fields[4], 16).expect("a checksum");
                let (stored, mask) = (number(fields[2]), number(fields[3]) as u32);
                last.chunks.insert(list(fields[1]), Chunk { stored, mask, sum });
            }
            ("at", Some(last)) => {
                let (stored, mask) = (number(fields[1]), number(fields[2]) as u32);
                last.addresses.push((stored, mask, number(fields[3])));
            }
            ("values", Some(last)) => last.values = u64::from_str_radix(fields[1], 16).ok(),
            (kind, _) => {
                path = fields[1].to_owned();
                let fields = fields[2..].iter().map(|field| (*field).to_owned()).collect();
                let object = Object { kind: kind.into(), fields, ..Object::default() };
                assert!(truth.objects.insert(path.clone(), object).is_none(), "{path} twice");
            }
        }
    }
    truth
}
