//! Fallible allocation of large memory: failure is an error.

use crate::{Error, ErrorClass, Result};

/// Checks that this number of bytes can be allocated now.
///
/// # Errors
/// `NoMem` if they cannot.
pub fn require(bytes: usize) -> Result<()> {
    let mut probe: Vec<u8> = Vec::new();
    let room = probe.try_reserve_exact(bytes);
    // Compilers remove unused allocations.
    std::hint::black_box(&mut probe);
    room.map_err(|_| no_memory(bytes))
}

/// A buffer of zeros, which take storage when they are used.
///
/// # Errors
/// `NoMem` if there is no memory for it.
pub fn zeros(bytes: usize) -> Result<Vec<u8>> {
    require(bytes)?;
    Ok(vec![0; bytes])
}

/// The error if there is no memory for this number of bytes.
pub fn no_memory(bytes: usize) -> Error {
    Error::new(ErrorClass::NoMem, format!("no memory for {bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused() {
        for bytes in [1 << 60, usize::MAX] {
            assert_eq!(zeros(bytes).unwrap_err().class(), ErrorClass::NoMem);
        }
        assert_eq!(zeros(5).unwrap(), [0; 5]);
        assert!(require(0).is_ok());
    }
}
